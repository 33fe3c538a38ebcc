"""scikit-learn's gradient boosting: trees that add to logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import RowFunction
from farfield.graph.scikit.registry import ClassScores, Table, classifier, kind_of, probabilities
from farfield.graph.scikit.trees import add_tree, count_classes
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import write_trees

SMALLEST = float(np.finfo(np.float64).eps)


class LogOdds(RowFunction):
    """Logits of probabilities kept away from 0 and 1: of two classes one, of more one each."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        kept = rows.clamp(SMALLEST, 1 - SMALLEST)
        if rows.shape[1] == 2:
            return torch.logit(kept[:, 1:])
        logs = kept.log()
        return logs - logs.mean(dim=1, keepdim=True)


LOG_ODDS = LogOdds()


@classifier("GradientBoostingClassifier")
def gradient_boosting(writer: Writer, table: Table, model: Any) -> ClassScores:
    """What it starts from, plus the leaves times the learning rate."""
    count_classes(model)
    stages = np.asarray(model.estimators_, dtype=object)
    if not stages.size:
        raise CaptureError("GradientBoostingClassifier has no trees; fit it with n_estimators >= 1")
    # Behind the exponential loss, the probability is that of twice the sum.
    factor = 2.0 if model.loss == "exponential" else 1.0
    start = _start(model)
    zero = np.zeros(stages.shape[1])
    builder = TreeBuilder(table.width, zero if start is None else start)
    for stage in stages:
        for output, each in enumerate(stage):
            values = each.tree_.value[:, 0, :1] * (factor * model.learning_rate)
            add_tree(builder, each.tree_, values, output=output)
    logits = write_trees(writer, table.value, builder.build())
    if start is None:
        logits = writer.add(logits, _first_logits(writer, table, model))
    return ClassScores(logits, "softmax")


def _start(model: Any) -> np.ndarray[Any, Any] | None:
    """The logits that boosting starts from, if they are the same for every row."""
    first = model.init_
    if isinstance(first, str):  # "zero"
        return np.zeros(np.shape(model.estimators_)[1])
    if kind_of(first) != "DummyClassifier":
        return None
    if first.strategy == "stratified":
        raise NotFollowed(
            "GradientBoostingClassifier starts from a classifier that draws at random"
        )
    shares = first.predict_proba(np.zeros((1, model.n_features_in_)))
    return LOG_ODDS(torch.from_numpy(np.asarray(shares, dtype=np.float64)))[0].numpy()


def _first_logits(writer: Writer, table: Table, model: Any) -> Wire:
    """The logits of a classifier that boosting starts from."""
    shares = probabilities(writer, table, model.init_)
    return writer.apply(shares, LOG_ODDS, np.shape(model.estimators_)[1])
