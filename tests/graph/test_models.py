"""Capture: every kind of model in, the model's own numbers out, and every gap in one error."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import RBFSampler
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from torch import nn

import farfield as ff
from farfield.errors import CaptureError, InputError, NotFollowed, UnsupportedOperation


class Block(nn.Module):
    """Batch norm, in-place activation, ``+=``, functional calls and a shared layer."""

    def __init__(self):
        super().__init__()
        self.entry = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.act = nn.ReLU(inplace=True)
        self.shared = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.drop = nn.Dropout2d()
        self.exit = nn.Linear(8, 3)

    def forward(self, x):
        x = self.act(self.norm(self.entry(x)))
        y = self.shared(F.relu(self.shared(x)))
        x += y
        x = self.drop(F.max_pool2d(x, 2))
        x = torch.cat([x.mean((2, 3)), x.amax((2, 3))], dim=1)
        return self.exit(x)


def images(rows=5):
    return torch.randn(rows, 1, 6, 6)


def test_a_real_model_left_in_training_mode_is_captured_in_evaluation_mode():
    model = Block().train()
    before = copy.deepcopy(model.state_dict())
    x = images()
    network = ff.capture(model, x)
    assert all(part.training for part in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    torch.testing.assert_close(
        network.logits(x)[0], model.eval()(x).detach().double(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("analysis", [torch.float32, torch.float64])
def test_floating_point_types(dtype, analysis):
    model = Block().to(dtype).eval()
    x = images().to(dtype)
    network = ff.capture(model, x, dtype=analysis)
    logits = network.logits(x)
    assert logits.dtype == analysis
    torch.testing.assert_close(logits[0], model(x).detach().to(analysis), rtol=1e-4, atol=1e-4)
    far = ff.at_infinity(network, x, torch.randn_like(x))
    assert far.slope.dtype == analysis


def test_instances_are_stacked_and_ordered():
    models = [Block().eval() for _ in range(4)]
    x = images()
    network = ff.capture(models, x)
    assert network.instances == 4
    assert len(network.groups) == 1
    expected = torch.stack([model(x) for model in models]).detach().double()
    torch.testing.assert_close(network.logits(x), expected, rtol=1e-5, atol=1e-5)


def test_instances_with_other_architectures_keep_their_order():
    def mlp(width):
        return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 3)).double()

    models = [mlp(4), mlp(7), mlp(4), nn.Linear(2, 3).double()]
    x = torch.randn(6, 2).double()
    network = ff.capture(models, x)
    assert len(network.groups) == 3
    expected = torch.stack([model(x) for model in models]).detach()
    torch.testing.assert_close(network.logits(x), expected)
    far = ff.at_infinity(network, x, torch.randn(6, 2).double(), certify=True)
    alone = [ff.at_infinity(ff.capture(m, x), x, torch.randn(6, 2).double()) for m in models]
    assert far.slope.shape == (4, 6, 3)
    assert all(each.slope.shape == (1, 6, 3) for each in alone)


def test_instances_that_differ_in_code_but_not_in_looks_are_told_apart():
    class Scaled(nn.Linear):
        factor = 1.0

        def forward(self, x):
            return super().forward(x) * self.factor

    one, two = Scaled(2, 3).double(), Scaled(2, 3).double()
    two.factor = 5.0
    x = torch.randn(4, 2).double()
    network = ff.capture([one, two], x)
    expected = torch.stack([one(x), two(x)]).detach()
    torch.testing.assert_close(network.logits(x), expected)
    for scaled in (one, two):
        scaled.bias.data.zero_()
    network = ff.capture([one, two], torch.zeros(1, 2))
    expected = torch.stack([one(x), two(x)]).detach()
    torch.testing.assert_close(network.logits(x), expected)


@pytest.mark.parametrize(
    ("head", "name", "classes"),
    [
        (nn.Softmax(dim=-1), "softmax", 3),
        (nn.LogSoftmax(dim=1), "log-softmax", 3),
        (nn.Sigmoid(), "sigmoid", 1),
        (nn.Identity(), "none", 3),
        (nn.Identity(), "none", 1),
    ],
)
def test_heads_are_taken_off_and_told(head, name, classes):
    body = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, classes)).double()
    x = torch.randn(4, 2).double()
    network = ff.capture(nn.Sequential(body, head), x)
    assert network.head == name
    assert (name in repr(network)) == (name != "none")
    logits = body(x).detach()
    if classes == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        assert network.one_logit
        assert any("(0, f)" in note for note in network.notes)
    torch.testing.assert_close(network.logits(x)[0], logits)
    torch.testing.assert_close(network.probabilities(x)[0], logits.softmax(-1))


def test_a_squeezed_sigmoid_is_one_logit():
    class Squeezed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, x):
            return torch.sigmoid(self.layer(x)).squeeze(-1)

    model = Squeezed().double()
    x = torch.randn(4, 2).double()
    network = ff.capture(model, x)
    assert (network.classes, network.head) == (2, "sigmoid")
    torch.testing.assert_close(network.probabilities(x)[0, :, 1], model(x).detach())


def test_log_of_softmax_is_a_log_softmax():
    class Logged(nn.Linear):
        def forward(self, x):
            return torch.log(torch.softmax(super().forward(x), dim=-1))

    assert ff.capture(Logged(2, 3), torch.randn(2, 2)).head == "log-softmax"


def test_a_softmax_over_rows_is_no_head():
    model = nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=0))
    with pytest.raises(CaptureError, match="rows of a batch influence one another"):
        ff.capture(model, torch.zeros(2, 2))


def data(rng, classes=3):
    x = rng.normal(size=(120, 4)) * [1, 10, 0.1, 3] + [0, 5, -1, 2]
    y = np.digitize(x[:, 0] + x[:, 1] / 10, np.linspace(0, 1, classes - 1) + 0.3)
    return x, y


@pytest.mark.parametrize("activation", ["relu", "identity", "logistic", "tanh"])
@pytest.mark.parametrize("classes", [2, 3])
def test_scikit_perceptron(activation, classes):
    x, y = data(np.random.default_rng(0), classes)
    model = MLPClassifier((6, 5), activation=activation, max_iter=400, random_state=0, tol=1e-2)
    network = ff.capture(model.fit(x, y))
    assert network.classes == classes
    np.testing.assert_allclose(network.probabilities(x)[0], model.predict_proba(x), atol=1e-9)
    far = ff.at_infinity(network, x[:3], np.ones((1, 4)))
    far_out = model.predict_proba(x[:3] + 1e9)
    np.testing.assert_allclose(far.probabilities[0], far_out, atol=1e-6)


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler((-1, 2)),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False, with_scaling=False),
        PCA(3),
        PCA(3, whiten=True),
        "passthrough",
    ],
    ids=str,
)
def test_scikit_pipelines(scaler):
    x, y = data(np.random.default_rng(1))
    perceptron = MLPClassifier((5,), max_iter=300, random_state=0, tol=1e-2)
    model = make_pipeline(scaler, RobustScaler(), perceptron).fit(x, y)
    network = ff.capture(model, x[:1])
    np.testing.assert_allclose(network.probabilities(x)[0], model.predict_proba(x), atol=1e-9)


def test_scikit_refusals():
    x, y = data(np.random.default_rng(2))
    perceptron = MLPClassifier((3,), max_iter=300, random_state=0, tol=1e-2)
    with pytest.raises(CaptureError, match="not fitted"):
        ff.capture(perceptron)
    waves = make_pipeline(RBFSampler(), MinMaxScaler(), clone_of(perceptron)).fit(x, y)
    with pytest.raises(CaptureError, match=r"rbfsampler \(RBFSampler\)"):
        ff.capture(waves)
    many = clone_of(perceptron).fit(x, np.eye(3, dtype=int)[y])
    with pytest.raises(CaptureError, match="multi-label"):
        ff.capture(many)


def clone_of(model):
    return MLPClassifier(**model.get_params())


def test_every_gap_is_listed_at_once_with_its_place():
    class Wave(nn.Module):
        def forward(self, x):
            return torch.sin(x)

    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(4, 4), Wave())
            self.exit = nn.Linear(4, 2)

        def forward(self, x):
            h = torch.floor(self.encoder(x))
            return self.exit(h.flip(1))

    with pytest.raises(UnsupportedOperation) as caught:
        ff.capture(Waves(), torch.zeros(2, 4))
    message = str(caught.value)
    assert "aten.sin" in message
    assert "encoder.1 (Wave)" in message
    assert "aten.floor" in message
    assert "test_models.py:" in message
    assert "docs/rules.md" in message


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(metric="manhattan"),
        object(),
        make_pipeline(RBFSampler(), KNeighborsClassifier()),
    ],
    ids=["neighbours", "object", "pipeline"],
)
def test_a_refusal_says_what_can_be_done_today(model):
    if hasattr(model, "fit"):
        model.fit(*data(np.random.default_rng(3)))
    with pytest.raises(NotFollowed) as caught:
        ff.capture(model)
    assert "ff.audit can still audit the model by evaluation" in str(caught.value)
    assert "docs/rules.md" not in str(caught.value)
    assert "ff.audit" not in caught.value.reason
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


class Returns(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.how = how

    def forward(self, x):
        return self.how(self.layer(x))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda z: (z, z), "returns a tuple"),
        (lambda z: z if z.sum() > 0 else -z, "Control flow that depends on the values"),
        (lambda z: z - z.mean(0), "rows of the batch|influence one another"),
        (lambda z: z.flip(0), "influence one another"),
        (lambda z: z.t(), "rows of the batch"),
        (lambda z: z.sum(), "influence one another"),
        (lambda z: z[:, :, None].expand(-1, -1, 3), "one row of logits per input"),
        (lambda z: torch.sigmoid(z), "multi-label"),
        (lambda z: z.round().long().double(), "no rule at infinity"),
        (lambda z: z + z.kthvalue(1, 1, True).indices, "position of a maximum"),
        (lambda z: F.dropout(z, 0.5, training=True), "no rule|other numbers"),
        (lambda z: z + torch.rand_like(z), "no rule|other numbers"),
        (lambda z: F.batch_norm(z, None, None, training=True), "statistics of the batch|no rule"),
    ],
)
def test_models_that_cannot_be_read(how, message):
    with pytest.raises(CaptureError, match=message):
        ff.capture(Returns(how), torch.randn(3, 2))


def test_an_example_that_the_model_cannot_take():
    with pytest.raises(CaptureError, match="rows like those"):
        ff.capture(nn.Linear(2, 2), torch.full((1, 2), float("nan")))


def test_weights_that_are_not_finite():
    model = nn.Linear(2, 2)
    model.weight.data[0, 0] = float("nan")
    with pytest.raises(CaptureError, match="NaN or infinite"):
        ff.capture(model, torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("model", "example", "error", "message"),
    [
        (nn.Linear(2, 2), None, InputError, "pass an example"),
        (nn.Linear(2, 2), torch.zeros(2), InputError, "rows first"),
        (nn.Linear(2, 2), torch.zeros(0, 2), InputError, "rows first"),
        (nn.Linear(2, 2), torch.zeros(1, 2, dtype=torch.long), InputError, "floating-point"),
        (nn.Linear(2, 2), torch.zeros(1, 3), CaptureError, "could not trace"),
        ([], None, CaptureError, "empty"),
        ([nn.Linear(2, 2), nn.Linear(2, 3)], torch.zeros(1, 2), CaptureError, "must agree"),
        (lambda x: x, None, CaptureError, "type function"),
        (nn.Linear(2, 2, dtype=torch.complex64), torch.zeros(1, 2), CaptureError, "complex"),
    ],
)
def test_bad_arguments(model, example, error, message):
    with pytest.raises(error, match=message):
        ff.capture(model, example)


def test_bad_analysis_type():
    with pytest.raises(InputError, match=r"float32 or torch\.float64"):
        ff.capture(nn.Linear(2, 2), torch.zeros(1, 2), dtype=torch.float16)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\)"),
        (np.zeros((0, 2)), "empty"),
        (np.array([[1.0, np.nan]]), "NaN or infinite"),
        (np.array([[1.0, np.inf]]), "NaN or infinite"),
        (np.zeros((1, 2), dtype=int), "floating-point"),
        (np.zeros((1, 2), dtype=complex), "floating-point"),
        (np.array([["a", "b"]]), "encode strings"),
        ([[1.0], [1.0, 2.0]], "cannot be read"),
    ],
)
def test_bad_rows(x, message):
    network = ff.capture(nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(InputError, match=message):
        network.logits(x)


def test_no_call_moves_the_global_random_state():
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002 - that is the point
    network = ff.capture(Block(), images())
    torch.set_rng_state(torch.get_rng_state())
    after_images = torch.get_rng_state()
    ff.at_infinity(network, torch.zeros(1, 6, 6), torch.ones(1, 1, 6, 6), certify=True)
    network.logits(torch.zeros(2, 1, 6, 6))
    assert torch.equal(torch.get_rng_state(), after_images)
    assert np.array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002 - as above


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.uint8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_buffers_of_whole_numbers_are_factors(kind, dtype):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3).double()
            self.register_buffer("mask", torch.tensor([1, 0, 1]).to(kind))
            self.register_buffer("order", torch.tensor([2, 0, 1]))

        def forward(self, x):
            return F.relu(self.layer(x * self.mask + self.mask)).maximum(self.order)[:, self.order]

    model = Masked()
    x = torch.randn(4, 3).double()
    network = ff.capture(model, x, dtype=dtype)
    torch.testing.assert_close(network.logits(x)[0].double(), model(x), atol=1e-5, rtol=1e-5)
    certify = dtype is torch.float64
    far = ff.at_infinity(network, x, torch.randn(4, 3).double(), certify=certify)
    assert far.certified is None or far.certified.all()


def test_rows_may_lie_in_any_order_in_memory():
    net = nn.Sequential(nn.Flatten(), nn.Linear(8, 2))
    network = ff.capture(net, torch.zeros(1, 2, 4))
    rows = torch.arange(48.0).reshape(6, 4, 2).transpose(1, 2)
    assert not rows.is_contiguous()
    assert torch.equal(network.logits(rows), network.logits(rows.contiguous()))


def test_rows_whose_sum_overflows_are_rows_all_the_same():
    network = ff.capture(nn.Linear(2, 2), torch.zeros(1, 2))
    assert network.rows(np.full((4, 2), 1e308)).shape == (4, 2)
    with pytest.raises(InputError, match="NaN or infinite numbers in 1 of 4 rows"):
        network.rows(np.where(np.eye(4, 2) > 0, [[np.inf, 1.0]], 1e308))
