"""Files of boosted trees as ONNX, so that a guard can be put around them.

Trees that were read become one ``TreeEnsembleRegressor`` in double precision, which compares as
they do: ``x <= threshold``, and a way of its own for NaN. Before anybody sees it, it is run on rows
whose values are the trees' own thresholds and their neighbours among all numbers. What ONNX has no
way to say without growing trees anew is refused: sets of categories, and zeros that count as
missing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.errors import InputError
from farfield.formats import tell
from farfield.graph.models import capture
from farfield.graph.trees.boosters import read_booster_file
from farfield.graph.trees.ensemble import TreeEnsemble
from farfield.guard.onnx_scores import run

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET, TREE_OPSET, IR_VERSION = 18, 3, 9
# Rows that are compared, and the share of their values that is missing where it may be.
ROWS, MISSING = 512, 0.1
# How far probabilities may be off: scores are rounded to single precision.
NEAR = 1e-5


def holds_trees(path: Any) -> bool:
    """Whether something is a file of boosted trees."""
    if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
        return False
    found = tell(path)
    return found is not None and found.kind == "trees"


@contextmanager
def as_onnx(source: str | os.PathLike[str]) -> Iterator[str | os.PathLike[str]]:
    """The ONNX file of a model: its own, or that of a file of boosted trees, for the moment.

    Raises:
        InputError: If ONNX cannot say what the trees do.
    """
    if not holds_trees(source):
        yield source
        return
    trees = read_booster_file(source).trees
    if trees is None:
        raise AssertionError("files of boosted trees hold trees")
    model = onnx_of(trees, os.fspath(source))
    _compare(model, trees, source)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "trees.onnx"
        own.write_bytes(model.SerializeToString())
        yield own


def onnx_of(trees: TreeEnsemble, where: str) -> ModelProto:
    """A model with one output, the probabilities of the classes.

    Raises:
        InputError: If ONNX cannot say what the trees do.
    """
    from onnx import TensorProto, helper, numpy_helper

    inner = trees.feature >= 0
    unsaid = [
        words
        for words, found in (
            ("sets of categories", (trees.category[inner] >= 0).any()),
            ("zeros that count as missing", trees.zero_missing[inner].any()),
        )
        if found
    ]
    if unsaid:
        raise InputError(
            f"{where} splits by {' and '.join(unsaid)}, which no node of ONNX compares as its "
            "library does; guard the model in Python by its predict_proba, or encode such columns "
            "as numbers and train it again"
        )
    nodes = [
        helper.make_node(
            "TreeEnsembleRegressor",
            ["input"],
            ["margins"],
            domain="ai.onnx.ml",
            n_targets=trees.outputs,
            aggregate_function="SUM",
            post_transform="NONE",
            base_values_as_tensor=numpy_helper.from_array(trees.base),
            **_listed(trees),
        )
    ]
    logits = "margins"
    if trees.outputs == 1:
        zero = numpy_helper.from_array(np.zeros(1, np.float32))
        nodes += [
            helper.make_node("Constant", [], ["zero"], value=zero),
            helper.make_node("Mul", ["margins", "zero"], ["other"]),
            helper.make_node("Concat", ["other", "margins"], ["logits"], axis=1),
        ]
        logits = "logits"
    nodes.append(helper.make_node("Softmax", [logits], ["probabilities"], axis=1))
    given = helper.make_tensor_value_info("input", TensorProto.DOUBLE, ["rows", trees.columns])
    classes = max(2, trees.outputs)
    found = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["rows", classes])
    graph = helper.make_graph(nodes, "trees", [given], [found])
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREE_OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _listed(trees: TreeEnsemble) -> dict[str, Any]:
    """Nodes by tree and number, and what leaves add."""
    from onnx import numpy_helper

    count, leaf = len(trees.feature), trees.feature < 0
    tree = np.searchsorted(trees.roots, np.arange(count), side="right") - 1
    number = np.arange(count) - trees.roots[tree]
    modes = np.where(leaf, "LEAF", "BRANCH_LEQ")
    width = trees.values.shape[1]
    heights = trees.values[trees.left[leaf]]
    outputs = trees.output[tree[leaf]][:, None] + np.arange(width)
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": number.tolist(),
        "nodes_featureids": np.where(leaf, 0, trees.feature).tolist(),
        "nodes_modes": modes.tolist(),
        "nodes_values_as_tensor": numpy_helper.from_array(np.where(leaf, 0.0, trees.threshold)),
        "nodes_truenodeids": np.where(leaf, 0, trees.left - trees.roots[tree]).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, trees.right - trees.roots[tree]).tolist(),
        "nodes_missing_value_tracks_true": (trees.missing_left & ~leaf).astype(int).tolist(),
        "target_treeids": np.repeat(tree[leaf], width).tolist(),
        "target_nodeids": np.repeat(number[leaf], width).tolist(),
        "target_ids": outputs.reshape(-1).tolist(),
        "target_weights_as_tensor": numpy_helper.from_array(heights.reshape(-1)),
    }


def _compare(model: ModelProto, trees: TreeEnsemble, source: str | os.PathLike[str]) -> None:
    """See that both say the same, at the thresholds and right beside them, and of NaN."""
    where, network = os.fspath(source), capture(source)
    gaps = [column.missing for column in network.columns or ()]
    rows = _at_thresholds(trees, np.array(gaps or [False] * trees.columns))
    (found,) = run(model, rows, (trees.columns,), where)
    with torch.no_grad():
        own = network.probabilities(torch.from_numpy(rows))[0].numpy()
    if not np.abs(found - own).max() <= NEAR:
        raise InputError(f"{where} says other things as ONNX than as itself; please report it")


def _at_thresholds(trees: TreeEnsemble, gaps: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Rows of which every value is a threshold of its column, a neighbour of one, or NaN.

    Args:
        trees: The trees.
        gaps: ``(columns,)`` which may hold NaN.
    """
    rng, inner = np.random.default_rng(0), trees.feature >= 0
    rows = rng.normal(size=(ROWS, trees.columns))
    for column in np.unique(trees.feature[inner]):
        known = np.unique(trees.threshold[inner & (trees.feature == column)])
        values = rng.choice(known, ROWS)
        rows[:, column] = np.nextafter(values, values + rng.integers(-1, 2, ROWS))
    rows[gaps & (rng.random(rows.shape) < MISSING)] = np.nan
    return rows
