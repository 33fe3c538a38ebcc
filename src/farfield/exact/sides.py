"""From which side values approach their limits: what a jump that is met at a limit hangs on.

A smooth function only approaches its asymptote, so a value is ``slope * t + intercept + rest`` with
a ``rest`` that tends to zero. Continuous functions do not care. A jump does: ``x if x > 1 else 5``
of a value that tends to 1 is 1 in the limit if the value comes from above, and 5 if it comes from
below. :class:`SideDomain` wraps another walk and carries along whether each rest may be positive
and whether it may be negative, for all large ``t``:

* an affine map adds rests up, so that equal signs stay and different signs are unknown;
* a piecewise-affine function multiplies the rest with the slope of its piece;
* the largest of tied candidates has the largest rest;
* a smooth function that moves adds the side of its own asymptote.

Where a jump is met and the side is unknown, the ray is *undecided*, and said to be so.
Only programs with a jump behind a smooth function are walked like this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from farfield.exact.piecewise import function_of, jumps
from farfield.graph.growth import Growth, unused
from farfield.graph.program import Program, Step
from farfield.graph.rules import (
    RULES,
    Affine,
    Domain,
    Number,
    Pieces,
    Places,
    RowFunction,
    Smooth,
    Steps,
)

NEGATION = Affine(torch.neg, magnitude=lambda rows: rows)
DIFFERENCE = Affine(torch.sub, terms=2, magnitude=torch.add)


class Followed(Protocol):
    """What values of any walk have."""

    @property
    def shape(self) -> Sequence[int]:
        """Rows first: those of the slopes, then those of the intercepts."""

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros to build constants from."""


G = TypeVar("G", bound=Followed)


class Inner(Domain[G], Protocol[G]):
    """A walk at infinity that can tell where its values stand."""

    rays: int

    def steps_from_above(self, value: G, steps: Steps) -> tuple[G, Tensor]:
        """Steps of values that come from above, and ``(rays, outputs)`` where that matters."""

    def compare(self, value: G, threshold: Number) -> Tensor:
        """``(rays, ...)``: 1, 0 or -1 as the germ is above, at or below a constant."""

    def motion(self, value: G) -> Tensor:
        """``(rays, ...)``: the sign of the slope."""

    def choose(self, condition: Tensor, yes: G, no: G) -> G:
        """One value where a ``(rays, ...)`` condition holds, another elsewhere."""


@dataclass(frozen=True, slots=True)
class Sided(Generic[G]):
    """A value, and whether its rest may be positive (first rows) and negative (last rows)."""

    value: G
    rests: Tensor

    @property
    def shape(self) -> Sequence[int]:
        """The shape of the value."""
        return self.value.shape

    @property
    def device(self) -> torch.device:
        """Where the numbers live."""
        return self.value.device

    def new_zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Zeros to build constants from."""
        return self.value.new_zeros(shape)

    @property
    def over(self) -> Tensor:
        """``(rays, ...)`` whether the rest may be positive."""
        return self.rests[: len(self.rests) // 2]

    @property
    def under(self) -> Tensor:
        """``(rays, ...)`` whether the rest may be negative."""
        return self.rests[len(self.rests) // 2 :]


class SideDomain(Generic[G]):
    """Another walk, and the sides from which its values approach their limits.

    Attributes:
        inner: The walk that follows the values.
        undecided: ``(rays,)`` whether a jump was met from a side that is not known.
    """

    def __init__(self, inner: Inner[G], device: torch.device) -> None:
        self.inner = inner
        self.undecided = torch.zeros(inner.rays, dtype=torch.bool, device=device)

    def exactly(self, value: G) -> Sided[G]:
        """A value without a rest."""
        shape = tuple(value.shape)
        return Sided(value, torch.zeros(shape, dtype=torch.bool, device=value.device))

    def constant(self, tensor: Tensor) -> Sided[G]:
        """A constant has no rest."""
        return self.exactly(self.inner.constant(tensor))

    def affine(self, operation: Affine, *values: Sided[G]) -> Sided[G]:
        """Add rests up by sign: ``|W| r + W r`` is twice what positive weights contribute."""
        result = self.inner.affine(operation, *(each.value for each in values))
        magnitude = operation.magnitude or operation.function
        signs = [weight.double().sign() for weight in operation.weights]
        rests = [each.rests.double() for each in values]
        signed = operation.function(*rests, *signs)
        sizes = magnitude(*rests, *(sign.abs() for sign in signs))
        over, under = (sizes + signed).unflatten(0, (2, -1))
        from_over, from_under = (sizes - signed).unflatten(0, (2, -1))
        return _sided(result, over + from_under > 0, under + from_over > 0)

    def piecewise(self, value: Sided[G], pieces: Pieces) -> Sided[G]:
        """Take the piece on the side of a tie from which the value comes."""
        result = self.inner.piecewise(value.value, pieces)
        slope = self._sign_of(pieces.slopes[0])
        unknown = torch.zeros_like(value.over)
        for index, threshold in enumerate(pieces.thresholds):
            place = self.inner.compare(value.value, threshold)
            tie = place == 0
            from_above = tie & value.over & ~value.under
            unknown = unknown | (tie & value.over & value.under)
            slope = torch.where(
                (place > 0) | from_above, self._sign_of(pieces.slopes[index + 1]), slope
            )
            if _jumps_at(pieces, index):
                self._doubt(tie & value.over & value.under)
                upper = self._from_above(value.value, pieces)
                result = self.inner.choose(from_above, upper, result)
        over = ((slope > 0) & value.over) | ((slope < 0) & value.under) | unknown
        under = ((slope > 0) & value.under) | ((slope < 0) & value.over) | unknown
        return _sided(result, over, under)

    def _from_above(self, value: G, pieces: Pieces) -> G:
        """The same function with its thresholds on the upper pieces: turn it round twice."""
        turned = Pieces(
            tuple(-threshold for threshold in reversed(pieces.thresholds)),
            tuple(-slope for slope in reversed(pieces.slopes)),
            tuple(reversed(pieces.intercepts)),
        )
        return self.inner.piecewise(self.inner.affine(NEGATION, value), turned)

    @staticmethod
    def _sign_of(slope: Number | Tensor) -> Tensor:
        return torch.sign(slope if isinstance(slope, Tensor) else torch.tensor(float(slope)))

    def largest(
        self, candidates: Sequence[Sided[G]], sign: int = 1, places: Places | None = None
    ) -> Sided[G]:
        """Give the winner the largest rest of those that tie with it."""
        result = self.inner.largest([each.value for each in candidates], sign, places)
        ahead, open_, exact = (torch.zeros_like(candidates[0].over) for _ in range(3))
        for each in candidates:
            gap = self.inner.affine(DIFFERENCE, result, each.value)
            tie = self.inner.compare(gap, 0.0) == 0
            better, worse = (each.over, each.under) if sign > 0 else (each.under, each.over)
            ahead = ahead | (tie & better & ~worse)
            open_ = open_ | (tie & better & worse)
            exact = exact | (tie & ~better & ~worse)
        better = ahead | open_
        worse = ~ahead & (open_ | ~exact)
        return _sided(result, *((better, worse) if sign > 0 else (worse, better)))

    def smooth(self, value: Sided[G], curve: Smooth) -> Sided[G]:
        """Approach the asymptote where the value moves; keep the side where it rests."""
        result = self.inner.smooth(value.value, curve)
        motion = self.inner.motion(value.value)
        resting = (value.over, value.under)
        if not curve.rises:
            resting = (value.over | value.under,) * 2
        over, under = resting
        for end, here in ((curve.above, motion > 0), (curve.below, motion < 0)):
            parts = (value.over, value.under) if end.slope > 0 else (value.under, value.over)
            kept = [part & (end.slope != 0) for part in parts]
            over = torch.where(here, kept[0] | (end.side > 0), over)
            under = torch.where(here, kept[1] | (end.side < 0), under)
        return _sided(result, over, under)

    def steps(self, value: Sided[G], steps: Steps) -> Sided[G]:
        """Take the interval on the side of a tie from which the value comes."""
        result = self.inner.steps(value.value, steps)
        upper, tie = self.inner.steps_from_above(value.value, steps)
        over, under = (side[:, steps.columns] & tie for side in (value.over, value.under))
        self._doubt(over & under)
        return self.exactly(self.inner.choose(over & ~under, upper, result))

    def choice(self, mask: Sided[G], yes: Sided[G], no: Sided[G]) -> Sided[G]:
        """Take a value and its rest; the side of a jump was asked for when the mask was made."""
        result = self.inner.choice(mask.value, yes.value, no.value)
        taken = self.inner.compare(mask.value, 0.5) > 0
        over = torch.where(taken, yes.over, no.over)
        return _sided(result, over, torch.where(taken, yes.under, no.under))

    def grow(self, operation: Growth, *values: Sided[G]) -> Sided[G]:
        """What changes growth is walked in series, which know their sides."""
        raise unused(operation)

    def row_function(self, value: Sided[G], function: RowFunction) -> Sided[G]:
        """A limit that is only approached may be met from either side."""
        result = self.inner.row_function(value.value, function)
        unsure = value.over | value.under
        if not function.arrives:
            unsure = unsure | (self.inner.motion(value.value) != 0)
        shape = (unsure.shape[0], *result.shape[1:])
        sides = unsure.any(dim=1, keepdim=True).expand(shape)
        return _sided(result, sides, sides)

    def _doubt(self, open_: Tensor) -> None:
        self.undecided = self.undecided | open_.reshape(self.inner.rays, -1).any(dim=1)


def _sided(value: G, over: Tensor, under: Tensor) -> Sided[G]:
    return Sided(value, torch.cat([over, under]))


def _jumps_at(pieces: Pieces, index: int) -> bool:
    """Whether two neighbouring pieces do not meet; learnt slopes only ever bend at zero."""
    if any(isinstance(slope, Tensor) for slope in pieces.slopes):
        return False
    part = slice(index, index + 2)
    return jumps(Pieces((pieces.thresholds[index],), pieces.slopes[part], pieces.intercepts[part]))


def approached_jump(program: Program, constants: Mapping[str, Tensor]) -> Step | None:
    """The first jump that stands behind a function which only approaches its limits, if any."""
    approached = False
    for step in program.steps:
        kind = RULES[step.target].kind if not step.constant else "copy"
        if kind == "steps" and approached:
            return step
        approached = approached or kind == "row function"
        kinds = ("smooth", "piecewise affine") if approached else ("smooth",)
        if kind not in kinds:
            continue
        function = function_of(program, step, constants)
        if isinstance(function, Smooth):
            approached = approached or function.settles is None
        elif any(_jumps_at(function, i) for i in range(len(function.thresholds))):
            return step
    return None
