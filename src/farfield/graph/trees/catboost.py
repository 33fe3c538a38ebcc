"""CatBoost's models on numbers: the JSON that ``save_model`` writes, and the objects in memory.

What ``predict_proba`` does is: round the row to float32; ask ``x > border`` at every split, NaN as
the column says; an oblivious tree asks the same at every node of a level, and the answers are the
bits of the leaf's number, the first the lowest; add up the leaves, scale, add the bias; then
softmax, or sigmoid for two classes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.reading import InputColumn, Reading
from farfield.graph.trees.compare import rounded_at_most
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.fields import MOST_CLASSES, MOST_COLUMNS, Fields, shown
from farfield.graph.trees.files import json_fields
from farfield.graph.trees.traverse import as_reading

KNOWN = {"ctr_data", "features_info", "model_info", "oblivious_trees", "trees", "scale_and_bias"}
ONE, SEVERAL = ("Logloss", "CrossEntropy", "Focal"), ("MultiClass",)
# Features that are not numbers, by the names of their fields.
OTHER_FEATURES = {
    "categorical_features": "categorical",
    "text_features": "text",
    "embedding_features": "embedding",
}
# Whether NaN is above every border.
TREATMENTS = {"AsIs": False, "AsFalse": False, "AsTrue": True}


def read_catboost(model: Fields, *, labels: tuple[Any, ...] | None = None) -> Reading:
    """Read a model.

    Args:
        model: What was parsed.
        labels: The names of the classes; those that the file holds if ``None``.

    Raises:
        CaptureError: If it is damaged, newer than what is known, or gives no probabilities.
        NotFollowed: If features are not numbers.
    """
    if unknown := sorted(set(model.found) - KNOWN):
        raise CaptureError(
            f"{model.where} has the field {unknown[0][:40]!r}, which farfield does not know; is it "
            "from a newer CatBoost?"
        )
    info = model.part("model_info")
    scale, bias = _scale_and_bias(model)
    _check_loss(info, len(bias))
    splits = _Splits(_features(model))
    builder = TreeBuilder(len(splits.columns), bias)
    grown = "trees" if "trees" in model else "oblivious_trees"
    for tree in model.parts(grown):
        add = _add_grown if grown == "trees" else _add_oblivious
        add(builder, tree, splits, len(bias), scale)
    if labels is None and "class_params" in info:
        labels = _labels(info.part("class_params"), max(2, len(bias)))
    return as_reading(builder.build(), labels=labels, columns=splits.columns)


def _check_loss(info: Fields, outputs: int) -> None:
    loss = info.part("params").part("loss_function").text("type")
    if loss == "MultiClassOneVsAll":
        raise CaptureError(
            f"{info.where} has the loss MultiClassOneVsAll, whose probabilities do not add up to "
            "one; train it with loss_function='MultiClass'"
        )
    if not (loss in ONE and outputs == 1) and not (loss in SEVERAL and outputs > 1):
        raise CaptureError(
            f"{info.where} has the loss {shown(loss)} with {outputs} outputs, which gives no "
            f"probabilities of classes; farfield reads {', '.join((*ONE, *SEVERAL))}"
        )


def _scale_and_bias(model: Fields) -> tuple[float, NDArray[np.float64]]:
    found = model.value("scale_and_bias")
    if not isinstance(found, list) or len(found) != 2:
        raise model.wrong("scale_and_bias", "a scale and a bias")
    parts = Fields({"scale": found[0], "bias": found[1]}, f"scale_and_bias of {model.where}")
    bias = parts.floats("bias")
    if not 1 <= len(bias) <= MOST_CLASSES or not np.isfinite(bias).all():
        raise parts.wrong("bias", "a list of numbers")
    return parts.number("scale"), bias


def _labels(params: Fields, classes: int) -> tuple[Any, ...] | None:
    names = params.value("class_names") if "class_names" in params else []
    if not isinstance(names, list) or not all(isinstance(x, str | int | float) for x in names):
        raise params.wrong("class_names", "a list of names")
    return tuple(names) if len(names) == classes else None


def _features(model: Fields) -> dict[int, tuple[int, InputColumn, bool]]:
    """Features by their numbers: the column, what is known of it, and whether NaN is large."""
    info = model.part("features_info")
    for field, kind in OTHER_FEATURES.items():
        names = [_name(each) for each in info.parts(field)] if field in info else []
        if names:
            raise NotFollowed(
                f"{model.where} has {kind} features ({', '.join(names[:8])}), which CatBoost turns "
                "into numbers by hashes and counts; encode them before training."
            )
    found = {}
    for feature in info.parts("float_features"):
        place = feature.whole("flat_feature_index", MOST_COLUMNS)
        treatment = feature.text("nan_value_treatment")
        if treatment not in TREATMENTS:
            raise feature.wrong("nan_value_treatment", " or ".join(TREATMENTS))
        name = feature.text("feature_id") if "feature_id" in feature else ""
        column = InputColumn(name or None, missing=True)
        found[feature.whole("feature_index", MOST_COLUMNS)] = place, column, TREATMENTS[treatment]
    if sorted(place for place, _, _ in found.values()) != list(range(len(found))):
        raise CaptureError(f"{model.where} has features that are not columns 0, 1, 2, ...")
    return found


def _name(feature: Fields) -> str:
    name = feature.text("feature_id") if "feature_id" in feature else ""
    return name[:40] or f"column {shown(feature.found.get('flat_feature_index'))}"


class _Splits:
    """Reads splits, each into a column, a threshold and the way of NaN."""

    def __init__(self, features: Mapping[int, tuple[int, InputColumn, bool]]) -> None:
        self.features = features
        self.columns = tuple(column for _, column, _ in sorted(features.values(), key=_first))

    def read(self, split: Fields) -> tuple[int, float, bool]:
        """``x > border`` goes right."""
        if split.text("split_type") != "FloatFeature":
            raise NotFollowed(
                f"{split.where} is of the type {shown(split.text('split_type'))}; only splits of "
                "numbers are read."
            )
        feature = split.whole("float_feature_index", MOST_COLUMNS)
        if feature not in self.features:
            raise split.wrong("float_feature_index", "a feature of the model")
        place, _, large = self.features[feature]
        return place, split.number("border"), not large


def _first(feature: tuple[int, InputColumn, bool]) -> int:
    return feature[0]


def _add_oblivious(
    builder: TreeBuilder, tree: Fields, splits: _Splits, outputs: int, scale: float
) -> None:
    """Add a tree whose levels ask one question each; the last of them is asked at the root."""
    found = [splits.read(each) for each in tree.parts("splits")] if "splits" in tree else []
    values = tree.floats("leaf_values")
    if len(found) > 24 or len(values) != outputs << len(found):
        raise CaptureError(
            f"{tree.where} has {len(found)} splits and {len(values)} values for {outputs} outputs"
        )
    leaves = 1 << len(found)
    level = np.repeat(np.arange(len(found)), 1 << np.arange(len(found)))
    columns, borders, lefts = np.array([*reversed(found)]).reshape(-1, 3)[level].T
    none = np.full(leaves, -1)
    places = np.arange(leaves - 1)
    builder.add(
        feature=np.append(columns, none),
        threshold=np.append(_thresholds(borders), np.zeros(leaves)),
        left=np.append(2 * places + 1, none),
        right=np.append(2 * places + 2, none),
        values=np.append(np.zeros((leaves - 1, outputs)), values.reshape(leaves, -1), axis=0)
        * scale,
        missing_left=np.append(lefts, none) > 0,
    )


def _add_grown(
    builder: TreeBuilder, tree: Fields, splits: _Splits, outputs: int, scale: float
) -> None:
    """Add a tree that is written as records inside of records."""
    nodes: list[tuple[int, float, bool]] = []
    children: list[list[int]] = []
    values: list[list[float]] = []
    waiting = [(tree.found, -1)]
    while waiting:
        found, parent = waiting.pop()
        node, here = Fields.of(found, f"a node of {tree.where}"), len(nodes)
        if parent >= 0:
            children[parent].append(here)
        children.append([])
        if "value" in node:
            nodes.append((-1, 0.0, False))
            values.append(_value(node, outputs))
        else:
            nodes.append(splits.read(node.part("split")))
            values.append([0.0] * outputs)
            # The left child is taken, and numbered, first.
            waiting += [(node.value("right"), here), (node.value("left"), here)]
    columns, borders, lefts = np.array(nodes, dtype=np.float64).T
    ways = np.array([each or [0, 0] for each in children])
    builder.add(
        feature=columns,
        threshold=_thresholds(borders),
        left=ways[:, 0],
        right=ways[:, 1],
        values=np.array(values) * scale,
        missing_left=lefts > 0,
    )


def _value(node: Fields, outputs: int) -> list[float]:
    if outputs == 1 and not isinstance(node.value("value"), list):
        return [node.number("value")]
    return [float(each) for each in node.floats("value", outputs)]


def _thresholds(borders: Any) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return rounded_at_most(np.asarray(borders, dtype=np.float32))


def from_catboost(model: Any) -> Reading:
    """Read a ``CatBoostClassifier``, or a ``CatBoost`` with a loss of classes, in memory.

    Raises:
        CaptureError: If it is not fitted, or not a classifier.
        NotFollowed: If features are not numbers.
    """
    name = type(model).__name__
    if name not in ("CatBoostClassifier", "CatBoost"):
        raise CaptureError(
            f"{name} of CatBoost is no classifier that farfield reads; pass a CatBoostClassifier"
        )
    if not model.is_fitted():
        raise CaptureError(f"{name} is not fitted; call fit first")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        data = path.read_bytes()
    labels = tuple(np.asarray(model.classes_).tolist())
    return read_catboost(json_fields(data, f"the {name}"), labels=labels or None)
