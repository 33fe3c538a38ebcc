import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.guard.cover import Balls, Cover, conformal_margin, fit_cover


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 20), st.integers(0, 1000))
def test_distance_is_that_to_the_nearest_ball(columns, balls, seed):
    rng = np.random.default_rng(seed)
    cover = Cover(torch.from_numpy(rng.normal(size=(balls, columns))), torch.rand(balls).double())
    units = torch.from_numpy(rng.normal(size=(50, columns)) * 10.0 ** rng.uniform(-2, 5, (50, 1)))
    exact = (torch.cdist(units, cover.prototypes) - cover.radii).amin(dim=1)
    got = cover.distance(units)
    assert bool(((got - exact).abs() <= 1e-5 * (1 + units.norm(dim=1))).all())


def test_distance_to_the_ball_itself_is_precise():
    """Far prototypes: |u|^2 - 2 u.c + |c|^2 would have lost all digits."""
    cover = Cover(torch.tensor([[1e8, 0.0]], dtype=torch.float64), torch.tensor([1.0]).double())
    units = torch.tensor([[1e8, 1.5], [1e8, 0.5]], dtype=torch.float64)
    assert cover.distance(units).tolist() == [0.5, -0.5]


def test_a_margin_covers_new_rows():
    rng = np.random.default_rng(0)
    rows, new = rng.standard_t(4, size=(800, 3)), rng.standard_t(4, size=(4000, 3))
    base, scores, places = fit_cover(rows, 32, 0)
    assert len(scores) == len(places) == len(rows)
    for coverage in (0.9, 0.99):
        cover = base.grown(conformal_margin(scores, coverage))
        inside = float((cover.distance(torch.from_numpy(new)) <= 0).double().mean())
        assert inside >= coverage - 0.015


def test_fewer_rows_than_prototypes_and_repeated_rows():
    rows = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), 3, axis=0)
    base, scores, _ = fit_cover(rows, 64, 0)
    assert len(base.prototypes) == 3
    assert len(scores) == 9
    one, scores, _ = fit_cover(rows[:1], 64, 0)
    assert len(one.prototypes) == 1
    assert scores.tolist() == [0.0]


def test_large_samples_are_scored_on_rows_that_were_not_fitted():
    rows = np.random.default_rng(0).normal(size=(26_000, 2))
    _, scores, places = fit_cover(rows, 8, 0)
    assert len(scores) == len(places) == 6_000


def test_reach_holds_every_ball():
    cover = Cover(
        torch.tensor([[3.0, 4.0], [0.0, 0.0]]).double(), torch.tensor([1.0, 2.0]).double()
    )
    assert cover.reach == 6.0
    assert Balls(cover).cover.radii.tolist() == [1.0, 2.0]
