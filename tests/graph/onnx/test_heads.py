"""Which value holds the scores, and what the classes are called."""

import numpy as np
import pytest

import farfield as ff
from farfield.errors import CaptureError, UnsupportedOperation

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
make_node = onnx.helper.make_node
ML = "ai.onnx.ml"
WEIGHT = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
BODY = make_node("MatMul", ["x", "w"], ["z"])


def model(save, nodes, outputs, weights=None):
    """Write a model with outputs of given element types."""
    path = save([BODY, *nodes], (4,), {"w": WEIGHT, **(weights or {})})
    proto = onnx.ModelProto.FromString(path.read_bytes())
    del proto.graph.output[:]
    for name, kind in outputs.items():
        proto.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    path.write_bytes(proto.SerializeToString())
    return path


def test_logits_and_their_softmax_are_one_model(save):
    path = model(save, [make_node("Softmax", ["z"], ["p"])], {"z": 1, "p": 1})
    network = ff.capture(path)
    assert (network.classes, network.head) == (3, "softmax")


def test_a_label_alone_leads_to_the_scores(save):
    nodes = [
        make_node("ArgMax", ["z"], ["i"], axis=1),
        make_node("ArrayFeatureExtractor", ["names", "i"], ["l"], domain=ML),
        make_node("Cast", ["l"], ["label"], to=7),
    ]
    path = model(save, nodes, {"label": 7}, {"names": np.array([7, 8, 9])})
    network = ff.capture(path)
    assert network.labels == (7, 8, 9)
    x = np.eye(4)
    np.testing.assert_allclose(network.logits(x)[0], WEIGHT, atol=1e-7)


def test_two_outputs_that_differ_are_refused(save):
    path = model(save, [make_node("Relu", ["z"], ["r"])], {"z": 1, "r": 1})
    with pytest.raises(CaptureError, match="'z', 'r'"):
        ff.capture(path)


def test_an_output_without_scores_is_refused(save):
    path = model(save, [make_node("Cast", ["z"], ["i"], to=7)], {"i": 7})
    with pytest.raises(CaptureError, match="0 could be the scores"):
        ff.capture(path)


def test_names_that_do_not_fit_are_dropped_with_a_note(save):
    zipmap = make_node("ZipMap", ["z"], ["m"], domain=ML, classlabels_strings=["a", "b"])
    network = ff.capture(model(save, [zipmap, make_node("Identity", ["z"], ["o"])], {"o": 1}))
    assert network.labels is None
    assert any("names 2 classes but has 3" in note for note in network.notes)


def test_names_of_classes_are_kept_as_they_are(save):
    hostile = ["<script>alert(1)</script>", "naïve", "\x00"]
    zipmap = make_node("ZipMap", ["z"], ["m"], domain=ML, classlabels_strings=hostile)
    network = ff.capture(model(save, [zipmap], {"z": 1}))
    assert network.labels == tuple(hostile)


def test_independent_sigmoids_are_refused(save):
    path = model(save, [make_node("Sigmoid", ["z"], ["p"])], {"p": 1})
    with pytest.raises(CaptureError, match="multi-label"):
        ff.capture(path)


def test_a_machine_is_sent_to_an_audit_by_evaluation_and_not_to_the_rules(save):
    machine = make_node(
        "SVMClassifier",
        ["z"],
        ["l", "o"],
        domain=ML,
        classlabels_ints=[0, 1, 2],
        post_transform="NONE",
    )
    with pytest.raises(UnsupportedOperation, match="SVMClassifier") as caught:
        ff.capture(model(save, [machine], {"o": 1}))
    assert "ff.audit can still audit the model by evaluation" in str(caught.value)
    assert "docs/rules.md" not in str(caught.value)
