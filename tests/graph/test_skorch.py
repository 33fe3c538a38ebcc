"""Classifiers of skorch: what is read says what ``predict_proba`` says."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import farfield as ff
from farfield.errors import CaptureError, InputError, NotFollowed

skorch = pytest.importorskip("skorch", reason="skorch is not installed")
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def table():
    rows = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    return rows, (rows[:, 0] > 0).astype(np.int64) + (rows[:, 1] > 0.5)


def layers(classes, *last):
    torch.manual_seed(0)
    normed = (nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(*normed, nn.Linear(8, classes), *last)


def fitted(rows, labels, *last, classes=3, kind="NeuralNetClassifier", **options):
    net = getattr(skorch, kind)(
        layers(classes, *last), max_epochs=2, verbose=0, train_split=None, **options
    )
    return net.fit(rows, labels)


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers(3)

    def forward(self, X):
        return self.layers(X), X


def cooler(logits):
    return torch.softmax(logits / 2, dim=-1)


NETS = {
    "cross entropy": partial(fitted, criterion=nn.CrossEntropyLoss),
    "softmax": lambda rows, labels: fitted(rows, labels, nn.Softmax(dim=-1)),
    "a function of the user's": partial(
        fitted, criterion=nn.CrossEntropyLoss, predict_nonlinearity=cooler
    ),
    "one logit": lambda rows, labels: fitted(
        rows, (labels > 0).astype(np.float32), classes=1, kind="NeuralNetBinaryClassifier"
    ),
    "one probability": lambda rows, labels: fitted(
        rows,
        (labels > 0).astype(np.float32),
        nn.Sigmoid(),
        classes=1,
        kind="NeuralNetBinaryClassifier",
        criterion=nn.BCELoss,
    ),
}


def check(network, net, rows):
    # Single precision rounds logits of a thousand at the fourth digit behind the point.
    for scale, off in ((1.0, ROUNDING), (1e3, 1e3 * ROUNDING), (1e30, ROUNDING)):
        moved = (rows * scale).astype(np.float32)
        found, own = network.probabilities(moved)[0], net.predict_proba(moved)
        np.testing.assert_allclose(found, own, rtol=0, atol=off)
    ways = np.concatenate([np.eye(3), -np.eye(3)])
    limit = ff.at_infinity(network, rows[:1], ways).probabilities[0]
    out = (rows[:1] + 1e9 * ways).astype(np.float32)
    np.testing.assert_allclose(limit, net.predict_proba(out), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("name", NETS)
def test_a_net_is_read_with_its_nonlinearity(name, table):
    rows, labels = table
    net = NETS[name](rows, labels)
    network = ff.capture(net, rows[:1])
    assert network.labels == ((0, 1) if "one" in name else (0, 1, 2))
    check(network, net, rows)


@pytest.mark.parametrize("name", ["cross entropy", "one logit"])
def test_the_last_step_of_a_pipeline(name, table):
    rows, labels = table
    net = NETS[name](rows, labels)
    model = make_pipeline(StandardScaler(), net)
    model.fit(rows, (labels > 0).astype(np.float32) if "one" in name else labels)
    check(ff.capture(model), model, rows)


def test_the_first_of_several_outputs(table):
    rows, labels = table
    net = skorch.NeuralNetClassifier(
        TwoOutputs, criterion=nn.CrossEntropyLoss, max_epochs=0, verbose=0, classes=["a", "b", "c"]
    ).fit(rows, labels)
    network = ff.capture(net, rows[:1])
    assert network.labels == ("a", "b", "c")
    check(network, net, rows)


def test_a_member_of_a_vote(table):
    rows, labels = table
    net = skorch.NeuralNetClassifier(
        layers(3), criterion=nn.CrossEntropyLoss, max_epochs=2, verbose=0, train_split=None
    )
    vote = VotingClassifier([("net", net), ("linear", LogisticRegression())], voting="soft")
    model = make_pipeline(StandardScaler(), vote)
    check(ff.capture(model.fit(rows, labels)), model, rows)


def test_an_audit_of_a_frame(table):
    rows, labels = table
    frame = pd.DataFrame(rows.astype(float), columns=["age", "dose", "weight"])
    frame["outcome"] = labels
    net = NETS["cross entropy"](rows, labels)
    found = ff.audit(net, frame, "outcome", samples=60, directions=20)
    assert found.model.classes == ("0", "1", "2")
    assert "age" in str(found)


def test_outputs_that_are_no_probabilities_are_refused(table):
    rows, labels = table
    with pytest.raises(CaptureError, match=r"no probabilities.*NLLLoss.*'auto'"):
        ff.capture(fitted(rows, labels), rows[:1])
    with pytest.raises(CaptureError, match="logarithms of probabilities"):
        ff.capture(fitted(rows, labels, nn.LogSoftmax(dim=-1)), rows[:1])


def test_nets_that_cannot_be_read(table):
    rows, labels = table
    net = NETS["cross entropy"](rows, labels)
    with pytest.raises(InputError, match="pass an example"):
        ff.capture(net)
    with pytest.raises(CaptureError, match="not fitted"):
        ff.capture(skorch.NeuralNetClassifier(layers(3)), rows[:1])

    class Other(skorch.NeuralNetClassifier):
        def infer(self, x, **rest):
            return super().infer(2 * x, **rest)

    with pytest.raises(NotFollowed, match="overrides skorch's infer"):
        ff.capture(Other(layers(3)), rows[:1])

    class Doubled(skorch.dataset.Dataset):
        def transform(self, X, y):
            return super().transform(2 * X, y)

    doubled = fitted(rows, labels, criterion=nn.CrossEntropyLoss, dataset=Doubled)
    with pytest.raises(NotFollowed, match="something changes the rows"):
        ff.capture(doubled, rows[:1])
