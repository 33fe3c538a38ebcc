"""Parameters and learned values as JSON, and back. Nothing is ever unpickled."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from farfield.errors import InputError
from farfield.estimators.history import CalibrationReport, History
from farfield.objectives import REGISTRY, Objective, name_of

# Arrays whose items JSON can hold exactly: booleans, integers, floats, text, objects that are text.
ARRAY_TYPE = re.compile(r"[<>|=]?([biuf]\d{1,2}|U\d{1,6}|O)")
ITEMS: dict[str, tuple[type, ...]] = {
    "b": (bool,),
    "i": (int,),
    "u": (int,),
    "f": (int, float),
    "U": (str,),
    "O": (str,),
}
DEEPEST = 20
RECORDS: dict[str, type] = {"history": History, "calibration": CalibrationReport}


def encode(value: Any) -> Any:
    """Turn a value into what JSON can hold; tagged where its type would be lost.

    Example:
        >>> encode((1, "a", None)), encode(np.float64(0.5))
        ({'tuple': [1, 'a', None]}, 0.5)
    """
    if isinstance(value, np.generic):
        return encode(value.item())
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return {type(value).__name__: [encode(item) for item in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, Objective):
        return {"objective": [name_of(value), asdict(value)]}
    if isinstance(value, History | CalibrationReport):
        tag = "history" if isinstance(value, History) else "calibration"
        return {tag: asdict(value)}
    if isinstance(value, np.random.RandomState):
        # A generator's position is not a parameter of the fitted estimator.
        return None
    if callable(value):
        return {"function": getattr(value, "__qualname__", type(value).__name__)}
    raise InputError(f"a parameter of type {type(value).__name__} cannot be saved")


def _encode_array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Keep dtype, shape and items of an array."""
    if value.dtype.kind not in ITEMS:
        raise InputError(f"an array of dtype {value.dtype} cannot be saved")
    items = value.ravel().tolist()
    if value.dtype.kind == "O" and not all(isinstance(item, str) for item in items):
        raise InputError("labels that are neither numbers nor text cannot be saved")
    return {"array": [value.dtype.str, list(value.shape), items]}


def decode(value: Any, depth: int = 0) -> Any:
    """Undo ``encode``, whatever a file says; a function comes back as the name it had.

    Raises:
        ValueError: If ``encode`` did not write it. Nothing larger than the file is made before.

    Example:
        >>> decode(encode((1, [2.0, "a"], {3: None})))
        (1, [2.0, 'a'], {3: None})
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > DEEPEST or not isinstance(value, dict) or len(value) != 1:
        raise ValueError("a value is neither plain nor tagged with its type")
    ((tag, content),) = value.items()
    if tag == "array":
        return _decode_array(content)
    if tag == "function" and isinstance(content, str):
        return content
    if tag in ("tuple", "list") and isinstance(content, list):
        items = [decode(item, depth + 1) for item in content]
        return tuple(items) if tag == "tuple" else items
    if tag == "mapping" and isinstance(content, list) and all(map(_is_pair, content)):
        return {key: decode(item, depth + 1) for key, item in content}
    if tag == "objective" and _is_pair(content) and isinstance(content[1], dict):
        name, constants = content
        if name not in REGISTRY:
            raise ValueError(f"the objective {name!r:.50} is not registered")
        return REGISTRY[name](**constants)
    if tag in RECORDS and isinstance(content, dict):
        return RECORDS[tag](**content)
    raise ValueError(f"unknown value {str(tag)[:50]!r}")


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int | float)


def _decode_array(content: Any) -> np.ndarray[Any, Any]:
    """Check type, shape and items of an array before numpy makes room for it."""
    if not isinstance(content, list) or len(content) != 3:
        raise ValueError("an array has a type, a shape and items")
    code, shape, items = content
    found = ARRAY_TYPE.fullmatch(code) if isinstance(code, str) else None
    if found is None or not isinstance(shape, list) or not isinstance(items, list):
        raise ValueError(f"unknown value: an array of type {str(code)[:50]!r}")
    if any(type(size) is not int or size < 0 for size in shape) or len(shape) > 8:
        raise ValueError(f"an array of shape {str(shape)[:50]}")
    if math.prod(shape) != len(items):
        raise ValueError(f"an array of shape {str(shape)[:50]} with {len(items)} items")
    if any(type(item) not in ITEMS[found[1][0]] for item in items):
        raise ValueError(f"an array of type {code} with other items")
    if found[1][0] == "U" and int(found[1][1:]) > max((1, *map(len, items))):
        raise ValueError(f"an array of type {code} whose items are shorter")
    return np.array(items, dtype=np.dtype(code)).reshape(shape)
