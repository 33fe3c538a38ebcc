"""Universal Binary JSON, as XGBoost writes it: parsed with every length checked first.

Numbers are big-endian. An array may say how many values it has, and of which type; then its bytes
are taken as they are. Nothing is allocated that is larger than the bytes that are there, but for
a small factor, and nesting is bounded.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

# Marker -> (struct format, numpy type of arrays of it).
NUMBERS = {
    b"i": (">b", ">i1"),
    b"U": (">B", ">u1"),
    b"I": (">h", ">i2"),
    b"l": (">i", ">i4"),
    b"L": (">q", ">i8"),
    b"d": (">f", ">f4"),
    b"D": (">d", ">f8"),
}
WHOLE = b"iUIlL"
WORDS = {b"Z": None, b"T": True, b"F": False}
MOST_DEPTH = 32


class _Cursor:
    """A place in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or count > len(self.data) - self.at:
            left = len(self.data) - self.at
            raise ValueError(f"{count} bytes are wanted from byte {self.at} on, {left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def peek(self) -> bytes:
        """The next byte, which stays."""
        return self.data[self.at : self.at + 1]

    def number(self, marker: bytes) -> int | float:
        """A number of the type that a marker says."""
        form = NUMBERS[marker][0]
        found: int | float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return found

    def count(self) -> int:
        """A length: a marker of a whole number, and the number."""
        marker = self.take(1)
        if marker not in NUMBERS or marker not in WHOLE:
            raise ValueError(f"byte {self.at - 1} is {marker!r}, where a length should be")
        found = int(self.number(marker))
        if found < 0:
            raise ValueError(f"a length of {found} before byte {self.at}")
        return found

    def text(self) -> str:
        """A length, and as many bytes of UTF-8."""
        return self.take(self.count()).decode("utf-8")


def parse_ubjson(data: bytes) -> Any:
    r"""Parse a document; typed arrays become numpy arrays, everything else what JSON would be.

    Raises:
        ValueError: If it is not one, is cut short, or nests more than 32 levels deep.

    >>> parse_ubjson(b"{i\x01a[$U#i\x02\x07\x08i\x01bSi\x02hi}")
    {'a': array([7, 8], dtype=uint8), 'b': 'hi'}
    """
    cursor = _Cursor(data)
    found = _value(cursor, cursor.take(1), 0)
    if cursor.at != len(data):
        raise ValueError(f"{len(data) - cursor.at} bytes follow the end of the document")
    return found


def _value(cursor: _Cursor, marker: bytes, depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise ValueError(f"it nests more than {MOST_DEPTH} levels deep")
    if marker == b"{":
        return _object(cursor, depth)
    if marker == b"[":
        return _array(cursor, depth)
    if marker in NUMBERS:
        return cursor.number(marker)
    if marker == b"S":
        return cursor.text()
    if marker in WORDS:
        return WORDS[marker]
    raise ValueError(f"byte {cursor.at - 1} is {marker!r}, where a value should be")


def _object(cursor: _Cursor, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    left = _size(cursor)
    while left is None or left > 0:
        if left is None and cursor.peek() == b"}":
            cursor.take(1)
            break
        name = cursor.text()
        if name in found:
            raise ValueError(f"{name[:40]!r} is there twice")
        found[name] = _value(cursor, cursor.take(1), depth + 1)
        left = None if left is None else left - 1
    return found


def _array(cursor: _Cursor, depth: int) -> Any:
    if cursor.peek() == b"$":
        cursor.take(1)
        marker = cursor.take(1)
        size = _size(cursor)
        if marker not in NUMBERS or size is None:
            raise ValueError(f"an array of type {marker!r} before byte {cursor.at}")
        kind = np.dtype(NUMBERS[marker][1])
        raw = np.frombuffer(cursor.take(size * kind.itemsize), dtype=kind)
        return raw.astype(kind.newbyteorder("="))
    left = _size(cursor)
    found: list[Any] = []
    while left is None or left > 0:
        marker = cursor.take(1)
        if left is None and marker == b"]":
            break
        found.append(_value(cursor, marker, depth + 1))
        left = None if left is None else left - 1
    return found


def _size(cursor: _Cursor) -> int | None:
    """The number of values, where it is stated; each takes a byte at least, unless typed."""
    if cursor.peek() != b"#":
        return None
    cursor.take(1)
    return cursor.count()
