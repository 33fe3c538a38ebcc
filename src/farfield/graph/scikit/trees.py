"""scikit-learn's decision trees, and forests of them.

The leaves of a tree hold shares of the classes; a forest is their mean, some of it exactly 0, so
that it is read as probabilities and not as logits. Inputs are rounded to single precision before
they are compared with thresholds in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import CaptureError
from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import ClassScores, Table, classifier, kind_of
from farfield.graph.trees.compare import rounded_at_most
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import write_trees

TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")
FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")


@classifier(*TREES, *FORESTS)
def forest(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The mean of the shares in the leaves."""
    builder = TreeBuilder(table.width, np.zeros(count_classes(model)))
    add_forest(builder, model)
    return ClassScores(write_trees(writer, table.value, builder.build()), "identity")


def is_forest(model: Any) -> bool:
    """Whether a model is a tree or a mean of trees."""
    return kind_of(model) in (*TREES, *FORESTS)


def add_forest(
    builder: TreeBuilder,
    model: Any,
    share: float = 1.0,
    columns: Sequence[int] | None = None,
    places: Sequence[int] | None = None,
) -> None:
    """Add the trees of a tree or a forest to an ensemble.

    Args:
        builder: The ensemble.
        model: The tree or forest.
        share: What the model counts in the ensemble.
        columns: The columns that it looks at; all of them by default.
        places: Which classes of the ensemble its own are; all of them by default.

    Raises:
        CaptureError: If it has several outputs or no trees.
    """
    own = places if places is not None else range(count_classes(model))
    trees = [model] if kind_of(model) in TREES else model.estimators_
    if not trees:
        raise CaptureError(f"{type(model).__name__} has no trees; fit it with n_estimators >= 1")
    for tree in trees:
        values = np.zeros((tree.tree_.node_count, len(np.atleast_1d(builder.base))))
        values[:, list(own)] = tree.tree_.value[:, 0, : len(own)] * (share / len(trees))
        add_tree(builder, tree.tree_, values, columns=columns)


def add_tree(
    builder: TreeBuilder,
    tree: Any,
    values: NDArray[np.float64],
    *,
    output: int = 0,
    columns: Sequence[int] | None = None,
) -> None:
    """Add one ``sklearn.tree._tree.Tree`` with given values of its nodes."""
    feature = np.asarray(tree.feature)
    if columns is not None:
        feature = np.where(feature < 0, -1, np.asarray(columns)[np.maximum(feature, 0)])
    builder.add(
        feature=feature,
        threshold=rounded_at_most(tree.threshold),
        left=tree.children_left,
        right=tree.children_right,
        values=values,
        output=output,
        missing_left=tree.missing_go_to_left,
    )


def count_classes(model: Any) -> int:
    """How many classes a classifier tells apart.

    Raises:
        CaptureError: If it has several outputs, or one class only.
    """
    name = type(model).__name__
    if getattr(model, "n_outputs_", 1) > 1 or isinstance(model.classes_, list):
        raise CaptureError(
            f"{name} was fitted on several outputs at once (y with columns); farfield reads "
            "classifiers of one outcome whose classes exclude one another"
        )
    if len(model.classes_) < 2:
        raise CaptureError(
            f"{name} was fitted on one class, {model.classes_[0]!r}; there is nothing to tell apart"
        )
    return len(model.classes_)
