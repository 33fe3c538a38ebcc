"""What each unit with a kink counts for in every output, with its sign, if slopes are held fixed.

Let ``s`` be any slopes of all functions with kinks. The remainder of a network over a window, what
it is away from its chord, then obeys, layer by layer, ``r' = W r`` and ``r' = s r + d``, where
``d`` is what the slope misses; so the remainder of an output is a sum over all units of ``d`` times
the output's derivative in the network with these slopes. One walk back finds the derivatives, and
they serve as many windows as one likes: the more slopes have changed since, the more is missed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from farfield.exact.piecewise import OnlyPieces
from farfield.exact.ray.enclosure_domain import act, led
from farfield.exact.ray.remainder import Adjoint
from farfield.exact.ray.sensitivity import Size
from farfield.graph.program import Program, walk
from farfield.graph.rules import Affine, Pieces, Places


class AdjointDomain(OnlyPieces[Size]):
    """The walk with fixed slopes, one row for each output, which remembers what it adds where.

    Args:
        slopes: What each function with kinks multiplies by; for a maximum, which candidate leads.
    """

    def __init__(self, slopes: Sequence[Tensor]) -> None:
        self.slopes = iter(slopes)
        self.missed: list[Tensor] = []
        self.sums: list[Tensor] = []
        self.norms: list[float] = []

    def start(self, rows: Tensor) -> Size:
        """Begin with rows of zeros, one for each output."""
        self.rows = len(rows)
        return self._site(rows.requires_grad_(), 1.0)

    def affine(self, operation: Affine, *values: Size) -> Size:
        """Act with signs."""
        data = [value.tensor for value in values]
        result = act(operation.function, data, operation.weights)
        with torch.no_grad():
            magnitude = operation.magnitude or operation.function
            ones = [torch.ones_like(rows[:1]) for rows in data]
            norm = act(magnitude, ones, [weight.abs() for weight in operation.weights])
        return self._site(result, float(norm.amax()) if norm.numel() else 0.0)

    def piecewise(self, value: Size, _: Pieces) -> Size:
        """Multiply by the slope; what that misses is a value of its own."""
        return self.bend(value)

    def bend(self, value: Size) -> Size:
        """Do the same for a function that is no operation of the program."""
        slope = next(self.slopes)
        missed = torch.zeros_like(value.tensor, requires_grad=True)
        self.missed.append(missed)
        return self._site(value.tensor * slope + missed, float(slope.abs().amax()))

    def largest(
        self, candidates: Sequence[Size], sign: int = 1, places: Places | None = None
    ) -> Size:
        """Follow the candidate that leads."""
        leader = next(self.slopes)
        result = led(leader, [each.tensor for each in candidates])
        missed = torch.zeros_like(result, requires_grad=True)
        self.missed.append(missed)
        return self._site(result + missed, 1.0)

    def constant(self, tensor: Tensor) -> Size:
        """A constant has no remainder."""
        return Size(torch.zeros_like(tensor[:1]).double().expand(self.rows, *tensor.shape[1:]))

    def _site(self, result: Tensor, norm: float) -> Size:
        """Note, on the way back, what all units of a value count for together."""
        place = len(self.sums)
        self.sums.append(result.new_zeros(len(result)))
        self.norms.append(norm)
        if result.requires_grad:
            result.register_hook(lambda gradient: self._sum(place, gradient))
        return Size(result)

    def _sum(self, place: int, gradient: Tensor) -> None:
        self.sums[place] = gradient.abs().reshape(len(gradient), -1).sum(dim=1)


def adjoint(
    program: Program, constants: Mapping[str, Tensor], slopes: Sequence[Tensor], *, clipped: bool
) -> Adjoint:
    """Find the derivatives of all outputs with respect to what slopes miss.

    Args:
        program: The network, its rows free.
        constants: Its weights, in float64.
        slopes: ``(1, *row)`` for each function with kinks, in order.
        clipped: Whether the first of them is applied to the input.
    """
    outputs = math.prod(program.output_shape)
    first = next(iter(constants.values()))
    with torch.enable_grad():
        domain = AdjointDomain(slopes)
        rows = torch.zeros(outputs, *program.input_shape, dtype=torch.float64, device=first.device)
        value = domain.start(rows)
        if clipped:
            value = domain.bend(value)
        out = walk(program, domain, value, constants).tensor.reshape(outputs, outputs)
        # Adding zero times the input: an output may depend on nothing at all.
        total = out.diagonal().sum() + 0.0 * rows.sum()
        effects = torch.autograd.grad(total, domain.missed, materialize_grads=True)
    return Adjoint(
        tuple(slopes),
        tuple(effect.reshape(outputs, -1) for effect in effects),
        tuple(domain.norms),
        torch.stack(domain.sums).detach(),
    )
