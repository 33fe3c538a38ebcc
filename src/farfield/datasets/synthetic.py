"""The papers' synthetic sets, each a function of one seed.

They are drawn with numpy's older generator, on a state of their own, because that is how the
papers' sets were drawn: the same seed gives the same points.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons

from farfield.errors import InputError


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """Points to train on, and to validate on where the paper does.

    Attributes:
        X: Training inputs, ``(points, features)``.
        y: Training labels (whole numbers) or targets, ``(points,)``.
        X_validation: Validation inputs, or None.
        y_validation: Validation labels, or None.
        window: ``(low, high)`` per feature: what the paper's figures show.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    X_validation: NDArray[np.float64] | None
    y_validation: NDArray[Any] | None
    window: tuple[tuple[float, float], ...]


def half_moons(
    random_state: int = 0, *, points: int = 500, validation: int = 250, noise: float = 0.125
) -> SyntheticData:
    """Draw the half-moons of "Know Your Limits": two interleaving arcs, two classes.

    One draw of 750 points from scikit-learn: the first 500 to train, the last 250 to validate.

    >>> moons = half_moons()
    >>> moons.X.shape, moons.X_validation.shape
    ((500, 2), (250, 2))
    """
    _check_counts(points=points, validation=validation)
    state = _state(random_state)
    X, y = make_moons(points + validation, noise=_spread(noise), random_state=state)
    return SyntheticData(
        X[:points], y[:points], X[points:], y[points:], window=((-3.5, 4.5), (-3.0, 3.5))
    )


def spirals(
    random_state: int = 0, *, points_per_class: int = 1000, classes: int = 3, noise: float = 0.3
) -> SyntheticData:
    """Draw the spirals of the deep ensembles practical: one arm per class, from the origin out.

    Arm ``j`` has radius ``r`` from 0 to 1 and angle from ``8 j`` to ``8 (j + 1)``, plus
    ``noise * (r + 1)`` times a standard normal; its points are ``(r sin, r cos)`` of the angle.

    >>> arms = spirals()
    >>> arms.X.shape, np.bincount(arms.y).tolist()
    ((3000, 2), [1000, 1000, 1000])
    """
    _check_counts(points_per_class=points_per_class, classes=classes)
    state, spread = _state(random_state), _spread(noise)
    radius = np.linspace(0.0, 1.0, points_per_class)
    arms = []
    for arm in range(classes):
        angle = np.linspace(8.0 * arm, 8.0 * (arm + 1), points_per_class)
        angle += state.standard_normal(points_per_class) * spread * (radius + 1.0)
        arms.append(np.column_stack([radius * np.sin(angle), radius * np.cos(angle)]))
    y = np.repeat(np.arange(classes), points_per_class)
    return SyntheticData(np.concatenate(arms), y, None, None, window=((-2.0, 2.0), (-2.0, 2.0)))


def cubic(random_state: int = 173, *, points: int = 40, noise: float = 3.0) -> SyntheticData:
    """Draw the regression set of the practical: ``y = x^3 + N(0, 3^2)``, ``x`` in [-4, 4].

    The default seed is the practical's. Shown on [-6, 6].

    >>> curve = cubic()
    >>> curve.X.shape, bool(abs(curve.X).max() <= 4)
    ((40, 1), True)
    """
    _check_counts(points=points)
    state, spread = _state(random_state), _spread(noise)
    x = state.uniform(-4.0, 4.0, size=points)
    y = x**3 + state.normal(0.0, 1.0, size=points) * spread
    return SyntheticData(x[:, None], y, None, None, window=((-6.0, 6.0),))


def nine_clusters(
    random_state: int = 0, *, points_per_class: int = 50, spacing: float = 2.0, spread: float = 0.35
) -> SyntheticData:
    """Draw nine round clusters of 50 points on a 3 x 3 grid around the origin, a class each.

    The set of Figure 1 in the first version of "Know Your Limits", shown on [-5, 5]^2. That
    source gives the number of clusters and points and the window; ``spacing`` and ``spread``
    (a standard deviation) are ours.

    >>> clusters = nine_clusters()
    >>> clusters.X.shape, len(set(clusters.y.tolist()))
    ((450, 2), 9)
    """
    _check_counts(points_per_class=points_per_class)
    state = _state(random_state)
    ticks = _spread(spacing) * np.array([-1.0, 0.0, 1.0])
    centres = np.array([(a, b) for a in ticks for b in ticks])
    y = np.repeat(np.arange(9), points_per_class)
    X = centres[y] + _spread(spread) * state.standard_normal((len(y), 2))
    return SyntheticData(X, y, None, None, window=((-5.0, 5.0), (-5.0, 5.0)))


def _state(random_state: int) -> np.random.RandomState:
    """Make a generator of our own from a seed."""
    if isinstance(random_state, (int, np.integer)) and 0 <= random_state < 2**32:
        return np.random.RandomState(int(random_state))
    raise InputError(
        f"random_state must be a whole number from 0 to 2**32 - 1, got {random_state!r}."
    )


def _spread(noise: float) -> float:
    """Return a finite number that is not negative."""
    if not 0.0 <= noise < float("inf"):
        raise InputError(f"noise, spread and spacing must be finite and at least 0, got {noise}.")
    return float(noise)


def _check_counts(**counts: int) -> None:
    """Refuse numbers of points below one."""
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} must be at least 1, got {count}.")
