"""Boosted trees, which add to logits: scikit-learn's own, and those of other libraries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import CaptureError, NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import RowFunction, Steps
from farfield.graph.scikit.affine import select
from farfield.graph.scikit.encoders import encode
from farfield.graph.scikit.registry import ClassScores, Table, classifier, kind_of, probabilities
from farfield.graph.scikit.trees import add_tree, count_classes
from farfield.graph.trees.boosters import read_booster
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import write_trees

SMALLEST = float(np.finfo(np.float64).eps)


class LogOdds(RowFunction):
    """Logits of probabilities kept away from 0 and 1: of two classes one, of more one each."""

    continuous = True

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


# Categories are kept in sets of this many bits.
BITS = 256


@classifier("HistGradientBoostingClassifier")
def histogram_boosting(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The baseline plus the leaves, of columns whose categories are codes."""
    count_classes(model)
    if not model._predictors:
        raise CaptureError("HistGradientBoostingClassifier has no trees; fit it with max_iter >= 1")
    value, unknown = _encoded(writer, table, model)
    builder = TreeBuilder(value.width, np.ravel(model._baseline_prediction))
    for stage in model._predictors:
        for output, predictor in enumerate(stage):
            _add(builder, predictor, output, unknown)
    return ClassScores(write_trees(writer, value, builder.build()), "softmax")


def category_values(model: Any) -> dict[int, tuple[Any, ...]]:
    """The values of the columns that a fitted model takes for categories, without missing ones."""
    encoder, places = _encoder(model)
    if encoder is None:
        return {}
    return {
        int(place): tuple(value for value in values.tolist() if not _is_missing(value))
        for place, values in zip(places, encoder.categories_, strict=True)
    }


def _encoder(model: Any) -> tuple[Any, NDArray[np.int64]]:
    """The model's own encoder of categories, if it has one, and the columns it encodes."""
    if model._preprocessor is None:
        return None, np.zeros(0, dtype=np.int64)
    return model._preprocessor.named_transformers_["encoder"], np.flatnonzero(model.is_categorical_)


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value)


def _encoded(writer: Writer, table: Table, model: Any) -> tuple[Wire, dict[int, int]]:
    """The columns as the trees see them: categories first, as codes, then numbers.

    What is missing or unknown gets a code of its own, which is told for each column of categories.
    """
    known = category_values(model)
    if not known:
        return table.value, {}
    outputs: list[Any] = []
    for place, values in known.items():
        codes = np.arange(len(values), dtype=np.float64)[:, None]
        other = np.array([float(len(values))])
        outputs += encode(table, place, values, codes, other, closed=False)
    first = writer.take_steps(table.held, Steps.of(outputs))
    rest = [place for place in range(table.width) if place not in known]
    unknown = {column: len(values) for column, values in enumerate(known.values())}
    if not rest:
        return first, unknown
    numbers = replace(select(writer, table, rest), reader=model).value
    return writer.concatenate(first, numbers), unknown


def _add(builder: TreeBuilder, predictor: Any, output: int, unknown: dict[int, int]) -> None:
    """Add one tree."""
    nodes = predictor.nodes
    leaf, by_set = nodes["is_leaf"].astype(bool), nodes["is_categorical"].astype(bool)
    sets: list[frozenset[int] | None] | None = None
    if (by_set & ~leaf).any():
        sets = [None] * len(nodes)
        for node in np.flatnonzero(by_set & ~leaf).tolist():
            members = _members(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
            if nodes["missing_go_to_left"][node]:
                members |= {unknown[int(nodes["feature_idx"][node])]}
            sets[node] = members
    builder.add(
        feature=np.where(leaf, -1, nodes["feature_idx"]),
        threshold=nodes["num_threshold"],
        left=nodes["left"],
        right=nodes["right"],
        values=nodes["value"],
        output=output,
        missing_left=nodes["missing_go_to_left"].astype(bool),
        sets=sets,
    )


def _members(words: Any) -> frozenset[int]:
    """The whole numbers in a set of bits, 32 to a word."""
    bits = np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little")
    return frozenset(np.flatnonzero(bits[:BITS]).tolist())


@classifier("XGBClassifier", "XGBRFClassifier", "LGBMClassifier", "CatBoostClassifier")
def booster(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Write the trees behind the columns that they get."""
    reading = read_booster(model)
    if any(column.categories is not None for column in reading.columns or ()):
        raise NotFollowed(
            f"{kind_of(model)} has categories of its own, which are followed at the start of a "
            "model only; encode them by OneHotEncoder or OrdinalEncoder."
        )
    value = writer.include(table.value, reading.program, reading.constants)
    writer.notes.extend(reading.notes)
    return ClassScores(value, reading.link)
