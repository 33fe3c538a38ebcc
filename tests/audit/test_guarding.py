"""An audit with a guard: before and after, and guarded models themselves."""

import pytest

import farfield as ff
from farfield.errors import InputError


@pytest.fixture(scope="module")
def moons():
    data = ff.datasets.half_moons(0)
    return ff.ReLUClassifier(hidden=(8,), epochs=15, random_state=0).fit(data.X, data.y), data


def test_before_and_after(moons):
    model, data = moons
    options = {"ood": {"far": data.X * 20}, "directions": 20}
    found = ff.audit(model, data.X, data.y, guard=True, **options).guard
    assert found.rows["blind: axes"] == (1.0, 0.0)
    assert found.rows["accuracy"][0] == found.rows["accuracy"][1]
    assert found.rows["AUROC: far"][1] > 0.9 > found.rows["AUROC: far"][0]
    attacked = found.certificate["largest probability an attack found there"]
    assert attacked <= found.certificate["largest probability allowed beyond the radius"]
    assert found.certificate["rows with the same class"] == 1.0


def test_a_guarded_model_is_not_blind_by_proof(moons, tmp_path):
    model, data = moons
    safe = ff.guard(model, data.X)
    path = tmp_path / "safe.safetensors"
    safe.save(path)
    for each in (safe, path, str(path)):
        found = ff.audit(each, data.X, data.y, max_blind=0.0, directions=10)
        assert found.passed
        assert found.verdict.blind == 0.0
        assert found.guard is not None
        assert found.blindness["axes"] == 1.0  # the model inside, as the verdict says
    assert found.model.source == str(path)


def test_regressors_have_no_guard():
    rng_X = ff.datasets.half_moons(0).X
    model = ff.EnsembleRegressor(members=2, hidden=(4,), epochs=2, random_state=0)
    model.fit(rng_X, rng_X[:, 0])
    with pytest.raises(InputError, match="classifier"):
        ff.audit(model, rng_X, rng_X[:, 0], guard=True, directions=5)
