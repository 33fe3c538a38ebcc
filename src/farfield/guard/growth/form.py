"""Values as functions of the whitened input, known up to Lipschitz bounds.

Every value of a network is written as an *affine form*

    f(u) = centre + sum_b N_b r_b(u) + q(u),

where block 0 is the input itself (``r_0 = u``), each further block ``r_b`` holds the part of one
layer of activations that is not known, and ``q`` is what is not followed in detail. Affine
operations act on centre and the matrices N exactly, so neighbouring affine pieces merge. An
activation whose slope lies between ``m - w`` and ``m + w`` is ``m f`` plus w times a new block that
moves no faster than f. Known of each block are a Lipschitz bound for all of it together and one for
each of its units; a row of N meets whichever gives less. With the joint bounds alone this is the
bound of Combettes and Pesquet (2020) for averaged activations; the bounds by unit make it smaller
where weights are sparse or rows short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from farfield.exact.bounded import SLACK
from farfield.guard.growth.norms import matrix_norm


@dataclass(frozen=True)
class Block:
    """Unknown functions of the input: how fast all of them together move, and each alone."""

    joint: float
    units: Tensor


@dataclass(frozen=True, eq=False)
class Form:
    """One value of a network.

    Attributes:
        centre: ``(1, *shape)`` at ``u = 0``.
        parts: One matrix for each block that it has, ``(units of the block, *shape)``.
        loose: ``(1, *shape)`` how fast each element of q moves.
        joint: How fast all of q moves together.
        error: ``(at u = 0, per unit of |u|)``: how far floating-point evaluation can be off,
            all elements together.
        source: The form and the copying function it came from, if it is a copy.
    """

    centre: Tensor
    parts: tuple[Tensor, ...]
    loose: Tensor
    joint: float
    error: tuple[float, float] = (0.0, 0.0)
    source: tuple[Form, Callable[[Tensor], Tensor]] | None = field(default=None, repr=False)
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def shape(self) -> torch.Size:
        """The value's shape, with one row."""
        return self.centre.shape

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.centre.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type."""
        return self.centre.new_zeros(shape)

    def rates(self, blocks: Sequence[Block]) -> Tensor:
        """``(1, *shape)`` how fast each element moves."""
        if "rates" in self._known:
            return self._known["rates"]  # type: ignore[no-any-return]
        total = self.loose.clone()
        for part, block in zip(self.parts, blocks, strict=False):
            flat = part.flatten(1)
            together = flat.norm(dim=0) * block.joint
            alone = block.units @ flat.abs()
            total += torch.minimum(together, alone).reshape(self.shape)
        total *= SLACK
        self._known["rates"] = total
        return total

    def speed(self, blocks: Sequence[Block]) -> float:
        """How fast all elements together move."""
        if "speed" in self._known:
            return float(self._known["speed"])
        alone = float(self.rates(blocks).norm())
        together = min(self.joint, float(self.loose.norm())) + sum(
            matrix_norm(part.flatten(1)) * block.joint
            for part, block in zip(self.parts, blocks, strict=False)
        )
        self._known["speed"] = min(alone, together) * SLACK
        return float(self._known["speed"])

    def with_loose(self, more: Tensor, joint: float) -> Form:
        """The same form with a larger q."""
        return replace(self, loose=self.loose + more, joint=self.joint + joint)


def start(centre: Tensor, directions: Tensor, missed: float, tracked: bool) -> tuple[Form, Block]:
    """The input itself: ``x = mean + C' u``.

    Args:
        centre: ``(1, *input)`` the mean.
        directions: ``(units, *input)``, the rows of C.
        missed: A bound on ``|x - mean - C' u| / |u|``.
        tracked: Whether C is small enough to be followed through the network.
    """
    loose = torch.full_like(centre, missed)
    if tracked:
        block = Block(1.0, torch.ones(len(directions), dtype=torch.float64))
        return Form(centre, (directions,), loose, missed), block
    block = Block(1.0, torch.zeros(0, dtype=torch.float64))
    norms = directions.flatten(1).norm(dim=0).reshape(centre.shape)
    return Form(centre, (), loose + norms, missed + matrix_norm(directions.flatten(1))), block
