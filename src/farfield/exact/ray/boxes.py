"""Boxes: cheap enclosures of a network over windows of ``t``, for thousands of rays at a time.

Over a window the value of a unit is a chord, affine in ``t``, up to a remainder that is no larger
than the box. That is :mod:`farfield.exact.ray.enclosure` without its waves: signs are forgotten, so
that boxes blow up in deep networks. In shallow ones they are enough to prove that a class which
leads by far is not lost, at the cost of three evaluations. All rounding is in the box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.exact.bounded import gamma
from farfield.exact.piecewise import OnlyPieces
from farfield.exact.ray.bend import Bend
from farfield.exact.ray.enclosure_domain import act, led
from farfield.graph.rules import Affine, Pieces, Places

# Rounding of a few operations, relative to the largest number in them.
TINY = 2.0**-48
SLACK = 1.0 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Boxed:
    """What a layer may be over several windows.

    Attributes:
        chord: ``(2 * windows, *row)`` starts of the chords, then their ends.
        box: ``(windows, *row)`` bounds on the remainder.
    """

    chord: Tensor
    box: Tensor

    @property
    def shape(self) -> torch.Size:
        """The shape of the chords."""
        return self.chord.shape

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.chord.device

    @property
    def ends(self) -> Tensor:
        """``(2, windows, *row)`` the ends of the chords."""
        return self.chord.reshape(2, *self.box.shape)

    @property
    def size(self) -> Tensor:
        """``(windows, 1, ...)`` the largest number of each window, without its sign."""
        most = self.ends.abs().flatten(2).amax(dim=(0, 2))
        return most.reshape(-1, *[1] * (self.box.ndim - 1))

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type and on the same device."""
        return self.chord.new_zeros(shape)

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Bounds ``(windows, *row)`` over each window."""
        start, stop = self.ends
        low, high = torch.minimum(start, stop), torch.maximum(start, stop)
        return low.sub_(self.box), high.add_(self.box)


@final
class BoxDomain(OnlyPieces[Boxed]):
    """The walk over windows.

    Attributes:
        products: How many products of weights and values were formed so far.
    """

    def __init__(self) -> None:
        self.products = 0.0
        self.windows = 0
        self._bends: dict[Pieces, Bend] = {}
        # Weights are kept beside their sizes, so that no other takes their place in memory.
        self._sizes: dict[int, tuple[Tensor, Tensor]] = {}

    def start(self, chord: Tensor, size: Tensor) -> Boxed:
        """Begin with chords ``(2 * windows, *input)``, rounded from numbers of a size."""
        self.windows = len(chord) // 2
        return Boxed(chord, TINY * size)

    def constant(self, tensor: Tensor) -> Boxed:
        """A constant does not move."""
        row = tensor[:1].double()
        chord = row.expand(2 * self.windows, *row.shape[1:])
        return Boxed(chord, torch.zeros_like(chord[: self.windows]))

    def affine(self, operation: Affine, *values: Boxed) -> Boxed:
        """Act on the chord, and with sizes on the box."""
        magnitude = operation.magnitude or operation.function
        chord = operation.function(*(value.chord for value in values), *operation.weights)
        sizes = [self._size(weight) for weight in operation.weights]
        terms = operation.terms
        if operation.weights:
            self.products += 3 * terms * self.windows * chord.shape[1:].numel()
        if terms == 0:
            return Boxed(chord, act(magnitude, [value.box for value in values], sizes))
        g = 2 * gamma(terms)
        inputs = [torch.add(value.box, g * value.size) for value in values]
        box = act(magnitude, inputs, sizes) * (SLACK + g)
        if operation.offset is not None:
            chord = chord + operation.offset
            box = box + g * Boxed(chord, box).size
        return Boxed(chord, box)

    def _size(self, weight: Tensor) -> Tensor:
        """A weight without its signs; kept for the next windows."""
        if id(weight) not in self._sizes:
            self._sizes[id(weight)] = (weight.abs(), weight)
        return self._sizes[id(weight)][0]

    def piecewise(self, value: Boxed, pieces: Pieces) -> Boxed:
        """Replace the function by a line where a unit may meet a kink."""
        if any(isinstance(slope, Tensor) for slope in pieces.slopes):
            return self.bend(value, Bend.of(pieces, value.chord))
        if pieces not in self._bends:
            self._bends[pieces] = Bend.of(pieces, value.chord)
        return self.bend(value, self._bends[pieces])

    def bend(self, value: Boxed, bend: Bend) -> Boxed:
        """Do the same for a function that may differ from unit to unit."""
        low, high = value.bounds()
        noise = TINY * (torch.maximum(-low, high).flatten(1).amax(dim=1) + 1)
        noise = noise.reshape(-1, *[1] * (low.ndim - 1))
        if not bend.is_relu:
            slope, shift, reach = bend.lines(low, high)
            moved = value.ends * slope if shift is None else value.ends * slope + shift
            return Boxed(moved.flatten(0, 1), value.box * slope.abs() + reach + noise)
        below = torch.clamp_min(low, 0.0)
        slope = (torch.clamp_min(high, 0.0) - below).div_((high - low).clamp_min_(1e-300))
        # Half of what the line through both ends is above the function: nothing without a kink.
        shift = below.addcmul_(slope, low, value=-1.0).mul_(0.5)
        chord = torch.addcmul(shift, value.ends, slope).flatten(0, 1)
        return Boxed(chord, torch.addcmul(shift.abs_() + noise, value.box, slope))

    def largest(
        self, candidates: Sequence[Boxed], sign: int = 1, places: Places | None = None
    ) -> Boxed:
        """Follow one candidate, and let the others exceed it by as much as they may."""
        leader = sign * torch.stack([each.ends.sum(dim=0) for each in candidates])
        leader = leader.argmax(dim=0)
        ends = led(leader, [each.ends for each in candidates])
        box = led(leader, [each.box for each in candidates])
        excess = torch.zeros_like(box)
        for place, each in enumerate(candidates):
            noise = TINY * (each.ends.abs() + ends.abs()).amax(dim=0)
            over = (sign * (each.ends - ends)).amax(dim=0) + each.box + box + noise
            excess = torch.where(leader == place, excess, torch.maximum(excess, over))
        ends = ends + sign * excess / 2
        noise = TINY * ends.abs().amax(dim=0)
        return Boxed(ends.flatten(0, 1), box + excess / 2 + noise)
