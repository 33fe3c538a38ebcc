"""What a model returned, checked: one distribution over the classes for every row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import InputError

# How far probabilities may be from a distribution; float32 sums of many trees are this good.
TOLERANCE = 1e-3


def as_distributions(given: Any, rows: int, classes: int | None = None) -> NDArray[Any]:
    """See that a model returned one distribution for each row.

    Args:
        given: An array or a tensor, ``(rows, classes)``; rows that hold NaN are no answer. One
            number for each row is the probability of the second of two classes.
        rows: How many rows it was asked about.
        classes: How many classes it has, if that is known.

    Returns:
        ``(rows, classes)`` in its own floating-point type; rounding errors beyond 0 and 1 are cut
        off, and nothing else is touched.

    Raises:
        InputError: If the shape or the numbers are those of something else.

    >>> as_distributions([[0.25, 0.75]], 1).tolist()
    [[0.25, 0.75]]
    >>> as_distributions([0.25, 1.0], 2).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    p = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    if p.dtype.kind == "f" and p.shape in ((rows,), (rows, 1)):
        p = np.stack([1.0 - p.reshape(rows), p.reshape(rows)], axis=1)
    if p.ndim != 2 or len(p) != rows or p.shape[1] < 2 or p.shape[1] != (classes or p.shape[1]):
        raise InputError(
            f"the model returned an array of shape {p.shape} for {rows} rows, expected "
            f"({rows}, {classes or 'classes'}): one row of probabilities for each row of input"
        )
    if p.dtype.kind != "f":
        raise InputError(f"the model returned {p.dtype}; probabilities are floating-point numbers")
    # Nearly always; NaN is neither. By a product: numpy is slow at sums of few numbers each.
    between = bool(p.size) and p.min() >= 0.0 and p.max() <= 1.0
    if between and np.abs(p.dot(np.ones(p.shape[1])) - 1.0).max() <= TOLERANCE:
        return p.copy()
    known = p[~np.isnan(p).any(axis=1)].astype(np.float64)
    sums = known.sum(axis=1)
    if not ((known >= -TOLERANCE).all() and (np.abs(sums - 1.0) <= TOLERANCE).all()):
        raise InputError(
            f"the model returned numbers that are no probabilities: they go from {known.min():.4g} "
            f"to {known.max():.4g}, rows add up to between {sums.min():.4g} and {sums.max():.4g}, "
            "and must sum to one; return predict_proba or a softmax of the logits"
        )
    return np.asarray(np.clip(p, 0.0, 1.0))
