"""What the header of a saved estimator may say; all of it is checked before a tensor is touched."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from farfield.errors import InputError

VERSION = 1
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
Width = Annotated[int, Field(ge=0, lt=2**31)]
Name = Annotated[str, Field(max_length=200)]


class StrictRecord(BaseModel):
    """A JSON object with exactly these fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class LinearRecord(StrictRecord):  # noqa: D101
    kind: Literal["Linear"]
    in_features: Width
    out_features: Width
    bias: bool


class ReLURecord(StrictRecord):  # noqa: D101
    kind: Literal["ReLU"]


class LeakyReLURecord(StrictRecord):  # noqa: D101
    kind: Literal["LeakyReLU"]
    negative_slope: float


class BatchNorm1dRecord(StrictRecord):  # noqa: D101
    kind: Literal["BatchNorm1d"]
    num_features: Width
    eps: float


class AffineRecord(StrictRecord):  # noqa: D101
    kind: Literal["Affine"]
    factor: list[Width] = Field(max_length=8)
    shift: list[Width] = Field(max_length=8)


class RBFNetworkRecord(StrictRecord):  # noqa: D101
    kind: Literal["RBFNetwork"]
    centres: list[Width] = Field(min_length=2, max_length=2)
    classes: Width


class ModuleRecord(StrictRecord):
    """A user's own module, with the affine maps that we put into it."""

    kind: Literal["module"]
    fixed: dict[Name, AffineRecord]


class SequentialRecord(StrictRecord):  # noqa: D101
    kind: Literal["Sequential"]
    layers: list[LayerRecord]


LayerRecord = Annotated[
    LinearRecord
    | ReLURecord
    | LeakyReLURecord
    | BatchNorm1dRecord
    | AffineRecord
    | RBFNetworkRecord
    | ModuleRecord
    | SequentialRecord,
    Field(discriminator="kind"),
]


class EstimatorRecord(StrictRecord):
    """An estimator: its class, parameters, what it learned, and its network or inner estimator."""

    type: Name = Field(alias="class")
    parameters: dict[Name, Any]
    learned: dict[Name, Any]
    instances: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    network: LayerRecord | None = None
    estimator: EstimatorRecord | None = None

    @field_validator("parameters", "learned")
    @classmethod
    def _encoded(cls, values: dict[str, Any]) -> dict[str, Any]:
        for value in values.values():
            check_encoded(value)
        return values

    @field_validator("learned")
    @classmethod
    def _attributes(cls, values: dict[str, Any]) -> dict[str, Any]:
        unknown = [name for name in values if name not in LEARNED]
        if unknown:
            raise ValueError(f"no estimator learns {unknown[0]!r}")
        for name, value in values.items():
            LEARNED[name](value)
        return values

    @model_validator(mode="after")
    def _whole(self) -> EstimatorRecord:
        own = self.instances is not None and self.network is not None
        if own == (self.estimator is not None):
            raise ValueError("either instances of a network or an inner estimator are expected")
        return self


class EstimatorHeader(StrictRecord):
    """The whole header."""

    version: int
    estimator: EstimatorRecord


def parse(tree: Any, where: str) -> EstimatorRecord:
    """Make sense of a header.

    Raises:
        InputError: In one line, with the place of the first thing that is wrong.
    """
    try:
        version = tree["version"] if isinstance(tree, dict) else None
        if type(version) is int and version > VERSION:
            raise InputError(
                f"{where!r} has format version {version}, this farfield reads up to {VERSION}; "
                "update farfield"
            )
        return EstimatorHeader.model_validate(tree).estimator
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:200]
        raise InputError(
            f"the header of {where!r} is damaged: {place or 'all of it'}: {first['msg']}"
        ) from error
    except (ValueError, KeyError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the header of {where!r} is damaged: {error!r}") from error


def check_encoded(value: Any, depth: int = 0) -> None:
    """Check a value that ``encoding.encode`` wrote.

    Raises:
        ValueError: Whatever it is not.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return
    if depth > DEEPEST or not isinstance(value, dict) or len(value) != 1:
        raise ValueError("a value is neither plain nor tagged with its type")
    ((tag, content),) = value.items()
    if tag == "array":
        _check_array(content)
        return
    if tag == "function":
        if not isinstance(content, str):
            raise ValueError("the name of a function is no text")
        return
    children: list[Any]
    if tag in ("tuple", "list") and isinstance(content, list):
        children = content
    elif tag == "mapping" and isinstance(content, list) and all(map(_is_pair, content)):
        children = [item for pair in content for item in pair]
    elif tag in ("history", "calibration") and isinstance(content, dict):
        children = []  # checked where they are learned
    elif tag == "objective" and _is_pair(content) and isinstance(content[1], dict):
        children = [content[0]]
    else:
        raise ValueError(f"unknown value {str(tag)[:50]!r}")
    for child in children:
        check_encoded(child, depth + 1)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int | float)


def _check_array(content: Any) -> None:
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
    kinds = ITEMS[found[1][0]]
    if any(type(item) not in kinds for item in items):
        raise ValueError(f"an array of type {code} with other items")
    if found[1][0] == "U" and int(found[1][1:]) > max((1, *map(len, items))):
        raise ValueError(f"an array of type {code} whose items are shorter")


def _whole(value: Any) -> None:
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError(f"a number of features is a whole number, not {value!r:.50}")


def _number(value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"a finite number is expected, not {value!r:.50}")


def _vector(value: Any) -> None:
    if not isinstance(value, dict) or "array" not in value or len(value["array"][1]) != 1:
        raise ValueError("one dimension of values is expected")
    if not value["array"][2] or len(set(value["array"][2])) != len(value["array"][2]):
        raise ValueError("values are expected, each once")


def _numbers(value: Any) -> None:
    if not isinstance(value, dict) or "array" not in value or len(value["array"][1]) != 1:
        raise ValueError("one dimension of numbers is expected")
    for item in value["array"][2]:
        _number(item)


def _history(value: Any) -> None:
    content = value.get("history") if isinstance(value, dict) else None
    if not isinstance(content, dict) or set(content) != {"validation", "best_epoch", "epochs"}:
        raise ValueError("a history has losses, best epochs and a number of epochs")


def _calibration(value: Any) -> None:
    content = value.get("calibration") if isinstance(value, dict) else None
    if not isinstance(content, dict) or set(content) != REPORT:
        raise ValueError("a report of a calibration is expected")
    for name in ("factor", "bias"):
        _number(content[name])
    if content["factor"] <= 0:
        raise ValueError("the factor of a calibration is positive")


REPORT = {
    *("factor", "bias", "rows", "nll_before", "nll_after"),
    *("ece_before", "ece_after", "applied"),
}
# What estimators learn besides networks, and what it must be.
LEARNED = {
    "n_features_in_": _whole,
    "feature_names_in_": _vector,
    "classes_": _vector,
    "history_": _history,
    "report_": _calibration,
    "temperature_": _number,
    "bias_": _number,
    "target_shift_": _number,
    "target_scale_": _number,
    "member_scale_": _numbers,
}
