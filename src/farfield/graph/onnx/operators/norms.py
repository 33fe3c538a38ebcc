"""Norms by a row's own statistics, lengths of rows, and attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.operators.arithmetic import add, divide, multiply
from farfield.graph.onnx.operators.selecting import place
from farfield.graph.onnx.trace import ProgramBuilder, Refusal, Value, known

aten = torch.ops.aten


def _axis(value: Value, axis: int) -> int:
    """A dimension counted from the front; the rows are not to be normalised together."""
    front = place(axis, value)
    if front == 0:
        raise Refusal("normalises over the rows of the batch")
    return front


def _weight(trace: ProgramBuilder, node: Node, at: int, shape: list[int]) -> Value | None:
    """A learnt scale or shift in the shape of what is normalised."""
    if node.optional(at) is None:
        return None
    return trace.expand(as_float(node.known(at, "scales and shifts")), shape)


@operator("LayerNormalization")
def layer_norm(trace: ProgramBuilder, node: Node) -> Any:
    """Centred and divided by the deviation, over the last dimensions."""
    value = node[0]
    shape = list(value.shape[_axis(value, node.whole("axis", -1)) :])
    scale, shift = (_weight(trace, node, at, shape) for at in (1, 2))
    epsilon = node.number("epsilon", 1e-5)
    return trace.apply(aten.layer_norm.default, value, shape, scale, shift, epsilon)


@operator("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(trace: ProgramBuilder, node: Node) -> Any:
    """Divided by the root of the mean square, over the last dimensions."""
    value = node[0]
    shape = list(value.shape[_axis(value, node.whole("axis", -1)) :])
    scale, epsilon = _weight(trace, node, 1, shape), node.number("epsilon", 1e-5)
    return trace.apply(aten.rms_norm.default, value, shape, scale, epsilon)


@operator("GroupNormalization")
def group_norm(trace: ProgramBuilder, node: Node) -> Any:
    """Layer norm over groups of channels; before version 21 each group has one scale."""
    value, groups = node[0], node.whole("num_groups", 0)
    if len(value.shape) < 3 or groups < 1 or value.shape[1] % groups:
        raise Refusal(f"has {groups} groups, which its channels cannot be cut into")
    epsilon = node.number("epsilon", 1e-5)
    weights: list[Value] = [as_float(node.known(at, "scales and shifts")) for at in (1, 2)]
    if node.version < 21:
        times = value.shape[1] // groups
        weights = [trace.apply(aten.repeat_interleave.self_int, each, times) for each in weights]
    return trace.apply(aten.group_norm.default, value, groups, *weights, epsilon)


@operator("InstanceNormalization")
def instance_norm(trace: ProgramBuilder, node: Node) -> Any:
    """Layer norm over each channel."""
    if len(node[0].shape) < 3:
        raise Refusal("has no dimensions beside rows and channels")
    scale, shift = (as_float(node.known(at, "scales and shifts")) for at in (1, 2))
    epsilon = node.number("epsilon", 1e-5)
    options = (None, None, True, 0.0, epsilon, False)
    return trace.apply(aten.instance_norm.default, node[0], scale, shift, *options)


@operator("LpNormalization")
def unit_length(trace: ProgramBuilder, node: Node) -> Any:
    """Divided by the length along one dimension."""
    axis, order = _axis(node[0], node.whole("axis", -1)), node.whole("p", 2)
    size = trace.apply(aten.linalg_vector_norm.default, node[0], order, [axis], True)
    return divide(trace, node[0], size)


@operator("LRN")
def response_norm(trace: ProgramBuilder, node: Node) -> Any:
    """``x / (bias + alpha / size * sum of squares)^beta`` over neighbouring channels."""
    value, size = node[0], node.whole("size", 1)
    if len(value.shape) < 3 or not 1 <= size <= 2 * value.shape[1]:
        raise Refusal(f"looks at {size} channels of an input of {len(value.shape)} dimensions")
    squares = trace.apply(aten.pow.Tensor_Scalar, value, 2)
    before = (size - 1) // 2
    sides = [0, 0] * (len(value.shape) - 2) + [before, size - 1 - before]
    padded = trace.apply(aten.constant_pad_nd.default, squares, sides)
    channels = value.shape[1]
    total: Any = trace.apply(aten.slice.Tensor, padded, 1, 0, channels)
    for start in range(1, size):
        part = trace.apply(aten.slice.Tensor, padded, 1, start, start + channels)
        total = add(trace, total, part)
    scaled = multiply(trace, total, known(node.number("alpha", 1e-4) / size))
    base = add(trace, scaled, known(node.number("bias", 1.0)))
    root = trace.apply(aten.pow.Tensor_Scalar, base, node.number("beta", 0.75))
    return divide(trace, value, root)


@operator("Attention")
def attention(trace: ProgramBuilder, node: Node) -> Any:
    """Softmax of scaled products of queries and keys, times values."""
    if any(node.optional(at) is not None for at in (4, 5, 6)) or node.outputs > 1:
        raise Refusal("keeps or returns more than its output")
    if node.number("softcap", 0.0) or len({len(node[at].shape) for at in range(3)}) > 1:
        raise Refusal("caps its scores, or takes queries, keys and values of different ranks")
    heads = node.whole("q_num_heads", 0)
    if heads != node.whole("kv_num_heads", heads):
        raise Refusal("shares keys among several queries")
    flat = len(node[0].shape) == 3
    parts = [_by_heads(trace, node[at], heads) if flat else node[at] for at in range(3)]
    if len({part.shape[1] for part in parts}) > 1:
        raise Refusal("shares keys among several queries")
    scale = node.number("scale", 1 / math.sqrt(parts[0].shape[-1]))
    mask = None if node.optional(3) is None else node.known(3, "masks")
    causal = bool(node.whole("is_causal", 0))
    found = trace.apply(
        aten.scaled_dot_product_attention.default, *parts, mask, 0.0, causal, scale=scale
    )
    if not flat:
        return found
    rows, _, tokens, width = found.shape
    return trace.view(trace.apply(aten.transpose.int, found, 1, 2), (rows, tokens, heads * width))


def _by_heads(trace: ProgramBuilder, value: Value, heads: int) -> Any:
    """``(rows, tokens, width)`` as ``(rows, heads, tokens, width / heads)``."""
    rows, tokens, width = value.shape
    if heads < 1 or width % heads:
        raise Refusal(f"has {heads} heads for {width} features")
    parts = trace.view(value, (rows, tokens, heads, width // heads))
    return trace.apply(aten.transpose.int, parts, 1, 2)
