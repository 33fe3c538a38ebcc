"""The walk over a network in affine forms: what each operation does to a Lipschitz bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.bounded import FUNCTION_ERROR, SLACK, gamma
from farfield.exact.piecewise import jumps
from farfield.graph.program import Step
from farfield.graph.rules import Affine, Number, Pieces, Places, Smooth
from farfield.guard.growth.form import Block, Form
from farfield.guard.growth.norms import convolution_norm, matrix_norm, schur_norm

# Linear maps whose matrix holds every weight as it is.
SINGLE_WEIGHTS = (F.linear, torch.matmul, torch.mul)
CONVOLUTION = torch.ops.aten.convolution.default


class GrowthDomain:
    """Lipschitz bounds through a network.

    Attributes:
        blocks: What is known of each block of unknown functions.
        roundoff: Unit roundoff of the type in which the model is evaluated.
        room: How many numbers the matrices of one value may hold; wider values are followed by
            norms alone.
        step: The step that is being walked, with its arguments.
    """

    def __init__(self, block: Block, roundoff: float, room: int) -> None:
        self.blocks = [block]
        self.roundoff, self.room = roundoff, room
        self.step: tuple[Step, tuple[Any, ...]] | None = None
        self._norms: dict[int, tuple[Tensor, float]] = {}

    def constant(self, tensor: Tensor) -> Form:
        """A constant does not move."""
        value = tensor[:1].double()
        return Form(value, (), torch.zeros_like(value), 0.0)

    def affine(self, operation: Affine, *values: Form) -> Form:
        """Act on the matrices exactly, and with sizes on what is loose."""
        magnitude = operation.magnitude or operation.function
        weights, sizes = operation.weights, [weight.abs() for weight in operation.weights]
        centre = operation.function(*(value.centre for value in values), *weights)
        parts = []
        for place in range(max(len(value.parts) for value in values)):
            rows = [_part(value, place, values) for value in values]
            # Some operations cannot infer shapes from no rows at all.
            some = len(rows[0]) > 0
            part = operation.function(*rows, *weights) if some else centre[:0]
            parts.append(part)
        loose = magnitude(*(value.loose for value in values), *sizes) * SLACK
        bounds = schur_norm(magnitude, [value.shape[1:] for value in values], sizes)
        norms = self._operator_norms(operation, bounds)
        if len(values) == 1 and (lengths := self._row_norms(operation, values[0])) is not None:
            loose = torch.minimum(loose, lengths * values[0].joint)
        joint = sum(norm * value.joint for norm, value in zip(norms, values, strict=True))
        form = Form(centre, tuple(parts), loose, joint, self._carried(norms, values))
        if operation.terms == 0:
            copied = len(values) == 1 and operation.magnitude is None
            source = (values[0], operation.function) if copied else None
            return replace(form, source=source)
        form = self._rounded(form, operation, values, sizes)
        if operation.offset is not None:
            form = _shifted(form, operation.offset)
        return self._evaluated(form, operation, bounds, values)

    def piecewise(self, value: Form, pieces: Pieces) -> Form:
        """Split slopes into their middle, which is known, and their spread, which is not."""
        if jumps(pieces):
            raise InputError(
                f"{self._place()} jumps, so no Lipschitz bound exists; pass growth=(offset, slope)"
            )
        slopes = [self._number(slope) for slope in pieces.slopes]
        low = slopes[0]
        high = slopes[0]
        for slope in slopes[1:]:
            low, high = torch.minimum(low, slope), torch.maximum(high, slope)
        centre = _evaluate(value.centre, pieces, slopes)
        return self._bent(value, centre, low, high, 2 * self.roundoff)

    def smooth(self, value: Form, curve: Smooth) -> Form:
        """Know a smooth function by the bound on its slope."""
        fastest = self._number(curve.lipschitz)
        roundoff = FUNCTION_ERROR / 2.0**-53 * self.roundoff
        return self._bent(value, curve.function(value.centre), -fastest, fastest, roundoff)

    def largest(
        self, candidates: Sequence[Form], sign: int = 1, places: Places | None = None
    ) -> Form:
        """A maximum moves no faster than the fastest of its candidates."""
        rates = torch.stack([each.rates(self.blocks) for each in candidates]).amax(dim=0)
        centres = torch.stack([each.centre for each in candidates])
        centre = centres.amax(dim=0) if sign > 0 else centres.amin(dim=0)
        factor, sources = _repeats(candidates)
        together = factor * math.hypot(*(each.speed(self.blocks) for each in sources))
        joint = min(together, float(rates.norm())) * SLACK
        error = tuple(factor * math.hypot(*(each.error[i] for each in sources)) for i in (0, 1))
        form = Form(centre, (), torch.zeros_like(rates), 0.0, (error[0], error[1]))
        return self._with_block(form, torch.ones_like(rates), rates, joint)

    def _bent(
        self, value: Form, centre: Tensor, low: Tensor, high: Tensor, roundoff: float
    ) -> Form:
        """``middle * f`` plus a block that moves ``spread`` times as fast as f."""
        middle = ((low + high) / 2).expand(value.shape)
        spread = ((high - low) / 2).expand(value.shape)
        rates, speed = value.rates(self.blocks), value.speed(self.blocks)
        fastest = float(torch.maximum(low.abs(), high.abs()).max())
        parts = tuple(part * middle for part in value.parts)
        largest = float(middle.abs().max())
        # A product rounds once; the exact middle of slopes such as 0.01 may not be a float.
        slip = 4 * 2.0**-53
        form = Form(
            centre,
            parts,
            value.loose * middle.abs() * SLACK + slip * rates * fastest,
            value.joint * largest * SLACK + slip * speed * fastest,
            (
                fastest * value.error[0] + roundoff * (float(centre.norm())),
                fastest * value.error[1] + roundoff * fastest * speed,
            ),
        )
        return self._with_block(form, spread, rates, speed)

    def _with_block(self, form: Form, spread: Tensor, rates: Tensor, speed: float) -> Form:
        """Add a new block times ``spread``: by unit where there is room, else to what is loose."""
        units = spread.numel()
        kept = sum(len(part) for part in form.parts)
        if (kept + units) * units > self.room:
            most = float(spread.abs().max())
            return form.with_loose(spread.abs() * rates, most * speed)
        self.blocks.append(Block(speed, rates.flatten().clone()))
        own = torch.diag(spread.flatten()).reshape(units, *form.shape[1:])
        missing = len(self.blocks) - 1 - len(form.parts)
        empty = [
            form.new_zeros((len(block.units), *form.shape[1:]))
            for block in self.blocks[len(form.parts) : len(form.parts) + missing]
        ]
        return replace(form, parts=(*form.parts, *empty, own))

    def _operator_norms(self, operation: Affine, bounds: list[float]) -> list[float]:
        """Bound the norm in every argument: singular values where there is a matrix."""
        if len(bounds) > 1 or not operation.weights:
            return bounds
        weight = operation.weights[0]
        if id(weight) not in self._norms:
            self._norms[id(weight)] = (weight, self._weight_norm(operation, weight))
        return [min(bounds[0], self._norms[id(weight)][1])]

    def _row_norms(self, operation: Affine, value: Form) -> Tensor | None:
        """Lengths of the rows of a linear map whose entries are single weights."""
        if not (self._is_convolution() or operation.function in SINGLE_WEIGHTS):
            return None
        ones = torch.ones_like(value.centre)
        squares = operation.function(ones, operation.weights[0].square())
        return squares.clamp(min=0.0).sqrt() * SLACK

    def _is_convolution(self) -> bool:
        return self.step is not None and self.step[0].target is CONVOLUTION

    def _weight_norm(self, operation: Affine, weight: Tensor) -> float:
        if self.step is not None and self._is_convolution():
            # A transposed convolution is the adjoint of the plain one with the same kernel.
            return convolution_norm(weight, self.step[1][3], self.step[1][8])
        product = operation.function in (F.linear, torch.matmul)
        return matrix_norm(weight) if weight.ndim == 2 and product else math.inf

    def _rounded(
        self, form: Form, operation: Affine, values: Sequence[Form], sizes: Sequence[Tensor]
    ) -> Form:
        """Add the rounding of this very computation, in float64, to what is loose."""
        magnitude = operation.magnitude or operation.function
        rates = magnitude(*(_sizes(value, self.blocks) for value in values), *sizes)
        slip = gamma(operation.terms) * rates
        return form.with_loose(slip, float(slip.norm()) * SLACK)

    def _carried(self, norms: Sequence[float], values: Sequence[Form]) -> tuple[float, float]:
        """Errors of evaluation after a linear map."""
        pairs = [value.error for value in values]
        return (
            sum(norm * pair[0] for norm, pair in zip(norms, pairs, strict=True)) * SLACK,
            sum(norm * pair[1] for norm, pair in zip(norms, pairs, strict=True)) * SLACK,
        )

    def _evaluated(
        self, form: Form, operation: Affine, bounds: Sequence[float], values: Sequence[Form]
    ) -> Form:
        """Add the rounding of the model's own evaluation, ``gamma_n |A| |f|`` and that of sums."""
        n = operation.terms + 2
        slip = n * self.roundoff / (1 - n * self.roundoff)
        still, moving = form.error
        for bound, value in zip(bounds, values, strict=True):
            still += slip * bound * (float(value.centre.norm()) + value.error[0]) * SLACK
            moving += slip * bound * (value.speed(self.blocks) + value.error[1]) * SLACK
        if operation.offset is not None:
            still += 2 * self.roundoff * float(form.centre.norm())
            moving += 2 * self.roundoff * form.speed(self.blocks)
        return replace(form, error=(still, moving))

    def _number(self, value: Number | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value.double()
        return torch.tensor(float(value), dtype=torch.float64)

    def _place(self) -> str:
        step = self.step[0] if self.step else None
        return f"{step.operation} in {step.source}" if step is not None else "an operation"


def _part(value: Form, place: int, values: Sequence[Form]) -> Tensor:
    """One matrix of a form, zero where it has none."""
    if place < len(value.parts):
        return value.parts[place]
    units = next(len(each.parts[place]) for each in values if place < len(each.parts))
    return value.new_zeros((units, *value.shape[1:]))


def _sizes(value: Form, blocks: Sequence[Block]) -> Tensor:
    """How fast each element could move if no two terms of its sums ever cancelled."""
    total = value.loose.clone()
    for part, block in zip(value.parts, blocks, strict=False):
        total += (block.units @ part.flatten(1).abs()).reshape(value.shape)
    return total


def _shifted(form: Form, offset: Tensor | float) -> Form:
    """Add an offset to the centre; one that carries rows has the same in each."""
    if isinstance(offset, Tensor) and offset.ndim == form.centre.ndim:
        offset = offset[:1]
    return replace(form, centre=form.centre + offset)


def _evaluate(values: Tensor, pieces: Pieces, slopes: Sequence[Tensor]) -> Tensor:
    result = slopes[0] * values + float(pieces.intercepts[0])
    for place, threshold in enumerate(pieces.thresholds, start=1):
        piece = slopes[place] * values + float(pieces.intercepts[place])
        result = torch.where(values > float(threshold), piece, result)
    return result


def _repeats(candidates: Sequence[Form]) -> tuple[float, list[Form]]:
    """How often an element of one common source appears, as a factor on lengths; the sources."""
    sources = [each.source for each in candidates]
    first = sources[0]
    if first is None or any(each is None or each[0] is not first[0] for each in sources):
        return 1.0, list(candidates)
    shape = first[0].shape
    names = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64).reshape(shape)
    taken = torch.cat([each[1](names).flatten() for each in sources if each is not None]).long()
    counts = torch.bincount(taken, minlength=2)[1:]
    # The same element twice in one window counts twice here, which is sound.
    return math.sqrt(int(counts.max())), [first[0]]
