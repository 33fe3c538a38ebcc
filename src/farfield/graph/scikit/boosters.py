"""Boosted trees of other libraries, at the end of a pipeline or among the members of a vote."""

from __future__ import annotations

from typing import Any

from farfield.errors import NotFollowed
from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import ClassScores, Table, classifier, kind_of
from farfield.graph.trees.boosters import read_booster


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
