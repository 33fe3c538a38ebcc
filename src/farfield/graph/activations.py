"""Rules for functions of one number: ReLU and relatives, smooth ones by their asymptotes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.graph.rules import Asymptote, Domain, Pieces, Smooth, V, rule

aten = torch.ops.aten
RELU = Pieces.hinge(0.0)
ZERO = Asymptote(0.0, 0.0)
IDENTITY = Asymptote(1.0, 0.0)
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@rule(aten.relu.default, kind="piecewise affine")
def relu(domain: Domain[V], value: V) -> V:
    """``max(x, 0)``."""
    return domain.piecewise(value, RELU)


@rule(aten.leaky_relu.default, kind="piecewise affine")
def leaky_relu(domain: Domain[V], value: V, negative_slope: float = 0.01) -> V:
    """``x`` above 0, ``negative_slope x`` below."""
    return domain.piecewise(value, Pieces.hinge(negative_slope))


def _refuse_random_slope(*args: Any, **_: Any) -> str | None:
    training = len(args) > 3 and args[3]
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


@rule(aten.threshold.default, kind="piecewise affine")
def threshold(domain: Domain[V], value: V, limit: float, otherwise: float) -> V:
    """``x`` above a threshold, a constant at and below it."""
    return domain.piecewise(value, Pieces((limit,), (0.0, 1.0), (otherwise, 0.0)))


@rule(aten.abs.default, kind="piecewise affine")
def absolute(domain: Domain[V], value: V) -> V:
    """Absolute value."""
    return domain.piecewise(value, Pieces.hinge(-1.0))


@rule(aten.clamp.default, aten.hardtanh.default, aten.clamp_min.default, kind="piecewise affine")
def clamp(domain: Domain[V], value: V, low: float | None = None, high: float | None = None) -> V:
    """Cut off below and above."""
    if low is not None and high is not None and low >= high:
        return domain.piecewise(value, Pieces((), (0.0,), (high,)))
    ends = [(bound, side) for bound, side in ((low, "low"), (high, "high")) if bound is not None]
    pieces = Pieces(
        tuple(bound for bound, _ in ends),
        (*([0.0] if low is not None else []), 1.0, *([0.0] if high is not None else [])),
        (
            *([low] if low is not None else []),
            0.0,
            *([high] if high is not None else []),
        ),
    )
    return domain.piecewise(value, pieces)


@rule(aten.clamp_max.default, kind="piecewise affine")
def clamp_max(domain: Domain[V], value: V, high: float) -> V:
    """Cut off above."""
    return clamp(domain, value, None, high)


@rule(aten.relu6.default, kind="piecewise affine")
def relu6(domain: Domain[V], value: V) -> V:
    """Cut off below 0 and above 6."""
    return clamp(domain, value, 0.0, 6.0)


@rule(aten.hardsigmoid.default, kind="piecewise affine")
def hardsigmoid(domain: Domain[V], value: V) -> V:
    """``x / 6 + 1 / 2``, cut off below 0 and above 1."""
    slopes = (0.0, Fraction(1, 6), 0.0)
    return domain.piecewise(value, Pieces((-3.0, 3.0), slopes, (0.0, 0.5, 1.0)))


def _smooth(target: Any, below: Asymptote, above: Asymptote, lipschitz: float, text: str) -> None:
    """Register a function without parameters by its asymptotes."""

    def lower(domain: Domain[V], value: V) -> V:
        return domain.smooth(value, Smooth(target, below, above, lipschitz))

    lower.__doc__ = text
    rule(target, kind="smooth")(lower)


_smooth(aten.sigmoid.default, ZERO, Asymptote(0.0, 1.0), 0.25, "saturates at 0 and 1")
_smooth(aten.tanh.default, Asymptote(0.0, -1.0), Asymptote(0.0, 1.0), 1.0, "saturates at -1 and 1")
_smooth(aten.silu.default, ZERO, IDENTITY, 1.1, "0 below, ``x`` above")
_smooth(aten.mish.default, ZERO, IDENTITY, 1.1, "0 below, ``x`` above")
_smooth(aten.log_sigmoid.default, IDENTITY, ZERO, 1.0, "``x`` below, 0 above")
_smooth(F.softsign, Asymptote(0.0, -1.0), Asymptote(0.0, 1.0), 1.0, "saturates at -1 and 1")


@rule(aten.hardswish.default, kind="smooth")
def hardswish(domain: Domain[V], value: V) -> V:
    """0 below -3, ``x`` above 3, and exactly so."""
    return domain.smooth(value, Smooth(F.hardswish, ZERO, IDENTITY, 1.5, settles=(-3.0, 3.0)))


@rule(aten.softplus.default, kind="smooth")
def softplus(domain: Domain[V], value: V, beta: float = 1.0, limit: float = 20.0) -> V:
    """0 below, ``x`` above."""
    function = _bind(F.softplus, beta, limit)
    below, above = (ZERO, IDENTITY) if beta > 0 else (IDENTITY, ZERO)
    return domain.smooth(value, Smooth(function, below, above, 1.0))


@rule(aten.gelu.default, kind="smooth")
def gelu(domain: Domain[V], value: V, *, approximate: str = "none") -> V:
    """0 below, ``x`` above; both forms."""

    def function(rows: Tensor) -> Tensor:
        return F.gelu(rows, approximate=approximate)

    return domain.smooth(value, Smooth(function, ZERO, IDENTITY, 1.2))


@rule(aten.elu.default, kind="smooth")
def elu(
    domain: Domain[V], value: V, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> V:
    """``-alpha`` below, ``x`` above, both times a scale."""
    curve = Smooth(
        _bind(aten.elu.default, alpha, scale, input_scale),
        Asymptote(0.0, -alpha * scale),
        Asymptote(scale, 0.0),
        abs(scale) * max(1.0, abs(alpha * input_scale)),
    )
    return domain.smooth(value, curve)


@rule(aten.selu.default, kind="smooth")
def selu(domain: Domain[V], value: V) -> V:
    """ELU with its two published constants."""
    return elu(domain, value, SELU_ALPHA, SELU_SCALE)


@rule(aten.celu.default, kind="smooth")
def celu(domain: Domain[V], value: V, alpha: float = 1.0) -> V:
    """``-alpha`` below, ``x`` above."""
    curve = Smooth(_bind(F.celu, alpha), Asymptote(0.0, -alpha), IDENTITY, 1.0)
    return domain.smooth(value, curve)


def _bind(function: Callable[..., Tensor], *args: float) -> Callable[[Tensor], Tensor]:
    def bound(rows: Tensor) -> Tensor:
        return function(rows, *args)

    return bound
