"""The model itself at powers of ten: rounding and overflow where arithmetic says they are."""

import numpy as np
import torch
from torch import nn

import farfield as ff
from audit_subjects import affine
from farfield.audit.sections.arithmetic import _asked, _Rays
from farfield.errors import InputError

ROWS = np.random.default_rng(0).normal(size=(60, 2))


def arithmetic(model):
    return ff.audit(model, ROWS, samples=20, directions=5, features=["a", "b"]).arithmetic


def test_rounding_drowns_what_decides_the_limit():
    # Both logits grow alike, and differ by one for ever: the limit is a sigmoid of one.
    found = arithmetic(affine([[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0]))
    assert found.precision == "float32"
    assert found.refused is None
    for name in ("a up", "a down"):
        lapse = next(each for each in found.lapses if each.ray == name)
        # Above 2 ** 25 the neighbours of a float32 are four apart or more.
        assert lapse.deviations == 1e8
        assert lapse.answer
        assert (lapse.got, round(lapse.limit, 6)) == (0.5, round(1 / (1 + np.exp(-1)), 6))
    assert not [each for each in found.lapses if each.column == "b"]


def test_float64_rounds_later():
    model = affine([[1.0, 0.0], [1.0, 0.0]], [0.0, 1.0]).double()
    # Above 2 ** 53, some 9e15, its neighbours are two apart, and one is half of that.
    assert {each.deviations for each in arithmetic(model).lapses if each.column == "a"} == {1e16}


def test_what_overflows_is_no_answer():
    # 1e30 times 1e10 is beyond float32, and infinity minus infinity is no number.
    model = nn.Sequential(affine([[1e30, 0.0], [1e30, 0.0]], [0.0, 0.0]), nn.ReLU(),
                          affine([[1.0, -1.0], [0.0, 0.0]], [3.0, 0.0]))  # fmt: skip
    found = arithmetic(model)
    first = found.lapses[0]
    assert (first.ray, first.answer) in (("a up", False), ("random direction 1", False),
                                         ("random direction 2", False))  # fmt: skip
    up = next(each for each in found.lapses if each.ray == "a up")
    assert up.deviations == 1e9
    assert np.isclose(up.value, np.median(ROWS[:, 0]) + 1e9 * ROWS[:, 0].std(), rtol=0.05)
    assert not [each for each in found.lapses if each.ray in ("a down", "b up", "b down")]


def test_a_sound_model_has_no_lapses():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
    found = arithmetic(model)
    assert found.lapses == ()
    assert found.outmost >= 1e37


def test_an_error_is_loud_and_ends_the_search():
    def careful(rows):
        if np.abs(rows).max() > 1e5:
            raise InputError("too large")
        return np.tile([0.3, 0.7], (len(rows), 1))

    rays = _Rays(["a up"], ["a"], [0], np.zeros((1, 2)), np.array([[1.0, 0.0]]))
    answers, refused = _asked(careful, rays, np.array([1.0, 1e3, 1e6, 1e9]))
    assert (len(answers), refused) == (2, 1e6)
