"""Models that jump along whole rays, against their own predictions."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.errors import UnsupportedOperation
from farfield.exact.ray.broken import merged
from farfield.exact.ray.spans import Spans
from farfield.graph.network import join
from small_networks import captured, mlp
from step_models import MODELS, X, step_model, stumps

RAYS = 12
ORIGINS = X[:RAYS]
DIRECTIONS = np.random.default_rng(1).normal(size=(RAYS, 4))
DIRECTIONS[6:9, 1:] = 0.0


def inside(line):
    """A place on each piece of a line."""
    edges = line.edges.numpy()
    return np.append((edges[:-2] + edges[1:-1]) / 2, 2 * edges[-2] + 1)


def along_ray(model, index, t):
    return model.predict_proba(ORIGINS[index] + t[:, None] * DIRECTIONS[index])


@pytest.mark.parametrize("name", MODELS)
def test_every_piece_is_what_the_model_predicts(name):
    model, network = step_model(name)
    lines = ff.along(network, ORIGINS, DIRECTIONS)
    far = ff.at_infinity(network, ORIGINS, DIRECTIONS)
    grid = np.linspace(0.0, 3.0, 301)
    for index, line in enumerate(lines):
        places = np.concatenate([grid, inside(line)])
        own = line.probabilities_at(places)[0].numpy()
        assert np.allclose(own, along_ray(model, index, places), atol=1e-12)
        # Nothing is a breakpoint that changes nothing.
        pieces = line.intercept.numpy()
        assert (pieces[1:] != pieces[:-1]).any(axis=1).all()
        assert not line.slope.any()
        assert line.edges[-2] <= far.reach[0, index]
        assert torch.allclose(line.limit[0], far.probabilities[0, index], rtol=0, atol=1e-15)
    assert lines.counts.tolist() == [[len(line) for line in lines]]


@pytest.mark.parametrize("name", MODELS)
def test_confidences_on_pieces(name):
    model, network = step_model(name)
    lines = ff.along(network, ORIGINS, DIRECTIONS)
    level = 0.62
    first, highest = lines.first_reaching(level), lines.highest_confidence()
    for index, line in enumerate(lines):
        sure = along_ray(model, index, inside(line)).max(axis=1)
        reached = np.flatnonzero(sure >= level)
        expected = line.edges[reached[0]] if len(reached) else np.inf
        assert first[index] == expected
        assert highest[index] == pytest.approx(sure.max(), abs=1e-12)
        alone = ff.first_reaching(network, ORIGINS[index], DIRECTIONS[index], level, budget=500)
        assert alone.t == first[index]


@pytest.mark.parametrize("name", MODELS)
def test_stretches_are_the_whole_ray(name):
    _, network = step_model(name)
    whole = ff.along(network, ORIGINS[:1], DIRECTIONS[:1])[0]
    for budget in (1, 2000, 1 << 20):
        parts = list(ff.iterate_pieces(network, ORIGINS[0], DIRECTIONS[0], budget=budget))
        assert torch.equal(
            torch.cat([parts[0].edges[:1], *(p.edges[1:] for p in parts)]), whole.edges
        )
        assert torch.equal(torch.cat([part.intercept for part in parts]), whole.intercept)
        small = ff.along(network, ORIGINS, DIRECTIONS, budget=budget)
        assert torch.equal(small[0].edges, whole.edges)


@pytest.mark.parametrize("name", MODELS)
def test_sure_for_good(name):
    model, network = step_model(name)
    far = ff.at_infinity(network, ORIGINS, DIRECTIONS)
    lines = ff.along(network, ORIGINS, DIRECTIONS)
    for level in (0.4, 0.5, 0.7):
        found = far.sure_from(level)
        assert found.exact.all()
        for index, line in enumerate(lines):
            own = along_ray(model, index, inside(line))[:, far.winner[0, index]]
            lost = np.flatnonzero(own < level - 1e-12)
            expected = line.edges[lost[-1] + 1] if len(lost) else 0.0
            assert found.t[0, index] == pytest.approx(float(expected), rel=1e-12)
    final = far.final_from()
    assert final.exact.all()
    assert (final.t <= far.reach).all()
    hasty = far.sure_from(0.4, budget=1.0)
    assert not hasty.exact.all()
    assert (hasty.t >= far.sure_from(0.4).t).all()


def test_a_jump_belongs_to_the_side_that_the_model_says():
    """Whole numbers: every place is a float, and so is the model's input there."""
    first, second = np.array([0.0, 1.0]), np.array([2.0, -1.0])
    network = stumps(2, [(0, 1.0, first, second), (0, -1.0, first, 3 * second)])
    for direction, values in ((1.0, [1.0]), (-1.0, [1.0])):
        line = ff.along(network, [0.0, 0.0], [direction, 0.0])[0]
        assert line.breakpoints.tolist() == values
        places = [0.0, np.nextafter(1.0, 0.0), 1.0, np.nextafter(1.0, 2.0), 5.0]
        rows = torch.tensor([[direction * t, 0.0] for t in places], dtype=torch.float64)
        assert torch.equal(line.logits_at(places), network.logits(rows))
        assert torch.equal(line.logits, network.logits(rows[2:3])[0])
    # Upwards the old value holds at the threshold itself, downwards the new one does.
    up, down = (ff.along(network, [0.0, 0.0], [sign, 0.0])[0] for sign in (1.0, -1.0))
    assert torch.equal(up.logits[0], up.intercept[0])
    assert torch.equal(down.logits[0], down.intercept[1])


def test_a_place_that_is_like_neither_side():
    """One column arrives at its threshold from below while another falls to its own."""
    nothing, sure = np.zeros(2), np.array([6.0, 0.0])
    # Surest where the first is still low and the second is low already.
    network = stumps(2, [(0, 1.0, sure, nothing), (1, -1.0, sure, nothing)])
    line = ff.along(network, [0.0, 0.0], [1.0, -1.0], 3.0)
    assert line[0].logits.tolist() == [[12.0, 0.0]]
    assert line[0].intercept.tolist() == [[6.0, 0.0], [6.0, 0.0]]
    highest = torch.softmax(torch.tensor([12.0, 0.0], dtype=torch.float64), 0)[0]
    assert line.highest_confidence()[0] == pytest.approx(float(highest), abs=1e-15)
    assert line.first_reaching(0.9999).tolist() == [1.0]
    point = network.probabilities(torch.tensor([[1.0, -1.0]], dtype=torch.float64))
    assert torch.equal(line[0].probabilities_at(1.0), point)


def test_starting_on_a_threshold():
    low, high = np.array([2.0, 0.0]), np.array([0.0, 2.0])
    network = stumps(1, [(0, 2.0, low, high)])
    up = ff.along(network, [2.0], [1.0])[0]
    assert up.breakpoints.tolist() == []
    assert up.logits_at([0.0, 1e-9])[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    down = ff.along(network, [2.0], [-1.0])[0]
    assert down.logits_at([0.0, 1.0])[0].tolist() == [[2.0, 0.0], [2.0, 0.0]]
    assert len(ff.along(network, [2.0], [1.0], 0.0)[0]) == 1


def test_probabilities_that_are_zero():
    one, two = np.array([1.0, 0.0]), np.array([0.25, 0.75])
    network = stumps(1, [(0, 0.0, one, two)], "identity")
    lines = ff.along(network, [-1.0], [1.0])
    assert lines[0].intercept[0].tolist() == [0.0, -np.inf]
    assert lines[0].probabilities_at([0.5, 2.0])[0].tolist() == [[1.0, 0.0], [0.25, 0.75]]
    assert lines.first_reaching(0.999).tolist() == [0.0]
    assert lines.highest_confidence().tolist() == [1.0]
    far = ff.at_infinity(network, [-1.0], [1.0])
    assert far.distance(0.75).tolist() == [[1.0]]
    assert far.probabilities.tolist() == [[[0.25, 0.75]]]


def test_ties_with_a_level_are_not_rounded_away():
    """Shares that are a level exactly, as those of a hundred trees often are."""
    share = 0.99
    network = stumps(1, [(0, 0.0, np.array([share, 1 - share]), np.zeros(2) + 0.5)], "identity")
    assert ff.along(network, [-1.0], [1.0]).first_reaching(share).tolist() == [0.0]
    far = ff.at_infinity(network, [1.0], [-1.0])
    assert far.confidence.tolist() == [share]
    assert far.distance(share).tolist() == [[1.0]]


def test_certified_ties_between_classes_stay_probabilities():
    network = stumps(1, [(0, 0.0, np.array([0.5, 0.5]), np.array([0.75, 0.25]))], "identity")
    far = ff.at_infinity(network, [1.0], [[-1.0], [1.0]], certify=True)
    assert far.probabilities.tolist() == [[[0.5, 0.5], [0.75, 0.25]]]


def test_boxes():
    model, network = step_model("rotated")
    low, high = -1.0, 1.2
    starts = ORIGINS.clip(low, high)
    box = ff.Box(low, high)
    clipped = ff.along(network, starts, DIRECTIONS, box=box, leaving="project")
    stopped = ff.along(network, starts, DIRECTIONS, box=box)
    t = np.linspace(0.0, 6.0, 200)
    for index in range(RAYS):
        rows = (starts[index] + t[:, None] * DIRECTIONS[index]).clip(low, high)
        own = clipped[index].probabilities_at(t)[0].numpy()
        assert np.allclose(own, model.predict_proba(rows), atol=1e-12)
        end = stopped[index].edges[-1]
        assert end == box.exit(starts[index], DIRECTIONS[index])[0]
        inner = t[t < float(end)]
        assert np.allclose(stopped[index].probabilities_at(inner)[0], own[: len(inner)], atol=1e-12)


def test_several_instances():
    _, network = step_model("forest")
    other = ff.capture(MODELS["forest"]().set_params(random_state=7).fit(X, X[:, 0].round() % 3))
    both = join([network, other])
    lines = ff.along(both, ORIGINS, DIRECTIONS)
    t = np.linspace(0.0, 4.0, 200)
    for index, line in enumerate(lines):
        rows = ORIGINS[index] + t[:, None] * DIRECTIONS[index]
        assert torch.allclose(line.probabilities_at(t), both.probabilities(rows), atol=1e-12)
        mean = line.probabilities_at(inside(line)).mean(dim=0).amax(dim=-1)
        assert float(mean.max()) == pytest.approx(float(lines.highest_confidence()[index]))
        assert line.intercept.shape == (2, len(line), 3)


class Thresholded(nn.Module):
    """A network whose hidden units jump."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            mlp(2, 6, seed=3), nn.Threshold(0.3, -0.5), mlp(6, 3, seed=4), nn.MaxPool1d(1)
        )

    def forward(self, x):
        return self.body(x[:, None])[:, 0]


def test_networks_that_jump_and_grow():
    network = captured(Thresholded(), 2)
    generator = torch.Generator().manual_seed(0)
    rays = torch.randn(2, 6, 2, generator=generator, dtype=torch.float64)
    lines = ff.along(network, *rays)
    far = ff.at_infinity(network, *rays)
    t = torch.linspace(0.0, 5.0, 400, dtype=torch.float64)
    for index, line in enumerate(lines):
        points = rays[0, index] + t[:, None] * rays[1, index]
        assert torch.allclose(line.logits_at(t), network.logits(points), atol=1e-9)
        assert torch.allclose(line.slope[-1], far.slope[0, index])
        sure = network.probabilities(points).amax(dim=-1)[0]
        assert lines.highest_confidence()[index] >= sure.max() - 1e-12
        first = lines.first_reaching(0.9)[index]
        assert not (sure[t < first - 1e-9] >= 0.9).any()
    assert far.sure_from(0.5).exact.all()


def test_what_moves_is_not_put_through_smooth_functions():
    network = captured(nn.Sequential(mlp(2, 3), nn.Threshold(0.1, 2.0), nn.Softsign()), 2)
    with pytest.raises(UnsupportedOperation, match="softsign"):
        ff.along(network, [0.0, 0.0], [1.0, 0.0])
    with pytest.raises(UnsupportedOperation, match="continuous"):
        ff.first_reaching(step_model("forest")[1], X[0], DIRECTIONS[0], 0.9, skip=True)


def test_cells_that_agree_are_one():
    spans = Spans.of(torch.tensor([4.0, 1.0], dtype=torch.float64))
    cut, parent = spans.cut(torch.tensor([1, 1]), torch.tensor([1.0, 3.0], dtype=torch.float64))
    assert cut.low.tolist() == [0.0, 0.0, 1.0, 1.0, 3.0, 3.0, 4.0, 0.0, 0.0, 1.0]
    assert parent.tolist() == [0, 1, 1, 1, 1, 1, 2, 3, 4, 5]
    out = torch.zeros(2, 10, 1)
    out[1, 4:6] = 1.0
    joined, values = merged(cut, out)
    assert joined.low.tolist() == [0.0, 0.0, 3.0, 3.0, 4.0, 0.0, 0.0, 1.0]
    assert joined.high.tolist() == [0.0, 3.0, 3.0, 4.0, 4.0, 0.0, 1.0, 1.0]
    assert values.shape == (2, 8, 1)
