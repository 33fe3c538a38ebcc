"""The growth of small networks, direction by direction.

Far out a network is its bias-free self: ``|z_i - z_j| <= C + |s_i(u) - s_j(u)|``, where the slopes
``s`` are those at infinity and C bounds what biases can add (a walk with ``|W|``). The largest
slope over all directions is found by cutting the sphere into cones: within a cone of angle a,
slopes differ from the central one by at most ``L a``, L the network's Lipschitz constant. Cones
that cannot hold the maximum are dropped, the others split, until the bound is within a per cent of
a slope that was seen, or the budget is spent; it is sound at any time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from farfield.errors import FarfieldError
from farfield.exact.bounded import SLACK, gamma
from farfield.exact.infinity import at_infinity
from farfield.exact.piecewise import free_rows, jumps, require_piecewise_affine
from farfield.graph.network import Network
from farfield.graph.program import walk
from farfield.graph.rules import Affine, Pieces, Places, Smooth
from farfield.guard.growth.bound import Growth
from farfield.guard.whitening import Whitening

# Cones of more inputs do not shrink fast enough to pay.
MOST_INPUTS = 6
BUDGET = 200_000
CLOSE_ENOUGH = 1.01


def bound_by_cones(
    network: Network, metric: Whitening, lipschitz: Growth, *, budget: int = BUDGET
) -> Growth | None:
    """Bound growth from the slopes in all directions; ``None`` where that is not possible.

    Args:
        network: In float64.
        metric: Whitened units.
        lipschitz: The bound of :func:`bound_growth`, for the cones and for rounding.
        budget: How many directions to look at.
    """
    if math.prod(network.input_shape) > MOST_INPUTS:
        return None
    try:
        require_piecewise_affine(network, "the growth by cones", continuous=True)
        slope = _largest_slope(network, metric, lipschitz.slope, budget)
        offset = max(_offset(network, metric, index) for index in range(network.instances))
    except FarfieldError:
        return None
    return replace(lipschitz, method="direction cones", offset=offset, slope=slope, lipschitz=False)


def _largest_slope(network: Network, metric: Whitening, lipschitz: float, budget: int) -> float:
    """Branch and bound over the faces of a cube around the origin."""
    inputs = math.prod(network.input_shape)
    centres, widths = _faces(inputs)
    seen, dropped = 0.0, 0.0
    directions, _ = metric.inverse()
    while True:
        units = centres / centres.norm(dim=1, keepdim=True)
        rays = (units @ directions).reshape(-1, *network.input_shape)
        far = at_infinity(network, metric.mean.reshape(network.input_shape), rays)
        slopes = (far.slope.amax(dim=-1) - far.slope.amin(dim=-1)).amax(dim=0)
        # The cube lies outside of the unit ball, and projecting onto the ball shortens distances.
        reach = slopes + lipschitz * (widths.norm(dim=1) + 1e-12)
        seen = max(seen, float(slopes.max()))
        budget -= len(centres)
        goal = max(seen * CLOSE_ENOUGH, dropped, 1e-9 * lipschitz)
        open_ = reach > goal
        dropped = max(dropped, float(reach[~open_].max()) if bool((~open_).any()) else 0.0)
        if not bool(open_.any()):
            return dropped * (1 + 1e-9)
        if budget < 2 * int(open_.sum()):
            return max(dropped, float(reach.max())) * (1 + 1e-9)
        centres, widths = _split(centres[open_], widths[open_])


def _faces(inputs: int) -> tuple[Tensor, Tensor]:
    """Centres and half widths of the faces of the cube [-1, 1]^inputs."""
    centres = torch.cat([torch.eye(inputs), -torch.eye(inputs)]).double()
    return centres, 1.0 - centres.abs()


def _split(centres: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
    """Halve cells along their longest side."""
    side = torch.nn.functional.one_hot(widths.argmax(dim=1), widths.shape[1]).double()
    step = widths * side / 2
    return torch.cat([centres - step, centres + step]), (widths - step).repeat(2, 1)


@dataclass(frozen=True)
class _Shift:
    """How far a value is from its bias-free self: a known part, and a bound on the rest."""

    known: Tensor
    rest: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.known.shape

    @property
    def device(self) -> torch.device:
        return self.known.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        return self.known.new_zeros(shape)

    def size(self) -> Tensor:
        return (self.known.abs() + self.rest) * SLACK


class _ShiftDomain:
    """The walk over what biases add."""

    def constant(self, tensor: Tensor) -> _Shift:
        value = tensor[:1].double()
        return _Shift(value, torch.zeros_like(value))

    def affine(self, operation: Affine, *values: _Shift) -> _Shift:
        magnitude = operation.magnitude or operation.function
        sizes = [weight.abs() for weight in operation.weights]
        known = operation.function(*(v.known for v in values), *operation.weights)
        rest = magnitude(*(v.rest + gamma(operation.terms) * v.size() for v in values), *sizes)
        offset = operation.offset
        if offset is not None:
            if isinstance(offset, Tensor) and offset.ndim == known.ndim:
                offset = offset[:1]
            known = known + offset
        return _Shift(known, rest * SLACK)

    def piecewise(self, value: _Shift, pieces: Pieces) -> _Shift:
        if jumps(pieces):
            raise AssertionError("jumps are refused before the walk")
        fastest = torch.stack([torch.as_tensor(s).double().abs().amax() for s in pieces.slopes])
        rest = value.size() * float(fastest.max()) + _bend(pieces)
        return _Shift(torch.zeros_like(rest), rest)

    def largest(
        self, candidates: Sequence[_Shift], sign: int = 1, places: Places | None = None
    ) -> _Shift:
        rest = torch.stack([each.size() for each in candidates]).amax(dim=0)
        return _Shift(torch.zeros_like(rest), rest)

    def smooth(self, value: _Shift, curve: Smooth) -> _Shift:
        raise AssertionError("smooth operations are refused before the walk")


def _bend(pieces: Pieces) -> float:
    """How far a function is at most from its slopes at either end, taken from zero."""
    edges = [0.0, *map(float, pieces.thresholds)]
    first, last = (torch.as_tensor(pieces.slopes[end]).double() for end in (0, -1))
    most = max(abs(float(pieces.intercepts[0])), abs(float(pieces.intercepts[-1])))
    for edge in edges:
        place = sum(edge > float(threshold) for threshold in pieces.thresholds)
        slope = torch.as_tensor(pieces.slopes[place]).double()
        value = slope * edge + float(pieces.intercepts[place])
        apart = value - (last if edge > 0 else first) * edge
        most = max(most, float(apart.abs().max()))
    return most * SLACK


def _offset(network: Network, metric: Whitening, index: int) -> float:
    """What biases, and where the data is, add to a difference of logits at most."""
    group = next(g for g in network.groups if index in g.members)
    constants: Mapping[str, Tensor] = group.instance(group.members.index(index))
    weights = {n: v.double() if v.is_floating_point() else v for n, v in constants.items()}
    mean = metric.mean.reshape(1, *network.input_shape)
    shift = walk(
        free_rows(group.program), _ShiftDomain(), _Shift(mean, torch.zeros_like(mean)), weights
    )
    sizes = shift.size().flatten()
    return float(sizes.max() if network.one_logit else sizes.topk(2).values.sum())
