"""Every architecture far away: the model's own float64 evaluation approaches its limit."""

import pytest
import torch

import farfield as ff
from architectures.referee import approached
from architectures.registry import ARCHITECTURES
from architectures.trained import CHOSEN, read
from architectures.unread import UNREAD

pytestmark = pytest.mark.whole

READ = [name for name in ARCHITECTURES if name not in UNREAD]


def followed(name):
    """An architecture, read and followed to infinity; and where to."""
    rays = ARCHITECTURES[name].rays()
    if name in CHOSEN:
        module, network = read(name).modules[0], read(name).networks[0]
    else:
        module = ARCHITECTURES[name].module()
        network = ff.capture(module, rays[0][:1])
    return network, module, ff.at_infinity(network, *rays), *rays


@pytest.mark.parametrize("name", READ)
def test_the_model_approaches_its_limit(name):
    network, module, far, *rays = followed(name)
    assert far.doubtful is None or not bool(far.doubtful.any())
    approached(network, module, far, *rays, ARCHITECTURES[name].rate)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_trained_model_approaches_its_limit(name):
    before, after = read(name).losses
    assert after < 0.7 * before
    module, network = read(name).modules[1], read(name).networks[1]
    rays = ARCHITECTURES[name].rays()
    far = ff.at_infinity(network, *rays)
    assert far.doubtful is None or not bool(far.doubtful.any())
    approached(network, module, far, *rays, ARCHITECTURES[name].rate)


def test_every_family_has_one_that_is_trained():
    assert {ARCHITECTURES[name].family for name in CHOSEN} == {
        ARCHITECTURES[name].family for name in READ
    }


@pytest.mark.parametrize("name", UNREAD)
def test_what_cannot_be_followed_is_refused_by_name(name):
    with pytest.raises(ff.errors.FarfieldError, match=UNREAD[name]):
        followed(name)


def test_the_list_is_long_and_unread_ones_are_on_it():
    assert len(ARCHITECTURES) >= 120
    assert set(UNREAD) <= set(ARCHITECTURES)
    assert len(UNREAD) < len(ARCHITECTURES) / 4


def test_the_referee_notices_a_wrong_limit():
    network, module, far, *rays = followed("mlp_tanh")
    far.intercept[0, 1] += torch.tensor([1e-3, 0.0, 0.0])
    with pytest.raises(AssertionError):
        approached(network, module, far, *rays)
