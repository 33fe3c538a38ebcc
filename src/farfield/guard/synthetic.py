"""Rows near the data that are not data: what views are chosen by.

No out-of-distribution set is ever looked at. A view is worth its share of the budget if it notices
rows made from the data itself: one column moved, columns exchanged between rows, points between
rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from farfield.guard.columns import Columns

Floats = NDArray[np.float64]
MOST = 1000
# One column is moved by so many standard deviations, either way.
NEAREST, FURTHEST = 1.0, 10.0


def synthetic_neighbours(rows: Floats, columns: Columns, seed: int) -> Mapping[str, Floats]:
    """Three kinds of rows that are nearly like the given ones.

    Args:
        rows: ``(rows, columns)`` rows that views were not fitted on.
        columns: Which are numeric.
        seed: Of every choice.
    """
    rng = np.random.default_rng(seed)
    base = rows[rng.permutation(len(rows))[:MOST]]
    other = rows[rng.integers(0, len(rows), len(base))]
    numeric = np.array(columns.numeric, dtype=int)
    moved, between = base.copy(), base.copy()
    if len(numeric):
        chosen = rng.choice(numeric, len(base))
        steps = np.exp(rng.uniform(np.log(NEAREST), np.log(FURTHEST), len(base)))
        steps *= rng.choice([-1.0, 1.0], len(base)) * rows.std(axis=0)[chosen]
        moved[np.arange(len(base)), chosen] += steps
        between[:, numeric] = (base[:, numeric] + other[:, numeric]) / 2
    exchanged = np.where(rng.random((len(base), len(columns.variables))) < 0.5, 1, 0)
    mask = exchanged[:, columns.variable_of]
    return {
        "one column moved": moved,
        "columns exchanged": np.where(mask == 1, other, base),
        "between rows": between,
    }
