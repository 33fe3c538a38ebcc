"""Probabilities of logits that are polynomials: what the highest powers say, exactly.

On a ray every such logit is a polynomial in ``t``. For all large ``t`` two of them are ordered as
their coefficients are, from the highest power down, and those that agree in all powers but the
constant share what there is. Coefficients are computed in floating point with a bound; rays on
which that cannot tell two classes apart are computed again with fractions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from farfield.graph.rules import RowFunction

# Bounds the rounding of sums of up to some thousand products, as a share of their magnitudes.
ROUNDING = 1e-12
Row = Sequence[Fraction]


class PolynomialSoftmax(RowFunction):
    """The softmax of logits that are polynomials of a row."""

    @abstractmethod
    def logits(self, rows: Tensor) -> Tensor:
        """Evaluate, ``(rows, classes)``."""

    @abstractmethod
    def coefficients(self, slope: Tensor, intercept: Tensor) -> tuple[Tensor, Tensor]:
        """Coefficients in ``t``, constants first, and the magnitudes that were summed.

        Both are ``(powers, rays, classes)``.
        """

    @abstractmethod
    def exact(self, slope: Row, intercept: Row) -> list[list[Fraction]]:
        """The same for one ray, exactly: for each class its coefficients, constants first."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        return torch.softmax(self.logits(rows), dim=-1)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Keep the classes that lead, power by power."""
        values, magnitudes = self.coefficients(slope.double(), intercept.double())
        alive = torch.ones_like(values[0], dtype=torch.bool)
        doubtful = torch.zeros(len(slope), dtype=torch.bool)
        for value, magnitude in zip(values.flip(0)[:-1], magnitudes.flip(0)[:-1], strict=True):
            top, best = value.masked_fill(~alive, -torch.inf).max(dim=1, keepdim=True)
            doubt = magnitude + magnitude.gather(1, best)
            close = alive & (top - value <= ROUNDING * doubt)
            several = close.sum(dim=1) > 1
            doubtful |= several & (close & (doubt > 0)).any(dim=1)
            alive = close
        found = torch.softmax(values[0].masked_fill(~alive, -torch.inf), dim=-1)
        for ray in torch.nonzero(doubtful).flatten().tolist():
            found[ray] = self._settled(slope[ray], intercept[ray])
        return found.to(slope)

    def _settled(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """One ray, without rounding up to the exponentials."""
        table = self.exact(*([Fraction(v) for v in each.tolist()] for each in (slope, intercept)))
        best = max(each[:0:-1] for each in table)
        leading = [each[:0:-1] == best for each in table]
        top = max(each[0] for each, leads in zip(table, leading, strict=True) if leads)
        gaps = [
            float(each[0] - top) if leads else -torch.inf
            for each, leads in zip(table, leading, strict=True)
        ]
        return torch.softmax(torch.tensor(gaps, dtype=torch.float64), dim=-1)
