"""Germs whose numbers are sums of floats, and what is done with them number by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from farfield.exact.bounded import BoundedGerm
from farfield.exact.germ import Germ
from farfield.exact.leads import SLACK
from farfield.exact.slices import ROUNDOFF, Slices, add_up, sum_error, two_product
from farfield.graph.rules import Affine


@dataclass(frozen=True, slots=True)
class SlicedGerm(BoundedGerm):
    """A germ whose numbers are sums of floats: ``parts``, and the others in ``tail``."""

    tail: Slices = ()

    @property
    def floats(self) -> Slices:
        """All floats, the largest first."""
        return (self.parts, *self.tail)

    def collapsed(self) -> BoundedGerm:
        """Count all floats but the first as errors."""
        error = self.error
        for part in self.tail:
            error = error + part.abs()
        return BoundedGerm(self.parts, error * SLACK if self.tail else error)


def floats_of(value: Germ) -> Slices:
    """All floats of a germ of any kind."""
    return value.floats if isinstance(value, SlicedGerm) else (value.parts,)


def error_of(value: Germ) -> Tensor:
    """The bound that goes with all floats of a germ."""
    if not isinstance(value, BoundedGerm):
        raise TypeError("a germ without bounds in a walk with bounds")
    return value.error


def collapsed(value: Germ) -> BoundedGerm:
    """A germ of any kind with a single float for each number."""
    return as_bounded(value).collapsed()


def as_bounded(value: Germ) -> BoundedGerm:
    """A germ that is known to have bounds."""
    if not isinstance(value, BoundedGerm):
        raise TypeError("a germ without bounds in a walk with bounds")
    return value


def zeroed(value: Germ, where: Tensor) -> SlicedGerm:
    """A value that is exactly zero at some places."""
    parts = [part.masked_fill(where, 0.0) for part in floats_of(value)]
    return SlicedGerm(parts[0], error_of(value).masked_fill(where, 0.0), tuple(parts[1:]))


def slopes_alone(places: Tensor) -> Tensor:
    """Places among slopes, and none among intercepts."""
    half = len(places) // 2
    return torch.cat([places[:half], torch.zeros_like(places[half:])])


def moved(operation: Affine, values: Sequence[Germ]) -> SlicedGerm:
    """Copy every float."""
    floats = [floats_of(value) for value in values]
    count = max(map(len, floats))
    parts = []
    for place in range(count):
        given = [f[place] if place < len(f) else torch.zeros_like(f[0]) for f in floats]
        parts.append(operation.function(*given))
    magnitude = operation.magnitude or operation.function
    error = magnitude(*(error_of(value) for value in values))
    return SlicedGerm(parts[0], error, tuple(parts[1:]))


def size_of(parts: Sequence[Tensor]) -> Tensor:
    """The sum of the sizes of floats."""
    size = parts[0].abs()
    for part in parts[1:]:
        size = size + part.abs()
    return size


def times(value: BoundedGerm, factor: Tensor, inexact: bool) -> SlicedGerm:
    """A value times the slopes of its pieces, which may be rounded themselves."""
    floats = floats_of(value)
    terms = [half for part in floats for half in two_product(part, factor)]
    count = max(2, len(floats))
    rate = sum_error(len(terms), count) + (2 * ROUNDOFF if inexact else 0.0)
    size = size_of(floats) * factor.abs()
    parts = add_up(terms, count)
    error = (value.error * factor.abs() + rate * size) * SLACK
    return SlicedGerm(parts[0], error, parts[1:])


def signed(value: Germ, sign: int) -> SlicedGerm:
    """A value, or minus it."""
    floats = floats_of(value)
    parts = floats if sign > 0 else tuple(-part for part in floats)
    return SlicedGerm(parts[0], error_of(value), parts[1:])
