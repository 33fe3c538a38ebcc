"""ONNX files of many makes, and how to run them."""

import functools

import numpy as np
import pytest
import torch
from scipy.special import expit

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

COLUMNS = 3


def session(path):
    return _session(path.read_bytes())


@functools.lru_cache(maxsize=4)
def _session(data):
    """By what a file holds: to make one takes longer than to run it."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


KINDS = {"tensor(double)": np.float64, "tensor(float16)": np.float16}


def run(path, rows):
    """Every output of a file; dictionaries as arrays."""
    opened = session(path)
    kind = KINDS.get(opened.get_inputs()[0].type, np.float32)
    with np.errstate(over="ignore"):
        fed = np.asarray(rows).astype(kind)
    found = opened.run(None, {opened.get_inputs()[0].name: fed})
    return [
        np.array([[row[key] for key in sorted(row)] for row in each])
        if isinstance(each, list)
        else each
        for each in found
    ]


def of_scikit(model, data, **options):
    return skl2onnx.to_onnx(model.fit(*data), data[0][:1], options={id(model): options})


def forest(data):
    from sklearn.ensemble import RandomForestClassifier

    return of_scikit(RandomForestClassifier(10, random_state=0), data)


def boosted(data):
    from sklearn.ensemble import GradientBoostingClassifier

    return of_scikit(GradientBoostingClassifier(n_estimators=5), data, zipmap=False)


def logistic(data):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression())
    return skl2onnx.to_onnx(model.fit(*data), data[0][:1])


def graph_of(nodes, outputs, weights, opset=13):
    helper = onnx.helper
    values = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    given = helper.make_tensor_value_info("in", 1, [None, COLUMNS])
    made = [helper.make_tensor_value_info(name, 1, [None, None]) for name in outputs]
    graph = helper.make_graph(nodes, "net", [given], made, values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def network(classes, *more, outputs, opset=13):
    rng = np.random.default_rng(1)
    weights = {
        "w": (rng.normal(size=(COLUMNS, classes)) * 8).astype(np.float32),
        "b": rng.normal(size=classes).astype(np.float32),
    }
    node = onnx.helper.make_node
    nodes = [node("MatMul", ["in", "w"], ["h"]), node("Add", ["h", "b"], ["z"])]
    nodes += [node(operator, ["z"], [operator.lower()], **kw) for operator, kw in more]
    return graph_of(nodes, outputs, weights, opset)


FILES = {
    "forest": forest,
    "boosted": boosted,
    "logistic": logistic,
    "logits": lambda _: network(3, outputs=["z"]),
    "logits, opset 9": lambda _: network(3, outputs=["z"], opset=9),
    "logits, opset 20": lambda _: network(3, outputs=["z"], opset=20),
    "softmax": lambda _: network(3, ("Softmax", {"axis": 1}), outputs=["softmax"]),
    "both": lambda _: network(3, ("Softmax", {"axis": 1}), outputs=["z", "softmax"]),
    "log": lambda _: network(3, ("LogSoftmax", {"axis": 1}), outputs=["logsoftmax"]),
    "one logit": lambda _: network(1, outputs=["z"]),
    "one sigmoid": lambda _: network(1, ("Sigmoid", {}), outputs=["sigmoid"]),
}


def as_probabilities(name, values):
    if name in ("one logit", "one sigmoid"):
        p = values if name == "one sigmoid" else expit(values.astype(float))
        return np.hstack([1 - p, p])
    if values.min() < 0 or not np.allclose(values.sum(axis=1), 1, atol=1e-3):
        return torch.softmax(torch.from_numpy(values).double(), dim=1).numpy()
    return values
