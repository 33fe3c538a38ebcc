"""The quick look at one row: as few calls as can be, for each costs more than its work.

In between two rows the network fills the processor's caches with its own code and numbers. What is
least slow then is what the network has just used, too: PyTorch's linear layer, and no numpy at all;
and one function in place of several. In double precision, which has no coarser modes and is left
alone by autocasts, errors are small.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from operator import is_, le
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from farfield.guard.first_look import folded
from farfield.guard.shapes import Floats, Shape
from farfield.guard.unwritten import COMPILING, LEVEL, TRACING, VERSION, Unwritten
from farfield.guard.views.units import Units

# What a quick look can be taken at.
QUICK = (torch.float32, torch.float64)
BITS = frozenset((0.0, 1.0))


class Hulls(NamedTuple):
    """Balls and ellipsoids of rows, one of each view, in double precision, and rows as they are.

    Attributes:
        matrix: ``((1 + members) * columns, columns)``, ones in the diagonal first.
        shift: ``((1 + members) * columns,)``, with a minus; zeros first.
        views: For each member of each view, the length that ``matrix x + shift`` may have in it,
            and which of its numbers are of it.
    """

    matrix: Tensor
    shift: Tensor
    views: tuple[tuple[tuple[float, slice], ...], ...]

    @classmethod
    def of(cls, views: Sequence[Sequence[Shape]], units: Units, low: Floats, high: Floats) -> Hulls:
        """Fold the units into members, and all errors into their lengths."""
        shapes, columns = [each for view in views for each in view], len(low)
        own = folded(np.zeros_like(low), shapes, units, low, high, np.float64)
        lengths = (sqrt(limit) if limit > 0.0 else -1.0 for limit in own.limits)
        begins = itertools.count(columns, columns)
        found = tuple(
            tuple((next(lengths), slice(start := next(begins), start + columns)) for _ in view)
            for view in views
        )
        matrix = np.concatenate([np.eye(columns), own.factors])
        shift = np.concatenate([np.zeros(columns), -own.shifts])
        return cls(torch.from_numpy(matrix), torch.from_numpy(shift), found)


@dataclass(frozen=True)
class OneRow:
    """What may hold one row between two ends.

    Attributes:
        shape: Of one row.
        low: The smallest values that are looked at.
        high: The largest ones.
        bits: Columns of 0 and 1.
        looks: One of these has to hold it.
        numbers: Of the covered set.
    """

    shape: tuple[int, int]
    low: list[float]
    high: list[float]
    bits: tuple[int, ...]
    looks: tuple[Hulls, ...]
    numbers: Unwritten

    def sure(self, x: Tensor) -> bool:
        """Whether ``x`` is one row, ``(1, columns)``, that is inside for certain; NaN never is.

        Never while anything is recorded or differentiated, nor if the guard's numbers are others.
        """
        if (
            COMPILING()
            or type(x) is not Tensor
            or x.shape != self.shape
            or x.dtype not in QUICK
            or not x.is_cpu
            or x.requires_grad
            or TRACING() is not None
            or LEVEL() is not None
        ):
            return False
        own = self.numbers
        if sum(map(VERSION, own.tensors)) != own.versions or not all(
            map(is_, map(dict.get, own.places, own.names), own.things)
        ):
            return False
        double = x.double()
        for matrix, shift, views in self.looks:
            # The row itself, and its places next to what has to hold it.
            found = linear(double, matrix, shift).tolist()[0]
            if not (all(map(le, self.low, found)) and all(map(le, found, self.high))):
                return False
            if self.bits and not BITS.issuperset([found[place] for place in self.bits]):
                return False
            for view in views:
                for length, place in view:
                    if hypot(*found[place]) <= length:
                        break
                else:
                    break
            else:
                return True
        return False
