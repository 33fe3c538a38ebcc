"""One ellipsoid inside of two: never wrong, and large enough to be of use."""

import numpy as np
import pytest

from farfield.guard.inner_shape import held, inside_both
from farfield.guard.shapes import Shape


def _shape(rng, units, away, stretch=1.0):
    turn, _ = np.linalg.qr(rng.normal(size=(units, units)))
    factor = turn * np.exp(stretch * rng.normal(size=units))
    centre = away * rng.normal(size=units) / np.sqrt(units)
    return Shape(factor, factor @ centre, float(units) * 2.0)


def _on_the_edge(shape, rng, count=4000):
    """Places on the surface of an ellipsoid."""
    unit = rng.normal(size=(count, len(shape.shift)))
    unit *= np.sqrt(shape.square) / np.linalg.norm(unit, axis=1, keepdims=True)
    return np.linalg.solve(shape.factor, (unit + shape.shift).T).T


@pytest.mark.parametrize("seed", range(20))
def test_all_of_it_is_inside_of_both(seed):
    rng = np.random.default_rng(seed)
    units = int(rng.integers(1, 12))
    one, other = _shape(rng, units, 0.5, 0.3), _shape(rng, units, 0.5, 0.3)
    found = inside_both(one, other, rng.normal(size=(500, units)))
    if found is None:
        return
    edge = _on_the_edge(found, rng)
    for each in (one, other):
        squares = np.square(edge @ each.factor.T - each.shift).sum(axis=1)
        assert squares.max() <= each.square
    # The furthest place in the direction of each, which random ones miss.
    for each in (one, other):
        map_back = np.linalg.solve(found.factor.T, each.factor.T).T
        away = each.factor @ np.linalg.solve(found.factor, found.shift) - each.shift
        assert _longest(map_back, away) <= np.sqrt(each.square)


def _longest(matrix, away):
    """Climb to the largest ``|matrix y + away|`` with ``|y| <= 1``: a convex function."""
    y = np.concatenate([np.eye(matrix.shape[1]), -np.eye(matrix.shape[1])])
    for _ in range(200):
        slope = (y @ matrix.T + away) @ matrix
        length = np.linalg.norm(slope, axis=1, keepdims=True)
        y = np.divide(slope, length, out=y, where=length > 0)
    return float(np.linalg.norm(y @ matrix.T + away, axis=1).max())


def test_two_balls_of_one_kind_lose_little():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(2000, 30))
    away = np.zeros(30)
    away[0] = 1.0
    balls = [Shape(np.eye(30), side * away, 49.0) for side in (1.0, -1.0)]
    found = inside_both(*balls, places)
    both = held(balls[0], places) & held(balls[1], places)
    assert held(found, places).sum() >= 0.95 * both.sum()


def test_what_has_nothing_in_common_has_nothing_inside():
    ball = Shape(np.eye(2), np.zeros(2), 1.0)
    assert inside_both(ball, Shape(np.eye(2), np.array([5.0, 0.0]), 1.0), np.zeros((1, 2))) is None
    assert inside_both(ball, Shape(np.eye(2), np.zeros(2), -1.0), np.zeros((1, 2))) is None
    flat = Shape(np.diag([1.0, 1e-9]), np.zeros(2), 1.0)
    assert inside_both(ball, flat, np.zeros((1, 2))) is None
