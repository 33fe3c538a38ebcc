"""What a classifier votes for: one for the class of the largest score, zero for the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import RowFunction
from farfield.graph.scikit.registry import Table, classify, decide, kind_of

# Their ``predict`` names the class of the largest score that they are read with, the first of
# equals. Others may not: support vector machines vote apart from their probabilities.
BY_LARGEST = frozenset(
    (
        "AdaBoostClassifier",
        "BaggingClassifier",
        "BernoulliNB",
        "CategoricalNB",
        "ComplementNB",
        "DecisionTreeClassifier",
        "ExtraTreeClassifier",
        "ExtraTreesClassifier",
        "GaussianNB",
        "HistGradientBoostingClassifier",
        "MLPClassifier",
        "MultinomialNB",
        "QuadraticDiscriminantAnalysis",
        "RandomForestClassifier",
    )
)
# The ``predict`` of these names the class of the largest ``decision_function``.
BY_DECISION = frozenset(
    (
        "LinearDiscriminantAnalysis",
        "LinearSVC",
        "LogisticRegression",
        "LogisticRegressionCV",
        "Perceptron",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
    )
)


class Vote(RowFunction):
    """One where the largest score of a row is, the first of equals; zero elsewhere."""

    arrives = True

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate."""
        return _one_hot(rows.argmax(dim=-1), rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """The fastest growing score wins, then the largest intercept, then the first."""
        return _one_hot(_leader(slope, intercept), slope)

    def settles(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """From where the winner is last overtaken."""
        place = _leader(slope, intercept)[:, None]
        faster = slope.gather(1, place) - slope
        behind = intercept - intercept.gather(1, place)
        met = torch.where(faster > 0, behind / faster, 0.0)
        return met.amax(dim=-1).clamp(min=0.0)

    @property
    def error(self) -> float:
        """None: zeros and ones."""
        return 0.0


VOTE = Vote()


def votes(writer: Writer, table: Table, model: Any) -> Wire:
    """Write what a fitted classifier votes for, ``(rows, classes)``.

    Raises:
        NotFollowed: If it is not known how it votes.
    """
    last = model
    while kind_of(last) == "Pipeline":
        last = last.steps[-1][1]
    if kind_of(last) in BY_DECISION:
        scores = decide(writer, table, model)
    elif kind_of(last) in BY_LARGEST:
        scores = classify(writer, table, model).value
    else:
        raise NotFollowed(f"{type(last).__name__} is a member whose votes cannot be followed yet.")
    if scores.width == 1:
        scores = writer.linear(scores, [[0.0], [1.0]])
    return writer.apply(scores, VOTE, scores.width)


def _leader(slope: Tensor, intercept: Tensor) -> Tensor:
    """Which score is the largest in the end."""
    fastest = slope == slope.amax(dim=-1, keepdim=True)
    return intercept.masked_fill(~fastest, -torch.inf).argmax(dim=-1)


def _one_hot(places: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter(1, places[:, None], 1.0)
