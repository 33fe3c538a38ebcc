"""Parameters and learned values as JSON, and back. Nothing is ever unpickled."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from farfield.errors import InputError
from farfield.estimators.history import CalibrationReport, History
from farfield.objectives import REGISTRY, Objective, name_of

# Arrays whose items JSON can hold exactly: booleans, integers, floats, text, objects that are text.
_KINDS = "biufUO"


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
    if isinstance(value, History):
        return {"history": asdict(value)}
    if isinstance(value, CalibrationReport):
        return {"calibration": asdict(value)}
    if isinstance(value, np.random.RandomState):
        # A generator's position is not a parameter of the fitted estimator.
        return None
    if callable(value):
        return {"function": getattr(value, "__qualname__", type(value).__name__)}
    raise InputError(f"a parameter of type {type(value).__name__} cannot be saved")


def _encode_array(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Keep dtype, shape and items of an array."""
    if value.dtype.kind not in _KINDS:
        raise InputError(f"an array of dtype {value.dtype} cannot be saved")
    items = value.ravel().tolist()
    if value.dtype.kind == "O" and not all(isinstance(item, str) for item in items):
        raise InputError("labels that are neither numbers nor text cannot be saved")
    return {"array": [value.dtype.str, list(value.shape), items]}


def decode(value: Any) -> Any:
    """Undo ``encode``; a function comes back as the name it had.

    Example:
        >>> decode(encode((1, [2.0, "a"], {3: None})))
        (1, [2.0, 'a'], {3: None})
    """
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag in ("tuple", "list"):
        items = [decode(item) for item in content]
        return tuple(items) if tag == "tuple" else items
    if tag == "mapping":
        return {decode(key): decode(item) for key, item in content}
    if tag == "array":
        dtype, shape, items = content
        if np.dtype(dtype).kind not in _KINDS:
            raise InputError(f"the file holds an array of dtype {dtype!r}")
        return np.array(items, dtype=np.dtype(dtype)).reshape(shape)
    if tag == "objective":
        name, constants = content
        if name not in REGISTRY:
            raise InputError(f"the file uses the objective {name!r}, which is not registered")
        return REGISTRY[name](**constants)
    if tag == "history":
        return History(**content)
    if tag == "calibration":
        return CalibrationReport(**content)
    if tag == "function":
        return str(content)
    raise InputError(f"the file holds an unknown value {tag!r}")
