"""Columns of 0 and 1: whatever else they hold is outside, in words."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.guard.screen import screen_of

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    found = rng.normal(size=(400, 4))
    found[:, 1] = rng.integers(0, 2, len(found))
    found[:, 3] = rng.random(len(found)) < 0.1
    return found


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture(scope="module")
def safe(net, rows):
    return ff.guard(net, rows)


@pytest.mark.parametrize("column", [1, 3])
@pytest.mark.parametrize("value", [0.5, 8.5, 2.0, -1.0, 0.99])
def test_neither_0_nor_1_is_outside(safe, rows, column, value):
    tried = rows.copy()
    tried[:, column] = value
    assert (safe.distance(tried) >= 1.0).all()
    assert safe.predict_proba(tried).max() <= 1 / 3 + 0.01
    said = safe.explain(tried[0])
    assert (said.view, said.column) == ("categories", f"column {column}")
    assert str(said).endswith("is a category that no training row had; they had 0, 1")


def test_0_and_1_are_not(safe, rows):
    tried = rows.copy()
    tried[:, 1] = 1.0 - tried[:, 1]
    assert safe.is_inside(tried).mean() > 0.95
    assert "categories" not in str(safe.explain(rows[0]))


def test_a_quick_look_sees_them(safe, rows):
    tried = rows.copy()
    tried[:200, 1], tried[200:, 3] = 0.5, 1e-9
    screen = screen_of(safe.covered)
    assert screen.inside(rows).mean() > 0.9
    assert not screen.inside(tried).any()
    assert not any(screen.certain(row) for row in tried)


def test_who_says_that_it_is_a_number_is_believed(net, rows):
    safe = ff.guard(net, rows, numeric=[1])
    tried = rows.copy()
    tried[:, 1] = 0.99
    assert safe.is_inside(tried).any()
    with pytest.raises(ff.errors.InputError, match="numeric name different columns"):
        ff.guard(net, rows, numeric=[4])


def test_held_out_rows_may_know_better(net, rows):
    unseen = rows[:100].copy()
    unseen[0, 1] = 0.5
    safe = ff.guard(net, rows, held_out=unseen)
    assert safe.explain(unseen[0]).view != "categories"


def test_few_rows_do_not_tell(net, rows):
    assert "categories" not in ff.guard(net, rows[:90]).covered.names


def test_with_categories_beside(rows):
    coded = np.column_stack([rows, np.arange(len(rows)) % 3])
    safe = ff.guard(lambda X: np.tile([0.1, 0.9], (len(X), 1)), coded, categorical=[4])
    assert safe.covered.names.count("categories") == 1
    for column, value in ((1, 0.5), (3, 0.5), (4, 5.0)):
        row = coded[0].copy()
        row[column] = value
        assert safe.explain(row).column == f"column {column}"
        assert safe.predict_proba(row[None]).max() <= 0.51
    assert safe.verify()


def test_files_keep_it(safe, rows, tmp_path):
    safe.save(tmp_path / "safe.safetensors")
    tried = rows[:3].copy()
    tried[:, 1] = 0.5
    again = ff.guard.load(tmp_path / "safe.safetensors")
    assert np.array_equal(again.distance(tried), safe.distance(tried))
