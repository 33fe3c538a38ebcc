import numpy as np
import pytest

from farfield.errors import InputError
from farfield.evaluate import Estimate
from farfield.guard import compare, guard


@pytest.fixture(scope="module")
def result(classifier, safe, moons):
    X, y = moons
    far = X * 1e4
    return compare(classifier, safe, X, y, ood={"far": far, "same": X}, repeats=1)


def test_blindness_is_gone_by_proof(result):
    assert result.before.blindness["axes"] > 0.9
    sphere = result.before.blindness["sphere"]
    assert isinstance(sphere, Estimate)
    assert sphere.value > 0.9
    assert result.after.blindness == {"axes": 0.0, "sphere": 0.0}


def test_what_must_not_change_does_not(result):
    assert result.same_class == 1.0
    assert result.before.accuracy == result.after.accuracy
    assert result.identical >= 0.99
    assert abs(result.after.nll - result.before.nll) <= 0.002


def test_far_inputs_are_detected(result):
    assert result.before.detection["far"][0] < 0.5
    assert result.after.detection["far"] == (1.0, 0.0)
    assert result.after.detection["same"][0] == pytest.approx(0.5)


def test_labels_are_optional(safe, moons):
    found = compare(None, safe, moons[0], repeats=1)
    assert found.before.nll is None
    assert found.after.accuracy is None
    assert found.before.row_seconds > 0
    assert found.rows == len(moons[0])


def test_bad_input(safe, moons, mlp):
    X, y = moons
    with pytest.raises(InputError, match="whole numbers"):
        compare(None, safe, X, y[:3])
    with pytest.raises(InputError, match="whole numbers"):
        compare(None, safe, X, y + 5)
    with pytest.raises(InputError, match="same model"):
        compare(mlp(2, 4, 2), safe, X)
    with pytest.raises(InputError, match="shape"):
        compare(None, safe, np.zeros((2, 5)))


def test_the_same_module_is_recognised(mlp, moons):
    model = mlp(2, 4, 2)
    safe = guard(model, moons[0])
    assert compare(model, safe, moons[0], repeats=1).same_class == 1.0
