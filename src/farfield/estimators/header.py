"""What the header of a saved estimator may say; all of it is checked before a tensor is touched."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from farfield.errors import InputError
from farfield.estimators.encoding import decode
from farfield.estimators.history import CalibrationReport, History

VERSION = 1
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
    def _decoded(cls, values: dict[str, Any]) -> dict[str, Any]:
        try:
            return {name: decode(value) for name, value in values.items()}
        # What constants that are none can make of the constructor of an objective or an array.
        except (TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{error!r:.300}") from error

    @field_validator("learned")
    @classmethod
    def _attributes(cls, values: dict[str, Any]) -> dict[str, Any]:
        for name, value in values.items():
            if name not in LEARNED:
                raise ValueError(f"no estimator learns {name!r}")
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


def _whole(value: Any) -> None:
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError(f"a number of features is a whole number, not {value!r:.50}")


def _number(value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"a finite number is expected, not {value!r:.50}")


def _numbers(value: Any) -> None:
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        raise ValueError("one dimension of values is expected")
    for item in value.tolist():
        _number(item)


def _vector(value: Any) -> None:
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        raise ValueError("one dimension of values is expected")
    if not len(value) or len(set(value.tolist())) != len(value):
        raise ValueError("values are expected, each once")


def _history(value: Any) -> None:
    if not isinstance(value, History):
        raise ValueError(  # noqa: TRY004 - what pydantic asks for
            "a history has losses, best epochs and a number of epochs"
        )


def _calibration(value: Any) -> None:
    if not isinstance(value, CalibrationReport):
        raise ValueError("a report of a calibration is expected")  # noqa: TRY004
    for number in (value.factor, value.bias):
        _number(number)
    if value.factor <= 0:
        raise ValueError("the factor of a calibration is positive")


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
