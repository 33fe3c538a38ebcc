"""Files of boosted trees: read whole, never run or unpickled."""

from __future__ import annotations

import json
import os

from farfield.errors import CaptureError
from farfield.files import regular
from farfield.graph.trees.fields import Fields
from farfield.graph.trees.ubjson import parse_ubjson

# A larger file would not fit into memory once it is parsed.
MOST_BYTES = 2**31


def load(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file.

    Raises:
        InputError: If it is not a regular file.
        CaptureError: If it cannot be read, or is larger than any model should be.
    """
    place = regular(path)
    try:
        size = place.stat().st_size
        if size > MOST_BYTES:
            raise CaptureError(
                f"{place} has {size} bytes; farfield reads models of up to {MOST_BYTES}"
            )
        return place.read_bytes()
    except OSError as error:
        raise CaptureError(f"cannot read {place}: {error.strerror or error}") from error


def json_fields(data: bytes, where: str) -> Fields:
    """Parse JSON.

    Raises:
        CaptureError: If it is not, is cut short, or nests too deep.
    """
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(where, "JSON", error) from error
    return Fields.of(found, where)


def ubjson_fields(data: bytes, where: str) -> Fields:
    """Parse Universal Binary JSON.

    Raises:
        CaptureError: If it is not, is cut short, or nests too deep.
    """
    try:
        found = parse_ubjson(data)
    except ValueError as error:
        raise _damaged(where, "UBJSON", error) from error
    return Fields.of(found, where)


def _damaged(where: str, form: str, error: Exception) -> CaptureError:
    reason = str(error).splitlines()[0][:120]
    return CaptureError(f"{where} is no {form}, or it is cut short ({reason}); save it again")
