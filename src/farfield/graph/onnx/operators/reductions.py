"""Sums, means and extremes over dimensions."""

from __future__ import annotations

from typing import Any

import torch

from farfield.graph.onnx.node import Node, operator
from farfield.graph.onnx.trace import ProgramBuilder, Refusal

aten = torch.ops.aten
REDUCTIONS = {
    "ReduceSum": aten.sum.dim_IntList,
    "ReduceMean": aten.mean.dim,
    "ReduceMax": aten.amax.default,
    "ReduceMin": aten.amin.default,
    "ReduceL1": aten.sum.dim_IntList,
}


@operator(*REDUCTIONS)
def reduce(trace: ProgramBuilder, node: Node) -> Any:
    """Over the named dimensions, or over all."""
    value = node[0]
    rank = len(value.shape)
    axes = node.integers("axes", 1)
    if not axes:
        if node.whole("noop_with_empty_axes", 0):
            return value
        axes = list(range(rank))
    if any(not -rank <= axis < rank for axis in axes):
        raise Refusal(f"reduces over {axes} of {rank} dimensions")
    places = sorted({axis % rank for axis in axes})
    if node.operator == "ReduceL1":
        value = trace.apply(aten.abs.default, value)
    return trace.apply(REDUCTIONS[node.operator], value, places, bool(node.whole("keepdims", 1)))
