"""Every operation of the rule table by its definition, on arrays of exact numbers.

The referee of the soundness campaign. It evaluates a traced program at a point, however far out,
element by element: on fractions (``flint.fmpq``) without any rounding, or on balls of many digits
(``flint.arb``). It knows nothing of germs, rules or bounds.
"""

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from torch import Tensor

from campaigns.exact_curves import (
    bent,
    chosen,
    clamp,
    curve,
    elu,
    gelu,
    hard_sigmoid,
    hard_swish,
    leaky,
    mish,
    prelu,
    sigmoid,
    softplus,
    threshold,
)
from campaigns.exact_growth import GROWTH
from campaigns.exact_numbers import Array, Numbers, each
from campaigns.exact_places import (
    at_rank,
    copy,
    cumsum,
    full_like,
    in_order,
    in_stable_order,
    index_put,
    place_of_largest,
    put,
    put_at,
    resized,
    running,
    sampled,
    scatter_add,
    scatter_value,
    take_at,
    top,
    where,
)
from campaigns.exact_sums import (
    added,
    addmm,
    convolution,
    copied,
    divided,
    einsum,
    joined,
    linear,
    matmul,
    padded,
    scaled,
)
from campaigns.exact_windows import (
    adaptive_pool,
    average_pool,
    extreme,
    max_pool,
    mean,
    of_two,
    padded_pool,
    total,
)
from farfield.graph import positions, stepwise
from farfield.graph.padded_pooling import padded_max_pool
from farfield.graph.program import SIZE, Program

aten = torch.ops.aten
MOVES = (
    aten.view.default,
    aten._unsafe_view.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.permute.default,
    aten.transpose.int,
    aten.t.default,
    aten.flip.default,
    aten.roll.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.channel_shuffle.default,
    aten.slice.Tensor,
    aten.select.int,
    aten.index.Tensor,
    aten.index_select.default,
    aten.expand.default,
    aten.repeat.default,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest3d.vec,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten._to_copy.default,
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.unbind.int,
    aten.unfold.default,
    aten.diagonal.default,
    aten.gather.default,
)
PUT = (aten.slice_scatter.default, aten.diagonal_scatter.default, aten.scatter.src)
OPERATIONS: dict[Any, Any] = {
    **{target: copied(target) for target in MOVES},
    **{target: put(target) for target in PUT},
    aten.copy.default: copy,
    aten.index_put.default: index_put,
    aten.scatter_add.default: scatter_add,
    aten.scatter.value: scatter_value,
    aten.where.self: where,
    aten.full_like.default: full_like,
    aten.nan_to_num.default: lambda _, values: values,
    aten.cumsum.default: cumsum,
    aten.upsample_bilinear2d.vec: resized(aten.upsample_bilinear2d.vec),
    aten._upsample_bilinear2d_aa.default: resized(aten._upsample_bilinear2d_aa.default),
    aten._upsample_bicubic2d_aa.default: resized(aten._upsample_bicubic2d_aa.default),
    aten.grid_sampler_2d.default: sampled(aten.grid_sampler_2d.default),
    aten.grid_sampler_3d.default: sampled(aten.grid_sampler_3d.default),
    aten.sort.default: in_order,
    aten.sort.stable: in_stable_order,
    aten.topk.default: top,
    aten.kthvalue.default: at_rank(lambda _, k, dim=-1, keepdim=False: (k - 1, dim, keepdim)),
    **dict.fromkeys(
        (aten.median.dim, aten.nanmedian.dim),
        at_rank(lambda v, dim, keepdim=False: ((v.shape[dim] - 1) // 2, dim, keepdim)),
    ),
    aten.cummax.default: running(np.maximum),
    aten.cummin.default: running(np.minimum),
    operator.getitem: lambda _, values, index: values[index],
    aten.cat.default: joined(np.concatenate),
    aten.concat.default: joined(np.concatenate),
    aten.stack.default: joined(np.stack),
    aten.constant_pad_nd.default: padded,
    aten.neg.default: lambda _, values: -values,
    aten.linear.default: linear,
    aten.addmm.default: addmm,
    aten.baddbmm.default: addmm,
    **dict.fromkeys(
        (aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default), matmul
    ),
    aten.einsum.default: einsum,
    aten.convolution.default: convolution,
    aten.mul.Tensor: scaled,
    aten.mul.Scalar: scaled,
    aten.div.Tensor: divided,
    aten.div.Scalar: divided,
    aten.add.Tensor: added(1),
    aten.add.Scalar: added(1),
    aten.sub.Tensor: added(-1),
    aten.sub.Scalar: added(-1),
    aten.rsub.Tensor: added(-1, turned=True),
    aten.rsub.Scalar: added(-1, turned=True),
    aten.sum.dim_IntList: total,
    aten.mean.dim: mean,
    aten.avg_pool1d.default: average_pool(1),
    aten.avg_pool2d.default: average_pool(2),
    aten.avg_pool3d.default: average_pool(3),
    aten.adaptive_avg_pool1d.default: adaptive_pool(1, largest=False),
    aten.adaptive_avg_pool2d.default: adaptive_pool(2, largest=False),
    aten._adaptive_avg_pool2d.default: adaptive_pool(2, largest=False),
    aten.adaptive_avg_pool3d.default: adaptive_pool(3, largest=False),
    aten._adaptive_avg_pool3d.default: adaptive_pool(3, largest=False),
    aten.relu.default: lambda n, values: clamp(n, values, 0.0),
    aten.leaky_relu.default: leaky,
    aten.rrelu.default: lambda n, values, low, high, *_: leaky(n, values, (low + high) / 2),
    aten.prelu.default: prelu,
    aten._prelu_kernel.default: prelu,
    aten.threshold.default: threshold,
    aten.abs.default: lambda _, values: each(abs, values),
    aten.clamp.default: clamp,
    aten.clamp_min.default: clamp,
    aten.clamp_max.default: lambda n, values, high: clamp(n, values, None, high),
    aten.hardtanh.default: lambda n, v, low=-1.0, high=1.0: clamp(n, v, low, high),
    aten.relu6.default: lambda n, values: clamp(n, values, 0.0, 6.0),
    aten.hardsigmoid.default: hard_sigmoid,
    aten.hardswish.default: hard_swish,
    aten.sigmoid.default: curve(sigmoid),
    aten.tanh.default: curve(lambda x: x.tanh()),
    aten.erf.default: curve(lambda x: x.erf()),
    aten.erfc.default: curve(lambda x: x.erfc()),
    aten.atan.default: curve(lambda x: x.atan()),
    aten.clamp.Tensor: lambda n, x, low, high: np.minimum(
        np.maximum(x, n.array(low)), n.array(high)
    ),
    aten.silu.default: curve(lambda x: x * sigmoid(x)),
    aten.mish.default: curve(mish),
    aten.log_sigmoid.default: curve(
        lambda x: -softplus(-x, 1.0, math.inf) if x > 0 else x - softplus(x, 1.0, math.inf)
    ),
    F.softsign: curve(lambda x: x / (1 + abs(x))),
    aten.softplus.default: curve(softplus),
    aten.gelu.default: curve(gelu),
    aten.elu.default: curve(elu),
    aten.selu.default: curve(
        lambda x: elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)
    ),
    aten.celu.default: curve(lambda x, a=1.0: x if x > 0 else (x / a).expm1() * a),
    aten.max_pool1d.default: max_pool(1, pair=False),
    aten.max_pool2d.default: max_pool(2, pair=False),
    aten.max_pool3d.default: max_pool(3, pair=False),
    aten.max_pool1d_with_indices.default: max_pool(1, pair=True),
    aten.max_pool2d_with_indices.default: max_pool(2, pair=True),
    aten.max_pool3d_with_indices.default: max_pool(3, pair=True),
    padded_max_pool: padded_pool,
    aten.adaptive_max_pool1d.default: adaptive_pool(1, largest=True),
    aten.adaptive_max_pool2d.default: adaptive_pool(2, largest=True),
    aten.adaptive_max_pool3d.default: adaptive_pool(3, largest=True),
    aten.amax.default: extreme(np.maximum),
    aten.amin.default: extreme(np.minimum),
    aten.max.dim: extreme(np.maximum, pair=True),
    aten.min.dim: extreme(np.minimum, pair=True),
    aten.maximum.default: of_two(np.maximum),
    aten.max.other: of_two(np.maximum),
    aten.minimum.default: of_two(np.minimum),
    aten.min.other: of_two(np.minimum),
    aten.fmax.default: of_two(np.maximum),
    aten.fmin.default: of_two(np.minimum),
    positions.place_of_largest: place_of_largest,
    positions.take_at: take_at,
    positions.put_at: put_at,
    stepwise.bend: bent,
    stepwise.choose: chosen,
    **GROWTH,
}
# These have no rational values: they need balls.
CURVES = frozenset(
    {
        aten.sigmoid.default,
        aten.tanh.default,
        aten.erf.default,
        aten.erfc.default,
        aten.atan.default,
        aten.silu.default,
        aten.mish.default,
        aten.log_sigmoid.default,
        F.softsign,
        aten.softplus.default,
        aten.gelu.default,
        aten.elu.default,
        aten.selu.default,
        aten.celu.default,
    }
)


def evaluate(
    program: Program, constants: Mapping[str, Tensor], rows: Array, numbers: Numbers
) -> Array:
    """Run a traced program on rows of exact numbers."""
    if program.per_row:
        return np.stack([_run(program, constants, row, numbers) for row in rows])
    return _run(program, constants, rows, numbers)


def _run(program: Program, constants: Mapping[str, Tensor], rows: Array, numbers: Numbers) -> Array:
    environment: dict[str, Any] = {**constants, program.input: rows}
    for step in program.steps:
        args, kwargs = step.bind(environment)
        if step.target is SIZE:
            environment[step.name] = args[0].shape[args[1]]
        elif step.constant:
            environment[step.name] = step.target(*args, **kwargs)
        else:
            environment[step.name] = OPERATIONS[step.target](numbers, *args, **kwargs)
    result: Array = environment[program.output]
    return result
