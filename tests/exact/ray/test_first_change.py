"""Where the class first changes along a ray, against a dense look and against bisection."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import farfield as ff
from farfield.exact.ray import mean_confidence


def random_net(seed, inputs=3, hidden=12, classes=3):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, classes),
    )  # fmt: skip


def seen_first(network, origin, direction, last=30.0, steps=30_001):
    """The first of many places with another class, and the last one before it."""
    t = torch.linspace(0.0, last, steps, dtype=torch.float64)
    labels = network.probabilities(origin + t[:, None] * direction).mean(dim=0).argmax(dim=-1)
    other = torch.nonzero(labels != labels[0]).flatten()
    if not len(other):
        return None
    return float(t[other[0] - 1]), float(t[other[0]])


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_first_changes_are_those_that_are_seen(seed, members):
    nets = [random_net(10 * seed + each) for each in range(members)]
    network = ff.capture(nets, torch.zeros(1, 3))
    rng = np.random.default_rng(seed)
    origins = torch.from_numpy(rng.normal(size=(12, 3)))
    directions = torch.from_numpy(rng.normal(size=(12, 3)))
    found = ff.along(network, origins, directions).first_change()
    for origin, direction, t in zip(origins, directions, found.tolist(), strict=True):
        seen = seen_first(network, origin, direction)
        if seen is None:
            assert t > 29.0
        else:
            before, at = seen
            assert before - 1e-9 <= t <= at + 1e-9


def test_a_mean_is_searched_a_few_pieces_at_a_time(monkeypatch):
    network = ff.capture([random_net(seed) for seed in range(3)], torch.zeros(1, 3))
    rays = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    lines = ff.along(network, torch.zeros(3), rays)

    def answers():
        found = lines.first_change(), lines.first_reaching(0.9), lines.highest_confidence()
        return torch.stack(found)

    whole, looks, over = answers(), [], mean_confidence.Probabilities.over

    def noted(pieces, boxes):
        looks.append(len(boxes.piece))
        return over(pieces, boxes)

    monkeypatch.setattr(mean_confidence.Probabilities, "over", noted)
    monkeypatch.setattr(mean_confidence, "CHUNK", 100)  # of 3 networks with 3 classes
    torch.testing.assert_close(answers(), whole, rtol=1e-11, atol=1e-13)
    assert max(looks) == 11


def straight(weight, bias):
    layer = nn.Linear(1, len(bias)).double()
    layer.weight.data = torch.tensor(weight, dtype=torch.float64)[:, None]
    layer.bias.data = torch.tensor(bias, dtype=torch.float64)
    return layer


def test_a_class_that_ties_all_along_does_not_change_a_mean(monkeypatch):
    """Classes 0 and 1 are the same in both members; class 2 overtakes the mean where it must."""
    looks, over = [], mean_confidence.Probabilities.over

    def few(pieces, boxes):
        looks.append(len(boxes.piece))
        assert sum(looks) < 1000, "boxes of a tie are split without end"
        return over(pieces, boxes)

    monkeypatch.setattr(mean_confidence.Probabilities, "over", few)
    members = [straight([0.3, 0.3, 1.0], [5.0, 5.0, 0.0]), straight([1.0, 1.0, 2.0], [9.0, 9.0, 0])]
    network = ff.capture(members, torch.zeros(1, 1))
    lines = ff.along(network, [[0.0]], [[1.0]])
    t = lines.first_change()
    around = t * torch.tensor([1 - 1e-9, 1 + 1e-9], dtype=torch.float64)
    assert lines[0].probabilities_at(around).mean(dim=0).argmax(dim=1).tolist() == [0, 2]
    apart = ff.capture([straight([0.3, 0.3], [5.0, 5.0])] * 2, torch.zeros(1, 1))
    assert ff.along(apart, [[0.0]], [[1.0]]).first_change().tolist() == [np.inf]


def test_an_earlier_class_wins_a_tie_of_all_instances():
    """Class 1 leads until both logits of both members are clipped to zero, at 3."""
    members = [nn.Sequential(straight([-1.0, -1.0], [0.0, end]), nn.ReLU()) for end in (2.0, 3.0)]
    network = ff.capture(members, torch.zeros(1, 1))
    assert ff.along(network, [[0.0]], [[1.0]]).first_change().tolist() == [3.0]


def test_a_straight_line_crosses_where_it_must():
    layer = nn.Linear(1, 2)
    layer.weight.data, layer.bias.data = torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, 3.0])
    network = ff.capture(layer, torch.zeros(1, 1))
    # Class 1 at 0; the two meet at 1.5, and class 0 wins a tie.
    lines = ff.along(network, [[0.0], [0.0], [4.0]], [[1.0], [-1.0], [-2.0]])
    assert lines.first_change().tolist() == [1.5, np.inf, 1.25]


def test_a_peak_that_only_touches_is_no_change():
    """Logits 0 and -|x|: they meet at 0, where the first class is still predicted."""
    layers = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2))
    layers[0].weight.data, layers[0].bias.data = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    layers[2].weight.data = torch.tensor([[0.0, 0.0], [-1.0, -1.0]])
    layers[2].bias.data = torch.zeros(2)
    network = ff.capture(layers, torch.zeros(1, 1))
    assert ff.along(network, [[-1.0]], [[1.0]]).first_change().tolist() == [np.inf]


def test_forests_change_at_their_thresholds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, X[:, 0] > 0.3 * X[:, 1])
    network = ff.capture(forest)
    directions = np.tile(np.array([[1.0, 0.0], [0.0, -1.0]]), (50, 1))
    found = ff.along(network, X[:100], directions).first_change().numpy()
    for x, way, t in zip(X, directions, found, strict=False):
        rows = x + np.linspace(0, 8, 4001)[:, None] * way
        labels = forest.predict(rows)
        changed = np.flatnonzero(labels != labels[0])
        if len(changed):
            assert 8 * (changed[0] - 1) / 4000 <= t <= 8 * changed[0] / 4000
        else:
            assert t > 7.99
    assert np.isfinite(found).any()
