"""Errors that people make when they enter numbers: what a column holds instead of its values.

Digits too many or too few, a lost sign, a decimal point that nobody read, another unit, a code for
*missing* that is taken for a value, a number in another's field, a category never seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from farfield.data import TableColumn

Floats = NDArray[np.float64]
# A power of ten: the point slipped, zeros were added or left out.
FACTORS = {
    "times 10": 10.0,
    "times 100": 100.0,
    "times 1000": 1000.0,
    "a tenth": 0.1,
    "a hundredth": 0.01,
}
# What stands for *missing* in files.
SENTINELS = {f"{value:g}": value for value in (0, -1, 9, 99, 999, -999, 9999, 1e20)}
# 1900-01-01, as spreadsheets and as Unix count days, in columns that are dates by name.
DATES = {"1900-01-01 (1)": 1.0, "1900-01-01 (-25567)": -25567.0}
DATE = re.compile(r"date|birth|dob|admitted|issued", re.IGNORECASE)
# How the name of a swap begins.
SWAP = "swapped with "
# Beyond this many decimals a number was computed, not entered.
MOST_DECIMALS = 4
# The share of the values that must look entered by hand, of about so many.
ENTERED, LOOKED_AT = 0.95, 1000


@dataclass(frozen=True)
class UnitPair:
    """Two units of one quantity: ``there = factor * here + shift``.

    Attributes:
        here: The unit, and what a column's unit or name may call it.
        there: The unit that it is mistaken for.
        factor: By which numbers grow.
        shift: What is added.
        names: Words in the name of a column that mean the quantity.
    """

    here: tuple[str, ...]
    there: tuple[str, ...]
    factor: float
    shift: float = 0.0
    names: tuple[str, ...] = ()

    @property
    def back(self) -> UnitPair:
        """The other way round."""
        return UnitPair(
            self.there, self.here, 1 / self.factor, -self.shift / self.factor, self.names
        )


# Masses per mole in grams over 10: mg/dl in mmol/l.
_ANALYTES = {
    ("glucose", "glu"): 18.016,
    ("cholesterol", "chol", "ldl", "hdl"): 38.67,
    ("triglycerides", "triglyceride"): 88.57,
    ("lactate", "lactic"): 9.008,
    ("calcium",): 4.008,
    ("urea",): 6.006,
}
UNITS = (
    UnitPair(("%", "percent", "pct"), ("share", "fraction"), 0.01, names=("percentage",)),
    UnitPair(("thousands", "thousand"), ("ones",), 1000.0),
    UnitPair(("kg",), ("lb", "lbs"), 2.2046226218, names=("weight", "mass")),
    UnitPair(("kg",), ("g",), 1000.0),
    UnitPair(("m", "metres", "meters"), ("ft", "feet"), 1 / 0.3048),
    UnitPair(("km",), ("mi", "miles"), 1 / 1.609344, names=("distance", "mileage")),
    UnitPair(("mmhg",), ("kpa",), 0.133322, names=("pressure",)),
    UnitPair(("cm",), ("in", "inch"), 1 / 2.54, names=("height", "length", "circumference")),
    UnitPair(("c", "°c", "celsius"), ("f", "°f", "fahrenheit"), 1.8, 32.0, ("temperature", "temp")),
    *(
        UnitPair(("mg/dl",), ("mmol/l",), 1 / factor, names=names)
        for names, factor in _ANALYTES.items()
    ),
    UnitPair(("mg/dl",), ("µmol/l", "umol/l"), 88.42, names=("creatinine", "creat")),
    UnitPair(("mg/dl",), ("µmol/l", "umol/l"), 17.1, names=("bilirubin",)),
)


@dataclass(frozen=True)
class EntryError:
    """One way to enter a column wrongly.

    Attributes:
        name: Short, such as ``times 10``.
        places: The inputs of a row that change.
        wrong: What stands there instead, from the rows' own inputs.
    """

    name: str
    places: tuple[int, ...]
    wrong: Callable[[Floats], Floats]


def errors_of(
    column: TableColumn, values: Floats, partners: Sequence[TableColumn] = ()
) -> Iterator[EntryError]:
    """All errors that fit a column.

    Args:
        column: The column.
        values: ``(rows, inputs)`` its own inputs of some rows.
        partners: Columns of numbers that it may be swapped with.
    """
    if column.categorical:
        yield EntryError("unknown category", column.places, np.zeros_like)
        return
    if column.binary:
        yield from _of_binary(column)
        return
    numbers = values[:, 0]
    units = dict(_units(column))
    taken = {pair.factor for pair in units.values() if pair.shift == 0}
    for name, factor in FACTORS.items():
        if factor not in taken:
            yield _numeric(column, name, _times(factor))
    if (numbers < 0).any():
        yield _numeric(column, "sign lost", np.abs)
    read = _reading(numbers)
    if read is not None and _decimals(read(numbers)).any():
        yield _numeric(column, "decimal point lost", _without_point(read))
    for name, pair in units.items():
        yield _numeric(column, name, _converted(pair))
    for name, value in (SENTINELS | (DATES if DATE.search(column.name) else {})).items():
        if not (numbers == value).any():
            yield _numeric(column, name, _always(value))
    for other in partners:
        places = (*column.places, *other.places)
        yield EntryError(f"{SWAP}{other.name}", places, lambda own: own[:, ::-1])


def _of_binary(column: TableColumn) -> Iterator[EntryError]:
    """0 and 1 coded as 1 and 2, and codes that are neither."""
    yield _numeric(column, "coded 1 and 2", lambda own: own + 1)
    for name, value in SENTINELS.items():
        if value not in (0, 1):
            yield _numeric(column, name, _always(value))


def _numeric(column: TableColumn, name: str, wrong: Callable[[Floats], Floats]) -> EntryError:
    return EntryError(name, column.places, wrong)


def _times(factor: float) -> Callable[[Floats], Floats]:
    return lambda own: own * factor


def _always(value: float) -> Callable[[Floats], Floats]:
    return lambda own: np.full_like(own, value)


def _units(column: TableColumn) -> Iterator[tuple[str, UnitPair]]:
    """Units that a column may be mistaken for, by its unit and its name."""
    unit = column.unit.strip().lower()
    words = set(re.split(r"[^a-z°µ/%]+", column.name.lower())) - {""}
    known = {unit} if unit else words
    for pair in UNITS:
        # kg tell that it is a weight; mg/dl do not tell of what.
        told = bool(unit) and "/" not in unit
        here, there = known & set(pair.here), known & set(pair.there)
        # Names that are units themselves, but for single letters, tell as much as a unit does.
        named = any(len(word) > 1 for word in here | there) and "/" not in "".join(here | there)
        if not (told or named or words & set(pair.names)) or (unit and not here | there):
            continue
        one, other = pair.here[0], pair.there[0]
        if not there:
            yield f"{one} as {other}", pair
        if not here:
            yield f"{other} as {one}", pair.back


def _converted(pair: UnitPair) -> Callable[[Floats], Floats]:
    return lambda own: own * pair.factor + pair.shift


Read = Callable[[Floats], Floats]


def _reading(numbers: Floats) -> Read | None:
    """How numbers were entered: as they are, or in single precision; ``None`` if computed."""
    ways: tuple[Read, ...] = (_as_they_are, _as_single)
    some = numbers[:: 1 + len(numbers) // LOOKED_AT]
    for read in ways:
        if (_decimals(read(some)) <= MOST_DECIMALS).mean() >= ENTERED:
            return read
    return None


def _as_they_are(numbers: Floats) -> Floats:
    return numbers


def _as_single(numbers: Floats) -> Floats:
    """What was written where a file of single precision came from."""
    return np.asarray(numbers, dtype=np.float32).astype(str).astype(np.float64)


def _decimals(exact: Floats) -> NDArray[np.int64]:
    """How many decimals each number has; one more than :data:`MOST_DECIMALS` for many."""
    places = np.full(len(exact), MOST_DECIMALS + 1)
    for count in range(MOST_DECIMALS, -1, -1):
        places[np.round(exact, count) == exact] = count
    return places


def _without_point(read: Read) -> Callable[[Floats], Floats]:
    """12.5 becomes 125: the point or comma was not read; computed numbers stay."""

    def moved(own: Floats) -> Floats:
        decimals = _decimals(read(own[:, 0]))
        known = np.where(decimals <= MOST_DECIMALS, decimals, 0)
        shifted: Floats = own * 10.0 ** known[:, None]
        return shifted

    return moved
