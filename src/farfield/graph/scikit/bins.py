"""Bins: intervals of a column as categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from farfield.graph.reading import InputColumn, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.registry import Table, transformer
from farfield.graph.trees.compare import below, rounded_below


@transformer("KBinsDiscretizer")
def _bins(writer: Writer, table: Table, model: Any) -> Table:
    """The bin that a value lies in; a bin holds its lower edge."""
    outputs: list[tuple[int, Any, Any, float]] = []
    for place, edges in enumerate(model.bin_edges_):
        inner, first = np.unique(edges[1:-1], return_index=True)
        count = len(edges) - 1
        # Equal edges hold nothing between them: the last of them decides.
        above = [*(np.append(first[1:], count - 1)).tolist()] if len(inner) else []
        bins = np.array([0, *above])
        breaks = rounded_below(inner) if model.dtype == np.float32 else below(inner)
        if model.encode == "ordinal":
            outputs.append((place, breaks, bins.astype(np.float64), np.nan))
        else:
            codes = np.eye(count)[bins]
            outputs += [(place, breaks, codes[:, each], np.nan) for each in range(count)]
    value = writer.take_steps(table.value, Steps.of(outputs))
    names = [f"bin of {table.columns[output[0]].name}" for output in outputs]
    return Table(value, tuple(InputColumn(name) for name in names))


@transformer("Binarizer")
def _binary(writer: Writer, table: Table, model: Any) -> Table:
    """1 above the threshold."""
    steps = [(place, [float(model.threshold)], [0.0, 1.0], np.nan) for place in range(table.width)]
    value = writer.take_steps(table.value, Steps.of(steps))
    return Table(value, tuple(InputColumn(name) for name in table.names))
