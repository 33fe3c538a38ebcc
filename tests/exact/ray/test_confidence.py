"""Where a confidence is first reached, and the highest there is: known answers and dense grids."""

import functools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from torch import nn

import farfield as ff
from farfield.exact.ray.line import along
from farfield.exact.ray.mean_confidence import Boxes, Probabilities
from farfield.exact.ray.pieces import AffinePieces

INF = float("inf")


def affine(weight, bias):
    layer = nn.Linear(1, len(weight), dtype=torch.float64)
    layer.weight.data = torch.tensor(weight, dtype=torch.float64)[:, None]
    layer.bias.data = torch.tensor(bias, dtype=torch.float64)
    return layer


def capture(module, inputs=1):
    return ff.capture(module, torch.zeros(1, inputs, dtype=torch.float64))


def logit(p):
    return math.log(p / (1 - p))


@functools.cache
def ensemble(seed, members, classes=3, gain=3.0):
    """Networks whose confidence goes up and down along a ray."""
    generator = torch.Generator().manual_seed(seed)
    modules = []
    for _ in range(members):
        parts = [nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, classes)]
        module = nn.Sequential(*parts).double()
        for parameter in module.parameters():
            shape = parameter.shape
            values = torch.randn(shape, generator=generator, dtype=torch.float64)
            parameter.data = values * gain / shape[-1] ** 0.5
        modules.append(module)
    return capture(modules, 2)


@pytest.mark.parametrize("confidence", [0.6, 0.9, 0.999, 1 - 1e-9])
def test_one_logit_has_a_closed_form(confidence):
    lines = along(capture(affine([2.0], [-5.0])), [[0.0], [1.0], [2.5]], [[1.0], [1.0], [-3.0]])
    up, down = (5 + logit(confidence)) / 2, (5 - logit(confidence)) / 2
    expected = [0.0 if down >= 0 else up, 0.0 if down >= 1 else up - 1, (2.5 - down) / 3]
    np.testing.assert_allclose(lines.first_reaching(confidence).numpy(), expected, rtol=1e-12)
    assert lines.highest_confidence().tolist() == [1.0, 1.0, 1.0]


def test_a_peak_inside_a_piece_has_a_closed_form():
    # Logits -t, t, 1: the third class is most likely at t = 0, with e / (e + 2).
    network = capture(affine([-1.0, 1.0, 0.0], [0.0, 0.0, 1.0]))
    peak = math.e / (math.e + 2)
    line = along(network, [-0.4], [1.0], 0.9)
    assert line.highest_confidence().item() == pytest.approx(peak, rel=1e-14)
    assert line.first_reaching(peak - 1e-6).item() == pytest.approx(
        0.4 - math.acosh((1 / (peak - 1e-6) - 1) * math.e / 2), rel=1e-10
    )
    assert line.first_reaching(peak + 1e-9).item() == INF


def test_a_peak_on_the_last_piece_without_an_end():
    # The first class leads for a while and is then outgrown by the second.
    network = capture(affine([1.0, 1.5, -4.0], [0.0, -30.0, 5.0]))
    line = along(network, [0.0], [1.0])
    assert line.highest_confidence().item() == 1.0

    def first(t):
        return 1 / (1 + math.exp(0.5 * t - 30) + math.exp(5 - 5 * t))

    expected = brentq(lambda t: first(t) - 0.9995, 1, 5, xtol=1e-15)
    assert line.first_reaching(0.9995).item() == pytest.approx(expected, rel=1e-11)


def test_limits_that_are_not_attained():
    # Classes 0 and 1 grow alike, 1/(1+e) and e/(1+e) in the limit; class 2 falls away.
    network = capture(affine([1.0, 1.0, 0.0], [0.0, 1.0, 0.0]))
    line = along(network, [0.0], [1.0])
    limit = 1 / (1 + math.exp(-1.0))
    assert line.highest_confidence().item() == pytest.approx(limit, rel=1e-15)
    assert line.first_reaching(limit + 1e-12).item() == INF
    below = limit - 1e-6
    expected = -math.log(math.e / below - 1 - math.e)
    assert line.first_reaching(below).item() == pytest.approx(expected, rel=1e-8)
    still = along(capture(affine([0.0, 0.0], [0.0, 1.0])), [0.0], [1.0])
    assert still.first_reaching(limit - 1e-9).item() == 0.0
    assert still.first_reaching(limit + 1e-9).item() == INF
    assert still.highest_confidence().item() == pytest.approx(limit, rel=1e-15)


def test_uniform_confidence_is_reached_at_once():
    line = along(capture(affine([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])), [0.0], [1.0])
    assert line.first_reaching(1 / 3).item() == 0.0
    assert line.first_reaching(0.2).item() == 0.0


def grid_of(line, stop):
    """Many places in every piece, and far beyond the last."""
    edges = line.edges.clamp(max=stop)
    share = torch.linspace(0, 1, 60, dtype=torch.float64)
    inside = edges[:-1, None] + share * (edges[1:] - edges[:-1])[:, None]
    return inside.flatten().sort().values


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 3),
    members=st.sampled_from([1, 3]),
    ray=st.integers(0, 10_000),
    confidence=st.sampled_from([0.45, 0.6, 0.8, 0.95]),
    stop=st.sampled_from([INF, 3.0]),
)
def test_no_dense_grid_beats_the_answers(seed, members, ray, confidence, stop):
    network = ensemble(seed, members)
    generator = torch.Generator().manual_seed(ray)
    origin, direction = torch.randn(2, 1, 2, generator=generator, dtype=torch.float64)
    lines = along(network, origin, direction, stop)
    line, highest = lines[0], lines.highest_confidence().item()
    t = grid_of(line, 1e3)
    seen = network.probabilities(origin + t[:, None] * direction).mean(dim=0).amax(dim=-1)
    assert float(seen.max()) <= highest + 1e-12
    best = int(seen.argmax())
    around = t[max(0, best - 1)].item(), t[min(len(t) - 1, best + 1)].item()

    def confidence_at(place):
        return float(line.probabilities_at(place).mean(dim=0).amax())

    top = minimize_scalar(lambda x: -confidence_at(x), bounds=around, method="bounded").fun
    limit = ff.at_infinity(network, origin, direction).confidence.item() if stop == INF else 0.0
    # The grid is dense but finite: nothing much higher may be claimed than what is found near it.
    assert highest <= max(-top, limit, float(seen.max())) + 2e-3
    first = lines.first_reaching(confidence).item()
    if first == INF:
        assert float(seen.max()) < confidence + 1e-12
    else:
        assert confidence_at(first) >= confidence - 1e-10
        assert bool((seen[t < first * (1 - 1e-10)] < confidence + 1e-12).all())
        assert first == 0 or confidence_at(first * (1 - 1e-7)) < confidence


def test_mean_of_two_has_its_peak_between_them():
    # One member turns to class 1 at t = 1, the other away from it at t = 3.
    network = capture([affine([10.0], [-10.0]), affine([-10.0], [30.0])])
    line = along(network, [0.0], [1.0])
    peak = 1 / (1 + math.exp(-10.0))
    assert line.highest_confidence().item() == pytest.approx(peak, abs=2e-13)

    def mean(t):
        return (1 / (1 + math.exp(10 - 10 * t)) + 1 / (1 + math.exp(10 * t - 30))) / 2

    for confidence in (0.6, 0.9, peak - 1e-7):
        expected = brentq(lambda t: mean(t) - confidence, 0.0, 2.0, xtol=1e-15)  # noqa: B023
        found = line.first_reaching(confidence).item()
        assert found == pytest.approx(expected, rel=1e-10)
    assert line.first_reaching(peak + 1e-9).item() == INF


def test_mean_that_only_rises_far_out():
    network = capture([affine([1e-6], [0.0]), affine([2e-6], [-1.0])])
    line = along(network, [0.0], [1.0])
    assert line.highest_confidence().item() == 1.0

    def mean(t):
        return (1 / (1 + math.exp(-1e-6 * t)) + 1 / (1 + math.exp(1 - 2e-6 * t))) / 2

    expected = brentq(lambda t: mean(t) - 0.99, 0.0, 1e8, xtol=1e-6, rtol=1e-14)
    assert line.first_reaching(0.99).item() == pytest.approx(expected, rel=1e-10)


def test_mean_with_members_that_disagree_forever():
    network = capture([affine([1.0], [-3.0]), affine([-1.0], [-3.0])])
    line = along(network, [0.0], [1.0])
    start = 1 / (1 + math.exp(-3.0))
    assert line.highest_confidence().item() == pytest.approx(start, abs=1e-13)
    assert line.first_reaching(0.99).item() == INF
    assert line.first_reaching(0.9).item() == 0.0


def test_equal_members_give_what_one_gives():
    layer = affine([2.0, -1.0, 0.5], [0.3, 2.0, 0.0])
    single, triple = capture(layer), capture([layer, layer, layer])
    origin, direction = [[-3.0], [4.0]], [[1.0], [-1.0]]
    a, b = along(single, origin, direction), along(triple, origin, direction)
    np.testing.assert_allclose(a.first_reaching(0.8), b.first_reaching(0.8), rtol=1e-10)
    np.testing.assert_allclose(a.highest_confidence(), b.highest_confidence(), atol=1e-12)
    assert a.counts.tolist() == b.counts[:1].tolist()


def test_many_rays_agree_with_rays_one_by_one():
    network = ensemble(1, 1)
    generator = torch.Generator().manual_seed(5)
    origin, direction = torch.randn(2, 25, 2, generator=generator, dtype=torch.float64)
    lines = along(network, origin, direction)
    alone = [along(network, o, d) for o, d in zip(origin, direction, strict=True)]
    first = [line.first_reaching(0.9).item() for line in alone]
    highest = [line.highest_confidence().item() for line in alone]
    np.testing.assert_allclose(lines.first_reaching(0.9), first, rtol=1e-12)
    np.testing.assert_allclose(lines.highest_confidence(), highest, rtol=1e-14)


@pytest.fixture
def _few(monkeypatch):
    """A search that looks at more than some thousand boxes fails."""
    looks, over = [], Probabilities.over

    def noted(pieces, boxes):
        looks.append(len(boxes.piece))
        assert sum(looks) < 50_000, "boxes are split without end"
        return over(pieces, boxes)

    monkeypatch.setattr(Probabilities, "over", noted)


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_members_that_cancel_are_searched_quickly(scale):
    """Each member's confidence rises; that of their mean is one half all along."""
    members = [affine([sign * scale, -sign * scale], [0.0, 0.0]) for sign in (1, -1)]
    lines = ff.along(ff.capture(members, torch.zeros(1, 1)), [[0.0]], [[1.0]])
    assert lines.highest_confidence().tolist() == pytest.approx([0.5], abs=1e-13)


@pytest.mark.usefixtures("_few")
def test_a_mean_that_nears_its_limit_faster_than_its_members():
    """The mean of the first class is one half but for some ``exp(-2 t)``."""
    members = [affine([1.0, 0.0, -1.0], [0.0] * 3), affine([1.0, 0.0, 2.0], [0.0] * 3)]
    line = ff.along(ff.capture(members, torch.zeros(1, 1)), [[0.0]], [[1.0]])
    t = line.first_reaching(0.5)
    # Until the rest is less than what a half can tell.
    assert 18 < float(t) < 37
    assert line[0].probabilities_at(t).mean(dim=0).amax() >= 0.5 - 1e-16


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.01, 30), st.floats(0, 3))
def test_bounds_hold_in_between(seed, members, size, low):
    """Whatever a class of the mean does inside of a box, and its lead over another."""
    generator = torch.Generator().manual_seed(seed)
    start, growth = torch.randn(
        2, members, 1, 3, generator=generator, dtype=torch.float64
    ) * torch.tensor([1.0, size], dtype=torch.float64).reshape(2, 1, 1, 1)
    one, yes = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    pieces = AffinePieces(0 * one, one, one > 0, yes, start, growth, torch.softmax(start, -1))
    high = low + float(torch.rand((), generator=generator)) * 2 / size
    boxes = Boxes(yes, low * one, high * one)
    seen = Probabilities.over(pieces, boxes)
    u = torch.linspace(low, high, 101, dtype=torch.float64)[:, None]
    p = torch.softmax(start + growth * u, dim=-1).mean(dim=0)
    assert (p <= seen.most() + 1e-14).all()
    lead = seen.lead(yes[:, None])
    assert (p - p[:, :1] <= lead.most() + 1e-14).all()
    assert (p >= seen.least - 1e-14).all()
    # Each bound by itself: the chord, and the cubic through values and slopes.
    share = (u - low) / max(high - low, 1e-300)
    chord = seen.low + (seen.high - seen.low) * share
    assert ((p - chord).abs() <= seen.curve + 1e-14).all()
    cubic = (
        seen.low * (1 - share) ** 3
        + 3 * seen.inner[0] * share * (1 - share) ** 2
        + 3 * seen.inner[1] * share**2 * (1 - share)
        + seen.high * share**3
    )
    assert ((p - cubic).abs() <= seen.rest + 1e-14).all()
