"""Files that real exporters write: both of PyTorch's, and scikit-learn's converter."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from torch import nn

import farfield as ff
from farfield.errors import NotFollowed, UnsupportedOperation
from farfield.networks.lenet import lenet
from farfield.networks.mlp import mlp
from small_networks import short_resnet

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs it")
pytest.importorskip("onnxscript", reason="PyTorch's exporters need it")
pytest.importorskip("skl2onnx", reason="scikit-learn's converter")
pytestmark = [pytest.mark.whole, pytest.mark.usefixtures("quick_onnx")]


class Activations(nn.Module):
    """Functions that exporters write out in parts."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.last = nn.Linear(64, 5)

    def forward(self, x):
        x = F.gelu(self.norm(self.first(x)))
        x = F.silu(F.mish(x)) + F.gelu(x, approximate="tanh")
        x = F.hardswish(F.softsign(x) + F.softplus(x))
        x = F.max_pool2d(F.relu6(self.up(x)), 3, stride=2, padding=1)
        x = F.adaptive_avg_pool2d(F.elu(F.leaky_relu(x, 0.2)), 4)
        x = x.view(x.shape[0], -1)
        return F.log_softmax(self.last(F.hardtanh(x)), dim=-1)


def randomised(model):
    """Give batch norms statistics that are not the identity."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return model.eval()


def plain_mlp():
    parts = [nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3)]
    return nn.Sequential(*parts)


class Recurrent(nn.Module):
    """The last state of an LSTM that goes both ways."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.layer(x)[0][:, -1])


MODELS = {
    "lstm": (Recurrent, (2, 3)),
    "mlp": (plain_mlp, (5,)),
    "resnet": (short_resnet, (3, 8, 8)),
    "activations": (Activations, (2, 8, 8)),
}


def export(model, shape, path, *, dynamo, free=True, **options):
    """Export as a user would, without the exporters' own notices."""
    x = torch.zeros(2, *shape, dtype=next(model.parameters()).dtype)
    if free and dynamo:
        options["dynamic_shapes"] = ({0: torch.export.Dim("rows")},)
    elif free:
        options |= {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), path, dynamo=dynamo, verbose=False, **options)
    return path


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("name", MODELS)
def test_a_pytorch_export_is_read(name, dynamo, tmp_path, agrees):
    make, shape = MODELS[name]
    model = randomised(make())
    path = export(model, shape, tmp_path / "model.onnx", dynamo=dynamo)
    network = agrees(path)
    x = torch.randn(3, *shape)
    own = ff.capture(model, x)
    np.testing.assert_allclose(network.logits(x), own.logits(x), atol=1e-6, rtol=1e-6)
    far, expected = (ff.at_infinity(each, x[:1], x[1:]) for each in (network, own))
    np.testing.assert_allclose(far.slope, expected.slope, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_older_operator_sets_are_read(opset, tmp_path, agrees):
    model = randomised(Activations() if opset > 13 else lenet())
    shape = (2, 8, 8) if opset > 13 else (1, 28, 28)
    agrees(export(model, shape, tmp_path / "m.onnx", dynamo=False, opset_version=opset))


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_a_fixed_batch_is_read_with_any_number_of_rows(dynamo, tmp_path):
    model = randomised(Activations())
    path = export(model, (2, 8, 8), tmp_path / "m.onnx", dynamo=dynamo, free=False)
    network = ff.capture(path)
    x = torch.randn(7, 2, 8, 8)
    with torch.no_grad():
        expected = model(x)
    got = torch.log_softmax(network.logits(x)[0], -1)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert any("batch at 2 rows" in note for note in network.notes)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float16, 2e-2)])
def test_other_floating_point_types_are_read(dtype, tolerance, tmp_path, agrees):
    model = plain_mlp().eval().to(dtype)
    agrees(export(model, (5,), tmp_path / "m.onnx", dynamo=False), tolerance=tolerance)


def test_the_rest_of_the_library_works_on_an_export(tmp_path):
    model = mlp([torch.randn(6, 3), torch.randn(6, 7), torch.randn(2, 7)])
    path = export(model, (2,), tmp_path / "m.onnx", dynamo=False)
    network, own = ff.capture(path), ff.capture(model, torch.zeros(1, 2))
    line, expected = (
        ff.along(each, torch.zeros(1, 2), torch.tensor([[1.0, -2.0]])) for each in (network, own)
    )
    np.testing.assert_allclose(line[0].breakpoints, expected[0].breakpoints, atol=1e-9)
    region = ff.linearize(network, torch.ones(1, 2))
    np.testing.assert_allclose(region.V, ff.linearize(own, torch.ones(1, 2)).V, atol=1e-9)
    far = ff.at_infinity(network, torch.zeros(1, 2), torch.tensor([[1.0, -2.0]]), certify=True)
    assert bool(far.certified.all())
    assert 0 <= ff.blind_arcs(network, threshold=0.99).share <= 1


def test_exports_of_one_architecture_are_stacked(tmp_path):
    paths = [
        export(plain_mlp().eval(), (5,), tmp_path / f"{i}.onnx", dynamo=False) for i in range(3)
    ]
    network = ff.capture(paths)
    assert (network.instances, len(network.groups)) == (3, 1)


SCALERS = (StandardScaler, MinMaxScaler, RobustScaler, MaxAbsScaler)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(3)
    X = (generator.normal(size=(150, 4)) * [1, 2, 5, 0.5] + 1).astype(np.float32)
    return X, np.digitize(X[:, 0] + X[:, 1], [0.5, 3])


def fitted(scaler, X, y, **options):
    model = make_pipeline(scaler, MLPClassifier((8, 8), max_iter=15, random_state=0, **options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def convert(model, path, X=None, **options):
    from skl2onnx import to_onnx

    path.write_bytes(to_onnx(model, X, **options).SerializeToString())
    return path


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("scaler", SCALERS)
def test_a_scikit_learn_pipeline_is_read(scaler, zipmap, table, tmp_path, agrees):
    X, y = table
    model = fitted(scaler(), X, y)
    path = convert(model, tmp_path / "m.onnx", X[:1], options={"zipmap": zipmap})
    network = agrees(path)
    assert (network.head, network.labels, network.input_shape) == ("softmax", (0, 1, 2), (4,))
    np.testing.assert_allclose(network.logits(X), ff.capture(model).logits(X), atol=1e-4)


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_two_named_classes_are_read(activation, zipmap, table, tmp_path, agrees):
    X, y = table
    names = np.array(["no", "yes"])[(y > 1).astype(int)]
    model = fitted(StandardScaler(), X, names, activation=activation)
    path = convert(model, tmp_path / "m.onnx", X[:1], options={"zipmap": zipmap})
    network = agrees(path)
    assert (network.one_logit, network.labels) == (True, ("no", "yes"))
    np.testing.assert_allclose(network.probabilities(X)[0], model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_logistic_regression_is_read(classes, table, tmp_path, agrees):
    X, y = table
    model = LogisticRegression().fit(X, np.minimum(y, classes - 1) + 10)
    path = convert(model, tmp_path / "m.onnx", X[:1], options={"zipmap": False})
    network = agrees(path)
    assert network.labels == tuple(range(10, 10 + classes))
    np.testing.assert_allclose(network.probabilities(X)[0], model.predict_proba(X), atol=1e-5)


def voting(*members, weights=None):
    named = [(str(place), member) for place, member in enumerate(members)]
    given = None if weights is None else np.array(weights)
    return VotingClassifier(named, voting="soft", weights=given, flatten_transform=False)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("weights", [None, (2, 1, 1)])
def test_a_soft_vote_becomes_instances(classes, weights, table, tmp_path):
    X, y = table
    members = [MLPClassifier((6,), max_iter=15, random_state=seed) for seed in range(2)]
    model = voting(*members, LogisticRegression(), weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, np.minimum(y, classes - 1))
    network = ff.capture(convert(model, tmp_path / "m.onnx", X[:1], options={"zipmap": False}))
    assert (network.instances, network.classes) == (3 if weights is None else 4, classes)
    for rows in (X, 100 * X):
        expected = model.predict_proba(rows)
        found = network.probabilities(rows).mean(dim=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    ends = np.concatenate([np.eye(4), -np.eye(4)])
    far = ff.at_infinity(network, X[0], ends)
    out = model.predict_proba(X[0] + 1e7 * ends)
    np.testing.assert_allclose(far.probabilities.mean(dim=0), out, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_probabilities_are_right_or_refused(classes, method, table, tmp_path):
    X, y = table
    model = CalibratedClassifierCV(fitted(StandardScaler(), X, y), method=method, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, np.minimum(y, classes - 1))
    path = convert(model, tmp_path / "m.onnx", X[:1], options={"zipmap": False})
    if classes == 3 or method == "isotonic":
        with pytest.raises(UnsupportedOperation, match="by evaluation"):
            ff.capture(path)
        return
    found = ff.capture(path).probabilities(X).mean(dim=0)
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-5)


def test_named_columns_become_features(table, tmp_path, agrees):
    import pandas as pd
    from skl2onnx.common.data_types import FloatTensorType

    X, y = table
    frame = pd.DataFrame(X, columns=["age", "dose", "weight", "score"])
    scaling = ColumnTransformer(
        [("a", StandardScaler(), ["weight", "age"]), ("b", MinMaxScaler(), ["dose", "score"])]
    )
    model = fitted(scaling, frame, y)
    kinds = [(name, FloatTensorType([None, 1])) for name in frame.columns]
    path = convert(model, tmp_path / "m.onnx", initial_types=kinds, options={"zipmap": False})
    network = agrees(path)
    assert network.features == ("age", "dose", "weight", "score")
    np.testing.assert_allclose(network.probabilities(X)[0], model.predict_proba(frame), atol=1e-5)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_normalizer_divides_by_the_norm(norm, table, tmp_path):
    X, y = table
    model = fitted(Normalizer(norm), X, y)
    network = ff.capture(convert(model, tmp_path / "m.onnx", X[:1]))
    rows = np.vstack([X, np.zeros_like(X[:1])])
    np.testing.assert_allclose(network.probabilities(rows)[0], model.predict_proba(rows), atol=1e-5)
    ways = np.vstack([np.eye(X.shape[1]), -np.eye(X.shape[1])])
    far = ff.at_infinity(network, X[0], ways)
    said = model.predict_proba(X[0] + 1e8 * ways)
    np.testing.assert_allclose(far.probabilities[0], said, atol=1e-5)


def test_a_normalizer_by_the_largest_value_is_refused_by_name(table, tmp_path):
    X, y = table
    path = convert(fitted(Normalizer("max"), X, y), tmp_path / "m.onnx", X[:1])
    with pytest.raises(UnsupportedOperation, match=r"Normalizer.*MAX norm; L1 and L2"):
        ff.capture(path)


@pytest.mark.parametrize("name", ["table", "image"])
def test_a_keras_export_is_read(name, tmp_path, agrees, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras' own exporter")
    layers = keras.layers
    if name == "table":
        parts = [
            keras.Input((6,)),
            layers.Normalization(mean=[0.5] * 6, variance=[2.0] * 6),
            layers.Dense(8, activation="swish"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(3, activation="softmax"),
        ]
    else:
        parts = [
            keras.Input((9, 8, 2)),
            layers.Conv2D(4, 3, padding="same", strides=2, activation="elu"),
            layers.MaxPooling2D(2, padding="same"),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.AveragePooling2D(2, padding="same", strides=1),
            layers.LeakyReLU(),
            layers.Flatten(),
            layers.Dense(1, activation="sigmoid"),
        ]
    model = keras.Sequential(parts)
    model(np.zeros((2, *model.input_shape[1:]), "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.export(tmp_path / "m.onnx", format="onnx", verbose=False)
    agrees(tmp_path / "m.onnx")


def keras_parts(flat):
    """What Keras 3 and tf2onnx write for a table, or for images with their channels last."""
    make, rng = onnx.helper.make_node, np.random.default_rng(0)

    def numbers(*shape):
        return rng.normal(size=shape).astype(np.float32)

    if flat:  # Dense as MatMul and Add, batch norm as Mul and Add, casts that do nothing
        nodes = [
            make("Cast", ["x"], ["x0"], to=1),
            make("MatMul", ["x0", "w1"], ["a"]),
            make("Add", ["a", "b1"], ["b"]),
            make("Relu", ["b"], ["c"]),
            make("Sub", ["c", "mean"], ["d"]),
            make("Mul", ["d", "scale"], ["e"]),
            make("Add", ["e", "beta"], ["f"]),
            make("Gemm", ["f", "w2", "b2"], ["g"], alpha=1.0, beta=1.0),
            make("Softmax", ["g"], ["y"], axis=-1),
        ]
        weights = {"w1": numbers(4, 6), "b1": numbers(6), "mean": numbers(6), "scale": numbers(6)}
        return nodes, (4,), weights | {"beta": numbers(6), "w2": numbers(6, 3), "b2": numbers(3)}
    nodes = [
        make("Transpose", ["x"], ["a"], perm=[0, 3, 1, 2]),
        make("Conv", ["a", "k1", "b1"], ["b"], auto_pad="SAME_UPPER", strides=[2, 2]),
        make("Relu", ["b"], ["c"]),
        make("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        make("Transpose", ["d"], ["e"], perm=[0, 2, 3, 1]),
        make("Shape", ["e"], ["s"]),  # Flatten: the rows from the shape, the rest in one
        make("Cast", ["s"], ["s0"], to=6),
        make("Slice", ["s0", "first", "second", "axis"], ["s1"]),
        make("Concat", ["s1", "rest"], ["s2"], axis=0),
        make("Cast", ["s2"], ["s3"], to=7),
        make("Reshape", ["e", "s3"], ["f"]),
        make("MatMul", ["f", "w"], ["g"]),
        make("Add", ["g", "b2"], ["h"]),
        make("Softmax", ["h"], ["y"], axis=1),
    ]
    weights = {"k1": numbers(4, 2, 3, 3), "b1": numbers(4), "w": numbers(16, 3), "b2": numbers(3)}
    places = {"first": [0], "second": [1], "axis": [0]}
    weights |= {name: np.array(value, np.int64) for name, value in places.items()}
    return nodes, (8, 8, 2), weights | {"rest": np.array([-1], np.int32)}


@pytest.mark.parametrize("flat", [True, False])
def test_graphs_as_keras_and_tf2onnx_write_them(flat, save, agrees):
    nodes, shape, weights = keras_parts(flat)
    network = agrees(save(nodes, shape, weights))
    assert (network.head, network.input_shape) == ("softmax", shape)


def test_weights_that_an_exporter_left_outside_are_no_columns(tmp_path):
    make = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Sub", ["x", "mean"], ["d"]),
        onnx.helper.make_node("Softmax", ["d"], ["y"]),
    ]
    ins = [make("x", 1, ["rows", 3]), make("mean", 1, [1, 3])]
    graph = onnx.helper.make_graph(nodes, "g", ins, [make("y", 1, None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(NotFollowed, match=r"mean \(1, 3\)"):
        ff.capture(tmp_path / "m.onnx")


class ClassToken(nn.Module):
    """A linear layer of one of several tokens, behind a norm."""

    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(3, 6), nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.norm(self.body(x))[:, 0])


@pytest.mark.parametrize("opset", [13, 17])
def test_the_cap_on_confidence_is_found_in_files(opset, tmp_path, agrees):
    model = ClassToken().eval()
    path = export(model, (4, 3), tmp_path / "m.onnx", dynamo=False, opset_version=opset)
    cap = ff.capture(model, torch.zeros(1, 4, 3)).confidence_cap
    assert cap < 1
    assert agrees(path).confidence_cap == pytest.approx(cap, rel=1e-6)
