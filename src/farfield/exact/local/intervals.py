"""Intervals of values and derivatives over boxes: a sound enclosure of a network's Jacobian.

A box is a row. Each element carries an interval that holds its value on the whole box, and one for
its derivative by each input. Affine maps act on midpoints, and with ``|W|`` on radii, widened by
the bound on their rounding. At a kink the derivative is multiplied by every slope that the value's
interval touches; at a maximum it is any that a possible winner has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.bounded import gamma
from farfield.exact.leads import SLACK
from farfield.exact.piecewise import OnlyPieces
from farfield.graph.rules import Affine, Number, Pieces, Places


@dataclass(frozen=True, slots=True)
class Interval:
    """Lower and upper bounds: for each input the derivatives of all boxes, then the values."""

    low: Tensor
    high: Tensor

    @property
    def shape(self) -> torch.Size:
        """The shape of either tensor."""
        return self.low.shape

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.low.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type and on the same device."""
        return self.low.new_zeros(shape)


class IntervalDomain(OnlyPieces[Interval]):
    """The walk over boxes with ``inputs`` derivatives each."""

    def __init__(self, inputs: int, boxes: int, like: Tensor) -> None:
        self.numbers, self.boxes, self.like = inputs + 1, boxes, like

    def constant(self, tensor: Tensor) -> Interval:
        """A constant has no width and no derivative."""
        parts = self.like.new_zeros(self.numbers, self.boxes, *tensor.shape[1:])
        parts[-1] = tensor[:1].to(parts)
        return Interval(parts.flatten(0, 1), parts.flatten(0, 1))

    def affine(self, operation: Affine, *values: Interval) -> Interval:
        """Act on midpoints, and with sizes on radii."""
        magnitude = operation.magnitude or operation.function
        if operation.terms == 0 and operation.magnitude is None:
            return Interval(
                operation.function(*(v.low for v in values), *operation.weights),
                operation.function(*(v.high for v in values), *operation.weights),
            )
        middle = [(v.low + v.high) / 2 for v in values]
        radius = [(v.high - v.low) * (SLACK / 2) for v in values]
        sizes = [weight.abs() for weight in operation.weights]
        centre = operation.function(*middle, *operation.weights)
        g = gamma(operation.terms)
        spread = [r + g * (m.abs() + r) for r, m in zip(radius, middle, strict=True)]
        width = magnitude(*spread, *sizes) * SLACK
        if operation.offset is not None:
            offset = operation.offset
            if isinstance(offset, Tensor) and offset.ndim == centre.ndim:
                offset = offset[:1]
            start = (self.numbers - 1) * self.boxes
            centre, width = centre.clone(), width.clone()
            centre[start:] += offset
            width[start:] += g * centre[start:].abs()
        return Interval(centre - width, centre + width)

    def piecewise(self, value: Interval, pieces: Pieces) -> Interval:
        """Multiply derivatives by every slope that the value may meet."""
        low, high = self._parts(value)
        bottom, top = low[-1], high[-1]
        limits = [-torch.inf, *map(float, pieces.thresholds), torch.inf]
        rates, touched, floors, ceilings = [], [], [], []
        g = gamma(1)
        for index, intercept in enumerate(map(float, pieces.intercepts)):
            begin, end = limits[index], limits[index + 1]
            rate = self._number(pieces.slopes[index]).expand_as(bottom)
            products = torch.stack([rate * edge.clamp(begin, end) for edge in (bottom, top)])
            slack = g * (products.abs() + abs(intercept))
            floors.append((products + intercept - slack).amin(dim=0))
            ceilings.append((products + intercept + slack).amax(dim=0))
            rates.append(rate)
            touched.append((top >= begin) & (bottom <= end))
        missed = ~torch.stack(touched)
        slow = torch.stack(rates).masked_fill(missed, torch.inf).amin(dim=0)
        fast = torch.stack(rates).masked_fill(missed, -torch.inf).amax(dim=0)
        corners = torch.stack([low * slow, low * fast, high * slow, high * fast])
        least, most = corners.amin(dim=0), corners.amax(dim=0)
        least, most = least - g * least.abs(), most + g * most.abs()
        least[-1] = torch.stack(floors).masked_fill(missed, torch.inf).amin(dim=0)
        most[-1] = torch.stack(ceilings).masked_fill(missed, -torch.inf).amax(dim=0)
        return Interval(least.flatten(0, 1), most.flatten(0, 1))

    def largest(
        self, candidates: Sequence[Interval], sign: int = 1, places: Places | None = None
    ) -> Interval:
        """Take the hull of all candidates that may win."""
        pairs = [self._parts(each) for each in candidates]
        if sign < 0:
            pairs = [(-high, -low) for low, high in pairs]
        low, high = (torch.stack(side) for side in zip(*pairs, strict=True))
        floor = low[:, -1].amax(dim=0)
        may_win = (high[:, -1] >= floor)[:, None]
        least = low.masked_fill(~may_win, torch.inf).amin(dim=0)
        most = high.masked_fill(~may_win, -torch.inf).amax(dim=0)
        least[-1], most[-1] = floor, high[:, -1].amax(dim=0)
        if sign < 0:
            least, most = -most, -least
        return Interval(least.flatten(0, 1), most.flatten(0, 1))

    def _parts(self, value: Interval) -> tuple[Tensor, Tensor]:
        """Both bounds as ``(inputs + 1, boxes, ...)``."""
        shape = (self.numbers, self.boxes, *value.shape[1:])
        return value.low.reshape(shape), value.high.reshape(shape)

    def _number(self, value: Number | Tensor) -> Tensor:
        return value if isinstance(value, Tensor) else self.like.new_tensor(float(value))
