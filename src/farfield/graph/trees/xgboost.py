"""XGBoost's models, as ``save_model`` writes them in JSON or UBJSON, and the objects in memory.

What ``predict_proba`` does is: round the row to float32; in every tree go left where ``x < c``, or
where ``x`` is not in the split's set of categories, or by default where it is missing; add up the
leaves, times the weight of the tree with ``dart``, to the base score; then softmax, or sigmoid for
two classes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.reading import CODED, InputColumn, Reading
from farfield.graph.trees.compare import rounded_below, rounded_categories
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.fields import MOST_CLASSES, MOST_COLUMNS, Fields, shown
from farfield.graph.trees.files import ubjson_fields
from farfield.graph.trees.traverse import as_reading

NEWEST = 3
LOGISTIC = ("binary:logistic", "reg:logistic")
SOFTMAX = ("multi:softprob", "multi:softmax")
OBJECTIVES = (*LOGISTIC, "binary:logitraw", *SOFTMAX)
# What a tree may hold; a field that is not known may change what the others mean.
TREE_FIELDS = {
    *("id", "tree_param", "parents", "left_children", "right_children", "default_left"),
    *("split_conditions", "split_indices", "split_type", "base_weights", "leaf_weights"),
    *("categories", "categories_nodes", "categories_segments", "categories_sizes"),
    *("loss_changes", "sum_hessian", "leaf_child_counts"),
}
# XGBoost keeps the probability that it starts from this far away from 0 and 1.
SMALLEST = np.float32(1e-6)
MOST_CATEGORY = 2**24


def read_xgboost(
    model: Fields, *, labels: tuple[Any, ...] | None = None, best: bool | None = None
) -> Reading:
    """Read a model.

    Args:
        model: What was parsed.
        labels: The names of the classes.
        best: Whether trees after the best round of early stopping are left out, as the
            scikit-learn wrapper does and a ``Booster`` does not; as the file says if ``None``.

    Raises:
        CaptureError: If it is damaged, newer than what is known, or gives no probabilities.
        NotFollowed: If it is not made of trees.
    """
    _check_version(model)
    learner = model.part("learner")
    objective = _objective(learner)
    shape = learner.part("learner_model_param")
    columns = shape.whole("num_feature", MOST_COLUMNS, 1)
    classes = shape.whole("num_class", MOST_CLASSES)
    if "num_target" in shape and shape.whole("num_target", MOST_CLASSES) > 1:
        raise CaptureError(
            f"{model.where} has {shape.value('num_target')} targets (multi-label); farfield reads "
            "models of one: fit one model for each target"
        )
    outputs = classes if objective in SOFTMAX else 1
    if outputs == 0 or (outputs == 1) != (classes < 2):
        raise CaptureError(f"{model.where} has {classes} classes with the objective {objective}")
    trees, weights = _trees(learner)
    used, notes = _rounds(learner, trees, outputs, best)
    builder = TreeBuilder(columns, _base(shape, objective, outputs))
    info = trees.integers("tree_info", len(weights))
    for place, tree in enumerate(trees.parts("trees")):
        if place < used:
            _add(builder, tree, int(info[place]), outputs, float(weights[place]))
    known, more = _columns(learner, trees, columns)
    return as_reading(builder.build(), labels=labels, columns=known, notes=(*notes, *more))


def _check_version(model: Fields) -> None:
    version = model.integers("version")
    if len(version) != 3 or version[0] < 1:
        raise model.wrong("version", "three numbers")
    if version[0] > NEWEST:
        raise CaptureError(
            f"{model.where} was written by XGBoost {'.'.join(map(str, version))}; farfield reads "
            f"models up to version {NEWEST}: save it with an older XGBoost, or update farfield"
        )


def _objective(learner: Fields) -> str:
    objective = learner.part("objective").text("name")
    if objective not in OBJECTIVES:
        raise CaptureError(
            f"{learner.where} has the objective {shown(objective)}, which gives no probabilities "
            f"of classes; farfield reads {', '.join(OBJECTIVES)}"
        )
    return objective


def _base(shape: Fields, objective: str, outputs: int) -> NDArray[np.float64]:
    """Where margins start; for logistic objectives the file has a probability instead."""
    text = shape.text("base_score").strip().removeprefix("[").removesuffix("]")
    try:
        base = np.array([float(each) for each in text.split(",")], dtype=np.float32)
    except ValueError:
        base = np.zeros(0, dtype=np.float32)
    if len(base) not in (1, outputs) or not np.isfinite(base).all():
        raise shape.wrong("base_score", f"one number, or {outputs}")
    if objective in LOGISTIC:
        one = np.float32(1.0)
        base = -np.log(one / np.clip(base, SMALLEST, one - SMALLEST) - one)
    return np.broadcast_to(base.astype(np.float64), (outputs,))


def _trees(learner: Fields) -> tuple[Fields, NDArray[np.float64]]:
    """The record that holds the trees, and the weight of each."""
    booster = learner.part("gradient_booster")
    name = booster.text("name")
    if name not in ("gbtree", "dart"):
        raise NotFollowed(
            f"{learner.where} has the booster {shown(name)}, which is not made of trees; farfield "
            "reads gbtree and dart."
        )
    if name == "gbtree":
        model = booster.part("model")
        return model, np.ones(_count(model))
    model = booster.part("gbtree").part("model")
    weights = booster.floats("weight_drop", _count(model)).astype(np.float32)
    return model, weights.astype(np.float64)


def _count(model: Fields) -> int:
    return sum(1 for _ in model.parts("trees"))


def _rounds(
    learner: Fields, trees: Fields, outputs: int, best: bool | None
) -> tuple[int, tuple[str, ...]]:
    """How many trees are used: all, or those up to the best round of early stopping."""
    attributes = learner.part("attributes") if "attributes" in learner else Fields({}, "")
    count = _count(trees)
    if "best_iteration" not in attributes or best is False:
        return count, ()
    ends = _ends(trees, count, outputs)
    last = attributes.whole("best_iteration", max(0, len(ends) - 1))
    if best is None and "scikit_learn" not in attributes:
        note = (
            f"early stopping found round {last} to be the best of {len(ends)}; all trees are used, "
            "as Booster.predict does and XGBClassifier does not"
        )
        return count, (note,) if ends[last] < count else ()
    note = f"early stopping: {ends[last]} of {count} trees are used, those up to the best round"
    return ends[last], (note,) if ends[last] < count else ()


def _ends(trees: Fields, count: int, outputs: int) -> list[int]:
    """How many trees there are after each round."""
    if "iteration_indptr" in trees:
        ends = trees.integers("iteration_indptr")
        if not len(ends) or ends[0] != 0 or ends[-1] != count or (np.diff(ends) < 0).any():
            raise trees.wrong("iteration_indptr", f"an increasing list from 0 to {count}")
        return [int(each) for each in ends[1:]]
    parallel = trees.part("gbtree_model_param").whole("num_parallel_tree", 2**31, 1)
    each = max(1, parallel) * outputs
    return list(range(each, count + 1, each)) or [count]


def _add(builder: TreeBuilder, tree: Fields, group: int, outputs: int, weight: float) -> None:
    """Put one tree into the common form."""
    if unknown := sorted(set(tree.found) - TREE_FIELDS):
        raise CaptureError(
            f"{tree.where} has the field {unknown[0][:40]!r}, which farfield does not know; is it "
            "from a newer XGBoost?"
        )
    left = tree.integers("left_children")
    count, leaf = len(left), left == -1
    right = tree.integers("right_children", count)
    conditions = _narrow(tree.floats("split_conditions", count))
    default = tree.integers("default_left", count) != 0
    values = _leaves(tree, leaf, right, outputs)
    if values is None:
        values = conditions.astype(np.float64)
        if not 0 <= group < outputs:
            raise CaptureError(f"{tree.where} adds to class {group} of {outputs}")
    else:
        group = 0
    sets = _sets(tree, count)
    at = rounded_below(np.where(leaf, np.float32(0), conditions))
    if sets:
        # Members of a set go right, so the two ways are exchanged.
        members = np.zeros(count, dtype=bool)
        members[list(sets)] = True
        left, right = np.where(members, right, left), np.where(members, left, right)
        default = default ^ members
        at = np.where(members, 0.0, at)
    builder.add(
        feature=np.where(leaf, -1, tree.integers("split_indices", count)),
        threshold=at,
        left=left,
        right=right,
        values=values * weight,
        output=group,
        missing_left=default,
        sets=[sets.get(node) for node in range(count)] if sets else None,
    )


def _narrow(values: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def _leaves(
    tree: Fields, leaf: NDArray[np.bool_], right: NDArray[np.int64], outputs: int
) -> NDArray[np.float64] | None:
    """``(nodes, outputs)`` the values of trees whose leaves are vectors; ``None`` for numbers."""
    width = tree.part("tree_param").whole("size_leaf_vector", MOST_CLASSES)
    if width <= 1:
        return None
    if width != outputs:
        raise CaptureError(f"{tree.where} has leaves of {width} numbers; the model has {outputs}")
    if "leaf_weights" not in tree:  # before 3.1, what nodes weigh is what leaves add
        every = _narrow(tree.floats("base_weights", len(leaf) * width))
        return every.astype(np.float64).reshape(-1, width)
    stored = _narrow(tree.floats("leaf_weights"))
    if len(stored) != int(leaf.sum()) * width or (right[leaf] < 0).any():
        raise tree.wrong("leaf_weights", f"{int(leaf.sum())} leaves of {width} numbers")
    if (right[leaf] >= leaf.sum()).any():
        raise tree.wrong("right_children", "the numbers of its leaves")
    values = np.zeros((len(leaf), width))
    values[leaf] = stored.reshape(-1, width)[right[leaf]]
    return values


def _sets(tree: Fields, count: int) -> dict[int, tuple[float, ...]]:
    """The sets of categories of those nodes that have one."""
    kinds = tree.integers("split_type", count) if "split_type" in tree else np.zeros(count)
    if not kinds.any():
        return {}
    nodes = tree.integers("categories_nodes")
    starts = tree.integers("categories_segments", len(nodes))
    sizes = tree.integers("categories_sizes", len(nodes))
    members = tree.integers("categories")
    bad = (starts < 0) | (sizes < 0) | (starts > len(members)) | (sizes > len(members) - starts)
    if bad.any() or int(sizes.sum()) > len(members) or set(nodes) != set(np.flatnonzero(kinds)):
        raise CaptureError(f"{tree.where} has sets of categories that do not fit its nodes")
    if members.size and not 0 <= members.min() <= members.max() < MOST_CATEGORY:
        raise tree.wrong("categories", f"a list of categories below {MOST_CATEGORY}")
    return {
        int(node): rounded_categories(members[start : start + size])
        for node, start, size in zip(nodes, starts, sizes, strict=True)
    }


def _columns(
    learner: Fields, trees: Fields, columns: int
) -> tuple[tuple[InputColumn, ...], tuple[str, ...]]:
    """Names and categories of the columns, as far as the file has them."""
    names = learner.texts("feature_names") if "feature_names" in learner else []
    types = learner.texts("feature_types") if "feature_types" in learner else []
    if (names and len(names) != columns) or (types and len(types) != columns):
        raise CaptureError(
            f"{learner.where} names {len(names)} columns of {len(types)} types, but has {columns}"
        )
    held = _categories(trees, columns)
    found = tuple(
        InputColumn(names[place] if names else None, held[place], missing=True)
        for place in range(columns)
    )
    unknown = [
        names[place] if names else f"column {place}"
        for place, kind in enumerate(types)
        if kind == "c" and held[place] is None
    ]
    note = f"categories of {', '.join(unknown[:8])} {CODED}"
    return found, (note,) if unknown else ()


def _categories(trees: Fields, columns: int) -> list[tuple[Any, ...] | None]:
    """The categories of each column, which XGBoost keeps since 3.1."""
    nothing: list[tuple[Any, ...] | None] = [None] * columns
    parts = list(trees.part("cats").parts("enc")) if "cats" in trees else []
    if len(parts) != columns:
        return nothing
    return [_names(part) if "offsets" in part else _numbers(part) for part in parts]


def _numbers(part: Fields) -> tuple[Any, ...] | None:
    found = tuple(int(each) for each in part.integers("values"))
    return found or None


def _names(part: Fields) -> tuple[Any, ...] | None:
    """Names in ASCII; XGBoost 3.2 counts characters for bytes, so that others are cut wrongly."""
    ends, codes = part.integers("offsets"), part.integers("values")
    if not len(ends):
        return None
    if ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] > len(codes):
        raise part.wrong("offsets", "an increasing list of places")
    if codes.size and not 0 <= codes.min() <= codes.max() < 128:
        return None
    raw = bytes(codes.astype(np.uint8))
    return tuple(raw[a:b].decode("ascii") for a, b in pairwise(ends))


def from_xgboost(model: Any) -> Reading:
    """Read a ``Booster`` or an ``XGBClassifier`` in memory.

    Raises:
        CaptureError: If it is not fitted, or not a classifier.
        NotFollowed: If values other than NaN stand for what is missing.
    """
    name = type(model).__name__
    if name == "Booster":
        return read_xgboost(ubjson_fields(bytes(model.save_raw("ubj")), "the Booster"), best=False)
    if name not in ("XGBClassifier", "XGBRFClassifier"):
        raise CaptureError(
            f"{name} of XGBoost is no classifier that farfield reads; pass an XGBClassifier, or a "
            "Booster with an objective that gives probabilities"
        )
    if not model.__sklearn_is_fitted__():
        raise CaptureError(f"{name} is not fitted; call fit first")
    missing = model.missing
    if missing is not None and not math.isnan(missing):
        raise NotFollowed(
            f"{name} takes {missing!r} for missing, which no exact far field is known for; put NaN "
            "where values are missing and fit it with missing=nan."
        )
    if model.objective == "binary:logitraw":
        raise CaptureError(
            f"predict_proba of {name} with the objective binary:logitraw gives scores, not "
            "probabilities; pass model.get_booster(), whose scores are read as logits"
        )
    fields = ubjson_fields(bytes(model.get_booster().save_raw("ubj")), f"the {name}")
    labels = tuple(np.asarray(model.classes_).tolist())
    return read_xgboost(fields, labels=labels, best=True)
