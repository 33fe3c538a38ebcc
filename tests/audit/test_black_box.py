"""Models that can only be asked: what is seen, and that it is never called exact."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import farfield as ff
from farfield.audit.black_box import LOOKS, OUTMOST, BlackBox, look
from farfield.errors import InputError
from farfield.evaluate import Estimate


def steep(rows):
    """Sure of class 1 beyond x0 = 3, and unsure before."""
    sure = (rows[:, 0] > 3).astype(float)
    p = 0.5 + 0.4999 * sure
    return np.stack([1 - p, p], axis=1)


def test_a_ray_is_looked_at_out_to_a_million_deviations():
    seen = []

    def ask(rows):
        seen.append(np.abs(rows).max())
        return steep(rows)

    box = BlackBox(ask, (2,), 2)
    far = look(box, np.zeros(2), np.eye(2), torch.tensor([1.0, 0.5]))
    assert far.confidence.tolist() == pytest.approx([0.9999, 0.5])
    assert far.label.tolist()[0] == 1
    # The first look beyond 3 is at 5 standard deviations.
    assert far.distance(0.999).tolist() == [[5.0, np.inf]]
    assert max(seen) == 2 * OUTMOST, "half a deviation a step: twice as many steps"
    assert far.reach.isnan().all(), "nobody knows where it settles"


def test_a_model_that_answers_nan_far_out_is_taken_at_its_last_answer():
    def ask(rows):
        p = steep(rows)
        p[np.abs(rows).max(axis=1) > 1e4] = np.nan
        return p

    far = look(BlackBox(ask, (1,), 2), np.zeros(1), np.ones((1, 1)), torch.ones(1))
    assert far.cut.tolist() == [True]
    assert far.confidence.tolist() == pytest.approx([0.9999])
    assert far.distance(0.999).tolist() == [[5.0]]


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=len(LOOKS), max_size=len(LOOKS)), st.floats(0.01, 0.99))
def test_distance_is_the_look_from_which_on_it_was_never_seen_below(trace, level):
    def ask(rows):
        place = np.searchsorted(LOOKS, rows[:, 0])
        p = np.asarray(trace)[place]
        return np.stack([1 - p, p], axis=1)

    far = look(BlackBox(ask, (1,), 2), np.zeros(1), np.ones((1, 1)), torch.ones(1))
    last = np.asarray(trace) if far.label[0] == 1 else 1 - np.asarray(trace)
    below = np.flatnonzero(last < level)
    start = 0 if not len(below) else below[-1] + 1
    expected = LOOKS[start] if start < len(LOOKS) else np.inf
    assert float(far.distance(level)[0, 0]) == expected


def test_a_model_that_raises_is_named_with_the_size_of_its_rows():
    def ask(rows):
        raise RuntimeError("too hot")

    with pytest.raises(InputError, match=r"4 rows .* 7: RuntimeError: too hot"):
        BlackBox(ask, (1,), 2).probabilities(np.full((4, 1), 7.0))


def test_sampling_agrees_with_the_exact_far_field_of_a_network():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 3))
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
    few = {"directions": 40, "samples": 60, "random_state": 1}
    exact, sampled = (ff.audit(model, rows, evidence=each, **few) for each in ("exact", "sampled"))
    assert exact.verdict.seen_to is None
    assert sampled.verdict.seen_to == OUTMOST
    for one, other in zip(exact.families, sampled.families, strict=True):
        assert isinstance(other.share, Estimate)
        assert "seen out to 1e+06 sd" in other.share.method
        value = one.share.value if isinstance(one.share, Estimate) else one.share
        assert other.share.low <= value <= other.share.high
        assert other.confidence == pytest.approx(one.confidence, abs=1e-4)
    for one, other in zip(exact.features, sampled.features, strict=True):
        assert one.up.label == other.up.label
        assert one.down.confidence == pytest.approx(other.down.confidence, abs=1e-3)


@pytest.fixture(scope="module")
def found():
    rows = np.random.default_rng(0).standard_normal((40, 2))
    return ff.audit(steep, rows, directions=10)


def test_nothing_of_a_sampled_audit_calls_itself_exact(found):
    assert all(isinstance(each.share, Estimate) for each in found.families)
    assert found.rays[0].first is None
    assert found.surfaces[0].regions is None
    assert np.isnan(found.rays[0].reach)
    assert max(found.curve_steps) == OUTMOST
    assert "not known" in found.verdict.sentence
    # Errors of data entry were made in all rows, and counted: that much is exact.
    said = str(found).replace("no exact", "").replace("40 rows, exact", "")
    assert "exact" not in said


def test_a_sampled_audit_is_read_back_and_rendered_as_it_was(found, tmp_path):
    found.to_json(tmp_path / "audit.json")
    again = ff.Audit.from_json(tmp_path / "audit.json")
    assert again.features[0].up.blind == found.features[0].up.blind
    assert isinstance(again.features[0].up.blind, Estimate)
    page = again.to_html(tmp_path / "report.html").read_text()
    assert "At the last look" in page
    assert "computed exactly" not in page
    assert "infinitely far out" not in page
