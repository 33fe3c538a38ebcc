"""Arrays that nobody may write to, as data frames lend them."""

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff


@pytest.fixture
def lent():
    """Rows of a table; torch would warn of them every time, and warnings are errors."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    rows.flags.writeable = False
    torch.set_warn_always(True)
    yield rows
    torch.set_warn_always(False)


def test_networks_take_arrays_that_nobody_may_write_to(lent):
    network = ff.capture(nn.Linear(3, 2).double(), lent)
    far = ff.at_infinity(network, lent[0], lent)
    assert torch.equal(network.logits(lent), network.logits(lent.copy()))
    assert torch.equal(far.label, ff.at_infinity(network, lent[0].copy(), lent.copy()).label)


def test_estimators_predict_for_arrays_that_nobody_may_write_to(lent):
    labels = lent[:, 0] > 0
    model = ff.ReLUClassifier(hidden=(4,), epochs=1, random_state=0).fit(lent, labels)
    assert np.array_equal(model.predict_proba(lent), model.predict_proba(lent.copy()))
