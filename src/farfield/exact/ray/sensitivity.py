"""How much a remainder in each unit would count in the end, if it went through ``|W|`` from there.

What counts is the remainder of the logits, and on the way there that of every unit relative to its
distance from a kink: remainders that reach kinks make new ones.

Only a guide: it tells which waves are worth following. Whatever it says, enclosures stay sound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.exact.piecewise import OnlyPieces
from farfield.exact.ray.composed import Composed
from farfield.exact.ray.enclosure_domain import EnclosureDomain, act
from farfield.graph.program import Program, Step, walk
from farfield.graph.rules import (
    Affine,
    Pieces,
    Places,
)

# A mean remainder as large as the distance from kinks, in any layer, counts like this many logits.
TROUBLE = 2.0


@dataclass(frozen=True, eq=False)
class Size:
    """Sizes ``(1, *row)`` that remember where they came from.

    Attributes:
        tensor: The sizes.
        fresh: What was added since the first of two convolutions that sizes go through at once.
        source: The sizes before it.
        pair: The two.
    """

    tensor: Tensor
    fresh: Tensor | None = None
    source: Tensor | None = None
    pair: Composed | None = None

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor."""
        return self.tensor.shape

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.tensor.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros of the same type and on the same device."""
        return self.tensor.new_zeros(shape)


class SizeDomain(OnlyPieces[Size]):
    """The walk of sizes, with the slopes that a window had."""

    def __init__(self, window: EnclosureDomain) -> None:
        self.window = window
        self.slopes = iter(window.slopes)
        self.trouble: Tensor | float = 0.0

    def affine(self, operation: Affine, *values: Size) -> Size:
        """Multiply by the sizes of the weights."""
        magnitude = operation.magnitude or operation.function
        sizes = [self.window.single(weight)[1] for weight in operation.weights]
        first = values[0]
        if first.pair is not None and first.fresh is not None and first.source is not None:
            return Size(first.pair.size(first.source) + act(magnitude, [first.fresh], sizes))
        result = act(magnitude, [value.tensor for value in values], sizes)
        pair = self.window.pairs.get(id(operation.weights[0])) if sizes else None
        if pair is None or not pair.additions:
            return Size(result)
        fresh = torch.zeros_like(result, requires_grad=True)
        return Size(result + fresh, fresh, first.tensor, pair)

    def piecewise(self, value: Size, _: Pieces) -> Size:
        """Multiply by the slopes of the window; note how much closer units come to a kink."""
        slope, close = next(self.slopes)
        self.trouble = self.trouble + (value.tensor * close).mean()
        fresh = None if value.fresh is None else value.fresh * slope
        return Size(value.tensor * slope, fresh, value.source, value.pair)

    def largest(
        self, candidates: Sequence[Size], sign: int = 1, places: Places | None = None
    ) -> Size:
        """Take the largest size."""
        return Size(torch.stack([each.tensor for each in candidates]).amax(dim=0))

    def constant(self, tensor: Tensor) -> Size:
        """A constant has no remainder."""
        return Size(torch.zeros_like(tensor[:1]).float())


def sensitivity(
    program: Program, constants: Mapping[str, Tensor], window: EnclosureDomain, row: torch.Size
) -> dict[str, Tensor]:
    """For each value of a program, ``(1, *row)``: what one more in a unit's box adds to a logit.

    Args:
        program: The network, its rows free.
        constants: Its weights.
        window: The domain after a walk over a window.
        row: The shape of one input.
    """
    first = next(iter(constants.values()))
    start = torch.zeros(1, *row, device=first.device, requires_grad=True)
    seen: dict[str, Tensor] = {program.input: start}

    def look(step: Step, value: Any) -> None:
        if isinstance(value, Size) and value.tensor.requires_grad:
            own = value.tensor if value.fresh is None else value.fresh
            own.retain_grad()
            seen[step.name] = own

    with torch.enable_grad():
        domain = SizeDomain(window)
        out = walk(program, domain, Size(start), constants, look).tensor
        (out.mean() + TROUBLE * domain.trouble).backward()
    return {name: tensor.grad for name, tensor in seen.items() if tensor.grad is not None}
