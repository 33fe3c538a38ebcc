"""Networks of skorch, at the end of a pipeline or among the members of a vote."""

from __future__ import annotations

from typing import Any

from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import ClassScores, Table, classifier
from farfield.graph.skorch import CLASSES, read_net


@classifier(*CLASSES)
def net(writer: Writer, table: Table, model: Any) -> ClassScores:
    """Write the module behind the columns that it gets."""
    reading = read_net(model, table.width)
    value = writer.include(table.value, reading.program, reading.constants)
    return ClassScores(value, reading.link)
