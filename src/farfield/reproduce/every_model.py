"""Which models know when they do not know: twenty kinds on eight tables, before and after a guard.

Every model is followed to infinity where that is possible, and says so where it is not. Blind is a
direction in which it ends 99% sure or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from farfield.reproduce.every_model_grid import StudyGrid
from farfield.reproduce.every_model_measures import describe, measure
from farfield.reproduce.every_model_tables import all_tables
from farfield.reproduce.every_model_words import compare, picture, summary
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Findings
from farfield.reproduce.shifted_tables import FILES, TABLES
from farfield.reproduce.table_models import installed

NAME = "every-model"
TITLE = "Which models know when they do not know?"
SOURCE = "farfield's own study; see docs/every-model.md"
NEEDS: tuple[str, ...] = ()
# The step of a table that only says what it is.
DATA = "data"
QUICK = ("half-moons", "breast cancer")


def settings(quick: bool, seed: int) -> Settings:
    """All models and tables; in quick mode two tables and fewer rows."""
    return {
        "seed": seed,
        "tables": list(QUICK if quick else TABLES),
        "models": installed(),
        "rows": 400 if quick else 4000,
        "directions": 200 if quick else 1000,
        "resamples": 200 if quick else 1000,
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """One step for each model on each table whose file is there."""
    shared = {key: settings[key] for key in ("seed", "rows", "directions", "resamples")}
    found: list[Stage] = []
    for table in settings["tables"]:
        if _available(table, request.data_dir):
            about = partial(describe, table, request.data_dir)
            found.append(Stage(f"{table}: {DATA}", {"table": table}, about))
            found += [
                Stage(
                    f"{table}: {model}",
                    {**shared, "table": table, "model": model},
                    partial(measure, table, model, settings, request.data_dir),
                )
                for model in settings["models"]
            ]
    return found


def _available(table: str, folder: Path | None) -> bool:
    return table not in FILES or (folder is not None and (folder / FILES[table]).exists())


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Say which models know: in words, in a picture, and in tables."""
    named = {(*name.split(": ", 1),): result for name, result in results.items()}
    cells = {(t, m): result for (t, m), result in named.items() if m != DATA}
    grid = StudyGrid(
        [table for table in settings["tables"] if any(key[0] == table for key in cells)],
        [model for model in settings["models"] if any(key[1] == model for key in cells)],
        cells,
        {table: result for (table, what), result in named.items() if what == DATA},
    )
    absent = [table for table in settings["tables"] if table not in grid.tables]
    left_out = [f"Left out, because their files were not given: {', '.join(absent)}."]
    sentences = [*summary(grid), *(left_out if absent else [])]
    return Findings(sentences, compare(grid), all_tables(grid), [picture(grid)])
