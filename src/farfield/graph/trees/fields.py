"""A careful look at what was parsed from a model's file: every field is checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import CaptureError

# A file that claims more columns or classes than this is damaged, or made to exhaust memory.
MOST_COLUMNS, MOST_CLASSES = 2**20, 2**14


@dataclass(frozen=True)
class Fields:
    """The fields of one record.

    Attributes:
        found: What was parsed.
        where: What it is part of, for messages.
    """

    found: dict[str, Any]
    where: str

    @classmethod
    def of(cls, found: Any, where: str) -> Fields:
        """See that what was parsed is a record.

        Raises:
            CaptureError: If it is anything else.
        """
        if not isinstance(found, dict):
            raise CaptureError(f"{where} is {shown(found)}, not a record of fields; it is damaged")
        return cls(found, where)

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def value(self, key: str) -> Any:
        """A field, whatever it is."""
        if key not in self.found:
            raise CaptureError(
                f"{self.where} has no field {key!r}; it is damaged, cut short or of a version that "
                "farfield does not know"
            )
        return self.found[key]

    def part(self, key: str) -> Fields:
        """A record inside of this one."""
        return Fields.of(self.value(key), f"field {key!r} of {self.where}")

    def parts(self, key: str) -> Iterator[Fields]:
        """A list of records."""
        found = self.value(key)
        if not isinstance(found, list):
            raise self.wrong(key, "a list")
        for place, each in enumerate(found):
            yield Fields.of(each, f"{key}[{place}] of {self.where}")

    def text(self, key: str) -> str:
        """A string."""
        found = self.value(key)
        if not isinstance(found, str):
            raise self.wrong(key, "text")
        return found

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        found = self.value(key)
        if not isinstance(found, list | np.ndarray) or any(not isinstance(x, str) for x in found):
            raise self.wrong(key, "a list of text")
        return list(found)

    def whole(self, key: str, most: int, least: int = 0) -> int:
        """A whole number, written as such or as text."""
        found = self.value(key)
        if isinstance(found, str) and found.isascii() and len(found) < 20:
            digits = found.removeprefix("-")
            found = int(found) if digits.isdigit() else found
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.wrong(key, f"a whole number from {least} to {most}")
        return found

    def number(self, key: str) -> float:
        """A finite number, written as such or as text."""
        found = self.value(key)
        try:
            number = float(found) if isinstance(found, str | int | float) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise self.wrong(key, "a number")
        return number

    def integers(self, key: str, count: int | None = None) -> NDArray[np.int64]:
        """A list of whole numbers, or of truths."""
        array = self._array(key, "iub", "whole numbers", count)
        if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise self.wrong(key, "a list of whole numbers of 64 bits")
        return array.astype(np.int64)

    def floats(self, key: str, count: int | None = None) -> NDArray[np.float64]:
        """A list of numbers."""
        with np.errstate(invalid="ignore"):
            return self._array(key, "iubf", "numbers", count).astype(np.float64)

    def _array(self, key: str, kinds: str, what: str, count: int | None) -> NDArray[Any]:
        found = self.value(key)
        try:
            array = np.asarray(found if isinstance(found, list | np.ndarray) else None)
        except (ValueError, OverflowError):
            array = np.asarray(None)
        if array.size == 0 and array.ndim == 1:
            array = array.astype(np.int64)
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise self.wrong(key, f"a list of {what}")
        if count is not None and len(array) != count:
            raise CaptureError(
                f"field {key!r} of {self.where} has {len(array)} {what} where {count} are needed; "
                "it is damaged or cut short"
            )
        return array

    def wrong(self, key: str, wanted: str) -> CaptureError:
        """Say that a field is not what it should be."""
        got = shown(self.found.get(key))
        return CaptureError(
            f"field {key!r} of {self.where} is {got}, not {wanted}; it is damaged, or of a version "
            "that farfield does not know"
        )


def shown(found: Any) -> str:
    """A short form of whatever it is."""
    if isinstance(found, dict | list | np.ndarray):
        return f"a {type(found).__name__} of {len(found)}"
    text = repr(found)
    return text if len(text) <= 40 else f"{text[:37]}..."
