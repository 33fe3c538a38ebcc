"""Boosted trees of other libraries, in memory and in files, and who reads them.

None of the libraries is imported: an object is asked to write itself down, and what it writes is
read as a file would be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from farfield.errors import CaptureError
from farfield.formats import readable
from farfield.graph.reading import Reading
from farfield.graph.trees.catboost import from_catboost, read_catboost
from farfield.graph.trees.files import json_fields, load, ubjson_fields
from farfield.graph.trees.lightgbm import from_lightgbm, read_lightgbm
from farfield.graph.trees.xgboost import from_xgboost, read_xgboost

LIBRARIES: dict[str, Callable[[Any], Reading]] = {
    "xgboost": from_xgboost,
    "lightgbm": from_lightgbm,
    "catboost": from_catboost,
}

# By the names of formats.
FILES: dict[str, Callable[[bytes, str], Reading]] = {
    "xgboost json": lambda data, where: read_xgboost(json_fields(data, where)),
    "xgboost ubj": lambda data, where: read_xgboost(ubjson_fields(data, where)),
    "lightgbm": read_lightgbm,
    "catboost": lambda data, where: read_catboost(json_fields(data, where)),
}


def is_booster(model: Any) -> bool:
    """Whether a model is an object of XGBoost, LightGBM or CatBoost."""
    return _library(model) in LIBRARIES


def read_booster(model: Any) -> Reading:
    """Read a fitted object: a classifier, or a ``Booster`` whose objective gives probabilities.

    Raises:
        CaptureError: If it is not fitted, no classifier, or newer than what is known.
        NotFollowed: If it has parts that are no trees on numbers and categories.
    """
    return LIBRARIES[_library(model)](model)


def _library(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def read_booster_file(path: str | os.PathLike[str]) -> Reading:
    """Read a file of XGBoost (JSON, UBJSON), LightGBM (text) or CatBoost (JSON).

    Raises:
        InputError: If it is not a regular file.
        CaptureError: If it is none of these, damaged, newer than what is known, or no classifier.
        NotFollowed: If it has parts that are no trees on numbers and categories.
    """
    data, where = load(path), os.fspath(path)
    found = readable(path)
    if found.name not in FILES:
        raise CaptureError(f"{where} holds no boosted trees, but is one of {found.words}")
    return FILES[found.name](data, where)
