"""No training row can be read from what a guard stores."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from farfield.guard import guard

pytestmark = pytest.mark.usefixtures("few_folds")


def answer(X):
    return np.tile([0.7, 0.3], (len(X), 1))


def recovered(rows, stored):
    """How many rows, standardised, have one of the stored places within a thousandth."""
    apart = np.abs(rows[:, None] - stored[None]).max(axis=2)
    return int((apart.min(axis=1) <= 1e-3).sum())


def places(safe):
    """Everything that a view stores about where rows are, back in the inputs' own units."""
    covered = safe.covered
    for view in covered.each_view:
        arrays = view.arrays()
        if "inputs" in arrays:
            units = covered.whitened
            yield view.name, (arrays["inputs"] * units.unit + units.mean).numpy()


@pytest.mark.parametrize(("count", "seed"), [(50, 0), (120, 1), (400, 0), (1000, 1)])
def test_no_prototype_is_a_row(count, seed):
    """Heavy tails: far rows would be clusters of their own."""
    rows = np.random.default_rng(seed).standard_t(2, size=(count, 5))
    safe = guard(answer, rows, held_out=None)
    unit = rows.std(axis=0)
    for name, stored in places(safe):
        assert recovered(rows / unit, stored / unit) == 0, name


def test_every_view_stores_means_of_enough_rows(moons):
    from farfield.data.columns import read_columns
    from farfield.guard.fit import Maker

    rows = np.random.default_rng(0).standard_t(2, size=(600, 3))
    covered = Maker(read_columns(rows, None, None), None, 10, 0).fit(rows)
    names = {view.name for view in covered.each_view}
    assert names == {"balls", "ranges", "neighbours", "density"}
    place, _ = covered.place(torch.from_numpy(rows))
    for view in covered.each_view:
        arrays = view.arrays()
        if "inputs" in arrays:
            stored = arrays["inputs"].numpy()
            assert recovered(place.standard.numpy(), stored) == 0, view.name
            assert len(stored) <= len(rows) // 10


def test_files_hold_nothing_else(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 4))
    safe = guard(torch.nn.Linear(4, 2), rows)
    safe.save(tmp_path / "safe.safetensors")
    held = load_file(tmp_path / "safe.safetensors")
    for name, value in held.items():
        if name.startswith("member."):
            continue
        assert value.shape[:1] in ((), (4,), (1,)) or len(value) <= 300 // 10, name
        if value.ndim == 2 and value.shape[1] == 4:
            assert recovered(rows, value.numpy()) == 0, name


def test_fewer_rows_may_be_asked_for():
    rows = np.random.default_rng(0).normal(size=(60, 2))
    assert guard(answer, rows, min_rows=2, held_out=None).certificate.min_rows == 2
    few = guard(answer, rows, min_rows=20, held_out=None)
    assert len(few.covered.balls.centres) <= 60 // 20
