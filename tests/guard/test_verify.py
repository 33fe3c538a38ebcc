"""A certificate is proven from the guard's own numbers, or it is not believed."""

import copy
import math

import pytest
import torch

from farfield.errors import InputError
from farfield.guard import Certificate, guard

pytestmark = pytest.mark.usefixtures("few_folds")


def test_a_fresh_certificate_is_proven(safe):
    found = safe.certificate.verify(safe)
    assert found
    assert not found.problems
    assert found.radius <= safe.certificate.radius * (1 + 1e-9)
    assert found.temperature >= (1 - 1 / 2) / 0.01


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epsilon": 1e-3}, "temperature"),
        ({"radius": 1.0, "radii": 1.0, "data_radius": 1.0}, "radius"),
        ({"radii": 0.1}, "radii"),
        ({"unit": 1.0}, "h is said"),
        ({"temperature": 1e9}, "temperature"),
        ({"views": ()}, "views"),
        ({"classes": 3}, "classes"),
    ],
)
def test_claims_that_do_not_follow(safe, change, reason):
    found = safe.certificate.model_copy(update=change).verify(safe)
    assert not found
    assert reason in " ".join(found.problems)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.unit.fill_(1e30),
        lambda c: c.unit.fill_(-1.0),
        lambda c: c.unit.fill_(math.nan),
        lambda c: c.balls.radii.add_(10.0),
        lambda c: c.balls.centres.mul_(5.0),
        lambda c: c.balls.threshold.add_(1.0),
        lambda c: c.balls.width.mul_(3.0),
        lambda c: c.ranges.width.fill_(1e9),
        lambda c: c.ranges.unit.zero_(),
        lambda c: c.whitened.matrix.zero_(),
        lambda c: c.whitened.matrix[:, 0].zero_(),
        lambda c: c.whitened.unit.fill_(math.inf),
    ],
)
def test_numbers_that_prove_nothing(safe, change):
    changed = copy.deepcopy(safe)
    assert changed.verify()
    change(changed.covered)
    assert not changed.verify()


def test_the_model_plays_no_part(classifier, moons):
    safe = guard(classifier, moons[0])
    with torch.no_grad():
        safe.members[0][-1].weight *= 1e6
    assert safe.verify()
    far = torch.randn(200, 2) * 1e3
    assert float(torch.softmax(safe(far), dim=1).max()) <= safe.certificate.largest_probability


def test_a_weaker_claim_follows_too(safe):
    own = safe.certificate
    weaker = {"radius": 2 * own.radius, "radii": 2 * own.radii, "epsilon": 0.02}
    assert own.model_copy(update=weaker).verify(safe)


def test_only_guarded_models_are_verified(safe, classifier):
    with pytest.raises(InputError, match="guarded model"):
        safe.certificate.verify(classifier)


def test_certificates_are_text_and_back(safe):
    text = safe.certificate.to_json()
    assert Certificate.from_json(text) == safe.certificate
    for damaged in (text[:-5], "[]", "{}", text.replace('"radius"', '"radios"'), "null"):
        with pytest.raises(InputError, match="damaged"):
            Certificate.from_json(damaged)
    with pytest.raises(InputError, match="format 9"):
        Certificate.from_json(text.replace('"format":2', '"format":9'))


def test_the_statement_leads_with_what_nothing_has_seen(safe):
    said = safe.certificate.statement()
    assert said.startswith("Of rows that nothing has seen, unchanged: ")
    assert said.index("nothing has seen") < said.index("Training rows")
    assert "no class of any input exceeds 1/2 + 0.01" in said


def test_how_sure_at_a_distance(safe):
    own = safe.certificate
    assert own.largest_probability_at(0.0) == 1.0
    assert own.largest_probability_at(1.0) <= own.largest_probability
    assert own.largest_probability_at(1e9) == pytest.approx(0.5)
