"""Classifiers made of classifiers: bagging, votes, AdaBoost, stacks, one against the rest.

Trees among the members of a mean become one ensemble; other members give probabilities, which are
averaged: what they approach far away is right, since a mean is continuous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.reading import InputColumn, Wire, Writer
from farfield.graph.rules import RowFunction
from farfield.graph.scikit.affine import select
from farfield.graph.scikit.registry import (
    ClassScores,
    Table,
    check_fitted,
    classifier,
    classify,
    decide,
    decision,
    kind_of,
    probabilities,
)
from farfield.graph.scikit.trees import TREES, add_forest, add_tree, count_classes, is_forest
from farfield.graph.scikit.votes import votes
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import write_trees

aten = torch.ops.aten


@dataclass(frozen=True)
class WeighedMember:
    """A classifier among others.

    Attributes:
        model: The classifier.
        share: What it counts.
        columns: The columns that it takes; all by default.
        places: Which of the classes its own are; all by default.
        votes: Whether it votes for a class, having no probabilities.
    """

    model: Any
    share: float
    columns: Sequence[int] | None = None
    places: Sequence[int] | None = None
    votes: bool = False


@classifier("BaggingClassifier")
def bagging(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The mean over members that may look at some of the columns."""
    if model.n_estimators != len(model.estimators_):
        raise CaptureError(
            f"BaggingClassifier has n_estimators={model.n_estimators} but holds "
            f"{len(model.estimators_)} members; fit it again"
        )
    members = [
        WeighedMember(
            each,
            1.0 / len(model.estimators_),
            columns=np.asarray(columns).tolist(),
            places=_places(each, count_classes(model)),
            votes=not hasattr(each, "predict_proba"),
        )
        for each, columns in zip(model.estimators_, model.estimators_features_, strict=True)
    ]
    return ClassScores(_mean(writer, table, members, count_classes(model)), "identity")


def _places(member: Any, classes: int) -> list[int] | None:
    """Which classes a member knows: those in its own sample, by number."""
    own = np.asarray(member.classes_)
    return None if len(own) == classes else own.astype(np.int64).tolist()


@classifier("VotingClassifier")
def voting(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The weighted mean of probabilities."""
    if model.voting == "hard":
        raise CaptureError(
            "VotingClassifier has voting='hard', which gives no probabilities; fit it with "
            "voting='soft'"
        )
    weights = np.asarray(model._weights_not_none or np.ones(len(model.estimators_)), dtype=float)
    members = [
        WeighedMember(each, weight)
        for each, weight in zip(model.estimators_, (weights / weights.sum()).tolist(), strict=True)
    ]
    return ClassScores(_mean(writer, table, members, count_classes(model)), "identity")


def _mean(writer: Writer, table: Table, members: Sequence[WeighedMember], classes: int) -> Wire:
    """Write a weighted sum of members' probabilities: trees as one ensemble, others beside it."""
    builder = TreeBuilder(table.width, np.zeros(classes))
    parts: list[Wire] = []
    for each in members:
        part = table if each.columns is None else select(writer, table, each.columns)
        if is_forest(each.model):
            check_fitted(each.model, part)
            add_forest(builder, each.model, each.share, each.columns, each.places)
            continue
        give = votes if each.votes else probabilities
        own = give(writer, part, each.model)
        matrix = np.zeros((classes, own.width))
        matrix[list(each.places or range(classes)), range(own.width)] = each.share
        parts.append(writer.linear(own, matrix))
    if len(parts) < len(members):
        parts.append(write_trees(writer, table.value, builder.build()))
    total = parts[0]
    for part_value in parts[1:]:
        total = writer.add(total, part_value)
    return total


@classifier("AdaBoostClassifier")
def ada_boost(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Weighted votes as logits: a vote counts for its class and a little against each other one."""
    classes = count_classes(model)
    weights = np.asarray(model.estimator_weights_, dtype=np.float64)[: len(model.estimators_)]
    if not len(weights) or weights.sum() == 0:
        raise CaptureError("AdaBoostClassifier has no members that count; fit it again")
    weights = weights / model.estimator_weights_.sum()
    outputs = 1 if classes == 2 else classes
    builder = TreeBuilder(table.width, np.zeros(outputs))
    parts: list[Wire] = []
    for each, weight in zip(model.estimators_, weights.tolist(), strict=True):
        own = np.searchsorted(model.classes_, each.classes_).tolist()
        matrix = weight * _credit(classes)[:, own]
        if kind_of(each) in TREES:
            check_fitted(each, table)
            chosen = each.tree_.value[:, 0, : len(own)].argmax(axis=1)
            add_tree(builder, each.tree_, matrix.T[chosen])
        else:
            parts.append(writer.linear(votes(writer, table, each), matrix))
    if len(parts) < len(weights):
        parts.append(write_trees(writer, table.value, builder.build()))
    total = parts[0]
    for part in parts[1:]:
        total = writer.add(total, part)
    return ClassScores(total, "softmax")


def _credit(classes: int) -> NDArray[np.float64]:
    """``(outputs, classes)`` what a vote for each class adds to the logits."""
    if classes == 2:
        return np.asarray([[-2.0, 2.0]])
    return (np.eye(classes) * classes - 1) / (classes - 1) ** 2


@decision("AdaBoostClassifier")
def _decide_ada_boost(writer: Writer, table: Table, model: Any) -> Wire:
    """The logits before they are divided by the number of other classes."""
    logits = ada_boost(writer, table, model).value
    return (
        logits if logits.width == 1 else writer.scale(logits, [logits.width - 1.0] * logits.width)
    )


@classifier("StackingClassifier")
def stacking(writer: Writer, table: Table, model: Any) -> ClassScores:
    """What the members say, beside the columns if they are passed through, goes into the last."""
    classes = count_classes(model)
    values: list[Wire] = []
    methods = [m for m in model.stack_method_ if m != "drop"]
    for each, method in zip(model.estimators_, methods, strict=True):
        if method == "predict_proba":
            value = probabilities(writer, table, each)
            values.append(writer.select(value, [1]) if classes == 2 else value)
        elif method == "predict":
            said = votes(writer, table, each)
            values.append(writer.linear(said, [np.asarray(each.classes_, dtype=np.float64)]))
        else:
            values.append(decide(writer, table, each))
    columns = tuple(InputColumn() for value in values for _ in range(value.width))
    if model.passthrough:
        values.append(table.value)
        columns += table.columns
    return classify(writer, Table(writer.concatenate(*values), columns), model.final_estimator_)


class Shares(RowFunction):
    """Divide a row by its sum; a row of zeros stays."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        total = rows.sum(dim=-1, keepdim=True)
        return torch.where(total == 0, rows, rows / total)

    def steady(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Everywhere but at zero."""
        return (slope == 0).all(dim=-1) & (intercept.sum(dim=-1) > 0)


SHARES = Shares()


@classifier("OneVsRestClassifier")
def one_against_the_rest(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Probabilities of one class each, divided by their sum.

    Of sigmoids these are the softmax of ``log(sigmoid(f))``, which is also the limit where all of
    them vanish.
    """
    if model.multilabel_:
        raise CaptureError(
            "OneVsRestClassifier was fitted on labels that may hold together (multi-label); "
            "farfield reads classifiers whose classes exclude one another"
        )
    if len(model.estimators_) == 1:
        return classify(writer, table, model.estimators_[0])
    scores = [classify(writer, table, each) for each in model.estimators_]
    if all(score.link == "softmax" and score.value.width == 1 for score in scores):
        logits = writer.concatenate(*(score.value for score in scores))
        return ClassScores(writer.step(aten.log_sigmoid.default, logits), "softmax")
    positive = [
        writer.select(probabilities(writer, table, each), [1]) for each in model.estimators_
    ]
    shares = writer.apply(writer.concatenate(*positive), SHARES, len(positive))
    return ClassScores(shares, "identity")


@classifier(
    "OneVsOneClassifier", "OutputCodeClassifier", "MultiOutputClassifier", "ClassifierChain"
)
def _without_probabilities(_: Writer, __: Table, model: Any) -> ClassScores:
    """Refuse what gives no distribution over classes; several outcomes were refused before."""
    ways = "OneVsRestClassifier does"
    if hasattr(model, "decision_function"):
        ways += ", or CalibratedClassifierCV around it"
    raise CaptureError(f"{kind_of(model)} gives no probabilities; {ways}")
