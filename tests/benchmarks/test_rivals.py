"""What rivals are said to do at infinity is what they do far out."""

import numpy as np
import pytest
import torch

pytest.importorskip("benchmarks", reason="benchmarks are not part of the source distribution")

from benchmarks.guard_data import Task
from benchmarks.rivals.base import Base
from benchmarks.rivals.rival import Rival, answers

import farfield as ff
from benchmarks import guard_attack, guard_rays, rivals
from farfield.datasets import half_moons

FAR = 1e9
METHODS = ("plain", *rivals.POST_HOC, *rivals.PERCEPTRON)


@pytest.fixture(scope="module")
def task() -> Task:
    data = half_moons(0)
    codes = np.asarray(data.y).astype(np.int64)
    X = np.asarray(data.X, dtype=np.float64)
    near = {"to the right": X[:20] + np.array([4.0, 0.0])}
    settings = {"hidden": (8, 8), "epochs": 15, "learning_rate": 1e-2}
    return Task((X[:300], codes[:300]), (X[300:], codes[300:]), near, settings)


@pytest.fixture(scope="module")
def models() -> dict[str, object]:
    return {}


def fitted(method: str, task: Task, models: dict[str, object]) -> Rival:
    key = f"fitted {method}"
    if key not in models:
        models[key] = rivals.make("moons", method, task, models)
    return models[key]


@pytest.mark.parametrize("method", METHODS)
def test_far_fields_are_limits(method, task, models):
    rival = fitted(method, task, models)
    origin = torch.from_numpy(task.train[0].mean(axis=0))
    rays = torch.randn(40, 2, generator=torch.Generator().manual_seed(1)).double()
    said = rival.far(origin, rays)
    with torch.no_grad():
        found = rival.uncertainty(origin + FAR * rays)
    found = 1 - found if rival.by_confidence else found
    bounded = torch.isfinite(said)
    # Laplace and RGPR approach their limits like one over t and over its root.
    assert torch.allclose(said[bounded], found[bounded], atol=1e-3)
    assert ((said == torch.inf) <= (found > 1e3)).all()
    assert ((said == -torch.inf) <= (found < -1e3)).all()


@pytest.mark.parametrize("method", METHODS)
def test_rivals_answer(method, task, models):
    rival = fitted(method, task, models)
    rows = torch.from_numpy(task.test[0])
    scores, p = answers(rival, rows)
    assert scores.shape == (len(rows),)
    assert torch.isfinite(scores).all()
    if p is not None:
        assert torch.allclose(p.sum(dim=1), torch.ones(len(rows)).double(), atol=1e-6)
        assert (p.argmax(dim=1).numpy() == task.test[1]).mean() > 0.8


@pytest.mark.parametrize("method", ["plain", "ccu", "nearest"])
def test_attacks_only_lower_the_uncertainty(method, task, models):
    rival = fitted(method, task, models)
    inside, _ = answers(rival, torch.from_numpy(task.test[0]))
    for found in guard_attack.attacked(task, rival, inside).values():
        assert found["auroc"] <= found["clean"]


def test_features_that_stand_still_are_found():
    # Both features are off to the left and on to the right.
    net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [2.0]]))
    X = np.linspace(-1, 1, 20)[:, None]
    task = Task((X, (X[:, 0] > 0).astype(np.int64)), (X, (X[:, 0] > 0).astype(np.int64)), {}, {})
    shares = guard_rays.stillness(task, Base.of(net, task).still)
    assert shares["axes"] == 0.5


def test_blindness_of_a_plain_network_is_its_far_field(task, models):
    rival = fitted("plain", task, models)
    rays = guard_rays.rays(task)["sphere"]
    network = ff.capture(models["plain"], torch.zeros(1, 2))
    origin = task.train[0].mean(axis=0)
    expected = float((ff.at_infinity(network, origin, rays).confidence >= 0.99).double().mean())
    assert guard_rays.blindness(task, rival)["sphere"] == expected
