"""What errors of data entry do, as a grid of columns and errors and as a table, worst first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.estimate import value_of
from farfield.report.content.words import percent, plural

if TYPE_CHECKING:
    from farfield.audit.fields.entry import EntryErrors, Mistake
    from farfield.audit.record import Audit
    from farfield.report.content.sections import Limits

# Errors that few columns can have share one column of the grid.
SWAP = "swapped with "
# Shades of a cell: how many there are, beside none.
SHADES = 5


@dataclass(frozen=True)
class Cell:
    """One error in one column: its share, how dark it is drawn, and what it says on hovering."""

    share: str
    shade: int
    title: str


@dataclass(frozen=True)
class ErrorGrid:
    """Columns of the table against errors: silent changes of class.

    Attributes:
        errors: Names of the errors, in the order of the grid.
        rows: Name of a column to its cells; ``None`` where an error does not fit.
    """

    errors: list[str]
    rows: list[tuple[str, list[Cell | None]]]


def error_grid(audit: Audit, limits: Limits) -> ErrorGrid | None:
    """The grid, the worst columns first."""
    if audit.entry_errors is None:
        return None
    cells: dict[str, dict[str, Cell]] = {}
    errors: dict[str, None] = {}
    worst: dict[str, float] = {}
    for each in audit.entry_errors.mistakes:
        name = _kind(each)
        errors.setdefault(name)
        worst[each.column] = max(worst.get(each.column, 0.0), value_of(each.silent))
        cells.setdefault(each.column, {}).setdefault(name, _cell(each))
    order = [name for name in ORDER if name in errors]
    order += sorted((name for name in errors if name not in ORDER), key=_as_number)
    columns = sorted(cells, key=lambda column: -worst[column])[: limits.rows]
    return ErrorGrid(order, [(name, [cells[name].get(each) for each in order]) for name in columns])


ORDER = (
    "times 10",
    "times 100",
    "times 1000",
    "a tenth",
    "a hundredth",
    "decimal point lost",
    "sign lost",
    "other unit",
    "swapped",
    "unknown category",
)


def _as_number(name: str) -> tuple[float, str]:
    """Codes for what is missing by their size, then the others by name."""
    try:
        return abs(float(name)), name
    except ValueError:
        return math.inf, name


def _kind(mistake: Mistake) -> str:
    """The column of the grid that an error belongs to."""
    if mistake.error.startswith(SWAP):
        return "swapped"
    return "other unit" if " as " in mistake.error else mistake.error


def _cell(mistake: Mistake) -> Cell:
    share = value_of(mistake.silent)
    shade = 0 if share == 0 else min(SHADES, 1 + int(share * SHADES))
    title = (
        f"{mistake.column}, {mistake.error}: {percent(value_of(mistake.flips))} of "
        f"{plural(mistake.rows, 'row')} change class, {percent(share)} without a sign"
    )
    return Cell(f"{share:.0%}" if share == 0 or share >= 0.01 else "<1%", shade, title)


def worst_mistakes(audit: Audit, most: int) -> list[Mistake]:
    """Errors that change a class at all, worst first."""
    found = audit.entry_errors
    return [] if found is None else changing(found)[:most]


def best_score(mistake: Mistake) -> float:
    """The share that the best of the model's own scores notices."""
    own = [value_of(n) for name, n in mistake.noticed.items() if name not in ("range", "guard")]
    return max(own, default=math.nan)


def changing(found: EntryErrors) -> list[Mistake]:
    """Those that change a class in some row."""
    return [each for each in found.mistakes if value_of(each.flips) > 0]


def made_in(found: EntryErrors) -> str:
    """Which rows errors were made in, and what that makes of the shares."""
    if found.exact:
        return f"in all {found.sampled:,} rows, exact"
    of = f" of {found.of:,}" if found.of else ""
    return f"in {found.sampled:,}{of} rows, with intervals"


def swaps_tried(audit: Audit) -> str:
    """Which columns were swapped: a sentence, or nothing."""
    tried, possible = (0, 0) if audit.entry_errors is None else audit.entry_errors.swaps
    if not tried or tried == possible:
        return ""
    return (
        f"Of {possible:,} pairs of numeric columns {tried:,} were swapped: neighbours, and those "
        "with one unit or values that would pass for each other's, the most alike first."
    )
