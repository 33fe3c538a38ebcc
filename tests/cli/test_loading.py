"""How commands load what they run."""

import gc
import sys

import pytest

from farfield.cli.loading import loading


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("fresh")
def test_garbage_is_looked_for_again_however_loading_ends():
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_a_process_that_has_loaded_everything_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", gc)
    before = gc.get_freeze_count()
    with loading():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before
