"""What rivals are said to do at infinity is what they do far out."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import farfield as ff
from farfield.datasets import half_moons
from farfield.reproduce import guard_measures, guard_tables, rivals
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.rival import Rival, answers

ROOT = Path(__file__).parents[2]
FAR = 1e9
METHODS = ("plain", *rivals.POST_HOC, *rivals.PERCEPTRON)


@pytest.fixture(scope="module")
def task() -> GuardTask:
    data = half_moons(0)
    codes = np.asarray(data.y).astype(np.int64)
    X = np.asarray(data.X, dtype=np.float64)
    near = {"to the right": X[:20] + np.array([4.0, 0.0])}
    settings = {"hidden": (8, 8), "epochs": 15, "learning_rate": 1e-2}
    return GuardTask((X[:300], codes[:300]), (X[300:], codes[300:]), near, settings=settings)


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, object]]:
    """What was trained, in few steps."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("energy", "preload", "prood"):
            module = import_module(f"farfield.reproduce.rivals.{name}")
            patch.setattr(module, "STEPS", 120)
        yield {}


def fitted(method: str, task: GuardTask, models: dict[str, object]) -> Rival:
    key = f"fitted {method}"
    if key not in models:
        models[key] = rivals.make(method, task, 0, models)
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
    for found in guard_measures.attacked(task, rival, inside, rows=60, steps=15).values():
        assert found["auroc"] <= found["clean"]


def test_features_that_stand_still_are_found():
    # Both features are off to the left and on to the right.
    net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0], [2.0]]))
    X = np.linspace(-1, 1, 20)[:, None]
    task = GuardTask((X, (X[:, 0] > 0).astype(np.int64)), (X, (X[:, 0] > 0).astype(np.int64)), {})
    shares = guard_measures.stillness(task, Base.of(net, task).still, 20)
    assert shares["axes"] == 0.5


def test_blindness_of_a_plain_network_is_that_of_its_audit(task, models):
    rival = fitted("plain", task, models)
    found = guard_measures.blindness(task, rival, 100)
    audited = ff.audit(models["plain"], task.train[0], task.train[1], directions=100)
    shares = {family.name: family.share for family in audited.families}
    assert found["axes"] == shares["axes"]
    assert shares["random"].low <= found["random"] <= shares["random"].high


def test_what_can_only_be_asked_is_looked_at_as_in_an_audit(task, models):
    exact = fitted("plain", task, models)
    asked = replace(exact, far=None)
    assert guard_measures.blindness(task, asked, 40) == guard_measures.blindness(task, exact, 40)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosted_trees_are_asked(library, task):
    pytest.importorskip(library)
    trees = replace(task, boosted=library)
    for method in ("plain", "nearest"):
        rival = rivals.make(method, trees, 0, {})
        assert set(guard_measures.blindness(trees, rival, 10)) == {"axes", "random"}


def test_categories_are_no_directions():
    X = np.random.default_rng(0).normal(size=(50, 4))
    X[:, 2:] = np.eye(2)[np.arange(50) % 2]
    y = np.arange(50) % 2
    task = GuardTask((X, y), (X, y), {}, ((2, 3),))
    for family in guard_measures.rays(task, 10).values():
        assert not family.direction[:, 2:].any()
    assert (task.scaled()[:, 2:] == X[:, 2:]).all()


def test_the_page_is_what_the_results_say():
    document = json.loads((ROOT / "docs" / "results" / "guard.json").read_text("utf-8"))
    written = (ROOT / "docs" / "remedies.md").read_text("utf-8")
    assert written == guard_tables.page(document["numbers"]), "run make docs"


def test_standings_say_which_share_would_win():
    def measured(auroc):
        return {"near": {"a": {"auroc": auroc}}, "far": {}}

    tasks = {"t": {"guard": measured(0.8), "ccu": measured(0.9), "vim": measured(0.95)}}
    kept = {"0.98": {"aurocs": {"a": 0.85}}, "0.95": {"aurocs": {"a": 0.9}}}
    (column,) = guard_tables.standings(tasks, {"t": kept})
    assert (column["best"], column["best_of_all"], column["enough_at"]) == ("ccu", "vim", "0.95")
