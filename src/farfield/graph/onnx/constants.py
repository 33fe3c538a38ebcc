"""Nodes that read weights alone, computed once by onnx's own reference implementation.

The reader knows in ATen what networks are made of. What else a file does to its weights, such as
normalising or scattering them, is computed here, one node at a time. Only operators whose results
are bounded by what they read are taken, so that nothing large is made before it is counted.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from farfield.graph.onnx.trace import Known, ProgramBuilder, Refusal, Value

if TYPE_CHECKING:
    from onnx import NodeProto

# Their results are no larger than what they read.
BOUNDED = frozenset(
    [
        "Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "Compress", "Cos",
        "Cosh", "CumSum", "Det", "EyeLike", "GatherElements", "GroupNormalization", "Hardmax",
        "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LayerNormalization", "LpNormalization",
        "MeanVarianceNormalization", "NonZero", "RMSNormalization", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare", "ReverseSequence", "Round", "Scatter",
        "ScatterElements", "ScatterND", "Sin", "Sinh", "Tan", "TopK", "Trilu",
    ]
)  # fmt: skip
# Their results have at most as many numbers as all pairs of numbers of their inputs.
PAIRWISE = frozenset(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "GatherND"])
# The reference implementation walks some results number by number in Python.
SLOW = 2**6
# AttributeProto.AttributeType: numbers, text, and lists of numbers; no tensors and no graphs.
PLAIN = (1, 2, 3, 6, 7)


def can_compute(proto: NodeProto, inputs: Sequence[Value | None]) -> bool:
    """Whether a node of the standard set reads known values alone, and is one of those here."""
    return (
        proto.op_type in BOUNDED | PAIRWISE
        and any(value is not None for value in inputs)
        and all(
            value is None or (isinstance(value, Known) and value.other is None) for value in inputs
        )
        and all(item.type in PLAIN and not item.ref_attr_name for item in proto.attribute)
    )


def compute(
    trace: ProgramBuilder, proto: NodeProto, inputs: Sequence[Value | None], version: int
) -> tuple[Value | None, ...]:
    """Compute a node for which :func:`can_compute` holds.

    Raises:
        Refusal: If the reference implementation cannot.
        CaptureError: If it would be more than a file of this size may ask for.
    """
    arrays = [value.tensor.numpy() if isinstance(value, Known) else None for value in inputs]
    sizes = [max(1, array.size) for array in arrays if array is not None]
    numbers = math.prod(sizes) if proto.op_type in PAIRWISE else sum(sizes)
    trace.spend(SLOW * numbers, 8 * numbers)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = _run(proto, arrays, version)
    except Exception as error:  # the reference implementation may raise anything
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise Refusal(f"cannot be computed: {text[0][:200]}") from error
    return tuple(_known(result) for result in results)


def _run(
    proto: NodeProto, arrays: Sequence[np.ndarray[Any, Any] | None], version: int
) -> list[Any]:
    from onnx import NodeProto, helper
    from onnx.reference import ReferenceEvaluator

    node = NodeProto()
    node.CopyFrom(proto)
    node.domain = ""
    del node.input[:], node.output[:]
    node.input.extend("" if array is None else f"i{k}" for k, array in enumerate(arrays))
    node.output.extend(f"o{k}" for k in range(len(proto.output)))
    feed = {f"i{k}": array for k, array in enumerate(arrays) if array is not None}
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feed.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "constant", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    return list(ReferenceEvaluator(model).run(None, feed))


def _known(result: Any) -> Known:
    array = np.asarray(result)
    if array.dtype.kind == "f":
        return Known(torch.from_numpy(np.array(array, dtype=np.float64)))
    if array.dtype.kind == "b":
        return Known(torch.from_numpy(np.array(array)))
    if array.dtype.kind in "iu":
        return Known(torch.from_numpy(np.array(array, dtype=np.int64)))
    raise Refusal(f"makes {array.dtype} and no numbers")
