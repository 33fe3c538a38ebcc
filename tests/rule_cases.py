"""What every operation of the rule table is tried on; whoever adds a rule adds a line."""

import operator

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from farfield.graph import positions, stepwise
from farfield.graph.padded_pooling import padded_max_pool

aten = torch.ops.aten
GENERATOR = torch.Generator().manual_seed(3)
W = torch.randn(6, 5, generator=GENERATOR, dtype=torch.float64)
W3 = torch.randn(4, 3, 2, generator=GENERATOR, dtype=torch.float64)
KERNEL = torch.randn(2, 3, 3, generator=GENERATOR, dtype=torch.float64)
POSITIONS = torch.tensor([2, 0, 1])
NOWHERE = torch.zeros(3, dtype=torch.int64)
SLOPES = torch.tensor([0.1, -0.5, 2.0], dtype=torch.float64)
MASK = torch.tensor([True, False, False, True, True])
ENDS = torch.tensor([-1.0, 0.25, 2.0], dtype=torch.float64)
GRID = torch.rand(1, 2, 3, 2, generator=GENERATOR, dtype=torch.float64) * 2 - 1
GRID3 = torch.rand(1, 1, 2, 2, 3, generator=GENERATOR, dtype=torch.float64) * 2 - 1


def first_to_zero(x):
    """Write into a slice."""
    y = x.clone()
    y[:, 0] = 0
    return y


def with_some_replaced(x):
    """Overwrite some columns by numbers, and add to others."""
    y = x.clone()
    y[:, :, POSITIONS] = 1.5
    return torch.cat([y, x.index_add(1, POSITIONS, x)], 1)


# operation -> (shape of one row of its input, what forward does with it)
CASES = {
    aten.view.default: ((2, 3), lambda x: x.view(x.shape[0], 3, 2)),
    aten._unsafe_view.default: ((2, 3), lambda x: aten._unsafe_view(x, [x.shape[0], 6])),
    aten.squeeze.default: ((1, 3), lambda x: x.squeeze()),
    aten.squeeze.dim: ((1, 3), lambda x: x.squeeze(1)),
    aten.squeeze.dims: ((1, 3, 1), lambda x: x.squeeze((1, 3))),
    aten.unsqueeze.default: ((3,), lambda x: x.unsqueeze(2)),
    aten.permute.default: ((2, 3), lambda x: x.permute(0, 2, 1)),
    aten.transpose.int: ((2, 3), lambda x: x.transpose(1, 2)),
    aten.t.default: ((3,), lambda x: x @ W[:2, :3].t()),
    aten.flip.default: ((2, 3), lambda x: x.flip(2)),
    aten.roll.default: ((2, 3), lambda x: x.roll(1, 2)),
    aten.pixel_shuffle.default: ((4, 2, 2), lambda x: F.pixel_shuffle(x, 2)),
    aten.pixel_unshuffle.default: ((1, 4, 4), lambda x: F.pixel_unshuffle(x, 2)),
    aten.channel_shuffle.default: ((4, 2, 2), lambda x: F.channel_shuffle(x, 2)),
    aten.slice.Tensor: ((5,), lambda x: x[:, 1:4:2]),
    aten.select.int: ((2, 3), lambda x: x[:, 1]),
    aten.index.Tensor: ((3, 2), lambda x: x[:, POSITIONS]),
    aten.index_select.default: ((3, 2), lambda x: x.index_select(1, POSITIONS)),
    aten.expand.default: ((1, 3), lambda x: x.expand(-1, 2, 3)),
    aten.repeat.default: ((3,), lambda x: x.repeat(1, 2)),
    aten.upsample_nearest1d.vec: ((2, 3), lambda x: F.interpolate(x, scale_factor=2)),
    aten.upsample_nearest2d.vec: ((1, 2, 3), lambda x: F.interpolate(x, scale_factor=2)),
    aten.upsample_nearest3d.vec: ((1, 2, 1, 2), lambda x: F.interpolate(x, scale_factor=2)),
    aten.reflection_pad1d.default: ((1, 4), lambda x: F.pad(x, (1, 2), mode="reflect")),
    aten.reflection_pad2d.default: ((1, 3, 3), lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    aten.reflection_pad3d.default: ((1, 2, 2, 2), lambda x: F.pad(x, (1,) * 6, mode="reflect")),
    aten.replication_pad1d.default: ((1, 4), lambda x: F.pad(x, (1, 2), mode="replicate")),
    aten.replication_pad2d.default: ((1, 2, 2), lambda x: F.pad(x, (1,) * 4, mode="replicate")),
    aten.replication_pad3d.default: ((1, 2, 1, 2), lambda x: F.pad(x, (1,) * 6, mode="replicate")),
    aten.clone.default: ((3,), lambda x: x.clone()),
    aten.alias.default: ((3,), lambda x: aten.alias(x)),
    aten.detach.default: ((3,), lambda x: aten.detach(x)),
    aten._to_copy.default: ((3,), lambda x: aten._to_copy(x, dtype=torch.float64)),
    operator.getitem: ((4,), lambda x: x.split(2, 1)[1]),
    aten.split.Tensor: ((5,), lambda x: torch.cat(x.split(2, 1)[::-1], 1)),
    aten.split_with_sizes.default: ((5,), lambda x: x.split([2, 3], 1)[1]),
    aten.unbind.int: ((2, 3), lambda x: x.unbind(1)[1]),
    aten.cat.default: (
        (2, 3),
        lambda x: torch.cat([x, x.relu(), W[:1, :3].expand(x.shape[0], 1, 3)], 1),
    ),
    aten.concat.default: ((3,), lambda x: aten.concat([x, x.relu()], 1)),
    aten.stack.default: ((3,), lambda x: torch.stack([x, x.relu()], 1)),
    aten.constant_pad_nd.default: ((2, 3), lambda x: F.pad(x, (1, 2), value=3.5)),
    aten.unfold.default: ((6,), lambda x: x.unfold(1, 3, 2)),
    aten.diagonal.default: ((3, 3), lambda x: x.diagonal(1, 1, 2)),
    aten.gather.default: ((4,), lambda x: x.gather(1, POSITIONS[:2].expand(x.shape[0], -1))),
    aten.copy.default: ((2, 4), lambda x: F.pad(x, (1, 2), mode="circular")),
    aten.slice_scatter.default: ((4,), lambda x: torch.slice_scatter(x, -x[:, :2], 1, 1, 3)),
    aten.diagonal_scatter.default: (
        (3, 3),
        lambda x: torch.diagonal_scatter(x, -x[:, 0], 0, 1, 2),
    ),
    aten.scatter.src: (
        (3,),
        lambda x: W[:1].expand(x.shape[0], 5).scatter(1, POSITIONS.expand(x.shape[0], 3), x),
    ),
    aten.scatter.value: ((5,), lambda x: x.scatter(1, POSITIONS.expand(x.shape[0], 3), 2.5)),
    aten.scatter_add.default: (
        (3,),
        lambda x: W[:1].expand(x.shape[0], 5).scatter_add(1, NOWHERE.expand(x.shape[0], 3), x),
    ),
    aten.index_put.default: ((3, 5), with_some_replaced),
    aten.where.self: ((5,), lambda x: torch.where(MASK, x, x.flip(1)) + x.masked_fill(MASK, 2.0)),
    aten.full_like.default: ((3,), lambda x: torch.cat([x, torch.full_like(x, 2.5)], 1)),
    aten.nan_to_num.default: ((3,), torch.nan_to_num),
    aten.cumsum.default: ((3, 4), lambda x: x.cumsum(2)),
    aten.upsample_bilinear2d.vec: (
        (1, 3, 2),
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    ),
    aten._upsample_bilinear2d_aa.default: (
        (1, 5, 4),
        lambda x: F.interpolate(x, size=(3, 2), mode="bilinear", antialias=True),
    ),
    aten._upsample_bicubic2d_aa.default: (
        (1, 5, 4),
        lambda x: F.interpolate(x, size=(3, 2), mode="bicubic", antialias=True),
    ),
    aten.grid_sampler_2d.default: (
        (1, 3, 3),
        lambda x: F.grid_sample(x, GRID.expand(x.shape[0], -1, -1, -1), align_corners=False),
    ),
    aten.grid_sampler_3d.default: (
        (1, 2, 2, 2),
        lambda x: F.grid_sample(x, GRID3.expand(x.shape[0], *[-1] * 4), align_corners=False),
    ),
    aten.neg.default: ((3,), lambda x: -x),
    aten.linear.default: ((5,), lambda x: F.linear(x, W, W[:, 0])),
    aten.addmm.default: ((6,), lambda x: torch.addmm(W[0], x, W, beta=0.5, alpha=2)),
    aten.baddbmm.default: (
        (2, 6),
        lambda x: torch.baddbmm(W[0].expand(x.shape[0], 2, 5), x, W.expand(x.shape[0], 6, 5)),
    ),
    aten.mm.default: ((6,), lambda x: torch.mm(x, W)),
    aten.bmm.default: ((2, 6), lambda x: torch.bmm(x, W.expand(x.shape[0], 6, 5))),
    aten.matmul.default: ((5, 2), lambda x: W @ x),
    aten.mv.default: ((6,), lambda x: torch.mv(x, W[:, 0])[:, None]),
    aten.einsum.default: ((3, 4), lambda x: torch.einsum("bij,jik->bk", x, W3)),
    aten.convolution.default: (
        (3, 8),
        lambda x: F.conv1d(x, KERNEL, W[:2, 0], stride=2, padding=1),
    ),
    aten.mul.Tensor: ((3, 5), lambda x: W[:3] * x * -0.3),
    aten.mul.Scalar: ((3,), lambda x: aten.mul.Scalar(x, -2.5)),
    aten.div.Tensor: ((3, 5), lambda x: x / W[:3]),
    aten.div.Scalar: ((3,), lambda x: aten.div.Scalar(x, -3.0)),
    aten.add.Tensor: ((1, 5), lambda x: torch.add(x, W[:3], alpha=2) + x.relu()),
    aten.add.Scalar: ((3,), lambda x: aten.add.Scalar(x, 1.5)),
    aten.sub.Tensor: ((3, 5), lambda x: (W[:3] - x) - x.relu()),
    aten.sub.Scalar: ((3,), lambda x: aten.sub.Scalar(x, 1.5)),
    aten.rsub.Tensor: ((5,), lambda x: torch.rsub(x, W[0], alpha=2)),
    aten.rsub.Scalar: ((3,), lambda x: aten.rsub.Scalar(x, 1.5)),
    aten.sum.dim_IntList: ((3, 4), lambda x: x.sum((1,))),
    aten.mean.dim: ((3, 4), lambda x: x.mean((1,))),
    aten.avg_pool1d.default: ((1, 8), lambda x: F.avg_pool1d(x, 3, 2, 1)),
    aten.avg_pool2d.default: (
        (1, 5, 5),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    aten.avg_pool3d.default: ((1, 4, 4, 4), lambda x: F.avg_pool3d(x, 2)),
    aten.adaptive_avg_pool1d.default: ((2, 7), lambda x: F.adaptive_avg_pool1d(x, 3)),
    aten.adaptive_avg_pool2d.default: ((1, 5, 4), lambda x: F.adaptive_avg_pool2d(x, (3, 2))),
    aten._adaptive_avg_pool2d.default: ((1, 5, 4), lambda x: aten._adaptive_avg_pool2d(x, (3, 2))),
    aten.adaptive_avg_pool3d.default: ((1, 3, 4, 3), lambda x: F.adaptive_avg_pool3d(x, 2)),
    aten._adaptive_avg_pool3d.default: (
        (1, 3, 4, 3),
        lambda x: aten._adaptive_avg_pool3d(x, (2, 2, 2)),
    ),
    aten.relu.default: ((6,), F.relu),
    aten.leaky_relu.default: ((6,), lambda x: F.leaky_relu(x, 0.2)),
    aten.rrelu.default: ((6,), lambda x: F.rrelu(x, 0.1, 0.4)),
    aten.prelu.default: ((3, 4), lambda x: F.prelu(x, SLOPES)),
    aten._prelu_kernel.default: ((3, 4), lambda x: aten._prelu_kernel(x, SLOPES.view(1, 3, 1))),
    aten.threshold.default: ((6,), lambda x: F.threshold(x, 0.3, -2.0)),
    aten.abs.default: ((6,), torch.abs),
    aten.clamp.default: ((6,), lambda x: torch.clamp(x, -1.0, 2.0)),
    aten.clamp_min.default: ((6,), lambda x: torch.clamp_min(x, -0.5)),
    aten.clamp_max.default: ((6,), lambda x: torch.clamp_max(x, 0.5)),
    aten.hardtanh.default: ((6,), lambda x: F.hardtanh(x, -2.0, 1.0)),
    aten.relu6.default: ((6,), F.relu6),
    aten.hardsigmoid.default: ((6,), F.hardsigmoid),
    aten.sigmoid.default: ((6,), lambda x: torch.sigmoid(x) * 2),
    aten.erf.default: ((4,), lambda x: torch.erf(x)),
    aten.erfc.default: ((4,), lambda x: torch.erfc(x)),
    aten.atan.default: ((4,), lambda x: torch.atan(x)),
    aten.clamp.Tensor: ((3,), lambda x: torch.clamp(x, -SLOPES.abs(), SLOPES.abs() + 1)),
    aten.tanh.default: ((6,), torch.tanh),
    aten.silu.default: ((6,), F.silu),
    aten.mish.default: ((6,), F.mish),
    aten.log_sigmoid.default: ((6,), F.logsigmoid),
    F.softsign: ((6,), F.softsign),
    aten.hardswish.default: ((6,), F.hardswish),
    aten.softplus.default: ((6,), lambda x: F.softplus(x, 2.0)),
    aten.gelu.default: ((6,), lambda x: F.gelu(x) + F.gelu(x, approximate="tanh")),
    aten.elu.default: ((6,), lambda x: F.elu(x, 1.5)),
    aten.selu.default: ((6,), F.selu),
    aten.celu.default: ((6,), lambda x: F.celu(x, 0.7)),
    aten.max_pool1d.default: ((2, 9), lambda x: F.max_pool1d(x, 3, 2, 1)),
    aten.max_pool2d.default: (
        (1, 6, 7),
        lambda x: F.max_pool2d(x, (3, 2), 2, (1, 0), (1, 2), True),
    ),
    aten.max_pool3d.default: ((1, 4, 4, 4), lambda x: F.max_pool3d(x, 2)),
    aten.max_pool1d_with_indices.default: (
        (1, 8),
        lambda x: aten.max_pool1d_with_indices(x, [2])[0],
    ),
    aten.max_pool2d_with_indices.default: (
        (1, 6, 6),
        lambda x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])[0],
    ),
    aten.max_pool3d_with_indices.default: (
        (1, 4, 4, 4),
        lambda x: aten.max_pool3d_with_indices(x, [2, 2, 2])[0],
    ),
    aten.adaptive_max_pool1d.default: ((2, 7), lambda x: F.adaptive_max_pool1d(x, 3)),
    padded_max_pool: (
        (1, 5, 4),
        lambda x: F.max_pool2d(F.pad(x, (0, 1, 1, 2), value=-torch.inf), 3, 2),
    ),
    aten.adaptive_max_pool2d.default: ((1, 5, 4), lambda x: F.adaptive_max_pool2d(x, (3, 2))),
    aten.adaptive_max_pool3d.default: ((1, 3, 4, 3), lambda x: F.adaptive_max_pool3d(x, 2)),
    aten.amax.default: ((3, 4), lambda x: x.amax((1, 2), keepdim=True)),
    aten.amin.default: ((3, 4), lambda x: x.amin(1)),
    aten.max.dim: ((3, 4), lambda x: x.max(1).values),
    aten.min.dim: ((3, 4), lambda x: x.min(2).values),
    aten.maximum.default: ((1, 5), lambda x: torch.maximum(x, W[:3])),
    aten.max.other: ((5,), lambda x: torch.max(x, x.flip(1))),
    aten.minimum.default: ((3, 5), lambda x: torch.minimum(x, x.flip(2))),
    aten.min.other: ((5,), lambda x: torch.min(x, W[0])),
    aten.fmax.default: ((5,), lambda x: torch.fmax(x, x.flip(1))),
    aten.fmin.default: ((5,), lambda x: torch.fmin(x, W[0])),
    aten.sort.default: ((5,), lambda x: torch.cat([x.sort(1).values, x.sort(1, True)[0]], 1)),
    aten.sort.stable: ((3, 4), lambda x: x.sort(stable=True, dim=1).values),
    aten.topk.default: ((5,), lambda x: x.topk(2, 1).values),
    aten.kthvalue.default: ((5,), lambda x: x.kthvalue(2, 1, keepdim=True).values),
    aten.median.dim: ((2, 4), lambda x: x.median(2).values),
    aten.nanmedian.dim: ((2, 4), lambda x: x.nanmedian(2).values),
    aten.cummax.default: ((5,), lambda x: x.cummax(1).values),
    aten.cummin.default: ((2, 3), lambda x: x.cummin(1).values),
    positions.place_of_largest: (
        (5,),
        lambda x: x + x.argmax(1, keepdim=True) - x.min(1, keepdim=True).indices,
    ),
    positions.take_at: ((2, 3), lambda x: x.gather(2, x.flip(1).argmax(2, keepdim=True))),
    positions.put_at: (
        (2, 4),
        lambda x: x.scatter(2, x.argmin(2, keepdim=True), x[:, :, :1]).scatter(
            2, x.argmax(2, keepdim=True), 0.5
        ),
    ),
    stepwise.bend: ((6,), lambda x: (x + 2) * (x > 0)),
    stepwise.choose: ((5,), lambda x: torch.where(x > x.flip(1), 0.5 * x, x.flip(1) - 1)),
}
EXTRA = {
    "conv2d": (
        (3, 6, 6),
        lambda x: F.conv2d(
            x, W[:3, :3].reshape(3, 1, 3, 1), padding=(1, 0), dilation=(2, 1), groups=3
        ),
    ),
    "conv3d": ((2, 3, 3, 3), lambda x: F.conv3d(x, W3.reshape(1, 2, 3, 2, 2), padding=1)),
    "transposed": (
        (4, 5),
        lambda x: F.conv_transpose1d(x, W3, stride=2, padding=1, output_padding=1),
    ),
    "clamp-crossed": ((4,), lambda x: torch.clamp(x, 2.0, 1.0)),
    "clamp-tensor-free": ((4,), lambda x: x.clamp(min=0.5)),
    "leaky-one": ((4,), lambda x: F.leaky_relu(x, 1.0)),
    "batch-norm": ((3, 4), lambda x: F.batch_norm(x, SLOPES, SLOPES.abs(), SLOPES, None, eps=0.1)),
    "pixel-mean": ((2, 3, 3), lambda x: x.mean((2, 3))),
    "zeros-cat": ((3,), lambda x: torch.cat([x, torch.zeros(x.shape[0], 2, dtype=x.dtype)], 1)),
    "leaky-by-where": ((4,), lambda x: torch.where(x > 0, x, 0.1 * x)),
    "hardtanh-by-where": ((4,), lambda x: torch.where(x > 1, 1.0, torch.where(x < -1, -1.0, x))),
    "hardshrink": ((4,), lambda x: F.hardshrink(x, 0.3)),
    "softshrink": ((4,), lambda x: F.softshrink(x, 0.3)),
    "masked-fill": ((4,), lambda x: x.masked_fill(x < -1, 0.25)),
    "mask-times-value": ((4,), lambda x: x * (x.flip(1) > 0.2)),
    "mask-of-a-row": ((4,), lambda x: x * (x[:, :1] >= 0)),
    "where-weights": ((5,), lambda x: torch.where(x >= x.flip(1), W[0], x)),
    "several-jumps": ((4,), lambda x: x * (x > 0.3) - (x >= 2.0).to(x.dtype)),
    "and": ((4,), lambda x: torch.where((x > 0) & (x.flip(1) <= 0.5), x, -1.0)),
    "or-not": ((4,), lambda x: ((x > 0) | ~(x.flip(1) < 0.5)).to(x.dtype)),
    "xor": ((4,), lambda x: ((x > 0) ^ (x.flip(1) >= 0)).to(x.dtype)),
    "sign": ((4,), lambda x: x.sign() + x),
    "heaviside": ((4,), lambda x: torch.heaviside(x, SLOPES[0])),
    "nearest-places": (
        (1, 3, 3),
        lambda x: F.grid_sample(
            x, GRID.expand(x.shape[0], -1, -1, -1), "nearest", align_corners=True
        ),
    ),
    "corners": (
        (1, 3, 2),
        lambda x: F.interpolate(x, size=(4, 4), mode="bilinear", align_corners=True),
    ),
    "bicubic": ((1, 3, 2), lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
    "trilinear": ((1, 2, 2, 2), lambda x: F.interpolate(x, scale_factor=2, mode="trilinear")),
    "framed-circularly": ((1, 2, 3), lambda x: F.pad(x, (1, 1, 1, 1), mode="circular")),
    "folded": ((4, 9), lambda x: F.fold(x, (4, 4), 2)),
    "first-to-zero": ((4,), first_to_zero),
    "lower-triangle": ((3, 3), lambda x: x.tril()),
    "bins": ((4,), lambda x: x + torch.bucketize(x, ENDS).to(x.dtype)),
    "bins-from-below": ((4,), lambda x: torch.bucketize(x, ENDS, right=True).to(x.dtype)),
    "embedded-bins": ((4,), lambda x: F.embedding(torch.bucketize(x, ENDS), W)),
    "embedded-maximum": ((3, 6), lambda x: F.embedding(x.argmax(2), W)),
    "row-of-the-maximum": ((6,), lambda x: W[x.argmax(1)]),
    "one-hot-maximum": ((5,), lambda x: x * F.one_hot(x.flip(1).argmax(1), 5)),
    "is-the-maximum": ((5,), lambda x: x * (x.argmax(1, keepdim=True) == 2)),
    "stacked-in-front": ((4,), lambda x: torch.stack([x, x.flip(1)]).relu().mean(0)),
    "einsum-left": ((3,), lambda x: torch.einsum("ij,bj->bi", W[:, :3], x)),
    "einsum-ellipsis": ((2, 3), lambda x: torch.einsum("...i,...i->...", x, W[:2, :3])),
    "einsum-broadcast": ((6,), lambda x: torch.einsum("bi,ki->bk", x, W[:2, :1])),
}


# Operations that capture replaces by another that means the same.
REWRITTEN = {
    aten._to_copy.default: aten.alias.default,
    aten.rrelu.default: aten.leaky_relu.default,
    aten.t.default: aten.matmul.default,
}
# Operations that readers of classical models write; no module can be traced to them. They are
# tested in tests/exact/test_steps.py, and in tests/exact/series/test_scales.py.
WRITTEN = {
    stepwise.take_steps,
    stepwise.apply_row,
    stepwise.fill_missing,
    stepwise.box_cox,
    stepwise.numpy_function,
}
