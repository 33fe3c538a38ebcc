"""Files of boosted trees: told apart by what is in them, read whole, never run or unpickled."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Literal

from farfield.errors import CaptureError
from farfield.files import regular
from farfield.graph.trees.fields import Fields
from farfield.graph.trees.ubjson import parse_ubjson

Kind = Literal["xgboost.json", "xgboost.ubj", "lightgbm", "catboost", "other"]
# A larger file would not fit into memory once it is parsed.
MOST_BYTES = 2**31
FIRST_KEY = re.compile(rb'\s*\{\s*"([^"\\]{1,40})"\s*:')
# What the libraries write first, whatever the version; their keys are sorted.
KEYS: dict[bytes, Kind] = {
    b"learner": "xgboost.json",
    b"ctr_data": "catboost",
    b"features_info": "catboost",
    b"model_info": "catboost",
    b"oblivious_trees": "catboost",
}
# Files that are models, but not such as can be read: how they start, and what to do.
OTHERS = {
    b"CBM1": "a binary file of CatBoost; save it with model.save_model(path, format='json')",
    b"binf": "a binary file of an XGBoost before 1.0; load it there and save it as .json",
    b"bs64": "a text file of an XGBoost before 1.0; load it there and save it as .json",
    b"booster[": "a dump of XGBoost, to be looked at; save the model with save_model('model.json')",
    b'{"name":"tree"': "a dump of LightGBM, to be looked at; save the model with save_model",
    b'{"name": "tree"': "a dump of LightGBM, to be looked at; save the model with save_model",
}


def recognise(path: str | os.PathLike[str]) -> Kind | None:
    """Say which library wrote a file, by how it starts; ``None`` if none of them did."""
    place = Path(path)
    if not place.is_file():
        return None
    try:
        with place.open("rb") as file:
            head = file.read(256)
    except OSError:
        return None
    if any(head.startswith(start) for start in OTHERS):
        return "other"
    if re.match(rb"tree\r?\nversion=", head):
        return "lightgbm"
    if re.match(rb"\{[iUIlL#]", head):
        return "xgboost.ubj"
    first = FIRST_KEY.match(head)
    return None if first is None else KEYS.get(first[1])


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


def refuse(data: bytes, path: str | os.PathLike[str]) -> CaptureError:
    """Say what a file is that cannot be read, and what to do."""
    what = next(text for start, text in OTHERS.items() if data.startswith(start))
    return CaptureError(f"{os.fspath(path)} is {what}")


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
