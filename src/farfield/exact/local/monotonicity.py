"""Component-wise strict monotonicity on a box: proven, refuted with two points, or undecided.

A function is component-wise strictly monotonic on an interval ``I_1 x ... x I_D`` if each partial
derivative of each output has one strict sign on all of it (*Know Your Limits*, Definition 3; first
version, Definition 6). At kinks, where a derivative does not exist, those of the regions on either
side count. With two inputs the question is settled exactly, region by region. With more, boxes are
split until an interval enclosure of the Jacobian proves a sign, two points refute it, or the budget
is spent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.local.intervals import Interval, IntervalDomain
from farfield.exact.local.region import linearize
from farfield.exact.piecewise import pick_instance, require_piecewise_affine
from farfield.exact.planar.plane import one_row, slice_plane, to_double
from farfield.graph.network import CHUNK_ELEMENTS, Network
from farfield.graph.program import Program, walk


@dataclass(frozen=True)
class Monotonicity:
    """In which inputs each logit is strictly monotonic on a box.

    Attributes:
        sign: ``(classes, inputs)``: 1 strictly increasing, -1 strictly decreasing, 0 not proven.
        broken: ``(classes, inputs)`` entries that are refuted: the derivative takes both signs, or
            is zero somewhere.
        lowest: ``(classes, inputs)`` the smallest derivative that was seen, and
        highest: ``(classes, inputs)`` the largest.
        lowest_at: ``(classes, inputs, inputs)`` a point where the smallest was seen, and
        highest_at: ``(classes, inputs, inputs)`` one where the largest was.
    """

    sign: Tensor
    broken: Tensor
    lowest: Tensor
    highest: Tensor
    lowest_at: Tensor
    highest_at: Tensor

    @property
    def undecided(self) -> Tensor:
        """``(classes, inputs)`` entries that are neither proven nor refuted."""
        return (self.sign == 0) & ~self.broken

    @property
    def holds(self) -> bool | None:
        """Whether the function is component-wise strictly monotonic; ``None`` if undecided."""
        if bool(self.broken.any()):
            return False
        return None if bool(self.undecided.any()) else True


def check_monotonicity(
    network: Network, low: Any, high: Any, *, instance: int | None = None, boxes: int = 4096
) -> Monotonicity:
    """Decide whether the logits are component-wise strictly monotonic on a box.

    A model with a single logit has one row of entries.

    Args:
        network: From :func:`farfield.capture`, piecewise affine.
        low: ``(*input,)`` the lower ends of the box.
        high: ``(*input,)`` the upper ends, above the lower ones.
        instance: Which instance, if the network has several.
        boxes: How many boxes to look at, at most, if there are more than two inputs.

    Returns:
        What is proven and what is refuted for each class and input.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
    >>> _ = nn.init.constant_(layer.weight[1], -1.0)
    >>> network = ff.capture(nn.Sequential(layer, nn.LeakyReLU(0.5)), torch.zeros(1, 2))
    >>> found = check_monotonicity(network, [-1.0, -1.0], [1.0, 1.0])
    >>> found.sign.tolist(), found.holds
    ([[1, 0], [-1, -1]], False)
    """
    require_piecewise_affine(network, "monotonicity on a box", continuous=True)
    program, constants = pick_instance(network, instance)
    bottom, top = one_row(network, low, "low"), one_row(network, high, "high")
    if not bool((bottom < top).all()):
        raise InputError("the box is empty: every entry of low must be below that of high")
    if math.prod(network.input_shape) == 2:
        return _by_regions(network, bottom, top, instance)
    weights = {name: to_double(tensor) for name, tensor in constants.items()}
    return _Search(network, instance, program, weights, bottom, top).run(boxes)


def _first(network: Network) -> int:
    """The first row of V that is the model's own: the zero logit of a sigmoid is not."""
    return 1 if network.one_logit else 0


def _by_regions(network: Network, low: Tensor, high: Tensor, instance: int | None) -> Monotonicity:
    """Look at every region of a box of two inputs."""
    axes = torch.eye(2, dtype=torch.float64).reshape(2, *network.input_shape)
    (left, bottom), (right, top) = low.flatten().tolist(), high.flatten().tolist()
    plane = slice_plane(
        network,
        torch.zeros_like(axes[0]),
        axes[0],
        axes[1],
        (left, right, bottom, top),
        instance=instance,
    )
    seen = _Seen(plane.slope[:, _first(network) :], plane.centres)
    sign = (seen.lowest > 0).int() - (seen.highest < 0).int()
    return Monotonicity(sign, sign == 0, seen.lowest, seen.highest, seen.lowest_at, seen.highest_at)


class _Seen:
    """The smallest and largest derivatives among those seen, and where."""

    def __init__(self, V: Tensor, points: Tensor) -> None:
        self.lowest, first = V.min(dim=0)
        self.highest, last = V.max(dim=0)
        self.lowest_at, self.highest_at = points[first], points[last]
        self.zero = (V == 0).any(dim=0)

    def update(self, other: _Seen) -> None:
        lower, higher = other.lowest < self.lowest, other.highest > self.highest
        self.lowest = torch.where(lower, other.lowest, self.lowest)
        self.highest = torch.where(higher, other.highest, self.highest)
        self.lowest_at = torch.where(lower[..., None], other.lowest_at, self.lowest_at)
        self.highest_at = torch.where(higher[..., None], other.highest_at, self.highest_at)
        self.zero = self.zero | other.zero

    @property
    def broken(self) -> Tensor:
        return self.zero | ((self.lowest < 0) & (self.highest > 0))


class _Search:
    """Split boxes until every entry is proven or refuted."""

    def __init__(
        self,
        network: Network,
        instance: int | None,
        program: Program,
        constants: Mapping[str, Tensor],
        low: Tensor,
        high: Tensor,
    ) -> None:
        self.network, self.instance = network, instance
        self.program, self.constants = program, constants
        self.low, self.high = low.flatten(1), high.flatten(1)
        self.inputs = self.low.shape[1]
        self.seen = self._look(self.low, self.high)

    def run(self, budget: int) -> Monotonicity:
        """Look at ``budget`` boxes at most."""
        low, high = self.low, self.high
        size = max(1, CHUNK_ELEMENTS // (self.program.width * (self.inputs + 1)))
        # Boxes wait in a stack: going deep first keeps it short.
        waiting = [(low, high)]
        unproven = torch.zeros_like(self.seen.zero)
        while waiting and not bool(self.seen.broken.all()):
            low, high = waiting.pop()
            if len(low) > size:
                waiting += [(low[size:], high[size:])]
                low, high = low[:size], high[:size]
            budget -= len(low)
            least, most = self._enclose(low, high)
            self.seen.update(self._look(low, high))
            open_ = (least <= 0) & (most >= 0) & ~self.seen.broken
            if budget <= 0:
                unproven |= open_.any(dim=0) | bool(waiting)
                break
            rest = open_.flatten(1).any(dim=1)
            if bool(rest.any()):
                waiting.append(self._split(low[rest], high[rest]))
        seen, broken = self.seen, self.seen.broken
        proven = ~broken & ~unproven
        sign = torch.where(proven, torch.sign(seen.lowest), 0.0).int()
        return Monotonicity(
            sign, broken, seen.lowest, seen.highest, seen.lowest_at, seen.highest_at
        )

    def _enclose(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds ``(boxes, classes, inputs)`` on the Jacobian over whole boxes."""
        shape = self.network.input_shape
        basis = torch.eye(self.inputs, dtype=low.dtype)[:, None].expand(-1, len(low), -1)
        start = Interval(
            *(torch.cat([basis, each[None]]).reshape(-1, *shape) for each in (low, high))
        )
        domain = IntervalDomain(self.inputs, len(low), low)
        with torch.no_grad():
            out = walk(self.program, domain, start, self.constants)
        bounds = [
            each.reshape(self.inputs + 1, len(low), -1)[:-1].permute(1, 2, 0)
            for each in (out.low, out.high)
        ]
        return bounds[0], bounds[1]

    def _look(self, low: Tensor, high: Tensor) -> _Seen:
        """The Jacobian at the centres of boxes."""
        centre = (low + high) / 2
        points = centre.reshape(-1, *self.network.input_shape)
        region = linearize(self.network, points, instance=self.instance)
        return _Seen(to_double(region.V[:, _first(self.network) :]), centre)

    def _split(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Halve boxes across their longest side, measured by the whole box."""
        longest = ((high - low) / (self.high - self.low)).argmax(dim=1, keepdim=True)
        middle = ((low + high) / 2).gather(1, longest)
        return (
            torch.cat([low, low.scatter(1, longest, middle)]),
            torch.cat([high.scatter(1, longest, middle), high]),
        )
