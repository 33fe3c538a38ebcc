"""Slow, obvious referees that share no code with the package.

``interpret`` runs a small network on any kind of number that can be scaled, added and compared.
With :class:`~fractions.Fraction` it evaluates the network exactly at a point, however far out;
with :class:`Line` (a rational germ) it evaluates it at infinity and lists every decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

# Beyond every breakpoint of the networks in these tests: weights of 1e-30 to 1e30 in few layers
# are multiples of 2**-153 each, so breakpoints stay below about 1e400.
FAR = Fraction(10) ** 600


@dataclass(frozen=True)
class Line:
    """``slope * t + intercept`` for all large ``t``; and the sizes of their terms."""

    slope: Fraction
    intercept: Fraction
    slope_size: Fraction = Fraction(0)
    intercept_size: Fraction = Fraction(0)

    def __add__(self, other: Any) -> Line:
        other = _line(other)
        return Line(
            self.slope + other.slope,
            self.intercept + other.intercept,
            self.slope_size + other.slope_size,
            self.intercept_size + other.intercept_size,
        )

    __radd__ = __add__

    def __mul__(self, factor: Fraction) -> Line:
        size = abs(factor)
        return Line(
            self.slope * factor,
            self.intercept * factor,
            self.slope_size * size,
            self.intercept_size * size,
        )

    __rmul__ = __mul__

    def __gt__(self, other: Any) -> bool:
        other = _line(other)
        return (self.slope, self.intercept) > (other.slope, other.intercept)


def _line(value: Any) -> Line:
    if isinstance(value, Line):
        return value
    return Line(Fraction(0), Fraction(value), Fraction(0), abs(Fraction(value)))


@dataclass
class Decisions:
    """What a network decided: outcomes in order, when the last one fell, and how narrowly."""

    outcomes: list[int] = field(default_factory=list)
    last: Fraction = Fraction(0)
    margin: Fraction = Fraction(1)

    def above(self, value: Any, limit: Any) -> bool:
        outcome = value > limit
        self.outcomes.append(int(outcome))
        if isinstance(value, Line):
            gap = value + _line(limit) * Fraction(-1)
            if gap.slope != 0:
                self.last = max(self.last, -gap.intercept / gap.slope)
            if gap.slope_size != 0:
                self.margin = min(self.margin, abs(gap.slope) / gap.slope_size)
            elif gap.intercept_size != 0:
                self.margin = min(self.margin, abs(gap.intercept) / gap.intercept_size)
        return outcome


class Residual(nn.Module):
    """``x + inner(x)``."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Pool(nn.Module):
    """Pooling over the features of a row: the largest or the mean of ``size`` neighbours."""

    def __init__(self, kind: str, size: int) -> None:
        super().__init__()
        self.kind, self.size = kind, size

    def forward(self, x: Tensor) -> Tensor:
        pool = nn.functional.max_pool1d if self.kind == "max" else nn.functional.avg_pool1d
        return pool(x.unsqueeze(1), self.size, stride=1).squeeze(1)


class Absolute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


def _floats(tensor: Tensor) -> Any:
    return tensor.detach().double().tolist()


def interpret(module: nn.Module, values: list[Any], seen: Decisions) -> list[Any]:
    """Run ``module`` on one row of numbers."""
    zero = Fraction(0)
    match module:
        case nn.Sequential():
            for part in module:
                values = interpret(part, values, seen)
            return values
        case nn.Linear():
            return [
                sum(
                    (Fraction(w) * v for w, v in zip(row, values, strict=True)),
                    _start(bias, values),
                )
                for row, bias in zip(_floats(module.weight), _floats(module.bias), strict=True)
            ]
        case nn.ReLU():
            return [v if seen.above(v, zero) else v * zero for v in values]
        case nn.LeakyReLU():
            slope = Fraction(module.negative_slope)
            return [v if seen.above(v, zero) else v * slope for v in values]
        case nn.PReLU():
            slopes = _floats(module.weight)
            return [
                v if slope == 1 or seen.above(v, zero) else v * Fraction(slope)
                for v, slope in zip(values, slopes, strict=True)
            ]
        case Absolute():
            return [v if seen.above(v, zero) else v * Fraction(-1) for v in values]
        case nn.Hardtanh():
            low, high = Fraction(module.min_val), Fraction(module.max_val)
            return [_clamp(v, low, high, seen) for v in values]
        case Residual():
            return [
                a + b for a, b in zip(values, interpret(module.inner, values, seen), strict=True)
            ]
        case Pool():
            return [
                _pool(module, values[i : i + module.size], seen)
                for i in range(len(values) - module.size + 1)
            ]
    raise TypeError(f"the oracle does not know {type(module).__name__}")


def _start(bias: float, values: list[Any]) -> Any:
    constant = Fraction(bias)
    return _line(constant) if isinstance(values[0], Line) else constant


def _clamp(value: Any, low: Fraction, high: Fraction, seen: Decisions) -> Any:
    over_low, over_high = seen.above(value, low), seen.above(value, high)
    if over_high:
        return value * Fraction(0) + high
    return value if over_low else value * Fraction(0) + low


def _pool(module: Pool, window: list[Any], seen: Decisions) -> Any:
    if module.kind == "mean":
        total = window[0]
        for value in window[1:]:
            total = total + value
        return total * Fraction(1, module.size)
    best = window[0]
    for value in window[1:]:
        best = value if value > best else best
    for value in window:
        if value is not best:
            seen.above(best, value)
            seen.outcomes.pop()
    seen.outcomes.append([value is best for value in window].index(True))
    return best


@dataclass(frozen=True)
class ExactFarField:
    """What the referee says about one ray."""

    slope: list[Fraction]
    intercept: list[Fraction]
    reach: Fraction
    margin: Fraction
    slope_size: list[Fraction]
    intercept_size: list[Fraction]

    @property
    def leading(self) -> list[bool]:
        return [s == max(self.slope) for s in self.slope]

    @property
    def label(self) -> int:
        among = [b if lead else None for b, lead in zip(self.intercept, self.leading, strict=True)]
        best = max(b for b in among if b is not None)
        return among.index(best)


def far_field(module: nn.Module, origin: list[float], direction: list[float]) -> ExactFarField:
    """Evaluate ``module`` at infinity in rational germs."""
    seen = Decisions()
    start = [
        Line(Fraction(d), Fraction(o), abs(Fraction(d)), abs(Fraction(o)))
        for o, d in zip(origin, direction, strict=True)
    ]
    out = interpret(module, start, seen)
    top = max(out, key=lambda line: (line.slope, line.intercept))
    for line in out:
        if line is not top:
            ignored = Decisions()
            ignored.above(top, line)
            seen.margin = min(seen.margin, ignored.margin)
    slopes, intercepts = [line.slope for line in out], [line.intercept for line in out]
    sizes = [line.slope_size for line in out], [line.intercept_size for line in out]
    return ExactFarField(slopes, intercepts, seen.last, seen.margin, *sizes)


def value_at(
    module: nn.Module, origin: list[float], direction: list[float], t: Fraction
) -> tuple[list[Fraction], list[int]]:
    """Evaluate ``module`` exactly at ``origin + t * direction``; also list its decisions."""
    seen = Decisions()
    point = [Fraction(o) + t * Fraction(d) for o, d in zip(origin, direction, strict=True)]
    return interpret(module, point, seen), seen.outcomes


def limit_by_evaluation(
    module: nn.Module, origin: list[float], direction: list[float]
) -> tuple[list[Fraction], list[Fraction]]:
    """Slope and intercept from two exact evaluations beyond every breakpoint: no germs at all."""
    first, _ = value_at(module, origin, direction, FAR)
    second, _ = value_at(module, origin, direction, 2 * FAR)
    slope = [(b - a) / FAR for a, b in zip(first, second, strict=True)]
    return slope, [a - s * FAR for a, s in zip(first, slope, strict=True)]


def germ_by_floats(
    function: Any, origin: Tensor, direction: Tensor, t: float
) -> tuple[Tensor, Tensor]:
    """Slope and intercept from float64 evaluations at two large ``t``."""
    with torch.no_grad():
        first, second = function(origin + t * direction), function(origin + 2 * t * direction)
    slope = (second - first) / t
    return slope, first - slope * t
