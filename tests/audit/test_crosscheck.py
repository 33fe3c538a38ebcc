"""The captured model is compared with its original on the data."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier
from torch import nn

import farfield as ff
from farfield.audit.crosscheck import crosscheck
from farfield.audit.models import LoadedModel, load_model
from farfield.data import open_data
from farfield.errors import CaptureError

X, Y = make_moons(120, noise=0.1, random_state=0)


def net(outputs=2, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, outputs))


class Sharpened(nn.Module):
    """Another model with the same inputs."""

    def __init__(self, inner, factor):
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.inner(x) * self.factor


def subject_of(model):
    network = ff.capture(model, torch.from_numpy(X[:1]))
    return SimpleNamespace(exact=True, task="classification", rows=X, labels=Y, network=network)


@pytest.mark.parametrize(
    "model", [net(), net(1), nn.Sequential(net(), nn.Softmax(-1)), [net(), net(2, 1)]], ids=str
)
def test_a_model_agrees_with_itself(model):
    assert crosscheck(model, subject_of(model), open_data(X, Y), X) == []


def test_a_fitted_classifier_is_asked_for_its_own_probabilities():
    model = MLPClassifier((5,), max_iter=50, tol=1e-2, random_state=0).fit(X, Y)
    assert crosscheck(model, subject_of(model), open_data(X, Y), X) == []
    other = MLPClassifier((5,), max_iter=50, tol=1e-2, random_state=1).fit(X, 1 - Y)
    with pytest.raises(CaptureError, match=r"not the model: on 120 rows.*evidence='sampled'"):
        crosscheck(other, subject_of(model), open_data(X, Y), X)


def test_another_model_is_refused_and_a_slightly_other_one_told():
    model = net()
    with pytest.raises(CaptureError, match="another model's"):
        crosscheck(Sharpened(model, 5.0), subject_of(model), open_data(X, Y), X)
    told = crosscheck(Sharpened(model, 1.05), subject_of(model), open_data(X, Y), X)
    assert len(told) == 1
    assert "not quite the model" in told[0]


def test_many_classes_do_not_hide_a_difference():
    model = net(500)
    with pytest.raises(CaptureError, match="not the model"):
        crosscheck(Sharpened(model, 9.0), subject_of(model), open_data(X, Y), X)


def test_likelihoods_are_compared_too():
    model = nn.Linear(2, 2)
    nn.init.constant_(model.weight, 0.0)
    model.bias.data = torch.tensor([9.0, -9.0])
    told = crosscheck(Sharpened(model, 1.5), subject_of(model), open_data(X, Y), X)
    assert told == []  # below what float32 can tell
    model.bias.data = torch.tensor([4.1, -4.1])
    told = crosscheck(Sharpened(model, 1.4), subject_of(model), open_data(X, Y), X)
    assert len(told) == 1
    assert "negative log-likelihood" in told[0]


def test_a_single_logit_that_is_small_on_the_data_is_no_probability():
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 1e-3)
    nn.init.constant_(model.bias, 0.5)
    assert crosscheck(model, subject_of(model), open_data(X, Y), X) == []


@pytest.mark.parametrize("original", [None, object(), [], [None]])
def test_what_cannot_be_asked_is_not_compared(original):
    assert crosscheck(original, subject_of(net()), open_data(X, Y), X) == []


def test_audits_compare_and_warn_at_the_top():
    model = net()
    loaded = load_model(model, X[:1])
    assert loaded.original is model
    other = LoadedModel(loaded.network, "object", "net", original=Sharpened(model, 1.05))
    found = ff.audit(other, X, Y, directions=10, samples=50)
    assert "not quite the model" in found.warnings[0]
    other = LoadedModel(loaded.network, "object", "net", original=Sharpened(model, 5.0))
    with pytest.raises(CaptureError, match="not the model"):
        ff.audit(other, X, Y, directions=10, samples=50)


def test_an_onnx_file_is_compared_by_onnxruntime(tmp_path):
    pytest.importorskip("onnxruntime", reason="it runs the file")
    convert = pytest.importorskip("skl2onnx", reason="scikit-learn's converter").to_onnx
    model = MLPClassifier((5,), max_iter=50, tol=1e-2, random_state=0).fit(X, Y)
    path = tmp_path / "model.onnx"
    path.write_bytes(convert(model, X[:1].astype(np.float32)).SerializeToString())
    loaded = load_model(path)
    assert loaded.original == path
    subject = subject_of(model)
    assert crosscheck(path, subject, open_data(X, Y), X) == []
    with pytest.raises(CaptureError, match="not the model"):
        crosscheck(path, subject_of(net()), open_data(X, Y), X)
