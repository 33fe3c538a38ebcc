import dataclasses

import pytest
import torch

from farfield.errors import InputError
from farfield.guard import Certificate, guard


def test_a_fresh_certificate_is_proven(safe):
    found = safe.certificate.verify(safe)
    assert found
    assert found.holds
    assert not found.problems
    assert found.apart <= found.tolerance == safe.certificate.tolerance
    assert found.line.slope == pytest.approx(safe.certificate.slope)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epsilon": 1e-4}, "apart"),
        ({"distance": 0.5}, "apart"),
        ({"radius": 1.0}, "radius"),
        ({"distance": 0.0}, "distance"),
    ],
)
def test_claims_that_do_not_follow(safe, change, reason):
    certificate = dataclasses.replace(safe.certificate, **change)
    found = certificate.verify(safe)
    assert not found
    assert reason in " ".join(found.problems)


def test_other_weights_other_growth(classifier, moons):
    safe = guard(classifier, moons[0])
    with torch.no_grad():
        safe.members[0][-1].weight *= 10
    assert not safe.certificate.verify(safe)


def test_another_guard(classifier, moons):
    safe = guard(classifier, moons[0])
    safe.unit = 100.0
    assert not safe.certificate.verify(safe)
    safe = guard(classifier, moons[0])
    safe.near.radii += 10.0
    assert not safe.certificate.verify(safe)


def test_a_weaker_claim_follows_too(safe):
    certificate = safe.certificate
    weaker = dataclasses.replace(
        certificate, radius=2 * certificate.radius, distance=2 * certificate.distance, epsilon=0.02
    )
    assert weaker.verify(safe)


def test_only_guarded_models_are_verified(safe, classifier):
    with pytest.raises(InputError, match="guarded model"):
        safe.certificate.verify(classifier)


def test_certificates_are_json(safe):
    text = safe.certificate.to_json()
    assert Certificate.from_json(text) == safe.certificate
    assert "no class" in safe.certificate.statement()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 99}', '{"format": 1, "classes": 2}'])
def test_damaged_certificates(text):
    with pytest.raises(InputError, match="certificate"):
        Certificate.from_json(text)


def test_the_bound_falls_with_distance(safe):
    certificate = safe.certificate
    bounds = [certificate.largest_probability_at(certificate.distance * f) for f in (1, 2, 5, 100)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == pytest.approx(certificate.largest_probability, rel=1e-3)
    assert certificate.largest_probability_at(certificate.unit / 2) == 1.0
