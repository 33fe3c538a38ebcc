"""Selectors: transformers that keep some columns."""

from __future__ import annotations

from typing import Any

from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import ClassScores, Table, classifier, classify, transformer


def select(writer: Writer, table: Table, places: Any) -> Table:
    """Keep some columns of a table, as they are."""
    chosen = [int(place) for place in places]
    held = writer.select(table.held, chosen)
    return Table(held, tuple(table.columns[place] for place in chosen))


@transformer(
    "VarianceThreshold",
    "SelectKBest",
    "SelectPercentile",
    "SelectFpr",
    "SelectFdr",
    "SelectFwe",
    "GenericUnivariateSelect",
    "SelectFromModel",
    "SequentialFeatureSelector",
    "RFE",
    "RFECV",
)
def _kept(writer: Writer, table: Table, model: Any) -> Table:
    # Selectors see numbers in all columns, also in those that they drop.
    return select(writer, Table(table.value, table.columns), model.get_support(indices=True))


@classifier("RFE", "RFECV")
def _eliminated(writer: Writer, table: Table, model: Any) -> ClassScores:
    """The columns that are left, then the model fitted on them."""
    return classify(writer, _kept(writer, table, model), model.estimator_, "estimator")
