"""Functions of one number, by their definitions."""

import math
from typing import Any

import numpy as np
from flint import arb

from campaigns.exact_numbers import Array, Numbers, each


def leaky(numbers: Numbers, values: Array, slope: float = 0.01) -> Array:
    return np.where(values > 0, values, values * numbers.read(slope))


def prelu(numbers: Numbers, values: Array, weight: Any) -> Array:
    slopes = numbers.array(weight)
    if slopes.ndim <= 1 and slopes.size > 1:
        slopes = slopes.reshape(-1, *[1] * (values.ndim - 2))
    return np.where(values > 0, values, values * slopes)


def threshold(numbers: Numbers, values: Array, limit: float, other: float) -> Array:
    return np.where(values > numbers.read(limit), values, numbers.array(other))


def bent(numbers: Numbers, values: Array, pieces: Any) -> Array:
    """The line of the piece whose upper end is the first that is not below the value.

    A ball around a jump says nothing: what the function is there is not a number.
    """
    edges = [numbers.fraction(edge) for edge in pieces.thresholds]
    lines = [
        (numbers.fraction(slope), numbers.fraction(intercept))
        for slope, intercept in zip(pieces.slopes, pieces.intercepts, strict=True)
    ]
    jumps = [
        edge
        for edge, (a, b), (c, d) in zip(edges, lines, lines[1:], strict=False)
        if a * edge + b != c * edge + d
    ]

    def line(x: Any) -> Any:
        if isinstance(x, arb) and not x.is_exact() and any(x.overlaps(edge) for edge in jumps):
            return arb("nan")
        slope, intercept = lines[sum(bool(x > edge) for edge in edges)]
        return slope * x + intercept

    return each(line, values)


def chosen(numbers: Numbers, mask: Array, yes: Any, no: Any) -> Array:
    unknown = each(lambda x: isinstance(x, arb) and x.is_nan(), mask).astype(bool)
    assert all(value in (0, 1) for value in mask[~unknown])
    found = np.where(np.equal(mask, 1), numbers.array(yes), numbers.array(no))
    return np.where(unknown, mask, found)


def clamp(numbers: Numbers, values: Array, low: Any = None, high: Any = None) -> Array:
    if low is not None and low != -math.inf:
        values = np.where(values > numbers.read(low), values, numbers.array(low))
    if high is not None and high != math.inf:
        values = np.where(values < numbers.read(high), values, numbers.array(high))
    return values


def hard_sigmoid(numbers: Numbers, values: Array) -> Array:
    return clamp(numbers, values + 3, 0.0, 6.0) / 6


def hard_swish(numbers: Numbers, values: Array) -> Array:
    return values * hard_sigmoid(numbers, values)


def curve(function: Any) -> Any:
    return lambda _, values, *args, **kwargs: each(lambda x: function(x, *args, **kwargs), values)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + (-x).exp()) if x > 0 else x.exp() / (1 + x.exp())


def softplus(x: Any, beta: float = 1.0, limit: float = 20.0) -> Any:
    scaled_up = x * beta
    return x if scaled_up > limit else scaled_up.exp().log1p() / beta


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return x * (-x / arb(2).sqrt()).erfc() / 2
    inner = (2 / arb.pi()).sqrt() * (x + arb("0.044715") * x**3)
    return x * sigmoid(2 * inner)


def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    scale = arb(scale)
    return x * scale if x > 0 else (x * input_scale).expm1() * alpha * scale


def mish(x: Any) -> Any:
    grown = (1 + x.exp()) ** 2 if x < 0 else (1 + (-x).exp()) ** 2
    one = arb(1) if x < 0 else (-2 * x).exp()
    return x * (grown - one) / (grown + one)
