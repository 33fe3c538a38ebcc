"""scikit-learn's histogram gradient boosting, with categories and missing values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import CaptureError
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.encoders import encode
from farfield.graph.scikit.registry import ClassScores, Table, classifier
from farfield.graph.scikit.selectors import select
from farfield.graph.scikit.trees import count_classes
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.traverse import write_trees

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
