"""The probability simplex: what a score accepts, and how a row outside of it is refused.

A row of an array of shape ``(instances, points, classes)`` is a distribution when no entry is
negative or NaN and the entries sum to one. How far the sum may be off depends on the
floating-point type: the square root of its machine epsilon, but never less than 1e-6, because
probabilities held in float64 have often been computed in float32.
"""

import math
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError

Unit = Literal["nats", "bits"]
ProbabilityScore = Literal[
    "one_minus_max_probability",
    "class_variance",
    "predictive_entropy",
    "expected_entropy",
    "mutual_information",
]
Array = TypeVar("Array", NDArray[Any], Tensor)
"""The same kind of array in and out: numpy for numpy, torch for torch."""


def sum_tolerance(epsilon: float) -> float:
    """How far from one a row may sum, given the machine epsilon of its type."""
    return max(math.sqrt(epsilon), 1e-6)


def unit_factor(unit: str) -> float:
    """Turn nats into ``unit`` by multiplication."""
    if unit == "nats":
        return 1.0
    if unit == "bits":
        return 1.0 / math.log(2.0)
    raise InputError(f"unit must be 'nats' or 'bits', got {unit!r}.")


def with_instances(values: NDArray[Any] | Tensor, what: str) -> NDArray[Any] | Tensor:
    """Return a floating-point ``(instances, points, classes)`` view, or say why there is none."""
    array = values if isinstance(values, Tensor) else np.asarray(values)
    floating = array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"
    shape = tuple(array.shape)
    if not floating:
        raise InputError(
            f"{what} must be floating-point numbers, got dtype {array.dtype} with shape {shape}. "
            "Pass the model's float output, not class labels."
        )
    if len(shape) not in (2, 3):
        raise InputError(
            f"{what} must have shape (instances, points, classes) or (points, classes), "
            f"got shape {shape}."
        )
    if 0 in shape:
        raise InputError(f"{what} must hold at least one point, got shape {shape}.")
    if shape[-1] < 2:
        raise InputError(
            f"{what} need at least two classes on the last axis, got shape {shape}. "
            "A single sigmoid output p is the two columns (1 - p, p); a single logit f is (0, f)."
        )
    return array[None] if len(shape) == 2 else array


def refuse(p: NDArray[Any], first_point: int = 0) -> NoReturn:
    """Raise for the first row of ``(instances, points, classes)`` that is no distribution."""
    advice = "Scores take probabilities: apply softmax to logits first, or use energy."
    p = p.astype(np.float64)
    for broken, fault in (
        (~np.isfinite(p).all(axis=-1), "holds NaN or infinity"),
        ((p < 0).any(axis=-1), "holds a negative number"),
    ):
        if broken.any():
            instance, point = np.argwhere(broken)[0]
            raise InputError(
                f"Probabilities must lie in [0, 1]: instance {instance}, point "
                f"{first_point + point} {fault}, {p[instance, point].tolist()[:10]}. {advice}"
            )
    sums = p.sum(axis=-1)
    instance, point = np.unravel_index(np.argmax(np.abs(sums - 1.0)), sums.shape)
    raise InputError(
        f"Probabilities must sum to 1 over the last axis: instance {instance}, point "
        f"{first_point + point} sums to {sums[instance, point]:.6g}. {advice}"
    )


def mean_over_instances(p: NDArray[Any] | Tensor) -> NDArray[np.float64]:
    """Check probabilities and average them in float64: ``(points, classes)``, on the CPU."""
    checked = with_instances(p, "Probabilities")
    if isinstance(checked, Tensor):
        checked = checked.detach().cpu()
        # numpy has no bfloat16, so half precision goes to single.
        tolerance = sum_tolerance(torch.finfo(checked.dtype).eps)
        values: NDArray[Any] = checked.to(torch.promote_types(checked.dtype, torch.float32)).numpy()
    else:
        values, tolerance = checked, sum_tolerance(float(np.finfo(checked.dtype).eps))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(values.sum(axis=-1, dtype=np.float64) - 1.0).max()
    if not (error <= tolerance and values.min() >= 0):
        refuse(values)
    mean: NDArray[np.float64] = values.mean(axis=0, dtype=np.float64)
    return mean
