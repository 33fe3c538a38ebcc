"""Files that converters write for trees, against onnxruntime's numbers."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import farfield as ff

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
runtime = pytest.importorskip("onnxruntime", reason="the judge of these tests")
FEATURES = 4


def table(classes):
    x, y = make_classification(
        120, FEATURES, n_informative=4, n_redundant=0, n_classes=classes, random_state=0
    )
    x[:, 0] = np.round(2 * x[:, 0]) % 6
    return x.astype(np.float32), (y + (x[:, 0] % 2 == 0)) % classes


def beside(path, x):
    """Rows at the thresholds of a file and beside them, in either type."""
    rows = []
    for node in onnx.load(path).graph.node:
        lists = {item.name: item for item in node.attribute}
        if "nodes_values" in lists:
            splits = zip(lists["nodes_featureids"].ints, lists["nodes_values"].floats, strict=True)
            for column, value in list(splits)[:40]:
                for number in (
                    *(value, np.nextafter(value, 9e9), np.nextafter(value, -9e9)),
                    np.nextafter(np.float32(value), np.float32(9e9)),
                ):
                    rows.append(x[len(rows) % len(x)].astype(np.float64))
                    rows[-1][column] = number
    return np.array(rows)


def check(proto, x, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    network = ff.capture(path)
    rows = np.concatenate([x, beside(path, x), 1e30 * np.sign(x)])
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    said = session.run(None, {name: rows.astype(np.float32)})[-1]
    if isinstance(said, list):
        said = np.array([list(row.values()) for row in said])
    np.testing.assert_allclose(network.probabilities(rows)[0], said, atol=1e-6)
    return network


def voting():
    members = [("forest", RandomForestClassifier(3)), ("line", LogisticRegression())]
    return VotingClassifier(
        members, voting="soft", weights=np.array([2, 1]), flatten_transform=False
    )


SCIKIT = {
    "tree": (lambda: DecisionTreeClassifier(random_state=0), "identity"),
    "forest": (lambda: RandomForestClassifier(6, random_state=0), "identity"),
    "extra": (lambda: ExtraTreesClassifier(6, random_state=0), "identity"),
    "boosted": (lambda: GradientBoostingClassifier(n_estimators=5), "softmax"),
    "scaled": (
        lambda: make_pipeline(StandardScaler(), RandomForestClassifier(4, random_state=0)),
        "identity",
    ),
    "voting": (voting, "identity"),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", SCIKIT)
def test_what_skl2onnx_writes_is_read(name, classes, tmp_path):
    convert = pytest.importorskip("skl2onnx", reason="scikit-learn's converter").to_onnx
    make, link = SCIKIT[name]
    x, y = table(classes)
    network = check(convert(make().fit(x, y), x[:1]), x, tmp_path)
    assert (network.link, network.labels) == (link, tuple(range(classes)))


def of_xgboost(x, y):
    package = pytest.importorskip("xgboost", reason="boosted trees to convert")
    return package.XGBClassifier(n_estimators=4, max_depth=3).fit(x, y)


def of_lightgbm(x, y):
    package = pytest.importorskip("lightgbm", reason="boosted trees to convert")
    return package.LGBMClassifier(
        n_estimators=4, num_leaves=7, min_child_samples=3, verbose=-1
    ).fit(x, y)


def of_categories(x, y):
    package = pytest.importorskip("lightgbm", reason="boosted trees to convert")
    model = package.LGBMClassifier(
        n_estimators=4,
        num_leaves=7,
        min_child_samples=3,
        min_data_per_group=1,
        cat_smooth=0,
        verbose=-1,
    )
    return model.fit(x, y, categorical_feature=[0])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("make", [of_xgboost, of_lightgbm, of_categories])
def test_what_onnxmltools_writes_is_read(make, classes, tmp_path):
    x, y = table(classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converters' own
        tools = pytest.importorskip("onnxmltools", reason="the converter of boosted trees")
        from onnxmltools.convert.common.data_types import FloatTensorType

        model = make(x, y)
        convert = tools.convert_xgboost if make is of_xgboost else tools.convert_lightgbm
        proto = convert(model, initial_types=[("x", FloatTensorType([None, FEATURES]))])
    assert check(proto, x, tmp_path).link == "softmax"
