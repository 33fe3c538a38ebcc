"""Every operation of the rule table by its definition, on arrays of exact numbers.

The referee of the soundness campaign. It evaluates a traced program at a point, however far out,
element by element: on fractions (``flint.fmpq``) without any rounding, or, where functions are not
rational, on balls of many digits (``flint.arb``). It knows nothing of germs, rules or bounds.
"""

import itertools
import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from flint import arb, fmpq
from torch import Tensor

from farfield.graph.padded_pooling import padded_max_pool
from farfield.graph.program import SIZE, Program

aten = torch.ops.aten
Array = np.ndarray


class Numbers:
    """One kind of exact number: how floats become one, and quotients of whole numbers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def read(self, value: float) -> Any:
        if self.kind == "balls":
            return arb(value)
        return fmpq(*float(value).as_integer_ratio())

    def array(self, values: Any) -> Array:
        if isinstance(values, np.ndarray):
            return values
        if not isinstance(values, Tensor):
            return np.array(self.read(float(values)), dtype=object)
        flat = [self.read(value) for value in values.double().flatten().tolist()]
        array = np.empty(len(flat), dtype=object)
        array[:] = flat
        return array.reshape(tuple(values.shape))


def each(function: Any, values: Array) -> Array:
    return np.frompyfunc(function, 1, 1)(values)


# Copies: PyTorch moves the numbers of the elements, and we look the elements up.


def copied(target: Any) -> Any:
    def move(_: Numbers, values: Array, *args: Any, **kwargs: Any) -> Any:
        places = torch.arange(values.size, dtype=torch.float64).reshape(values.shape)
        moved = target(places, *args, **kwargs)
        if isinstance(moved, (list, tuple)):
            return [look_up(values, one) for one in moved]
        return look_up(values, moved)

    return move


def look_up(values: Array, places: Tensor) -> Array:
    return values.ravel()[places.long().numpy()]


def padded(numbers: Numbers, values: Array, pad: Any, fill: float = 0.0) -> Array:
    places = torch.arange(values.size, dtype=torch.float64).reshape(values.shape)
    moved = F.pad(places, pad, value=-1.0).long().numpy()
    return np.where(moved < 0, numbers.array(fill), values.ravel()[moved])


def joined(function: Any) -> Any:
    def join(numbers: Numbers, values: Any, dim: int = 0) -> Array:
        return function([numbers.array(one) for one in values], axis=dim)

    return join


# Sums of products.


def linear(numbers: Numbers, values: Array, weight: Any, bias: Any = None) -> Array:
    product = np.matmul(values, np.swapaxes(numbers.array(weight), 0, 1))
    return product if bias is None else product + numbers.array(bias)


def addmm(
    n: Numbers, bias: Any, values: Any, weight: Any, *, beta: float = 1, alpha: float = 1
) -> Array:
    product = np.matmul(n.array(values), n.array(weight))
    return product * n.read(alpha) + n.array(bias) * n.read(beta)


def matmul(numbers: Numbers, left: Any, right: Any) -> Array:
    return np.matmul(numbers.array(left), numbers.array(right))


def einsum(numbers: Numbers, equation: str, operands: Any, **_: Any) -> Array:
    inputs, output = equation.replace(" ", "").split("->")
    arrays = [numbers.array(one) for one in operands]
    sizes = {
        letter: size
        for letters, array in zip(inputs.split(","), arrays, strict=True)
        for letter, size in zip(letters, array.shape, strict=True)
    }
    letters = [*output, *sorted(set(sizes) - set(output))]
    product: Any = 1
    for names, array in zip(inputs.split(","), arrays, strict=True):
        order = sorted(names, key=letters.index)
        moved = np.transpose(array, [names.index(letter) for letter in order])
        shape = [sizes[letter] if letter in names else 1 for letter in letters]
        product = product * moved.reshape(shape)
    return product.sum(axis=tuple(range(len(output), len(letters))))


def convolution(
    numbers: Numbers,
    values: Array,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    kernel = numbers.array(weight)
    dims = kernel.ndim - 2
    stride, padding, dilation, extra = (
        list(one) * (dims // len(one)) for one in (stride, padding, dilation, output_padding)
    )
    sizes = values.shape[2:]
    spans = [d * (k - 1) for d, k in zip(dilation, kernel.shape[2:], strict=True)]
    settings = list(zip(sizes, stride, padding, spans, extra, strict=True))
    if transposed:
        shape = [(n - 1) * s - 2 * p + span + e + 1 for n, s, p, span, e in settings]
        channels = kernel.shape[1] * groups
    else:
        shape = [(n + 2 * p - span - 1) // s + 1 for n, s, p, span, _ in settings]
        channels = kernel.shape[0]
    out = np.empty((values.shape[0], channels, *shape), dtype=object)
    out[:] = numbers.read(0.0)
    ins, outs = values.shape[1] // groups, channels // groups
    for tap in itertools.product(*map(range, kernel.shape[2:])):
        for place in itertools.product(*map(range, sizes if transposed else shape)):
            other = [
                i * s - p + k * d
                for i, s, p, k, d in zip(place, stride, padding, tap, dilation, strict=True)
            ]
            if any(
                not 0 <= o < n for o, n in zip(other, shape if transposed else sizes, strict=True)
            ):
                continue
            source, goal = (place, tuple(other)) if transposed else (tuple(other), place)
            for group in range(groups):
                here, there = (
                    slice(group * ins, (group + 1) * ins),
                    slice(group * outs, (group + 1) * outs),
                )
                taps = kernel[here, :, *tap] if transposed else kernel[there, :, *tap].T
                out[:, there, *goal] = out[:, there, *goal] + values[:, here, *source] @ taps
    return out if bias is None else out + numbers.array(bias).reshape(-1, *[1] * dims)


def scaled(numbers: Numbers, left: Any, right: Any) -> Array:
    return numbers.array(left) * numbers.array(right)


def divided(numbers: Numbers, values: Array, divisor: Any) -> Array:
    """By the reciprocal, rounded once: that is the network as captured."""
    return values * numbers.array(
        1.0 / (divisor.double() if isinstance(divisor, Tensor) else divisor)
    )


def added(sign: int, turned: bool = False) -> Any:
    def add(numbers: Numbers, left: Any, right: Any, alpha: float = 1) -> Array:
        left, right = (right, left) if turned else (left, right)
        return numbers.array(left) + numbers.array(right) * numbers.read(alpha) * sign

    return add


# Sums and extremes over dimensions and windows.


def total(_: Numbers, values: Array, dims: Any, keepdim: bool = False, **__: Any) -> Array:
    return values.sum(axis=tuple(dims), keepdims=keepdim)


def mean(_: Numbers, values: Array, dims: Any, keepdim: bool = False, **__: Any) -> Array:
    count = math.prod(values.shape[d] for d in dims)
    return values.sum(axis=tuple(dims), keepdims=keepdim) / count


def extreme(function: Any, pair: bool = False) -> Any:
    def over(_: Numbers, values: Array, dims: Any, keepdim: bool = False) -> Any:
        axes = (dims,) if isinstance(dims, int) else tuple(dims)
        result = function.reduce(values, axis=axes, keepdims=keepdim)
        return (result, None) if pair else result

    return over


def windows(
    n: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> list[range]:
    """The places that each output looks at, those in the padding among them."""
    room = n + 2 * padding - dilation * (kernel - 1) - 1
    count = (math.ceil(room / stride) if ceil else room // stride) + 1
    starts = [i * stride - padding for i in range(count)]
    if ceil and starts[-1] >= n + padding:
        starts = starts[:-1]
    return [range(start, start + dilation * kernel, dilation) for start in starts]


def adaptive(n: int, outputs: int) -> list[range]:
    return [
        range(math.floor(i * n / outputs), math.ceil((i + 1) * n / outputs)) for i in range(outputs)
    ]


def pooled(values: Array, tables: list[list[range]], reduce: Any) -> Array:
    """``reduce(elements, window)`` for each window; elements last."""
    dims = len(tables)
    out = np.empty((*values.shape[:-dims], *map(len, tables)), dtype=object)
    for goal in itertools.product(*(range(len(table)) for table in tables)):
        window = [table[i] for table, i in zip(tables, goal, strict=True)]
        inside = [
            [place for place in places if 0 <= place < n]
            for places, n in zip(window, values.shape[-dims:], strict=True)
        ]
        block = values[(..., *np.ix_(*inside))]
        out[(..., *goal)] = reduce(block.reshape(*values.shape[:-dims], -1), window)
    return out


def spread(value: Any, dims: int) -> list[int]:
    items = [value] if isinstance(value, int) else list(value)
    return items * dims if len(items) == 1 else items


def max_pool(dims: int, pair: bool) -> Any:
    def pool(
        _: Numbers,
        values: Array,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil: bool = False,
    ) -> Any:
        kernel = spread(kernel, dims)
        options = (spread(stride, dims) or kernel, spread(padding, dims), spread(dilation, dims))
        tables = [
            windows(*one, ceil) for one in zip(values.shape[-dims:], kernel, *options, strict=True)
        ]
        result = pooled(values, tables, lambda block, _: np.maximum.reduce(block, axis=-1))
        return (result, None) if pair else result

    return pool


def padded_pool(
    _: Numbers,
    values: Array,
    around: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil: bool,
) -> Array:
    """Windows over the padded lengths; places in the padding are left out."""
    before, after = around[::2][::-1], around[1::2][::-1]
    lengths = [
        n + b + a for n, b, a in zip(values.shape[-len(kernel) :], before, after, strict=True)
    ]
    tables = [
        [range(r.start - b, r.stop - b, r.step) for r in windows(*one, ceil)]
        for b, *one in zip(before, lengths, kernel, stride, padding, dilation, strict=True)
    ]
    return pooled(values, tables, lambda block, _: np.maximum.reduce(block, axis=-1))


def average_pool(dims: int) -> Any:
    def pool(
        _: Numbers,
        values: Array,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil: bool = False,
        count_padding: bool = True,
        divisor: int | None = None,
    ) -> Array:
        kernel = spread(kernel, dims)
        padding = spread(padding, dims)
        options = (spread(stride, dims) or kernel, padding, [1] * dims)
        sizes = values.shape[-dims:]
        tables = [windows(*one, ceil) for one in zip(sizes, kernel, *options, strict=True)]

        def average(block: Array, window: Any) -> Array:
            # Places in the padding count, places that hang over the padding do not.
            counted = math.prod(
                sum(-p <= place < n + p for place in places)
                for places, n, p in zip(window, sizes, padding, strict=True)
            )
            count = divisor or (counted if count_padding else block.shape[-1])
            return block.sum(axis=-1) / count

        return pooled(values, tables, average)

    return pool


def adaptive_pool(dims: int, largest: bool) -> Any:
    def pool(_: Numbers, values: Array, output: Any) -> Any:
        tables = [
            adaptive(n, o) for n, o in zip(values.shape[-dims:], spread(output, dims), strict=True)
        ]
        if largest:
            return pooled(values, tables, lambda b, _: np.maximum.reduce(b, axis=-1)), None
        return pooled(values, tables, lambda b, _: b.sum(axis=-1) / b.shape[-1])

    return pool


def of_two(function: Any) -> Any:
    return lambda numbers, left, right: function(numbers.array(left), numbers.array(right))


# Functions of one number.


def leaky(numbers: Numbers, values: Array, slope: float = 0.01) -> Array:
    return np.where(values > 0, values, values * numbers.read(slope))


def prelu(numbers: Numbers, values: Array, weight: Any) -> Array:
    slopes = numbers.array(weight)
    if slopes.ndim <= 1 and slopes.size > 1:
        slopes = slopes.reshape(-1, *[1] * (values.ndim - 2))
    return np.where(values > 0, values, values * slopes)


def threshold(numbers: Numbers, values: Array, limit: float, other: float) -> Array:
    return np.where(values > numbers.read(limit), values, numbers.array(other))


def clamp(numbers: Numbers, values: Array, low: Any = None, high: Any = None) -> Array:
    if low is not None and low != -math.inf:
        values = np.where(values > numbers.read(low), values, numbers.array(low))
    if high is not None and high != math.inf:
        values = np.where(values < numbers.read(high), values, numbers.array(high))
    return values


def hard_sigmoid(numbers: Numbers, values: Array) -> Array:
    return clamp(numbers, values + 3, 0.0, 6.0) / 6


def hard_swish(numbers: Numbers, values: Array) -> Array:
    return values * hard_sigmoid(numbers, values)


def curve(function: Any) -> Any:
    return lambda _, values, *args, **kwargs: each(lambda x: function(x, *args, **kwargs), values)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + (-x).exp()) if x > 0 else x.exp() / (1 + x.exp())


def softplus(x: Any, beta: float = 1.0, limit: float = 20.0) -> Any:
    scaled_up = x * beta
    return x if scaled_up > limit else scaled_up.exp().log1p() / beta


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return x * (-x / arb(2).sqrt()).erfc() / 2
    inner = (2 / arb.pi()).sqrt() * (x + arb("0.044715") * x**3)
    return x * sigmoid(2 * inner)


def elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    scale = arb(scale)
    return x * scale if x > 0 else (x * input_scale).expm1() * alpha * scale


def mish(x: Any) -> Any:
    grown = (1 + x.exp()) ** 2 if x < 0 else (1 + (-x).exp()) ** 2
    one = arb(1) if x < 0 else (-2 * x).exp()
    return x * (grown - one) / (grown + one)


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
)
OPERATIONS: dict[Any, Any] = {
    **{target: copied(target) for target in MOVES},
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
}
# These have no rational values: they need balls.
CURVES = frozenset(
    {
        aten.sigmoid.default,
        aten.tanh.default,
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
