import copy

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from farfield.errors import InputError
from farfield.guard import calibrate, falsify, guard

pytestmark = pytest.mark.usefixtures("few_folds")


def test_certificates_survive(safe, moons):
    found = falsify(safe, restarts=6, steps=8, rows=moons[0][:20])
    assert found.holds
    assert found.largest <= found.allowed
    edges = {f"edge of {name}" for name in safe.covered.names}
    assert set(found.families) >= {"axes", "random", "prototypes", "rows"} | edges
    assert found.radius > 0
    assert len(found.at) == 2


@pytest.mark.parametrize("sizes", [(3, 16, 16, 4), (8, 32, 2), (1, 6, 3)])
def test_certificates_of_random_networks_survive(quick, sizes):
    generator = torch.Generator().manual_seed(0)
    model = quick(*sizes)
    model.coefs_[-1] *= 50
    safe = guard(model, torch.randn(200, sizes[0], generator=generator).numpy(), epsilon=0.05)
    assert falsify(safe, restarts=4, steps=6).holds
    safe.covered.unit.mul_(1.02)
    assert not falsify(safe, restarts=4, steps=6).holds


def test_black_boxes_are_attacked_too(moons):
    forest = RandomForestClassifier(5, random_state=0).fit(*moons)
    safe = guard(forest.predict_proba, moons[0])
    assert falsify(safe, restarts=4, steps=6).holds
    safe.covered.unit.fill_(1e9)
    assert not falsify(safe, restarts=4, steps=6).holds


def test_categories_are_attacked_too(table, monkeypatch):
    """Where the view is narrow enough to make an answer uniform by itself."""
    monkeypatch.setattr(calibrate, "STEEPS", calibrate.STEEPS[:1])
    forest = RandomForestClassifier(10, random_state=0).fit(table, table[:, 0] > 0)
    safe = guard(forest.predict_proba, table, categorical=[(3, 4, 5, 6), 7])
    found = falsify(safe, restarts=8, steps=5)
    assert found.holds
    assert "edge of categories" in found.families


def test_a_false_certificate_is_broken(safe):
    """Without a temperature, the network is certain far away, and the search must see that."""
    safe = copy.deepcopy(safe)
    safe.covered.unit.fill_(1e9)
    found = falsify(safe, restarts=8, steps=5)
    assert not found.holds
    assert found.largest > 0.99


def test_a_view_that_is_lost_is_noticed(safe):
    """The promise stands on the balls; without any view nothing is left of it."""
    safe = copy.deepcopy(safe)
    for each in safe.covered.each_view:
        if each.name != "balls":
            each.threshold.fill_(1e12)
    assert falsify(safe, restarts=8, steps=5).holds
    safe.covered.balls.threshold.fill_(1e12)
    assert not falsify(safe, restarts=8, steps=5).holds


def test_the_bound_is_not_vacuous(safe):
    """What is found at the edge is a good part of what is allowed above 1 / K."""
    found = falsify(safe, restarts=6, steps=10)
    assert found.largest - 0.5 > 0.5 * safe.certificate.epsilon


def test_options(safe):
    with pytest.raises(InputError, match="restarts"):
        falsify(safe, restarts=0)
    assert np.isfinite(falsify(safe, restarts=1, steps=0).largest)
