"""Trees in ONNX files: every kind of split in both layouts, against onnxruntime's numbers."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import farfield as ff
from farfield.errors import CaptureError, NotFollowed

onnx = pytest.importorskip("onnx", reason="reading .onnx files needs the onnx package")
runtime = pytest.importorskip("onnxruntime", reason="the judge of these tests")
helper, from_array = onnx.helper, onnx.numpy_helper.from_array
ML = "ai.onnx.ml"
MODES = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]
COLUMNS = 3
RUNS = tuple(map(int, runtime.__version__.split(".")[:2]))
newer = pytest.mark.skipif(
    RUNS < (1, 30), reason="onnxruntime before 1.30 evaluates some trees otherwise, see models.md"
)


def model(attributes, operator="TreeEnsembleClassifier", *, kind=np.float32, ml=3, before=()):
    """A file with one ensemble, and nodes before it."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    outputs = ["p"] if operator != "TreeEnsembleClassifier" else ["l", "p"]
    last = before[-1].output[0] if before else "x"
    node = helper.make_node(operator, [last], outputs, domain=ML, **attributes)
    kinds = {
        "l": 8 if "classlabels_strings" in attributes else 7,
        "p": number if operator == "TreeEnsemble" else 1,
    }
    graph = helper.make_graph(
        [*before, node],
        "g",
        [helper.make_tensor_value_info("x", number, ["rows", COLUMNS])],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(ML, ml)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def judge(proto, x, kind=np.float32):
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(["p"], {"x": x.astype(kind)})[0]


def capture(proto, tmp_path):
    path = tmp_path / "trees.onnx"
    path.write_bytes(proto.SerializeToString())
    return ff.capture(path)


def ours(network, x):
    """What a file gives for rows that may hold NaN."""
    outputs = network.as_classes(network.groups[0].forward(torch.as_tensor(x).double()))[0]
    return (outputs if network.head == "none" else outputs.softmax(dim=1)).numpy()


def grown(rng, modes, trees=3, depth=3, tracks=True):
    """Random trees in the older layout, without weights."""
    listed = {name: [] for name in ("tree", "id", "feature", "value", "mode", "true", "false")}
    missing, leaves = [], []
    for tree in range(trees):
        pending, made = [(0, 0)], 1
        while pending:
            number, level = pending.pop(0)
            leaf = level == depth or (level > 0 and rng.random() < 0.2)
            listed["tree"].append(tree)
            listed["id"].append(number)
            listed["feature"].append(int(rng.integers(COLUMNS)))
            listed["value"].append(float(np.float32(rng.choice([0.1, 1.0, 2.0, -0.3, 1 / 3]))))
            listed["mode"].append("LEAF" if leaf else f"BRANCH_{rng.choice(modes)}")
            missing.append(int(tracks and rng.random() < 0.5))
            children = (0, 0) if leaf else (made, made + 1)
            listed["true"].append(children[0])
            listed["false"].append(children[1])
            if leaf:
                leaves.append((tree, number))
            else:
                made += 2
                pending += [(child, level + 1) for child in children]
    names = {"tree": "treeids", "id": "nodeids", "feature": "featureids", "value": "values"}
    names |= {"mode": "modes", "true": "truenodeids", "false": "falsenodeids"}
    attributes = {f"nodes_{names[key]}": values for key, values in listed.items()}
    if tracks:
        attributes["nodes_missing_value_tracks_true"] = missing
    return attributes, leaves


def weighed(leaves, classes, values, prefix="class"):
    """Weights ``(leaves, classes)`` as attributes."""
    places = [(leaf, c) for leaf in range(len(leaves)) for c in classes]
    return {
        f"{prefix}_treeids": [leaves[leaf][0] for leaf, _ in places],
        f"{prefix}_nodeids": [leaves[leaf][1] for leaf, _ in places],
        f"{prefix}_ids": [c for _, c in places],
        f"{prefix}_weights": [float(values[leaf, classes.index(c)]) for leaf, c in places],
    }


def rows_beside(attributes, rng, kind=np.float32):
    """Rows exactly at thresholds, one unit in the last place beside them, far away, and NaN."""
    values = np.unique(np.asarray(attributes["nodes_values"], dtype=kind))
    values = np.concatenate(
        [values, np.nextafter(values, kind(9)), np.nextafter(values, kind(-9)), [1e30, -1e30]]
    )
    x = rng.choice(values, size=(80, COLUMNS))
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


@newer
@pytest.mark.parametrize("mode", [*MODES, "mixed"])
def test_every_kind_of_split_goes_where_onnxruntime_goes(mode, tmp_path):
    rng = np.random.default_rng(3)
    attributes, leaves = grown(rng, MODES if mode == "mixed" else [mode])
    values = rng.normal(size=(len(leaves), 3))
    attributes |= weighed(leaves, [0, 1, 2], values) | {"classlabels_strings": ["a", "b", "c"]}
    proto = model(attributes | {"post_transform": "SOFTMAX", "base_values": [0.1, 0.2, -0.3]})
    network = capture(proto, tmp_path)
    x = rows_beside(attributes, rng)
    np.testing.assert_allclose(ours(network, x), judge(proto, x), atol=1e-6)
    assert (network.labels, network.head) == (("a", "b", "c"), "softmax")


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(0, 10**6))
def test_doubles_are_rounded_where_the_file_rounds_them(tmp_path, seed):
    rng = np.random.default_rng(seed)
    attributes, leaves = grown(rng, MODES)
    values = rng.normal(size=(len(leaves), 3))
    attributes |= weighed(leaves, [0, 1, 2], values) | {"classlabels_int64s": [5, 6, 7]}
    x = rows_beside(attributes, rng, np.float64)
    x[:20] = np.nextafter(x[:20].astype(np.float32), np.float32(9)).astype(np.float64)
    wide = model(attributes, kind=np.float64)
    np.testing.assert_allclose(
        ours(capture(wide, tmp_path), x), judge(wide, x, np.float64), atol=2e-6
    )
    cast = helper.make_node("Cast", ["x"], ["c"], to=1)
    for proto in (model(attributes), model(attributes, kind=np.float64, before=[cast])):
        kind = np.float64 if proto.graph.node[0].op_type == "Cast" else np.float32
        np.testing.assert_allclose(
            ours(capture(proto, tmp_path), x), judge(proto, x, kind), atol=2e-6
        )


def test_thresholds_in_double_precision_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    attributes, leaves = grown(rng, ["LEQ", "LT", "EQ"])
    values = rng.normal(size=(len(leaves), 2))
    attributes |= weighed(leaves, [0, 1], values, "target") | {"n_targets": 2}
    x = rows_beside(attributes, rng, np.float64)
    for name in ("nodes_values", "target_weights"):
        attributes[f"{name}_as_tensor"] = from_array(np.array(attributes.pop(name)) / 3, name)
    x = np.where(np.abs(x) < 1e29, x / 3, x)
    proto = model(attributes, "TreeEnsembleRegressor", kind=np.float64)
    network = capture(proto, tmp_path)
    np.testing.assert_allclose(ours(network, x), judge(proto, x, np.float64), atol=1e-6)


TWO_CLASSES = {
    "logistic": ([0], "LOGISTIC", [], (-1, 1)),
    "logistic with a base": ([0], "LOGISTIC", [0.3], (-1, 1)),
    "logistic of positive weights": ([0], "LOGISTIC", [], (0, 1)),
    "shares": ([0], "NONE", [], (0, 0.3)),
    "shares with a base": ([0], "NONE", [0.05], (0, 0.3)),
    "margins": ([0], "NONE", [0.5], (-1, 1)),
    "the second column": ([1], "NONE", [], (-1, 1)),
    "the second column by softmax": ([1], "SOFTMAX", [], (-1, 1)),
    "both columns": ([0, 1], "NONE", [], (-1, 1)),
    "both columns by softmax": ([0, 1], "SOFTMAX", [], (-1, 1)),
}


@newer
@pytest.mark.parametrize("name", TWO_CLASSES)
def test_two_classes_in_all_their_forms(name, tmp_path):
    used, form, base, (low, high) = TWO_CLASSES[name]
    rng = np.random.default_rng(1)
    attributes, leaves = grown(rng, ["LEQ"])
    values = rng.uniform(low, high, size=(len(leaves), len(used)))
    attributes |= weighed(leaves, used, values) | {"classlabels_int64s": [0, 1]}
    attributes |= {"post_transform": form} | ({"base_values": base} if base else {})
    proto = model(attributes)
    network = capture(proto, tmp_path)
    x = rows_beside(attributes, rng)
    np.testing.assert_allclose(ours(network, x), judge(proto, x), atol=1e-6)
    assert (network.link == "identity") == name.startswith("shares")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"post_transform": "PROBIT"}, "PROBIT"),
        ({"post_transform": "SOFTMAX_ZERO"}, "SOFTMAX_ZERO"),
        ({"post_transform": "LOGISTIC"}, "LOGISTIC"),
        ({"base_values": [0.1]}, "base values"),
    ],
)
def test_what_onnxruntime_alone_can_mean_is_sampled(changed, said, tmp_path):
    rng = np.random.default_rng(1)
    attributes, leaves = grown(rng, ["LEQ"])
    attributes |= weighed(leaves, [0, 1], rng.normal(size=(len(leaves), 2)))
    with pytest.raises(NotFollowed, match=said):
        capture(model(attributes | {"classlabels_int64s": [0, 1]} | changed), tmp_path)


def test_a_class_that_some_rows_get_no_score_for_is_sampled(tmp_path):
    attributes, leaves = grown(np.random.default_rng(1), ["LEQ"])
    weights = weighed(leaves, [0, 1], np.ones((len(leaves), 2)))
    first = dict(reversed(leaves))
    places = zip(*(weights[f"class_{name}"] for name in ("treeids", "nodeids", "ids")), strict=True)
    kept = [k for k, (tree, number, c) in enumerate(places) if c == 0 or first[tree] != number]
    attributes |= {name: [values[k] for k in kept] for name, values in weights.items()}
    with pytest.raises(NotFollowed, match="may be absent"):
        capture(model(attributes | {"classlabels_int64s": [0, 1]}), tmp_path)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_sums_and_means_of_regressors(aggregate, tmp_path):
    rng = np.random.default_rng(2)
    attributes, leaves = grown(rng, ["LT"])
    values = rng.normal(size=(len(leaves), 2))
    attributes |= weighed(leaves, [0, 1], values, "target")
    attributes |= {"aggregate_function": aggregate, "n_targets": 2, "base_values": [0.3, 0.1]}
    proto = model(attributes, "TreeEnsembleRegressor")
    x = rows_beside(attributes, rng)
    np.testing.assert_allclose(ours(capture(proto, tmp_path), x), judge(proto, x), atol=1e-6)
    with pytest.raises(NotFollowed, match="MAX"):
        capture(
            model(attributes | {"aggregate_function": "MAX"}, "TreeEnsembleRegressor"), tmp_path
        )


def rooted(kind=np.float32, **changed):
    """Two trees in the layout of version 5: one of each kind of split, one of a single leaf."""
    attributes = {
        "tree_roots": [0, 7],
        "n_targets": 2,
        "aggregate_function": 1,
        "post_transform": 0,
        "nodes_modes": from_array(np.array([0, 1, 2, 3, 4, 5, 6, 0], dtype=np.uint8)),
        "nodes_splits": from_array(np.array([1, 0.5, 0.25, 2, 3, 2, 0, 0], dtype=kind)),
        "nodes_featureids": [0, 1, 2, 0, 1, 2, 2, 0],
        "nodes_truenodeids": [1, 3, 5, 0, 2, 4, 6, 0],
        "nodes_falsenodeids": [2, 4, 6, 1, 3, 5, 7, 0],
        "nodes_trueleafs": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_falseleafs": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 0, 1, 1, 0, 0, 0],
        "membership_values": from_array(np.array([1, 3, np.nan], dtype=kind)),
        "leaf_weights": from_array(np.arange(1, 9).astype(kind) / 7),
        "leaf_targetids": [0, 1, 0, 1, 1, 0, 1, 0],
    }
    return attributes | changed


@newer
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("aggregate", [0, 1])
def test_the_layout_of_version_5(kind, aggregate, tmp_path):
    attributes = rooted(kind, aggregate_function=aggregate)
    proto = model(attributes, "TreeEnsemble", ml=5, kind=kind)
    numbers = np.array([0, 0.25, 0.5, 1, 1.5, 2, 3, 65, -3, 1e30, -1e30, np.nan])
    x = np.random.default_rng(0).choice(numbers, size=(400, COLUMNS))
    network = capture(proto, tmp_path)
    np.testing.assert_allclose(ours(network, x), judge(proto, x, kind), atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"post_transform": 1}, "reads otherwise"), ({"aggregate_function": 3}, "MAX")],
)
def test_what_the_specification_and_onnxruntime_read_differently_is_sampled(
    changed, said, tmp_path
):
    with pytest.raises(NotFollowed, match=said):
        capture(model(rooted(**changed), "TreeEnsemble", ml=5), tmp_path)


def stump(**changed):
    attributes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": [0, 0],
        "class_weights": [0.25, 0.75],
        "classlabels_int64s": [0, 1],
    }
    return attributes | changed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "no node of it"),
        ({"nodes_falsenodeids": [1, 0, 0]}, "share a child"),
        ({"nodes_falsenodeids": [9, 0, 0]}, "node 9 of tree 0"),
        ({"nodes_nodeids": [0, 1, 1]}, "twice"),
        ({"nodes_treeids": [0, 1, 0]}, "several places"),
        ({"nodes_treeids": [0, 0]}, "2 places"),
        ({"nodes_values": [0.0]}, "1 entries"),
        ({"nodes_values": [np.nan, 0.0, 0.0]}, "NaN"),
        ({"nodes_featureids": [3, 0, 0]}, "column 3"),
        ({"nodes_featureids": [-1, 0, 0]}, "below 0"),
        ({"class_nodeids": [0, 2]}, "no leaves"),
        ({"class_nodeids": [1, 7]}, "node 7"),
        ({"class_ids": [0, 5]}, "other outputs"),
        ({"class_weights": [np.inf, 0.0]}, "finite"),
        ({"base_values": [np.nan]}, "base values"),
        (
            {"nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "LEAF"], "nodes_falsenodeids": [1, 0, 0]},
            "no",
        ),
    ],
)
def test_files_that_hold_no_trees_are_refused_in_one_line(changed, said, tmp_path):
    with pytest.raises(CaptureError, match=said) as caught:
        capture(model(stump(**changed)), tmp_path)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, NotFollowed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tree_roots": [0, 0]}, "twice"),
        ({"tree_roots": [9]}, "roots"),
        ({"nodes_truenodeids": [0, 3, 5, 0, 2, 4, 6, 0]}, "twice"),
        ({"nodes_truenodeids": [1, 99, 5, 0, 2, 4, 6, 0]}, "true child"),
        (
            {"membership_values": from_array(np.array([1, np.nan, 2], dtype=np.float32))},
            "sets of members",
        ),
        ({"leaf_targetids": [0, 1, 0, 1, 1, 0, 1, 2]}, "other outputs"),
        ({"n_targets": 10**9}, "asks for"),
    ],
)
def test_files_of_version_5_that_hold_no_trees_are_refused(changed, said, tmp_path):
    with pytest.raises(CaptureError, match=said):
        capture(model(rooted(**changed), "TreeEnsemble", ml=5), tmp_path)


def test_a_chain_that_no_library_grows_is_refused(tmp_path):
    count = 60_001
    inner = count // 2
    deep = {
        "nodes_treeids": [0] * count,
        "nodes_nodeids": list(range(count)),
        "nodes_featureids": [0] * count,
        "nodes_values": [0.0] * count,
        "nodes_modes": (["BRANCH_LEQ", "LEAF"] * inner) + ["LEAF"],
        "nodes_truenodeids": [int(k) + 1 for k in range(count)],
        "nodes_falsenodeids": [min(int(k) + 2, count - 1) for k in range(count)],
        "class_nodeids": [1, 3],
    }
    with pytest.raises(CaptureError, match="levels"):
        capture(model(stump(**deep)), tmp_path)


def test_sets_of_categories_written_as_chains_are_put_together(tmp_path):
    chain = stump(
        nodes_treeids=[0] * 5,
        nodes_nodeids=[0, 1, 2, 3, 4],
        nodes_featureids=[1] * 5,
        nodes_values=[3.0, 5.0, 4.0, 0.0, 0.0],
        nodes_modes=["BRANCH_EQ", "BRANCH_EQ", "BRANCH_EQ", "LEAF", "LEAF"],
        nodes_truenodeids=[3, 3, 3, 0, 0],
        nodes_falsenodeids=[1, 2, 4, 0, 0],
        class_nodeids=[3, 4],
    )
    proto = model(chain)
    x = np.zeros((8, COLUMNS))
    x[:, 1] = [2, 3, 4, 5, 6, 4.5, -1, np.nan]
    network = capture(proto, tmp_path)
    np.testing.assert_allclose(ours(network, x), judge(proto, x), atol=1e-6)
    far = ff.at_infinity(network, torch.tensor([0.0, 4.0, 0.0]), torch.tensor([[0.0, 1.0, 0.0]]))
    np.testing.assert_allclose(far.probabilities[0, 0], [0.25, 0.75])
