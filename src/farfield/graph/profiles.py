"""Piecewise-affine functions of one number that may jump, with the value at every jump, exactly.

What a model makes of one number by comparisons, masks and ``where`` is such a function, however it
is written. Breaks, slopes and intercepts are fractions, so that pieces which meet are known to
meet, and a jump belongs to the side that the model's own ``<`` or ``<=`` says.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from farfield.graph.rules import Number, Pieces

Relation = Callable[[Fraction, Fraction], bool]
RELATIONS: dict[str, Relation] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Span:
    """``slope * x + intercept``, on a stretch between two breaks."""

    slope: Fraction
    intercept: Fraction

    def at(self, x: Fraction) -> Fraction:
        """The value at a point."""
        return self.slope * x + self.intercept


@dataclass(frozen=True, slots=True)
class Profile:
    """A function of one number: spans between breaks, and the values at the breaks.

    >>> step = Profile.identity().compare("gt", 0.0)
    >>> [str(step(Fraction(x))) for x in (-1, 0, 1)]
    ['0', '0', '1']
    """

    breaks: tuple[Fraction, ...]
    spans: tuple[Span, ...]
    values: tuple[Fraction, ...]

    @classmethod
    def line(cls, slope: Number, intercept: Number) -> Profile:
        """A function without breaks."""
        return cls((), (Span(Fraction(slope), Fraction(intercept)),), ())

    @classmethod
    def identity(cls) -> Profile:
        """The number itself."""
        return cls.line(1, 0)

    @classmethod
    def of(cls, pieces: Pieces) -> Profile | None:
        """The function that pieces are; ``None`` where slopes differ from element to element."""
        if not all(isinstance(slope, (int, float, Fraction)) for slope in pieces.slopes):
            return None
        breaks = tuple(Fraction(each) for each in pieces.thresholds)
        spans = tuple(
            Span(Fraction(slope), Fraction(intercept))  # type: ignore[arg-type]  # looked at above
            for slope, intercept in zip(pieces.slopes, pieces.intercepts, strict=True)
        )
        values = tuple(span.at(x) for span, x in zip(spans, breaks, strict=False))
        return cls(breaks, spans, values).plain()

    def __call__(self, x: Fraction) -> Fraction:
        """Evaluate."""
        for place, edge in enumerate(self.breaks):
            if x == edge:
                return self.values[place]
            if x < edge:
                return self.spans[place].at(x)
        return self.spans[-1].at(x)

    def span_after(self, x: Fraction) -> Span:
        """The span just above a point."""
        return self.spans[sum(edge <= x for edge in self.breaks)]

    def plain(self) -> Profile:
        """The same function without breaks at which nothing happens."""
        kept = [
            place
            for place, (edge, value) in enumerate(zip(self.breaks, self.values, strict=True))
            if self.spans[place] != self.spans[place + 1] or self.spans[place].at(edge) != value
        ]
        return Profile(
            tuple(self.breaks[place] for place in kept),
            (self.spans[0], *(self.spans[place + 1] for place in kept)),
            tuple(self.values[place] for place in kept),
        )

    @property
    def is_flat(self) -> bool:
        """Whether it is constant between its breaks."""
        return all(span.slope == 0 for span in self.spans)

    @property
    def heights(self) -> set[Fraction]:
        """All values of a flat function."""
        return {*self.values, *(span.intercept for span in self.spans)}

    @property
    def is_mask(self) -> bool:
        """Whether every value is 0 or 1."""
        return self.is_flat and self.heights <= {0, 1}

    def join(
        self,
        other: Profile,
        values: Callable[[Fraction, Fraction], Fraction],
        spans: Callable[[Span, Span], Span | None],
    ) -> Profile | None:
        """Combine two functions value by value, and span by span."""
        edges = sorted({*self.breaks, *other.breaks})
        found = [
            spans(mine, theirs)
            for mine, theirs in [
                (self.spans[0], other.spans[0]),
                *((self.span_after(edge), other.span_after(edge)) for edge in edges),
            ]
        ]
        whole = [each for each in found if each is not None]
        if len(whole) < len(found):
            return None
        at = tuple(values(self(edge), other(edge)) for edge in edges)
        return Profile(tuple(edges), tuple(whole), at).plain()

    def add(self, other: Profile, factor: Number = 1) -> Profile:
        """``self + factor * other``."""
        f = Fraction(factor)
        made = self.join(
            other,
            lambda a, b: a + f * b,
            lambda a, b: Span(a.slope + f * b.slope, a.intercept + f * b.intercept),
        )
        assert made is not None
        return made

    def times(self, other: Profile) -> Profile | None:
        """The product; ``None`` if it is not piecewise affine."""
        return self.join(other, operator.mul, _product)

    def compare(self, relation: str, threshold: Number) -> Profile | None:
        """Where the function stands in a relation to a constant, as a mask.

        ``None`` where the place at which it crosses would have to be computed: a model that
        rounds on the way may decide otherwise there.
        """
        holds, level = RELATIONS[relation], Fraction(threshold)
        if any(span.slope not in (-1, 0, 1) or span.slope * span.intercept for span in self.spans):
            return None
        crossings = {level / span.slope for span in self.spans if span.slope}
        edges = sorted({*self.breaks, *crossings})
        inner = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
        points = [edges[0] - 1, *inner, edges[-1] + 1] if edges else [Fraction(0)]
        return Profile(
            tuple(edges),
            tuple(Span(Fraction(0), Fraction(holds(self(x), level))) for x in points),
            tuple(Fraction(holds(self(x), level)) for x in edges),
        ).plain()

    def choose(self, yes: Profile, no: Profile) -> Profile:
        """One function where this mask is 1, another where it is 0."""
        kept, rest = self.times(yes), self.flipped().times(no)
        assert kept is not None
        assert rest is not None
        return kept.add(rest)

    def flipped(self) -> Profile:
        """1 where this mask is 0, and the other way round."""
        return Profile.line(0, 1).add(self, -1)

    def mirrored(self) -> Profile:
        """The same function of the negative number."""
        return Profile(
            tuple(-edge for edge in reversed(self.breaks)),
            tuple(Span(-span.slope, span.intercept) for span in reversed(self.spans)),
            tuple(reversed(self.values)),
        )

    def parts(self) -> tuple[Pieces | None, Pieces | None]:
        """Pieces of ``x`` and of ``-x`` that add up to the function.

        Pieces hold their upper ends; a jump at whose place the function has the upper value
        is one of ``-x``. A point of its own is two jumps.
        """
        before = [self.spans[place].at(edge) for place, edge in enumerate(self.breaks)]
        behind = [self.spans[place + 1].at(edge) for place, edge in enumerate(self.breaks)]
        if list(self.values) == before:
            return self._pieces(), None
        if list(self.values) == behind:
            return None, self.mirrored()._pieces()
        heights = [Fraction(0)]
        for value, left in zip(self.values, before, strict=True):
            heights.append(heights[-1] + value - left)
        upper = Profile(
            self.breaks, tuple(Span(Fraction(0), each) for each in heights), tuple(heights[1:])
        )
        lower = self.add(upper, -1)
        return lower._pieces(), upper.plain().mirrored()._pieces()

    def _pieces(self) -> Pieces:
        return Pieces(
            tuple(_number(edge) for edge in self.breaks),
            tuple(_number(span.slope) for span in self.spans),
            tuple(_number(span.intercept) for span in self.spans),
        )


def _product(a: Span, b: Span) -> Span | None:
    if a.slope and b.slope:
        return None
    return Span(a.slope * b.intercept + b.slope * a.intercept, a.intercept * b.intercept)


def _number(value: Fraction) -> Number:
    """A float where it is one."""
    return float(value) if Fraction(float(value)) == value else value
