"""Polytopes given by half-spaces ``A z <= b``: which half-spaces matter, and is it bounded?

Linear programs are solved by HiGHS, through scipy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# What counts as zero in a linear program with rows of length one and a polytope of size about one.
TOLERANCE = 1e-8
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def normalized(A: Floats, b: Floats) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Scale rows to length one and drop those that hold everywhere or nowhere (``A`` is zero)."""
    length = np.linalg.norm(A, axis=1)
    kept = np.flatnonzero(length > 0)
    return A[kept] / length[kept, None], b[kept] / length[kept], kept


def is_bounded(A: Floats, b: Floats) -> bool:
    """Whether a polytope that is not empty is bounded.

    It is, unless some direction ``r != 0`` has ``A r <= 0``. The largest ``-sum(A r)`` with
    ``-1 <= A r <= 0`` tells of directions that leave some facet behind, the rank of ``A`` of those
    that stay parallel to all.

    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    >>> is_bounded(A, np.ones(3)), is_bounded(A[:2], np.ones(2))
    (True, False)
    """
    A, _, _ = normalized(A, b)
    inputs = A.shape[1]
    if np.linalg.matrix_rank(A) < inputs:
        return False
    rows = len(A)
    found = _solved(
        A.sum(axis=0),
        A_ub=np.concatenate([A, -A]),
        b_ub=np.concatenate([np.zeros(rows), np.ones(rows)]),
        bounds=(None, None),
        method="highs",
        options=PRECISE,
    )
    return bool(-found.fun <= TOLERANCE)


def interior_point(A: Floats, b: Floats) -> tuple[Floats, float]:
    """The centre of the largest ball in the polytope, of radius at most 1, and that radius.

    Rows of ``A`` have length one.
    """
    inputs = A.shape[1]
    goal = np.zeros(inputs + 1)
    goal[-1] = -1.0
    found = _solved(
        goal,
        A_ub=np.concatenate([A, np.ones((len(A), 1))], axis=1),
        b_ub=b,
        bounds=[*[(None, None)] * inputs, (None, 1.0)],
        method="highs",
        options=PRECISE,
    )
    if found.x is None:
        return np.zeros(inputs), -np.inf
    return found.x[:-1], float(found.x[-1])


def facets(A: Floats, b: Floats, point: Floats) -> NDArray[np.intp]:
    """Indices of half-spaces none of which can be left out.

    Clarkson's algorithm: a half-space is tested only against those already known to matter. If it
    cuts something off there, the segment from an inner point to what it cuts off leaves the
    polytope through a half-space that matters. Of equal half-spaces the first is kept.

    Args:
        A: ``(half-spaces, inputs)``.
        b: ``(half-spaces,)``.
        point: ``(inputs,)`` in the polytope.

    >>> A = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [1.0, 1.0]])
    >>> facets(A, np.array([1.0, 2.0, 1.0, 0.0, 5.0]), np.zeros(2)).tolist()
    [0, 2, 3]
    """
    rows, limits, kept = normalized(A, b)
    # In units of the distances around the point, and then of the largest ball, all is of size one.
    slack = np.maximum(limits - rows @ point, 0.0)
    positive = slack[slack > 0]
    slack = slack / (np.median(positive) if len(positive) else 1.0)
    centre, radius = interior_point(rows, slack)
    if radius <= TOLERANCE:
        return kept[_one_by_one(rows, slack)]
    return kept[_clarkson(rows, (slack - rows @ centre) / radius)]


def _clarkson(rows: Floats, slack: Floats) -> list[int]:
    """Which of ``rows z <= slack`` are needed; ``slack`` is positive, so zero is inside."""
    needed: list[int] = []
    for index in range(len(rows)):
        while index not in needed:
            furthest = _furthest(rows, slack, needed, index)
            if rows[index] @ furthest <= slack[index] + TOLERANCE:
                break
            speed = rows @ furthest
            leaves = np.divide(slack, speed, out=np.full_like(slack, np.inf), where=speed > 0)
            hit = int(leaves.argmin())
            if hit in needed:
                break
            needed.append(hit)
    return sorted(needed)


def _one_by_one(rows: Floats, limits: Floats) -> list[int]:
    """Leave out half-spaces one after another, as long as the others imply them."""
    needed = list(range(len(rows)))
    for index in range(len(rows)):
        others = [each for each in needed if each != index]
        if rows[index] @ _furthest(rows, limits, others, index) <= limits[index] + TOLERANCE:
            needed = others
    return needed


def _furthest(rows: Floats, limits: Floats, within: list[int], index: int) -> Floats:
    """The point furthest in a half-space's direction, at most 1 beyond it, within others."""
    found = _solved(
        -rows[index],
        A_ub=rows[[*within, index]],
        b_ub=np.append(limits[within], limits[index] + 1.0),
        bounds=(None, None),
        method="highs",
        options=PRECISE,
    )
    if found.x is None:
        raise ArithmeticError(f"HiGHS found no solution: {found.message}")
    point: Floats = found.x
    return point


def _solved(*args: Any, **kwargs: Any) -> Any:
    """Solve a linear program."""
    from scipy.optimize import linprog  # takes long to load, and few need it

    return linprog(*args, **kwargs)
