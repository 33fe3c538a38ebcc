"""A guard that nobody asked for must not cost an audit."""

import numpy as np
import pytest

import farfield as ff
from farfield.audit import case
from farfield.errors import InputError

ROWS = np.random.default_rng(0).normal(size=(60, 2))


def model(rows):
    return np.tile([0.3, 0.7], (len(rows), 1))


def test_a_guard_of_a_sample_is_left_out_where_none_can_be_made(monkeypatch):
    def fails(*_, **__):
        raise InputError("too few rows")

    monkeypatch.setattr(case, "guarded", fails)
    options = {"samples": 20, "directions": 5, "entry_rows": 10}
    found = ff.audit(model, ROWS, guard="sample", **options)
    assert found.guard is None
    assert found.provenance.settings["guard"] == "none: too few rows"
    with pytest.raises(InputError, match="too few rows"):
        ff.audit(model, ROWS, guard=True, **options)
