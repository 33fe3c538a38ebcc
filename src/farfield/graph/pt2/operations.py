"""The operations that a ``.pt2`` file may name, and how much work each asks for.

A name is looked up in a fixed table; no attribute is ever fetched by a name from a file.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from farfield.errors import CaptureError
from farfield.graph.contraction import products
from farfield.graph.export import KEPT_WHOLE
from farfield.graph.rules import RULES

aten = torch.ops.aten

# Operations without a rule that PyTorch takes apart into such with one, that only touch weights
# and sizes, or that are better refused under their own name once the whole graph is known.
TAKEN_APART = (
    *(aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding),
    *(aten.conv3d.default, aten.conv3d.padding, aten.conv_transpose1d.default),
    *(aten.conv_transpose2d.input, aten.conv_transpose3d.input),
    *(aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default),
    *(aten.feature_alpha_dropout.default, aten._native_batch_norm_legit_no_training.default),
    *(aten.flatten.using_ints, aten.unflatten.int, aten.reshape.default, aten.view_as.default),
    *(aten.contiguous.default, aten.to.dtype, aten.to.dtype_layout, aten.type_as.default),
    *(aten.numpy_T.default, aten.movedim.int, aten.movedim.intlist, aten.swapaxes.default),
    *(aten.narrow.default, aten.pad.default, aten.expand_as.default, aten.broadcast_to.default),
    *(aten.chunk.default, aten.split.sizes, aten.concatenate.default, aten.hstack.default),
    *(aten.sum.default, aten.mean.default, aten.square.default, aten.multiply.Tensor),
    *(aten.divide.Tensor, aten.subtract.Tensor, aten.clip.default),
    *(aten.hardshrink.default, aten.softshrink.default),
    *(aten.zeros.default, aten.ones.default, aten.full.default, aten.zeros_like.default),
    *(aten.ones_like.default, aten.full_like.default, aten.new_zeros.default),
    *(aten.new_ones.default, aten.new_full.default, aten.scalar_tensor.default),
    *(aten.lift_fresh_copy.default, aten.detach_.default, aten.sym_size.int),
    *(aten.sym_numel.default, aten._assert_tensor_metadata.default),
    *(aten.exp.default, aten.log.default, aten.log1p.default, aten.sqrt.default),
    *(aten.rsqrt.default, aten.reciprocal.default, aten.pow.Tensor_Scalar, aten.sin.default),
    *(aten.cos.default, aten.sign.default, aten.round.default, aten.floor.default),
    *(aten.ceil.default, aten.erf.default, aten.atan.default, aten.where.self),
    *(aten.gt.Scalar, aten.ge.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.eq.Scalar),
    *(aten.gt.Tensor, aten.ge.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.eq.Tensor),
    *(aten.ne.Scalar, aten.ne.Tensor, aten.where.ScalarOther, aten.where.ScalarSelf),
    *(aten.where.Scalar, aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.isnan.default),
    *(aten.heaviside.default, aten.index_put.default, aten.bitwise_not.default),
    *(aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor),
    *(aten.__and__.Tensor, aten.__or__.Tensor, aten.__xor__.Tensor),
    *(aten.logical_or.default, aten.logical_xor.default),
    *(aten.linalg_vector_norm.default, aten.rand_like.default, aten.randn_like.default),
    *(aten.var.correction, aten.var.dim, aten.prod.dim_int),
    *(aten.argmax.default, aten.argmin.default),
    *(aten.upsample_bilinear2d.vec, aten.upsample_linear1d.vec, aten.topk.default),
    *(aten.logaddexp.default, aten.logical_not.default, aten.logical_and.default),
    *(aten.relu_.default, aten.relu6_.default, aten.leaky_relu_.default, aten.elu_.default),
    *(aten.celu_.default, aten.selu_.default, aten.rrelu_.default, aten.silu_.default),
    *(aten.mish_.default, aten.hardtanh_.default, aten.hardswish_.default),
    *(aten.hardsigmoid_.default, aten.threshold_.default, aten.sigmoid_.default),
    *(aten.tanh_.default, aten.abs_.default, aten.neg_.default, aten.clamp_.default),
    *(aten.clamp_min_.default, aten.clamp_max_.default, aten.dropout_.default),
    *(aten.feature_dropout_.default, aten.add_.Tensor, aten.sub_.Tensor, aten.mul_.Tensor),
    *(aten.div_.Tensor, aten.squeeze_.dim, aten.unsqueeze_.default),
    *(aten.lstm.input, aten.gru.input, aten.rnn_relu.input, aten.rnn_tanh.input),
    *(aten.scaled_dot_product_attention.default, aten.glu.default),
    *(aten.index_add.default, aten.index_copy.default, aten.index_fill.int_Scalar),
    *(aten.index_put_.default, aten.fill_.Tensor, aten.fill_.Scalar, aten.copy_.default),
    *(aten.zero_.default, aten.select_scatter.default, aten.tril.default, aten.triu.default),
    *(aten.upsample_bicubic2d.vec, aten.upsample_trilinear3d.vec, aten.grid_sampler.default),
    *(aten._upsample_bilinear2d_aa.vec, aten._upsample_bicubic2d_aa.vec),
    *(aten.im2col.default, aten.col2im.default, aten.bucketize.Tensor, aten.one_hot.default),
    *(aten.lerp.Scalar, aten.lerp.Tensor, aten.addcmul.default, aten.tile.default),
    *(aten.repeat_interleave.self_int, aten.take_along_dim.default, aten.diff.default),
)
# Arithmetic on sizes.
ON_SIZES = {
    f"_operator.{function.__name__}": function
    for function in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.neg)
}
LONGEST = 2**63
SPLITS = (aten.split.Tensor, aten.unbind.int, aten.chunk.default)
PRODUCTS = (aten.matmul, aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.mv, aten.linear)
CONVOLUTIONS = (
    *(aten.conv1d, aten.conv2d, aten.conv3d, aten.convolution),
    *(aten.conv_transpose1d, aten.conv_transpose2d, aten.conv_transpose3d),
)
RECURRENT = (aten.lstm, aten.gru, aten.rnn_relu, aten.rnn_tanh)
# Every moment of a sequence is written out in steps, for each weight so many operations worth.
MOMENT = 2**14


def operations() -> dict[str, Callable[..., Any]]:
    """Every operation that a file may name, by the name that PyTorch writes."""
    known: dict[str, Callable[..., Any]] = dict(ON_SIZES)
    for target in (*RULES, *KEPT_WHOLE, *TAKEN_APART):
        if isinstance(target, torch._ops.OpOverload):
            known[f"torch.ops.{target}"] = target
    return known


def check_size(result: Any, where: str) -> None:
    """Refuse sizes that none can be: products of them could double their digits with every step."""
    size = result.node.hint if isinstance(result, torch.SymInt) else result
    if isinstance(size, int) and not -LONGEST <= size < LONGEST:
        raise CaptureError(f"{where} makes a size beyond all bounds; the file is damaged")


def check_pieces(target: Any, arguments: dict[str, Any], count: int, where: str) -> None:
    """Refuse to take a tensor into more pieces than the file gives names to."""
    if target not in SPLITS:
        return
    dimension = arguments.get("dim", 0)
    value = arguments["self"]
    if not -value.ndim <= dimension < value.ndim:
        raise CaptureError(f"{where} splits dimension {dimension} of {value.ndim}; damaged")
    length = value.shape[dimension]
    if not isinstance(length, int):
        raise CaptureError(f"{where} takes the rows of a batch apart; rows must stay independent")
    size = arguments.get("split_size", 1)
    pieces = arguments["chunks"] if "chunks" in arguments else -(-length // max(int(size), 1))
    if min(pieces, length) > count:
        raise CaptureError(f"{where} makes {pieces} tensors and names {count}; the file is damaged")


def written_out(target: Any, arguments: dict[str, Any]) -> int:
    """How many operations the steps are worth that a recurrent layer is taken apart into."""
    if getattr(target, "overloadpacket", None) not in RECURRENT:
        return 0
    return MOMENT * _vectors(arguments["input"]) * len(arguments["params"])


# Products in matrices and convolutions are cheaper than anything that is done number by number.
AT_ONCE = 8


def work(target: Any, arguments: dict[str, Any], tensors: Sequence[Tensor], result: Any) -> int:
    """How many numbers an operation reads, multiplies and writes for one row, from above.

    Args:
        target: The operation.
        arguments: What it is called with, by name.
        tensors: All tensors among them.
        result: What it returned.
    """
    outputs = result if isinstance(result, (list, tuple)) else (result,)
    read = [_elements(tensor.shape) for tensor in tensors]
    written = sum(_elements(each.shape) for each in outputs if isinstance(each, Tensor))
    packet = getattr(target, "overloadpacket", None)
    if packet in PRODUCTS:
        return sum(read) + written * max(_elements(t.shape[-1:]) for t in tensors) // AT_ONCE
    if packet in CONVOLUTIONS:
        weight = tensors[1].shape
        return sum(read) + max(written, read[0]) * _elements(weight[1:]) // AT_ONCE
    if packet in RECURRENT:
        return sum(read) + written + _vectors(tensors[0]) * sum(read[1:]) // AT_ONCE
    if packet is aten.scaled_dot_product_attention:
        queries, keys, values = tensors[:3]
        pairs = _vectors(queries) * _elements(keys.shape[-2:-1])
        long = _elements(queries.shape[-1:]) + _elements(values.shape[-1:])
        return sum(read) + pairs + pairs * long // AT_ONCE
    if packet is aten.einsum:
        shapes = [[_elements([length]) for length in tensor.shape] for tensor in tensors]
        return sum(read) + products(arguments["equation"], shapes) * len(shapes) // AT_ONCE
    return sum(read) + written * _window(arguments)


def _vectors(tensor: Tensor) -> int:
    """How many vectors along its last dimension a tensor has in one row."""
    return _elements(tensor.shape[:-1])


def _window(arguments: dict[str, Any]) -> int:
    """How many places a pooling window covers."""
    size = arguments.get("kernel_size", 1)
    return math.prod(max(int(each), 1) for each in (size if isinstance(size, list) else [size]))


def _elements(shape: Iterable[Any]) -> int:
    """The number of elements in one row: lengths that are not known belong to the rows."""
    return math.prod(length for length in shape if isinstance(length, int))
