"""Every test starts from the same random state, and leaves the global one as it was."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
