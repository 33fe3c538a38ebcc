"""The quick look at single rows: never wrong, right about most, and gone when it does not hold."""

import copy
import functools
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from farfield.guard import guard

pytestmark = pytest.mark.usefixtures("few_folds")


def _rows(columns=8, offset=0.0, count=500):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, columns)) @ rng.normal(size=(columns, columns)) + offset


def _guarded(rows):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(rows.shape[1], 8), nn.ReLU(), nn.Linear(8, 3))
    safe = guard(module, rows)
    safe.covered.screen(torch.from_numpy(rows[:1]))
    assert safe.covered.one is not None
    return safe


@functools.cache
def _shared(offset=0.0):
    """Rows and their guard, made once: whoever changes it takes a copy."""
    rows = _rows(offset=offset)
    return rows, _guarded(rows)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_a_row_that_is_sure_is_inside(kind, offset):
    rows, safe = _shared(offset)
    middle = rows.mean(axis=0)
    scaled = [middle + scale * (rows[:400] - middle) for scale in (1.0, 1.1, 1.2, 1.3, 1.5, 3.0)]
    tried = torch.from_numpy(np.concatenate(scaled)).to(kind)
    sure = np.array([safe.covered.one.sure(row) for row in tried.split(1)])
    distance = safe.covered.distance(tried).numpy()
    assert (distance[sure] <= 0.0).all()
    assert sure[:400].mean() > 0.9
    assert not sure[-400:].all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300, -1e300])
def test_values_that_are_none_are_not_sure(value):
    rows, safe = _shared()
    row = torch.from_numpy(rows[:1].copy())
    assert safe.covered.one.sure(row)
    row[0, 3] = value
    assert not safe.covered.one.sure(row)


def test_columns_of_bits_hold_bits():
    rows = _rows()
    rows[:, 2] = rows[:, 2] > 0
    safe = _guarded(rows)
    assert safe.covered.one.bits == (2,)
    row = torch.from_numpy(rows[:1].copy())
    for value, fine in ((0.0, True), (1.0, True), (0.5, False)):
        row[0, 2] = value
        assert safe.covered.one.sure(row) <= fine
    assert safe.is_inside(rows).mean() > 0.9


def test_it_is_not_asked_where_it_could_not_know():
    rows, safe = _shared()
    one, row = safe.covered.one, torch.from_numpy(rows[:1])
    assert one.sure(row)
    assert not one.sure(row[0])
    assert not one.sure(row.half())
    assert not one.sure(row[:, :-1])
    assert not one.sure(torch.cat([row, row]))
    assert not one.sure(row.clone().requires_grad_())
    assert torch.vmap(lambda x: safe(x[None])[0])(row).shape == (1, 3)


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_coarser_modes_change_nothing(precision):
    rows, safe = _shared()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            sure = [safe.covered.one.sure(row) for row in torch.from_numpy(rows[:300]).split(1)]
    finally:
        torch.set_float32_matmul_precision(before)
    assert sure == [safe.covered.one.sure(row) for row in torch.from_numpy(rows[:300]).split(1)]
    assert np.mean(sure) > 0.9


def test_numbers_that_were_written_to_get_another_look():
    rows, safe = copy.deepcopy(_shared())
    row = torch.from_numpy(rows[:1]).float()
    own = safe.unguarded(row)
    assert torch.equal(safe(row), own)
    safe.covered.balls.threshold.sub_(1e3)
    assert not safe.covered.one.sure(row)
    assert not torch.equal(safe(row), own)


def test_copies_take_their_own_look():
    _, safe = _shared()
    for other in (copy.deepcopy(safe.covered), pickle.loads(pickle.dumps(safe.covered))):
        assert other.one is None
    moved = copy.deepcopy(safe.covered)
    moved.screen(torch.from_numpy(_rows(count=1)))
    assert moved.one is not None
    assert moved.double().one is None


class _Nan(nn.Module):
    """A model that knows no answer in one place."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 2)

    def forward(self, x):
        return torch.where(x[:, :1] > 0, torch.nan, self.linear(x))


def test_a_model_that_gives_nan_is_answered_for():
    rows = _rows()
    safe = guard(_Nan(), rows)
    row = torch.from_numpy(rows[rows[:, 0] > 0][:40]).float()
    for each in row.split(1):
        assert torch.isfinite(safe(each)).all()
