"""An audit with a guard: before and after, and guarded models themselves."""

import threading

import numpy as np
import pandas as pd
import pytest

import farfield as ff
from farfield.audit import case, sections
from farfield.data import FeatureSchema, Schema
from farfield.errors import InputError
from farfield.estimate import value_of

pytestmark = pytest.mark.usefixtures("short_attack")


@pytest.fixture(scope="module")
def moons():
    data = ff.datasets.half_moons(0, points=120)
    return ff.ReLUClassifier(hidden=(8,), epochs=15, random_state=0).fit(data.X, data.y), data


def test_before_and_after_with_one_blind_share_in_one_report(moons):
    model, data = moons
    options = {"ood": {"far": data.X * 20}, "directions": 10}
    audited = ff.audit(model, data.X, data.y, guard=True, **options)
    found = audited.guard
    before = {name: pair[0] for name, pair in found.rows.items() if name.startswith("blind:")}
    assert before == {f"blind: {each.name}": value_of(each.share) for each in audited.families}
    assert found.rows["blind: axes"] == (1.0, 0.0)
    assert found.rows["accuracy"][0] == found.rows["accuracy"][1]
    assert found.rows["AUROC: far"][1] > 0.9 > found.rows["AUROC: far"][0]
    attacked = found.certificate["largest probability an attack found there"]
    assert attacked <= found.certificate["largest probability allowed beyond the radius"]
    assert found.certificate["rows with the same class"] == 1.0


def test_a_guard_made_meanwhile_is_the_same(moons, monkeypatch):
    model, data = moons
    threads, found, plainly = [], [], case.guarded

    def noting(*args, **options):
        threads.append(threading.current_thread() is threading.main_thread())
        return plainly(*args, **options)

    monkeypatch.setattr(case, "guarded", noting)
    left = []
    monkeypatch.setattr(sections.torch, "set_num_threads", left.append)
    for count in (1, 2):
        monkeypatch.setattr(sections.torch, "get_num_threads", lambda count=count: count)
        found.append(ff.audit(model, data.X, data.y, guard="sample", samples=40, directions=5))
    assert threads == [True, False]
    assert (left[0], left[-1]) == (1, 2)
    one, other = (each.guard for each in found)
    assert one.certificate == other.certificate
    assert one.features == other.features
    assert found[0].entry_errors == found[1].entry_errors


@pytest.fixture(scope="module")
def safe(moons):
    model, data = moons
    return ff.guard(model, data.X, random_state=0)


FEW = {"features": ["x", "y"], "max_blind": 0.0, "directions": 5, "samples": 60}


@pytest.fixture(scope="module")
def guarded(moons, safe):
    """The audit of a guarded model."""
    _, data = moons
    return ff.audit(safe, data.X, data.y, **FEW)


def test_features_before_and_after(moons, safe, guarded):
    _, data = moons
    found = guarded.guard.features
    assert [each.name for each in found] == ["x", "y"]
    middle = np.median(data.X, axis=0)
    for place, each in enumerate(found):
        assert min(each.before) > 0.99
        assert each.after == (0.5, 0.5)
        low, high = each.certified
        assert low < data.X[:, place].min() < data.X[:, place].max() < high
        rows = np.tile(middle, (4, 1))
        rows[:, place] = [low, high, 2 * low, 100 * high]
        assert (safe.distance(rows) >= 1.0 - 1e-9).all()
        assert safe.predict_proba(rows).max() <= safe.certificate.largest_probability + 1e-6


def test_bounded_and_categorical_features_before_and_after():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, 150).clip(0),
            "dose": rng.normal(size=150),
            "unit": rng.choice(["a", "b"], 150),
        }
    )
    y = (table["dose"] + (table["unit"] == "a") > 0.5).to_numpy().astype(int)
    X = np.column_stack(
        [table["age"], table["dose"], table["unit"] == "a", table["unit"] == "b"]
    ).astype(float)
    model = ff.ReLUClassifier(hidden=(8,), epochs=15, random_state=0).fit(X, y)
    schema = Schema(features={"age": FeatureSchema(low=0.0)})
    found = ff.audit(model, table, y, guard=True, schema=schema, directions=5).guard
    age, dose = found.features
    assert (age.name, dose.name) == ("age", "dose")
    assert age.certified[0] is None
    assert age.after[0] <= age.before[0] + 1e-6  # the guarded network is in float32
    assert age.after[1] == dose.after[0] == 0.5
    assert table["age"].max() < age.certified[1] < 150


def test_a_guarded_model_is_not_blind_by_proof(moons, safe, guarded, tmp_path):
    _, data = moons
    path = tmp_path / "safe.safetensors"
    safe.save(path)
    read = ff.audit(path, data.X, data.y, **FEW)
    for found in (guarded, read):
        assert found.passed
        assert found.verdict.blind == 0.0
        assert found.guard is not None
        assert found.blindness["axes"] == 1.0  # the model inside, as the verdict says
    assert read.model.source == str(path)


def test_regressors_have_no_guard():
    rng_X = ff.datasets.half_moons(0, points=40).X
    model = ff.EnsembleRegressor(members=2, hidden=(4,), epochs=2, random_state=0)
    model.fit(rng_X, rng_X[:, 0])
    with pytest.raises(InputError, match="classifier"):
        ff.audit(model, rng_X, rng_X[:, 0], guard=True, directions=5)
