"""The tables of the study: the models as trained, what a guard changes, table by table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from farfield.estimate import Estimate
from farfield.reproduce.every_model_grid import Read, StudyGrid, change, natural, scaled, value_of
from farfield.reproduce.every_model_measures import FAMILIES, FAR
from farfield.reproduce.experiment import Result
from farfield.reproduce.findings import ResultTable, Value
from farfield.reproduce.table_models import MOST_ROWS

# How many of the most accurate models get a row of their own with a guard around them.
GUARDED = 2


def all_tables(grid: StudyGrid) -> list[ResultTable]:
    """Every table of the page, in its order."""
    return [
        models(grid),
        guards(grid),
        features_alone(grid),
        shifts(grid),
        intervals(grid),
        data(grid),
    ]


def models(grid: StudyGrid) -> ResultTable:
    """One row for each kind, as trained, and the most accurate ones guarded."""
    columns = [
        "model", "followed exactly on", "accuracy", "Brier score", "NLL", "blind: one feature",
        "blind: random", "blind: through rows", "99.9% sure from (sd)", "AUROC scaled column",
        "AUROC natural shifts",
    ]  # fmt: skip
    rows = [*(_as_trained(grid, model) for model in grid.models)]
    rows += [_guarded(grid, model) for model in grid.best(GUARDED) if _proven(grid, model)]
    caption = (
        "Means over tables. Blind: the share of directions in which a model ends at least 99% "
        "sure, each feature alone from the median row, random directions, and from the mean "
        "through rows; where directions are sampled, with a 95% interval. 99.9% sure from: the "
        "median over features, up and down, then over tables; ≤ is a bound, ~ was only seen. "
        "AUROC: how well one minus the confidence tells foreign rows from test rows, 0.5 is "
        f"chance. The last rows: the {GUARDED} kinds with the highest accuracy, guarded."
    )
    return ResultTable("models", caption, columns, rows)


def _as_trained(grid: StudyGrid, model: str) -> list[Value]:
    own = grid.of(model)
    mean = partial(grid.mean, model)
    return [
        model,
        f"{sum(result['exact'] for result in own)} of {len(own)}",
        mean(lambda r: r["before"]["accuracy"]),
        mean(lambda r: r["before"]["brier"]),
        _likelihood([r["before"]["nll"] for r in own]),
        *(_told(grid.blind(model, family)) for family in FAMILIES),
        distance_told(grid.sure_from(model)),
        mean(scaled("before")),
        mean(natural("before")),
    ]


def _guarded(grid: StudyGrid, model: str) -> list[Value]:
    own = [result for result in grid.of(model) if "after" in result]
    mean = partial(grid.mean, model)
    proven = _proven(grid, model)
    every: list[Value] = [f"0 (proven on {proven} of {len(grid.of(model))})"] * len(FAMILIES)
    return [
        f"{model}, guarded",
        f"{proven} of {len(grid.of(model))}",
        mean(lambda r: r["after"]["accuracy"] if "after" in r else None),
        mean(lambda r: r["after"]["brier"] if "after" in r else None),
        _likelihood([r["after"]["nll"] for r in own]),
        *every,
        "never",
        mean(scaled("after")),
        mean(natural("after")),
    ]


def _proven(grid: StudyGrid, model: str) -> int:
    return sum(bool(result.get("proven")) for result in grid.of(model))


def guards(grid: StudyGrid) -> ResultTable:
    """What a guard changes."""
    columns = [
        "model", "proven on", "test rows unchanged", "Brier change", "NLL change",
        "scaled: as trained", "scaled: guarded", "natural: as trained", "natural: guarded",
        "blind: one feature, as trained", "guarded",
        f"largest confidence {FAR:g} sd out, guarded",
    ]  # fmt: skip
    rows: list[list[Value]] = []
    for model in grid.models:
        mean = partial(grid.mean, model)
        own, proven = grid.of(model), _proven(grid, model)
        far = [result["far confidence"] for result in own if "far confidence" in result]
        rows.append(
            [
                model,
                f"{proven} of {len(own)}",
                mean(lambda r: r.get("unchanged")),
                mean(change("brier")),
                mean(change("nll")),
                *(mean(_where_guarded(read)) for read in (scaled("before"), scaled("after"))),
                *(mean(_where_guarded(read)) for read in (natural("before"), natural("after"))),
                value_of(grid.blind(model, "axes")),
                "0" if proven else None,
                max(far) if far else None,
            ]
        )
    caption = (
        "The same models with a guard around them, means over the tables on which one was made. "
        "The predicted class never changes, so neither does accuracy; the NLL is compared where "
        "both are finite. Beyond the certificate's "
        "radius no direction is blind: that is proven; the last column was measured."
    )
    return ResultTable("guards", caption, columns, rows)


def _where_guarded(read: Read) -> Read:
    return lambda result: read(result) if "after" in result else None


def features_alone(grid: StudyGrid) -> ResultTable:
    """The blind share of features alone, table by table."""
    rows: list[list[Value]] = [
        [model, *(_blind_alone(grid.cells.get((table, model))) for table in grid.tables)]
        for model in grid.models
    ]
    caption = (
        "The share of features, up and down, that alone make a model at least 99% sure, from the "
        "median row: exact, unless an interval is given."
    )
    return ResultTable("one-feature", caption, ["model", *grid.tables], rows)


def _blind_alone(result: Result | None) -> Value:
    if result is None or "axes" not in result["blind"]:
        return None
    share = result["blind"]["axes"]
    return _between(share) if "low" in share else float(share["value"])


def shifts(grid: StudyGrid) -> ResultTable:
    """AUROC on every shift, as trained and guarded."""
    rows: list[list[Value]] = []
    for table, shift in _foreign(grid):
        row: list[Value] = [table, shift]
        for model in grid.models:
            result = grid.cells.get((table, model))
            before, after = (
                None if result is None or when not in result else result[when]["auroc"][shift]
                for when in ("before", "after")
            )
            told = " → ".join(
                "-" if each is None else f"{each['value']:.2f}" for each in (before, after)
            )
            row.append(None if before is None else told)
        rows.append(row)
    caption = (
        "AUROC of one minus the confidence on foreign rows against test rows, as trained → guarded."
    )
    return ResultTable("shifts", caption, ["table", "foreign rows", *grid.models], rows)


def intervals(grid: StudyGrid) -> ResultTable:
    """The same, one row each, with intervals."""
    rows: list[list[Value]] = []
    for table, shift in _foreign(grid):
        for model in grid.models:
            result = grid.cells.get((table, model))
            if result is not None:
                found = (result.get(when, {"auroc": {}})["auroc"] for when in ("before", "after"))
                told = (_between(each[shift]) if shift in each else None for each in found)
                rows.append([table, shift, model, *told])
    caption = "AUROC with 95% bootstrap intervals over test rows and foreign rows."
    columns = ["table", "foreign rows", "model", "as trained", "guarded"]
    return ResultTable("intervals", caption, columns, rows)


def _foreign(grid: StudyGrid) -> Sequence[tuple[str, str]]:
    return list(
        dict.fromkeys(
            (table, name)
            for (table, _), result in grid.cells.items()
            for name in result["before"]["auroc"]
        )
    )


def data(grid: StudyGrid) -> ResultTable:
    """What the tables are, and how many rows models were trained on."""
    rows: list[list[Value]] = []
    for table in grid.tables:
        about = grid.data[table]
        used = {r["rows"] for (t, m), r in grid.cells.items() if t == table and m not in MOST_ROWS}
        capped = {m: r["rows"] for (t, m), r in grid.cells.items() if t == table and m in MOST_ROWS}
        foreign = ", ".join(f"{name} ({count})" for name, count in about["foreign"].items())
        rows.append(
            [
                table,
                about["features"],
                about["classes"],
                about["train"],
                ", ".join(map(str, sorted(used))),
                ", ".join(f"{model}: {count}" for model, count in capped.items()) or None,
                about["test"],
                foreign,
            ]
        )
    caption = "The tables. Kinds whose cost grows with the cube of the rows get fewer of them."
    columns = [
        "table", "columns", "classes", "rows to train on", "used", "used by", "test rows",
        "foreign rows",
    ]  # fmt: skip
    return ResultTable("tables", caption, columns, rows)


def _told(share: float | Estimate | None) -> Value:
    if isinstance(share, Estimate):
        return f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"
    return share


def _between(found: Result) -> str:
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _likelihood(values: Sequence[float]) -> Value:
    """The mean; where a label had probability zero, on how many tables."""
    endless = sum(math.isinf(value) for value in values)
    if endless:
        return f"infinite on {endless} of {len(values)}"
    return sum(values) / len(values) if values else None


def distance_told(found: tuple[float, str] | None) -> Value:
    """A distance with what is known of it.

    >>> [distance_told(each) for each in ((12.0, "exact"), (5.0, "seen"), (3894.2, "at most"))]
    ['12', '~5', '≤3,890']
    """
    if found is None:
        return None
    value, how = found
    if math.isinf(value):
        return "not seen" if how == "seen" else "never"
    rounded = float(f"{value:.3g}")
    told = f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
    return {"exact": "", "at most": "≤", "seen": "~"}[how] + told
