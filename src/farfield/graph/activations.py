"""Rules for functions of one number: ReLU and relatives, smooth ones by their asymptotes."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.ranges import (
    FINITE,
    LOWER_LIMIT,
    MODERATE,
    NOT_ZERO,
    POSITIVE,
    STEP,
    UPPER_LIMIT,
)
from farfield.graph.rules import (
    SMALL_JUMP,
    Asymptote,
    Decay,
    Domain,
    Pieces,
    Side,
    Smooth,
    V,
    rule,
)

aten = torch.ops.aten
RELU = Pieces.hinge(0.0)
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@rule(aten.relu.default, kind="piecewise affine")
def relu(domain: Domain[V], value: V) -> V:
    """``max(x, 0)``."""
    return domain.piecewise(value, RELU)


@rule(aten.leaky_relu.default, kind="piecewise affine", ranges={"negative_slope": FINITE})
def leaky_relu(domain: Domain[V], value: V, negative_slope: float = 0.01) -> V:
    """``x`` above 0, ``negative_slope x`` below."""
    return domain.piecewise(value, Pieces.hinge(negative_slope))


def _refuse_random_slope(
    _: Any, lower: float = 0.125, upper: float = 1 / 3, training: bool = False, *__: Any
) -> str | None:
    if not math.isfinite(lower + upper):
        return f"lower is {lower!r} and upper {upper!r}, and their mean must be a finite number"
    return "draws random slopes in forward(); use nn.RReLU" if training else None


@rule(aten.rrelu.default, kind="piecewise affine", refuse=_refuse_random_slope)
def rrelu(domain: Domain[V], value: V, lower: float = 0.125, upper: float = 1 / 3, *_: Any) -> V:
    """Leaky ReLU with the mean of the two slopes, as in evaluation mode."""
    return domain.piecewise(value, Pieces.hinge((lower + upper) / 2))


@rule(aten.prelu.default, aten._prelu_kernel.default, kind="piecewise affine")
def prelu(domain: Domain[V], value: Any, weight: Tensor) -> V:
    """Leaky ReLU with learnt slopes, one for all or one per channel."""
    if weight.ndim <= 1 and weight.numel() > 1:
        weight = weight.reshape(-1, *[1] * (len(value.shape) - 2))
    return domain.piecewise(value, Pieces.hinge(weight))


@rule(
    aten.threshold.default,
    kind="piecewise affine",
    ranges={"threshold": FINITE, "value": FINITE},
)
def threshold(domain: Domain[V], rows: V, threshold: float, value: float) -> V:
    """``x`` above a threshold, a constant at and below it."""
    return domain.piecewise(rows, Pieces((threshold,), (0.0, 1.0), (value, 0.0)))


@rule(aten.abs.default, kind="piecewise affine")
def absolute(domain: Domain[V], value: V) -> V:
    """Absolute value."""
    return domain.piecewise(value, Pieces.hinge(-1.0))


def _cut_off(domain: Domain[V], value: V, low: float | None, high: float | None) -> V:
    """``min(max(x, low), high)``; an infinite limit is none."""
    below = [] if low is None or low == -math.inf else [float(low)]
    above = [] if high is None or high == math.inf else [float(high)]
    if below and above and below[0] >= above[0]:
        return domain.piecewise(value, Pieces((), (0.0,), (above[0],)))
    slopes = (*[0.0] * len(below), 1.0, *[0.0] * len(above))
    return domain.piecewise(value, Pieces((*below, *above), slopes, (*below, 0.0, *above)))


@rule(
    aten.clamp.default,
    aten.clamp_min.default,
    kind="piecewise affine",
    ranges={"min": LOWER_LIMIT, "max": UPPER_LIMIT},
)
def clamp(
    domain: Domain[V],
    value: V,
    min: float | None = None,  # noqa: A002 - the operation's own names
    max: float | None = None,  # noqa: A002
) -> V:
    """Cut off below and above."""
    return _cut_off(domain, value, min, max)


@rule(
    aten.hardtanh.default,
    kind="piecewise affine",
    ranges={"min_val": LOWER_LIMIT, "max_val": UPPER_LIMIT},
)
def hardtanh(domain: Domain[V], value: V, min_val: float = -1.0, max_val: float = 1.0) -> V:
    """Cut off below and above."""
    return _cut_off(domain, value, min_val, max_val)


@rule(aten.clamp_max.default, kind="piecewise affine", ranges={"max": UPPER_LIMIT})
def clamp_max(domain: Domain[V], value: V, max: float) -> V:  # noqa: A002 - the operation's name
    """Cut off above."""
    return _cut_off(domain, value, None, max)


@rule(aten.relu6.default, kind="piecewise affine")
def relu6(domain: Domain[V], value: V) -> V:
    """Cut off below 0 and above 6."""
    return _cut_off(domain, value, 0.0, 6.0)


@rule(aten.hardsigmoid.default, kind="piecewise affine")
def hardsigmoid(domain: Domain[V], value: V) -> V:
    """``x / 6 + 1 / 2``, cut off below 0 and above 1."""
    slopes = (0.0, Fraction(1, 6), 0.0)
    return domain.piecewise(value, Pieces((-3.0, 3.0), slopes, (0.0, 0.5, 1.0)))


def _constant(value: float, side: Side) -> Asymptote:
    return Asymptote(0.0, value, side)


def _line(side: Side) -> Asymptote:
    return Asymptote(1.0, 0.0, side)


def _smooth(
    target: Any,
    below: Asymptote,
    above: Asymptote,
    lipschitz: float,
    text: str,
    **traits: Any,
) -> None:
    """Register a function without parameters by its asymptotes."""
    curve = Smooth(target, below, above, lipschitz, **traits)

    def lower(domain: Domain[V], value: V) -> V:
        return domain.smooth(value, curve)

    lower.__doc__ = text
    rule(target, kind="smooth")(lower)


_smooth(
    aten.sigmoid.default,
    _constant(0.0, 1),
    _constant(1.0, -1),
    0.25,
    "saturates at 0 and 1",
    rises=True,
    decay=Decay(1.0),
    curvature=0.0963,
)
_smooth(
    aten.tanh.default,
    _constant(-1.0, 1),
    _constant(1.0, -1),
    1.0,
    "saturates at -1 and 1",
    rises=True,
    decay=Decay(2.0, rate=2.0),
    curvature=0.77,
)
_smooth(
    aten.silu.default,
    _constant(0.0, -1),
    _line(-1),
    1.1,
    "0 below, ``x`` above",
    decay=Decay(1.0, power=1),
    curvature=0.51,
)
_smooth(
    aten.mish.default,
    _constant(0.0, -1),
    _line(-1),
    1.1,
    "0 below, ``x`` above",
    decay=Decay(2.0, power=1),
    curvature=0.7,
)
_smooth(
    aten.log_sigmoid.default,
    _line(-1),
    _constant(0.0, -1),
    1.0,
    "``x`` below, 0 above",
    rises=True,
    decay=Decay(1.0),
    curvature=0.25,
)
_smooth(
    aten.erf.default,
    _constant(-1.0, 1),
    _constant(1.0, -1),
    1.13,
    "saturates at -1 and 1",
    rises=True,
    decay=Decay(1.3),
    curvature=0.97,
)
_smooth(
    aten.erfc.default,
    _constant(2.0, -1),
    _constant(0.0, 1),
    1.13,
    "2 below, 0 above",
    decay=Decay(1.3),
    curvature=0.97,
)
_smooth(
    aten.atan.default,
    _constant(-math.pi / 2, 1),
    _constant(math.pi / 2, -1),
    1.0,
    "saturates at -pi/2 and pi/2",
    rises=True,
    flat=False,
    decay=Decay(1.0, power=-1, rate=0.0),
    curvature=0.65,
)
_smooth(
    F.softsign,
    _constant(-1.0, 1),
    _constant(1.0, -1),
    1.0,
    "saturates at -1 and 1",
    rises=True,
    kinks=(0.0,),
    flat=False,
    decay=Decay(1.0, power=-1, rate=0.0),
    curvature=2.0,
)


@rule(aten.hardswish.default, kind="smooth")
def hardswish(domain: Domain[V], value: V) -> V:
    """0 below -3, ``x`` above 3, and exactly so."""
    ends = (_constant(0.0, 0), _line(0))
    turns = (-3.0, 3.0)
    curve = Smooth(F.hardswish, *ends, 1.5, settles=turns, kinks=turns, curvature=0.34)
    return domain.smooth(value, curve)


def _refuse_jump(_: Any, beta: float = 1.0, threshold: float = 20.0) -> str | None:
    """Refuse a softplus that jumps visibly from ``log(1 + exp(beta x)) / beta`` to ``x``."""
    if not math.isfinite(threshold) or threshold <= 0 or not NOT_ZERO.holds(beta):
        return None  # refused by its range
    size = math.log1p(math.exp(-threshold)) / abs(beta)
    if size <= SMALL_JUMP:
        return None
    return (
        f"jumps by {size:.1e} at {threshold / beta:.4g} with beta={beta!r} and "
        f"threshold={threshold!r}, and must not jump by more than {SMALL_JUMP}; raise the threshold"
    )


@rule(
    aten.softplus.default,
    kind="smooth",
    refuse=_refuse_jump,
    ranges={"beta": NOT_ZERO, "threshold": STEP},
)
def softplus(domain: Domain[V], value: V, beta: float = 1.0, threshold: float = 20.0) -> V:
    """0 below, ``x`` above."""
    function = _bind(F.softplus, beta, threshold)
    ends = (_constant(0.0, 1), _line(0)) if beta > 0 else (_line(0), _constant(0.0, -1))
    jump = Fraction(threshold) / Fraction(beta)
    decay, curvature = Decay(1.01 / abs(beta), rate=abs(beta)), abs(beta) / 3.99
    return domain.smooth(
        value,
        Smooth(function, *ends, 1.0, rises=True, jump=jump, decay=decay, curvature=curvature),
    )


@rule(aten.gelu.default, kind="smooth")
def gelu(domain: Domain[V], value: V, *, approximate: str = "none") -> V:
    """0 below, ``x`` above; both forms."""

    def function(rows: Tensor) -> Tensor:
        return F.gelu(rows, approximate=approximate)

    ends = (_constant(0.0, -1), _line(-1))
    curve = Smooth(function, *ends, 1.2, decay=Decay(1.0, power=1), curvature=0.85)
    return domain.smooth(value, curve)


@rule(
    aten.elu.default,
    kind="smooth",
    ranges={"alpha": MODERATE, "scale": MODERATE, "input_scale": POSITIVE},
)
def elu(
    domain: Domain[V], value: V, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> V:
    """``-alpha`` below, ``x`` above, both times a scale."""
    depth = Fraction(alpha) * Fraction(scale)
    side: Side = 1 if depth > 0 else -1 if depth < 0 else 0
    curve = Smooth(
        _bind(aten.elu.default, alpha, scale, input_scale),
        Asymptote(0.0, -depth, side),
        Asymptote(scale, 0.0, 0),
        abs(scale) * max(1.0, abs(alpha * input_scale)),
        rises=alpha > 0 and scale > 0,
        kinks=(0.0,),
        decay=Decay(abs(float(depth)) * 1.01, rate=0.999 * input_scale),
        curvature=abs(float(depth)) * input_scale**2 * 1.01,
    )
    return domain.smooth(value, curve)


@rule(aten.selu.default, kind="smooth")
def selu(domain: Domain[V], value: V) -> V:
    """ELU with its two published constants."""
    return elu(domain, value, SELU_ALPHA, SELU_SCALE)


@rule(aten.celu.default, kind="smooth", ranges={"alpha": POSITIVE})
def celu(domain: Domain[V], value: V, alpha: float = 1.0) -> V:
    """``-alpha`` below, ``x`` above."""
    ends = (_constant(-alpha, 1), _line(0))
    curve = Smooth(
        _bind(F.celu, alpha),
        *ends,
        1.0,
        rises=True,
        kinks=(0.0,),
        decay=Decay(1.01 * alpha, rate=0.999 / alpha),
        curvature=1.01 / alpha,
    )
    return domain.smooth(value, curve)


def _bind(function: Callable[..., Tensor], *args: float) -> Callable[[Tensor], Tensor]:
    def bound(rows: Tensor) -> Tensor:
        return function(rows, *args)

    return bound
