"""A covariance that few rows are enough for, as Ledoit and Wolf (2004) shrink it.

The same numbers as ``sklearn.covariance.ledoit_wolf``, without the seconds that it takes to load.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ledoit_wolf(rows: Floats, *, centred: bool = False) -> Floats:
    """Estimate ``(1 - s) C + s m I``: ``C`` the covariance, ``m`` the mean of its diagonal.

    The share ``s`` is the one with the least expected squared error.

    Args:
        rows: ``(rows, columns)``.
        centred: Whether the mean of every column is zero already.

    >>> ledoit_wolf(np.array([[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [2.0, 2.0]]))
    array([[1., 1.],
           [1., 1.]])
    """
    X = np.asarray(rows, dtype=np.float64)
    around = X if centred else X - X.mean(axis=0)
    count, columns = X.shape
    if columns == 1:
        return np.atleast_2d((around**2).mean())
    covariance = np.dot(X.T, X) / count if centred else np.cov(X.T, bias=True)
    share = _share(around)
    shrunk: Floats = (1.0 - share) * covariance
    shrunk.flat[:: columns + 1] += share * (np.trace(covariance) / columns)
    return shrunk


def _share(X: Floats) -> float:
    """How much to shrink: the variance of ``C``'s entries over their distance from ``m I``."""
    count, columns = X.shape
    squares = X**2
    diagonal = squares.sum(axis=0) / count
    mean = diagonal.sum() / columns
    among = (np.dot(X.T, X) ** 2).sum() / count**2
    variance = (np.dot(squares.T, squares).sum() / count - among) / (columns * count)
    distance = (among - 2.0 * mean * diagonal.sum() + columns * mean**2) / columns
    variance = min(variance, distance)
    return 0.0 if variance == 0 else float(variance / distance)
