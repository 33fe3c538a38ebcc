"""Jets: values that are affine in a few coordinates, row by row.

A jet holds several numbers per element: how the value changes along each coordinate, and last the
value itself at a base point. An affine map acts on all of them alike, its offset on values alone.
At a kink every row takes one piece of each unit, and at a maximum one winner; what distinguishes
the analyses built on this is only *how they decide*, and what they note about the decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.errors import UnsupportedOperation
from farfield.exact.germ import Parts, is_relu
from farfield.graph.growth import Growth, unused
from farfield.graph.rules import Affine, Number, Pieces, Places, RowFunction, Smooth, Steps


@dataclass(frozen=True, slots=True)
class Jet(Parts):
    """Affine functions in one tensor: the first numbers of all rows, then the second, and so on.

    ``age`` counts how often the rows had been divided when the value was made.
    """

    age: int = 0


class Undivided:
    """What a walk does beside taking decisions: nothing, unless rows must be divided or noted."""

    def divide_at_kinks(self, value: Jet, pieces: Pieces) -> None:
        """Make every row lie on one piece of each unit; a single point always does."""

    def divide_at_ties(self, candidates: Sequence[Jet], sign: int) -> None:
        """Make every row have one winner for each unit; a single point always does."""

    def divide_at_steps(self, value: Jet, steps: Steps) -> None:
        """Make every row lie in one interval of each output; a single point always does."""

    def note_pieces(self, parts: Tensor, pieces: Pieces, above: Sequence[Tensor]) -> None:
        """See each decision: whether ``parts`` is above each threshold."""

    def note_winner(self, candidates: Tensor, winner: Tensor, places: Places | None) -> None:
        """See each decision: which candidate won."""

    def note_steps(self, parts: Tensor, steps: Steps, places: Tensor) -> None:
        """See each decision: in which interval of its output each column lies."""


class JetDomain(Undivided, ABC):
    """A walk with jets.

    Attributes:
        numbers: How many numbers a jet holds per element.
        values: How many of them, at the end, are values at points; the others are changes.
        rows: How many rows there are, by now.
        like: A tensor of the analysis type and device.
    """

    def __init__(self, numbers: int, rows: int, like: Tensor, values: int = 1) -> None:
        self.numbers = numbers
        self.values = values
        self.rows = rows
        self.like = like

    @abstractmethod
    def winner(self, candidates: Tensor) -> Tensor:
        """Which of ``(candidates, numbers, rows, units)`` is largest: the first of those."""

    @abstractmethod
    def representative(self, parts: Tensor) -> Tensor:
        """A number ``(rows, ...)`` that compares with any constant as the value does."""

    def exceeds(self, parts: Tensor, threshold: float) -> Tensor:
        """Whether ``(numbers, rows, ...)`` counts as above a constant."""
        return self.representative(parts) > threshold

    def current(self, value: Jet) -> Tensor:
        """The value on the rows as they are now, ``(numbers, rows, ...)``."""
        return value.parts.reshape(self.numbers, -1, *value.parts.shape[1:])

    def jet(self, parts: Tensor) -> Jet:
        """A value ``(numbers, rows, ...)`` on the rows as they are now."""
        return Jet(parts.flatten(0, 1))

    def constant(self, tensor: Tensor) -> Jet:
        """A constant that has a row for each row, all alike."""
        parts = self.like.new_zeros(self.numbers, self.rows, *tensor.shape[1:])
        parts[-self.values :] = tensor[:1].to(parts)
        return self.jet(parts)

    def affine(self, operation: Affine, *values: Jet) -> Jet:
        """Act on all numbers alike; the offset goes to the values alone."""
        inputs = [self.current(value).flatten(0, 1) for value in values]
        parts = operation.function(*inputs, *operation.weights)
        parts = parts.reshape(self.numbers, self.rows, *parts.shape[1:])
        if operation.offset is None:
            return self.jet(parts)
        offset = operation.offset
        if isinstance(offset, Tensor) and offset.ndim == parts.ndim - 1:
            offset = offset[:1]
        if operation.weights and not parts.requires_grad:
            parts[-self.values :].add_(offset)
            return self.jet(parts)
        return self.jet(self.shifted(parts, offset))

    def piecewise(self, value: Jet, pieces: Pieces) -> Jet:
        """Take the piece that each row lies on."""
        self.divide_at_kinks(value, pieces)
        parts = self.current(value)
        above = [self.exceeds(parts, float(threshold)) for threshold in pieces.thresholds]
        self.note_pieces(parts, pieces, above)
        if is_relu(pieces):
            return self.jet(parts * above[0].to(parts))
        slope, intercept = self.number(pieces.slopes[0]), self.number(pieces.intercepts[0])
        for index, over in enumerate(above, start=1):
            slope = torch.where(over, self.number(pieces.slopes[index]), slope)
            intercept = torch.where(over, self.number(pieces.intercepts[index]), intercept)
        return self.jet(self.shifted(parts * slope, intercept))

    def largest(
        self, candidates: Sequence[Jet], sign: int = 1, places: Places | None = None
    ) -> Jet:
        """Take the winner of each row."""
        self.divide_at_ties(candidates, sign)
        stacked = self.stack(candidates, sign)
        winner = self.winner(stacked)
        self.note_winner(stacked, winner, places)
        best = stacked.gather(0, winner.expand(1, self.numbers, *winner.shape))[0] * sign
        return self.jet(best.unflatten(2, candidates[0].shape[1:]))

    def stack(self, candidates: Sequence[Jet], sign: int) -> Tensor:
        """All candidates, turned over for a minimum, ``(candidates, numbers, rows, units)``."""
        parts = [self.current(each) for each in candidates]
        return torch.stack([part.reshape(*part.shape[:2], -1) for part in parts]) * sign

    def steps(self, value: Jet, steps: Steps) -> Jet:
        """Take the value on the interval that each column lies in; between jumps it rests."""
        self.divide_at_steps(value, steps)
        parts = self.current(value)[..., steps.columns]
        places = self.intervals(parts, steps)
        self.note_steps(parts, steps, places)
        return self.at_rest(steps.heights(places))

    def choice(self, mask: Jet, yes: Jet, no: Jet) -> Jet:
        """Take the value that a mask says; rows were divided when that was made."""
        taken = self.current(mask)[-1] > 0.5
        return self.jet(torch.where(taken, self.current(yes), self.current(no)))

    def row_function(self, value: Jet, function: RowFunction) -> Jet:
        """Apply a function to rows at rest."""
        rows = self._rest(value, f"{type(function).__name__}, a function of whole rows,")
        # Neighbours often agree: a jump changes a few columns, and mostly not those seen here.
        fresh = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        fresh[1:] = (rows[1:] != rows[:-1]).any(dim=1)
        return self.at_rest(function(rows[fresh])[fresh.cumsum(0) - 1])

    def grow(self, operation: Growth, *values: Jet) -> Jet:
        """What changes growth is refused before the walk begins."""
        raise unused(operation)

    def smooth(self, value: Jet, curve: Smooth) -> Jet:
        """Apply a smooth function to values at rest."""
        return self.at_rest(curve.function(self._rest(value, "a smooth function")))

    def intervals(self, parts: Tensor, steps: Steps) -> Tensor:
        """``(rows, outputs)`` the interval of each output that ``(numbers, rows, outputs)`` is in.

        It is that of a number that compares with every constant as the value does.
        """
        return steps.intervals(self.representative(parts).double())

    def at_rest(self, values: Tensor) -> Jet:
        """Values that do not change, ``(rows, ...)``, as a jet."""
        parts = self.like.new_zeros(self.numbers, *values.shape)
        parts[-self.values :] = values.to(parts)
        return self.jet(parts)

    def _rest(self, value: Jet, what: str) -> Tensor:
        """The values of a jet that does not change, ``(rows, ...)``."""
        parts = self.current(value).detach()
        moving = (parts[: -self.values] != 0).any() | (parts[-self.values :] != parts[-1]).any()
        if bool(moving):
            raise UnsupportedOperation(
                f"{what} stands behind values that change within a region of the model, so that "
                "it has no affine pieces there; use at_infinity"
            )
        return parts[-1]

    def shifted(self, parts: Tensor, offset: Tensor | float) -> Tensor:
        """Add an offset to the values of ``(numbers, rows, ...)``, not to the changes."""
        return torch.cat([parts[: -self.values], parts[-self.values :] + offset])

    def number(self, value: Number | Tensor) -> Tensor:
        """A parameter in the type of the analysis."""
        return value if isinstance(value, Tensor) else self.like.new_tensor(float(value))


class PointDomain(JetDomain):
    """The walk around points: jets with the value at a point last."""

    def representative(self, parts: Tensor) -> Tensor:
        """Decide at the point; a threshold belongs to the lower piece."""
        return parts[-1].detach()

    def winner(self, candidates: Tensor) -> Tensor:
        """Decide at the point."""
        return candidates[:, -1].argmax(dim=0)
