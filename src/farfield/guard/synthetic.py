"""Rows near the data that are not data: what views are chosen by.

No out-of-distribution set is ever looked at. A view is worth its share of the budget if it notices
rows made from the data itself: one column moved, columns exchanged between rows, points between
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farfield.data.columns import Columns

Floats = NDArray[np.float64]
# One column is moved by so many standard deviations, either way.
NEAREST, FURTHEST = 1.0, 10.0


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Synthetic rows.

    Attributes:
        rows: Kind to rows, or to what is known of them.
        bases: ``(made,)`` the row that each of any kind was made from.
    """

    rows: Mapping[str, Floats]
    bases: NDArray[np.intp]

    def map(self, function: Callable[[Floats], Floats]) -> Synthetic:
        """Something else of the same rows, of all kinds at a time."""
        found = np.split(function(np.concatenate(list(self.rows.values()))), len(self.rows))
        return Synthetic(dict(zip(self.rows, found, strict=True)), self.bases)

    def at(self, bases: NDArray[np.intp]) -> Synthetic:
        """The same, with other names for the rows that they were made from."""
        return Synthetic(self.rows, bases)

    @classmethod
    def all(cls, parts: Sequence[Synthetic]) -> Synthetic:
        """Several lots as one."""
        kinds = parts[0].rows
        rows = {kind: np.concatenate([each.rows[kind] for each in parts]) for kind in kinds}
        return cls(rows, np.concatenate([each.bases for each in parts]))


def synthetic_neighbours(
    rows: Floats, bases: NDArray[np.intp], columns: Columns, seed: int
) -> Synthetic:
    """Three kinds of rows that are nearly like some of the given ones.

    Args:
        rows: ``(rows, columns)``.
        bases: ``(made,)`` rows to make them from.
        columns: Which are numeric.
        seed: Of every choice.
    """
    rng = np.random.default_rng(seed)
    base = rows[bases]
    other = rows[rng.integers(0, len(rows), len(base))]
    numeric = np.array(columns.numeric, dtype=int)
    moved, between = base.copy(), base.copy()
    if len(numeric):
        chosen = rng.choice(numeric, len(base))
        steps = np.exp(rng.uniform(np.log(NEAREST), np.log(FURTHEST), len(base)))
        steps *= rng.choice([-1.0, 1.0], len(base)) * np.nanstd(rows, axis=0)[chosen]
        moved[np.arange(len(base)), chosen] += steps
        between[:, numeric] = (base[:, numeric] + other[:, numeric]) / 2
    exchanged = np.where(rng.random((len(base), len(columns.variables))) < 0.5, 1, 0)
    mask = exchanged[:, columns.variable_of]
    made = {
        "one column moved": moved,
        "columns exchanged": np.where(mask == 1, other, base),
        "between rows": between,
    }
    return Synthetic(made, bases)
