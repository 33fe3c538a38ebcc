"""Run experiments step by step, keep what is done, and write what was found."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

import farfield
from farfield.errors import InputError, MissingDependency
from farfield.files import replacing
from farfield.reproduce.experiment import Experiment, Result, RunRequest, Settings
from farfield.reproduce.findings import Findings, PaperComparison
from farfield.reproduce.page import write_overview, write_page, write_table
from farfield.reproduce.store import Store

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one experiment.

    Attributes:
        name: Of the experiment.
        title: What it reproduces.
        status: ``"done"`` or ``"skipped"``.
        reason: Why it was skipped.
        page: Its page, if it was done.
        seconds: Computing time of its steps, now or when they were first done.
    """

    name: str
    title: str
    status: str
    reason: str = ""
    page: Path | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Done:
    """The settings of an experiment, and the results and seconds of its steps by name."""

    settings: Settings
    results: Mapping[str, Result]
    seconds: Mapping[str, float]


def run_stages(
    experiment: Experiment,
    request: RunRequest,
    *,
    changes: Settings | None = None,
    progress: Tell | None = None,
) -> Done:
    """Run the steps that are not done yet.

    Args:
        experiment: A module of ``farfield.reproduce``.
        request: Where and how.
        changes: Settings to use in place of the experiment's own.
        progress: Called with a line before each step.

    Raises:
        InputError: If data that it needs is not there.
    """
    say = progress or _silent
    lacking = missing_data(experiment, request.data_dir)
    if lacking:
        raise InputError(f"{experiment.NAME} {lacking}")
    settings = {**experiment.settings(request.quick, request.seed), **(changes or {})}
    stores = {
        False: Store(request.folder / "steps", experiment.NAME),
        True: Store(request.folder.parent / "shared", "shared"),
    }
    steps = experiment.steps(settings, request)
    results: dict[str, Result] = {}
    times: dict[str, float] = {}
    for number, step in enumerate(steps, start=1):
        say(f"{experiment.NAME} {number}/{len(steps)}: {step.name}")
        store = stores[step.shared]
        kept = store.load(step)
        if kept is None:
            start = time.perf_counter()
            found = step.run(*(results[name] for name in step.needs))
            store.save(step, {**found, "seconds": time.perf_counter() - start})
            kept = store.load(step)
            assert kept is not None, "a result that was just written can be read"
        times[step.name] = float(kept.pop("seconds"))
        results[step.name] = kept
    return Done(settings, results, times)


def run_experiment(
    experiment: Experiment,
    request: RunRequest,
    *,
    changes: Settings | None = None,
    progress: Tell | None = None,
) -> Outcome:
    """Run the steps that are not done yet and write folder, tables, figures and page.

    Takes what :func:`run_stages` takes.
    """
    done = run_stages(experiment, request, changes=changes, progress=progress)
    (progress or _silent)(f"{experiment.NAME}: tables and figures")
    findings = experiment.present(done.settings, done.results)
    page = _write(experiment, request, done.settings, findings, done.seconds)
    title, seconds = experiment.TITLE, sum(done.seconds.values())
    return Outcome(experiment.NAME, title, "done", page=page, seconds=seconds)


def run_all(
    experiments: Mapping[str, Experiment], request: RunRequest, *, progress: Tell
) -> list[Outcome]:
    """Run every experiment that can be run here, and write a page that leads to all of them."""
    outcomes: list[Outcome] = []
    for name, experiment in experiments.items():
        own = replace(request, folder=request.folder / name)
        lacking = missing_data(experiment, request.data_dir)
        try:
            if lacking:
                outcomes.append(Outcome(name, experiment.TITLE, "skipped", lacking))
            else:
                outcomes.append(run_experiment(experiment, own, progress=progress))
        except MissingDependency as reason:
            outcomes.append(Outcome(name, experiment.TITLE, "skipped", str(reason)))
        # After each one, so that a kill leaves a page of what is done.
        run = {"mode": _mode(request), "seed": request.seed, "versions": versions()}
        write_overview(request.folder / "index.html", outcomes, run)
    return outcomes


def missing_data(experiment: Experiment, data_dir: Path | None) -> str:
    """Say which data an experiment lacks; an empty string if it has all it needs."""
    if not experiment.NEEDS:
        return ""
    listed = ", ".join(experiment.NEEDS)
    if data_dir is None:
        return f"needs data: {listed}; pass --data-dir or set FARFIELD_DATA to their folder"
    absent = [name for name in experiment.NEEDS if not (data_dir / name).exists()]
    if absent:
        return f"needs data that is not in {data_dir}: {', '.join(absent)}"
    return ""


def versions() -> dict[str, str]:
    """Say what was run with what."""
    return {
        "farfield": farfield.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "threads": str(torch.get_num_threads()),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
    }


def _silent(_text: str) -> None:
    """Report no progress."""


def _write(
    experiment: Experiment,
    request: RunRequest,
    settings: Settings,
    findings: Findings,
    times: Mapping[str, float],
) -> Path:
    """Write figures, tables, ``results.json`` and the page."""
    images = {}
    for picture in findings.pictures:
        for ending in ("svg", "png"):
            path = request.folder / "figures" / f"{picture.name}.{ending}"
            images[picture.name] = picture.write(path)
    for table in findings.tables:
        write_table(table, request.folder / "tables")
    run = {
        "mode": _mode(request),
        "seed": request.seed,
        "settings": settings,
        "computing": f"{sum(times.values()):.1f} s in {len(times)} steps",
        "versions": versions(),
    }
    document: dict[str, Any] = {
        "name": experiment.NAME,
        "title": experiment.TITLE,
        "source": experiment.SOURCE,
        "run": {**run, "seconds": {name: round(each, 3) for name, each in times.items()}},
        "summary": list(findings.summary),
        "comparisons": [_as_json(each) for each in findings.comparisons],
        "tables": {
            table.name: {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}
            for table in findings.tables
        },
    }
    if findings.numbers:
        document["numbers"] = findings.numbers
    with replacing(request.folder / "results.json") as temporary:
        text = json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    return write_page(
        request.folder / "index.html", experiment.TITLE, experiment.SOURCE, findings, images, run
    )


def _mode(request: RunRequest) -> str:
    return "quick" if request.quick else "full"


def _as_json(each: PaperComparison) -> dict[str, Any]:
    return {**vars(each), "difference": each.difference, "agrees": each.agreement}


def _finite(value: Any) -> Any:
    """Write numbers that JSON does not know as text, and numpy's as Python's."""
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, np.generic):
        return _finite(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
