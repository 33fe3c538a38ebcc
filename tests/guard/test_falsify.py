import dataclasses

import pytest
import torch

from farfield.errors import InputError
from farfield.guard import falsify, guard


def test_certificates_survive(safe, moons):
    found = falsify(safe, restarts=16, steps=25, rows=torch.tensor(moons[0][:50]))
    assert found.holds
    assert found.largest <= found.allowed
    assert set(found.families) == {"axes", "random", "prototypes", "rows"}
    assert found.radius > 0
    assert len(found.at) == 2


@pytest.mark.parametrize("sizes", [(3, 16, 16, 4), (8, 32, 2), (1, 6, 3)])
def test_certificates_of_random_networks_survive(quick, sizes):
    generator = torch.Generator().manual_seed(0)
    model = quick(*sizes)
    model.coefs_[-1] *= 5
    safe = guard(model, torch.randn(200, sizes[0], generator=generator), epsilon=0.05)
    assert falsify(safe, restarts=8, steps=20).holds


def test_a_false_certificate_is_broken(classifier, moons):
    """Without a temperature, the network is certain far away, and the search must see that."""
    safe = guard(classifier, moons[0])
    safe.unit = 1e9
    found = falsify(safe, restarts=8, steps=5)
    assert not found.holds
    assert found.largest > 0.99


def test_ascent_finds_more_than_its_starts(classifier, moons):
    safe = guard(classifier, moons[0])
    still = falsify(safe, restarts=16, steps=0)
    moved = falsify(safe, restarts=16, steps=30)
    assert moved.largest > still.largest


def test_the_bound_is_not_vacuous(safe):
    """What is found just beyond R is a good part of what is allowed above 1 / K."""
    found = falsify(safe, restarts=16, steps=30)
    assert found.largest - 0.5 > 0.05 * safe.certificate.epsilon


def test_options(safe):
    with pytest.raises(InputError, match="restarts"):
        falsify(safe, restarts=0)
    certificate = dataclasses.replace(safe.certificate)
    assert certificate == safe.certificate
