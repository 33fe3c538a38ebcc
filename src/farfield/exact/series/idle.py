"""Weights that have no part in what a network says far out.

In a pre-norm network the blocks add values at rest to a stream that grows, and the last norm
divides by what grows: the limit is the head of the norm of the embedded direction, and depth drops
out. Whether that is so is not told from the form of a network but tried: weights are changed, and
limits that do not change do not depend on them. Halves are halved where something does change, so
that few walks tell neighbours apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from farfield.errors import FarfieldError
from farfield.exact.far_field import FarField
from farfield.exact.infinity import at_infinity
from farfield.graph.network import Network

# How much weights are changed, as a share of each, and which change of a limit is rounding.
CHANGE, ROUNDING = 0.01, 1e-10


def idle_weights(
    network: Network, origins: Tensor, directions: Tensor, *, most_walks: int = 64
) -> int | None:
    """Count weights that no limit depends on, on some rays.

    Args:
        network: The network.
        origins: ``(rays, *input)``.
        directions: ``(rays, *input)``.
        most_walks: How often the network may be followed; what is open then counts as having a
            part.

    Returns:
        How many numbers have no part in the limits; ``None`` if logits grow on some ray, so that
        they have none.
    """
    far = at_infinity(network, origins, directions, undecided="mark")
    if bool((far.order > 0).any()) or bool(far.undecided.any()):
        return None
    walks = _Walks(network, far, origins, directions, most_walks)
    return sum(walks.idle(place, _weights(network, place)) for place in range(len(network.groups)))


def _weights(network: Network, place: int) -> list[str]:
    """The names of weights of some instances, in the order in which they are read."""
    group = network.groups[place]
    held = {**group.shared, **group.stacked}
    read = (name for step in group.program.steps for name in step.refs() if name in held)
    return [name for name in dict.fromkeys(read) if held[name].is_floating_point()]


class _Walks:
    """Follows a network with some of its weights changed, as often as it may."""

    def __init__(
        self, network: Network, far: FarField, origins: Tensor, directions: Tensor, most: int
    ) -> None:
        self._network = network
        self._limits = far.intercept
        self._rays = origins, directions
        self._left = most

    def idle(self, place: int, names: Sequence[str]) -> int:
        """How many numbers among some weights have no part in the limits."""
        if not names or self._left < 1:
            return 0
        self._left -= 1
        if not self._differs(place, names):
            group = self._network.groups[place]
            held = {**group.shared, **group.stacked}
            return sum(held[name].numel() for name in names)
        if len(names) == 1:
            return 0
        middle = len(names) // 2
        return sum(self.idle(place, half) for half in (names[:middle], names[middle:]))

    def _differs(self, place: int, names: Sequence[str]) -> bool:
        """Whether limits change with some weights."""
        group = self._network.groups[place]
        changed = replace(
            group, shared=_changed(group.shared, names), stacked=_changed(group.stacked, names)
        )
        groups = list(self._network.groups)
        groups[place] = changed
        other = replace(self._network, groups=tuple(groups))
        try:
            far = at_infinity(other, *self._rays, undecided="mark")
        except FarfieldError:
            return True
        if bool((far.order > 0).any()) or bool(far.undecided.any()):
            return True
        gap = (far.intercept - self._limits).abs()
        return bool((gap > ROUNDING * (1 + self._limits.abs())).any())


def _changed(weights: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Some weights, each number changed by another share of it, and of their mean size."""
    generator = torch.Generator().manual_seed(0)
    found = dict(weights)
    for name in names:
        if name in found:
            tensor = found[name]
            drawn = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            sizes = tensor.masked_fill(tensor.isinf(), 0.0).abs()
            # Zeros are weights, too: biases that were never trained.
            sizes = sizes + (sizes.mean() if bool(sizes.any()) else 1.0)
            found[name] = tensor + CHANGE * drawn.to(tensor.device) * sizes
    return found
