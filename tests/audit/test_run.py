"""The whole audit, on models whose far field is known."""

import hashlib

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import farfield as ff
from audit_subjects import affine
from farfield.errors import InputError, UnsupportedOperation
from farfield.evaluate import Estimate


@pytest.fixture(scope="module")
def moons():
    data = ff.datasets.half_moons(0, points=150)
    model = ff.EnsembleClassifier(members=3, hidden=(6, 6), epochs=15, random_state=0)
    return model.fit(data.X, data.y), data


def whole(moons, **more):
    """An audit that has every part."""
    model, data = moons
    few = {"directions": 30, "samples": 100, "random_state": 7}
    return ff.audit(
        model, data.X, data.y, features=["x", "y"], ood={"far": data.X * 50}, **few, **more
    )


@pytest.fixture(scope="module")
def watched(moons):
    """One audit, and the progress that it reported."""
    steps = []
    return whole(moons, progress=lambda *step: steps.append(step)), steps


@pytest.fixture(scope="module")
def audited(watched):
    return watched[0]


def test_an_audit_has_every_part(audited, moons):
    model, data = moons
    assert audited.task == "classification"
    assert set(audited.blindness) == {"circle", "axes", "random", "data", "towards far"}
    assert isinstance(audited.blindness["axes"], float)
    assert isinstance(audited.blindness["random"], Estimate)
    assert [feature.name for feature in audited.features] == ["x", "y"]
    assert audited.health.numbers["accuracy"].value == model.score(data.X, data.y)
    counts = np.bincount(data.y)
    assert audited.data.class_counts == {"0": counts[0], "1": counts[1]}
    assert len(audited.surfaces) == 1
    assert audited.out_sets[0].mmc > 0.5
    references = {row.score for row in audited.detection if row.reference}
    assert references == {
        "mahalanobis (inputs)",
        "nearest (inputs)",
        "mahalanobis (features)",
        "nearest (features)",
    }
    nearest = next(row for row in audited.detection if row.score == "nearest (inputs)")
    assert nearest.auroc.value > 0.95
    assert audited.remedies[0].proven


def test_numbers_are_those_of_the_exact_core(audited, moons):
    model, _ = moons
    network = ff.capture(model)
    assert audited.blindness["circle"] == ff.blind_arcs(network, 0.99).share
    ray = audited.rays[0]
    assert ray.limits["confidence"] in (pytest.approx(1.0), pytest.approx(2 / 3, abs=1e-3))
    assert ray.first is not None


def test_the_same_seed_gives_the_same_audit_and_moves_no_global_state(audited, moons):
    before, there = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002 - the state itself is meant
    again = whole(moons)
    assert torch.equal(before, torch.get_rng_state())
    assert (there == np.random.get_state()[1]).all()  # noqa: NPY002
    assert again.families == audited.families
    assert again.surfaces == audited.surfaces
    assert again.health == audited.health


def test_max_blind_decides():
    rows = np.random.default_rng(0).standard_normal((40, 1))
    sure = affine([[1.0], [-1.0]], [0.0, 0.0])
    assert ff.audit(sure, rows, directions=5).verdict.passed is None
    failed = ff.audit(sure, rows, directions=5, max_blind=0.5)
    assert not failed.passed
    assert "every direction" in failed.verdict.sentence
    flat = affine([[0.0], [0.0]], [0.1, 0.0])
    assert ff.audit(flat, rows, directions=5, max_blind=0.0).passed


def test_labels_may_be_words_and_are_those_of_the_model():
    rows = np.random.default_rng(0).standard_normal((60, 2))
    words = np.where(rows[:, 0] > 0, "yes", "no")
    model = ff.ReLUClassifier(hidden=(8,), epochs=30, random_state=0).fit(rows, words)
    found = ff.audit(model, rows, words, directions=5, samples=20)
    assert found.model.classes == ("no", "yes")
    assert found.health.numbers["accuracy"].value == model.score(rows, words)
    with pytest.raises(InputError, match="maybe"):
        ff.audit(model, rows, np.where(rows[:, 0] > 0, "maybe", "no"))


def test_without_labels_there_is_no_health():
    rows = np.random.default_rng(0).standard_normal((20, 2))
    found = ff.audit(affine([[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0]), rows, directions=5)
    assert found.health is None
    assert found.data.class_counts == {}


def test_one_row_is_enough():
    found = ff.audit(affine([[1.0, 2.0], [0.0, 1.0]], [0.0, 0.0]), np.ones((1, 2)), directions=5)
    assert found.data.rows == 1
    assert set(found.data.constant) == {"x0", "x1"}


def test_images_become_pictures():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    rng = np.random.default_rng(0)
    images, labels = rng.random((30, 1, 4, 4)), rng.integers(0, 3, 30)
    found = ff.audit(model, images, labels, ood={"dark": images * 0.1}, directions=20)
    assert set(found.blindness) == {"scaling", "noise", "towards dark"}
    assert found.features == ()
    assert found.pictures[0].images[0].startswith("data:image/png;base64,")
    assert found.health.rows == 30


def test_regressors_collapse():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    y = 3 * X[:, 0] + rng.standard_normal(120) * 0.1
    model = ff.EnsembleRegressor(members=3, hidden=(8,), epochs=20, random_state=0).fit(X, y)
    found = ff.audit(model, X, y, features=["a", "b"], directions=20)
    assert found.task == "regression"
    assert [(c.feature, c.side) for c in found.collapses][:2] == [("a", "down"), ("a", "up")]
    assert set(found.health.numbers) >= {"rmse", "nll", "coverage"}
    mean = model.predict(X)
    rmse = float(np.sqrt(np.mean((y - mean) ** 2)))
    assert found.health.numbers["rmse"].value == pytest.approx(rmse, rel=1e-4)
    assert found.verdict.sentence.startswith("The model predicts")


def test_smooth_networks_are_audited_without_rays():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.Linear(8, 2))
    found = ff.audit(model, np.random.default_rng(0).standard_normal((20, 2)), directions=5)
    assert found.rays[0].first is None
    assert found.features[0].up.assumptions is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"max_blind": 2.0}, "max_blind"),
        ({"samples": 1}, "samples"),
        ({"task": "clustering"}, "task"),
        ({"engine": "spark"}, "engine"),
        ({"pairs": [("x", "z")]}, "z"),
        ({"pairs": [("x", "x")]}, "one feature twice"),
        ({"class_names": ["only"]}, "class"),
    ],
)
def test_bad_options_are_named(moons, options, message):
    model, data = moons
    with pytest.raises(InputError, match=message):
        ff.audit(model, data.X, data.y, features=["x", "y"], directions=5, **options)


def test_a_table_that_does_not_fit_the_model(moons):
    model, _ = moons
    with pytest.raises(InputError, match="2"):
        ff.audit(model, np.zeros((5, 3)) + np.arange(5)[:, None])
    with pytest.raises(InputError, match=r"NaN|missing"):
        ff.audit(model, np.array([[0.0, np.nan], [1.0, 2.0]]))


def test_progress_is_reported(watched):
    _, steps = watched
    assert {"directions", "features", "rays", "surfaces", "health"} <= {name for name, _ in steps}
    assert all(0 <= done <= 1 for _, done in steps)


def test_distances_agree_with_the_models_own_predictions():
    data = load_breast_cancer()
    X, y = data.data[:200, :10], data.target[:200]
    model = make_pipeline(
        StandardScaler(), MLPClassifier((12, 12), max_iter=1000, random_state=0)
    ).fit(X, y)
    names = [str(name) for name in data.feature_names[:10]]
    found = ff.audit(model, X, features=names, directions=5, samples=200)
    median, deviation = np.median(X, axis=0), X.std(axis=0)
    along_features = [ray for ray in found.rays if "from the median row" in ray.name]
    assert len(along_features) == 8
    before_the_reach = 0
    for ray in along_features:
        name, _, _ = ray.name.rpartition(", ")
        name, _, way = name.rpartition(" ")
        place, sign = names.index(name), 1.0 if way == "up" else -1.0
        steps = np.concatenate([np.linspace(0, 100, 20_001), np.geomspace(100, 1e7, 5000)])
        rows = np.tile(median, (len(steps), 1))
        rows[:, place] += sign * steps * deviation[place]
        p = model.predict_proba(rows)
        winner = p[-1].argmax()
        assert ray.exact
        for told, lost in (
            (ray.settled, p[:, winner] < 0.999),
            (ray.final, p.argmax(axis=1) != winner),
        ):
            last = steps[np.flatnonzero(lost)[-1]] if lost.any() else 0.0
            assert told == pytest.approx(last, rel=5e-3, abs=1e-2)
        assert ray.first <= ray.settled * (1 + 1e-9)
        before_the_reach += ray.settled < ray.reach
    assert before_the_reach


def test_the_file_of_the_data_is_named_by_its_digest_wherever_it_lies(tmp_path):
    path = tmp_path / "deep" / "rows.csv"
    path.parent.mkdir()
    path.write_text("a\n" + "\n".join(map(str, range(30))) + "\n")
    found = ff.audit(affine([[1.0], [-1.0]], [0.0, 0.0]), path, directions=5)
    assert found.data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


class Narrow(nn.Module):
    """Outgrows every power in a narrow cone around the diagonal alone."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        grows = torch.relu(x.sum(1, keepdim=True) - 1.99 * x.amax(1, keepdim=True))
        return self.last(torch.cat([x, torch.exp(grows)], 1))


def test_a_model_without_a_limit_on_a_late_ray_is_asked_from_the_start():
    torch.manual_seed(0)
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[:, 1] = X[:, 0] + 0.02 * X[:, 1]
    few = {"samples": 10, "directions": 20}
    found = ff.audit(Narrow().double(), X, **few)
    assert found.verdict.seen_to is not None
    assert "exp of a value that keeps growing" in found.model.notes[0]
    with pytest.raises(UnsupportedOperation, match="exp of a value that keeps growing"):
        ff.audit(Narrow().double(), X, evidence="exact", **few)
