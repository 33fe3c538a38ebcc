import numpy as np
import pytest
import torch

from farfield.guard.whitening import fit_whitening


@pytest.mark.parametrize("kind", ["full", "diagonal", "isotropic"])
def test_rows_have_unit_scale(kind):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 3)) + 5.0
    metric = fit_whitening(rows, kind)
    units = metric.apply(torch.from_numpy(rows)).numpy()
    assert np.abs(units.mean(axis=0)).max() < 1e-9
    assert np.square(units).mean() == pytest.approx(1.0, rel=0.05)
    if kind == "full":
        assert np.abs(np.cov(units.T) - np.eye(3)).max() < 0.05


def test_full_where_rows_are_many_diagonal_where_few():
    rng = np.random.default_rng(0)
    assert fit_whitening(rng.normal(size=(50, 10))).kind == "full"
    assert fit_whitening(rng.normal(size=(49, 10))).kind == "diagonal"


@pytest.mark.parametrize("kind", ["full", "diagonal", "isotropic"])
def test_no_direction_is_lost(kind):
    """Constant and duplicate columns, and fewer rows than columns: W stays invertible."""
    rng = np.random.default_rng(0)
    some = rng.normal(size=(8, 4))
    rows = np.hstack([some, some[:, :2], np.full((8, 1), 3.0), np.zeros((8, 1)), some * 1e-6])
    metric = fit_whitening(rows, kind)
    back, missed = metric.inverse()
    assert 0 <= missed < 1e-6
    moved = torch.from_numpy(rng.normal(size=(50, rows.shape[1])))
    there = metric.apply(moved + metric.mean) @ back
    assert float((there - moved).abs().max()) < 1e-6
    assert bool((metric.apply(moved + metric.mean).norm(dim=1) > 0).all())


def test_what_the_inverse_misses_is_bounded():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 6)) * 10.0 ** np.arange(6)
    rows[:, 1] = rows[:, 0] * 2 + rows[:, 1] * 1e-3
    metric = fit_whitening(rows, "full")
    back, missed = metric.inverse()
    x = torch.from_numpy(rng.normal(size=(100, 6)) * 1e3)
    u = metric.apply(x + metric.mean)
    error = (x - u @ back).norm(dim=1)
    assert bool((error <= missed * u.norm(dim=1) + 1e-9).all())


def test_values_beyond_all_bounds_stay_apart():
    metric = fit_whitening(np.random.default_rng(0).normal(size=(100, 2)), "full")
    u = metric.apply(torch.tensor([[1e300, -1e300], [1e305, 1e305]], dtype=torch.float64))
    assert bool(torch.isfinite(u).all())
    assert float(u.abs().max(dim=1).values.min()) >= 1e150
