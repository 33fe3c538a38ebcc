"""Products, powers, norms and softmax by their definitions, on balls of many digits."""

import math
from typing import Any

import numpy as np
import torch
from flint import arb

from campaigns.exact_numbers import Array, Numbers, each
from campaigns.exact_places import places_in_order
from campaigns.exact_sums import addmm, einsum, matmul, scaled
from farfield.graph import norms, positions, products

aten = torch.ops.aten


def quotient(numbers: Numbers, left: Any, right: Array) -> Array:
    return numbers.array(left) / right


def raised(numbers: Numbers, values: Array, exponent: float) -> Array:
    if float(exponent).is_integer():
        # One factor after another: balls that hold zero have no logarithm.
        whole = each(lambda x: math.prod([x] * int(abs(exponent))), values)
        return whole if exponent > 0 else 1 / whole
    if float(3 * exponent).is_integer():
        return each(lambda x: (x.log() * round(3 * exponent) / 3).exp(), values)
    return each(lambda x: x.sqrt() ** int(2 * exponent), values)


def normalised(numbers: Numbers, values: Array, axes: Any, epsilon: float, centre: bool) -> Array:
    count = math.prod(values.shape[axis] for axis in axes)
    if centre:
        values = values - values.sum(axis=axes, keepdims=True) / numbers.read(count)
    square = (values * values).sum(axis=axes, keepdims=True) / numbers.read(count)
    return values / each(lambda x: (x + numbers.read(epsilon)).sqrt(), square)


def weighted(numbers: Numbers, values: Array, weight: Any, bias: Any, channels: bool) -> Array:
    shape = (-1, *[1] * (values.ndim - 2)) if channels else None
    for item, join in ((weight, np.multiply), (bias, np.add)):
        if item is not None:
            array = numbers.array(item)
            values = join(values, array if shape is None else array.reshape(shape))
    return values


def layer_norm(
    n: Numbers,
    values: Array,
    shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Array:
    axes = tuple(range(-len(shape), 0))
    return weighted(n, normalised(n, values, axes, eps, True), weight, bias, False)


def rms_norm(n: Numbers, values: Array, shape: Any, weight: Any = None, eps: Any = None) -> Array:
    epsilon = torch.finfo(torch.float32).eps if eps is None else eps
    axes = tuple(range(-len(shape), 0))
    return weighted(n, normalised(n, values, axes, epsilon, False), weight, None, False)


def group_norm(
    n: Numbers,
    values: Array,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Array:
    rows = values.reshape(len(values), groups, -1)
    found = normalised(n, rows, (-1,), eps, True).reshape(values.shape)
    return weighted(n, found, weight, bias, True)


def instance_norm(n: Numbers, values: Array, weight: Any, bias: Any, *rest: Any) -> Array:
    return group_norm(n, values, values.shape[1], weight, bias, rest[4])


def softmax(_: Numbers, values: Array, axis: int, *__: Any) -> Array:
    top = values.max(axis=axis, keepdims=True)
    shares = each(lambda x: x.exp(), values - top)
    return shares / shares.sum(axis=axis, keepdims=True)


def attention(n: Numbers, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Array:
    query, key, value = (n.array(item) for item in (query, key, value))
    root = arb(query.shape[-1]).sqrt()
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) / root
    return np.matmul(softmax(n, scores, -1), value)


def length(n: Numbers, values: Array, _: float = 2, dims: Any = None, keep: bool = False) -> Array:
    axes = tuple(range(1, values.ndim)) if dims is None else tuple(dims)
    return each(lambda x: x.sqrt(), (values * values).sum(axis=axes, keepdims=keep))


def logsumexp(_: Numbers, values: Array, dims: Any, keep: bool = False) -> Array:
    axes = tuple(dims) if isinstance(dims, (list, tuple)) else (dims,)
    top = values.max(axis=axes, keepdims=True)
    total = each(lambda x: x.exp(), values - top).sum(axis=axes, keepdims=True)
    found = top + each(lambda x: x.log(), total)
    return found if keep else found.squeeze(axis=axes)


def gated(n: Numbers, values: Array, dim: int = -1) -> Array:
    first, second = np.split(values, 2, axis=dim)
    return first / each(lambda x: 1 + (-x).exp(), second)


def distances(n: Numbers, left: Any, right: Any, *_: Any) -> Array:
    apart = n.array(left)[..., :, None, :] - n.array(right)[..., None, :, :]
    return each(lambda x: x.sqrt(), (apart * apart).sum(axis=-1))


def variance(
    n: Numbers, values: Array, dims: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> Array:
    axes = tuple(dims)
    count = math.prod(values.shape[axis] for axis in axes)
    centred = values - values.sum(axis=axes, keepdims=True) / n.read(count)
    return (centred * centred).sum(axis=axes, keepdims=keepdim) / n.read(count - correction)


def variance_and_mean(n: Numbers, values: Array, dims: Any = None, **options: Any) -> list[Array]:
    axes = tuple(dims)
    count = math.prod(values.shape[axis] for axis in axes)
    mean = values.sum(axis=axes, keepdims=options.get("keepdim", False)) / n.read(count)
    return [variance(n, values, dims, **options), mean]


def trilinear(n: Numbers, left: Array, weight: Any, right: Array, *_: Any) -> Array:
    return einsum(n, "bi,kij,bj->bk", [left, n.array(weight), right])


GROWTH: dict[Any, Any] = {
    aten.glu.default: gated,
    aten.logsumexp.default: logsumexp,
    aten.logaddexp.default: lambda n, a, b: logsumexp(n, np.stack([a, b]), 0),
    aten.log_softmax.int: lambda n, x, dim, *_: x - logsumexp(n, x, dim, True),
    aten._log_softmax.default: lambda n, x, dim, *_: x - logsumexp(n, x, dim, True),
    aten._cdist_forward.default: distances,
    aten.prod.dim_int: lambda _, values, dim, *__: values.prod(axis=dim),
    aten.cumprod.default: lambda _, values, dim: np.cumprod(values, axis=dim),
    aten.var.correction: variance,
    aten.var_mean.correction: variance_and_mean,
    aten.hypot.default: lambda _, a, b: each(lambda x: x.sqrt(), a * a + b * b),
    aten._trilinear.default: trilinear,
    aten.pow.Scalar: lambda _, base, x: each(lambda v: (v * arb(base).log()).exp(), x),
    aten.exp2.default: lambda _, x: each(lambda v: (v * arb(2).log()).exp(), x),
    aten.sin.default: lambda _, x: each(lambda v: v.sin(), x),
    aten.cos.default: lambda _, x: each(lambda v: v.cos(), x),
    aten.asinh.default: lambda _, x: each(lambda v: v.asinh(), x),
    products.multiply: scaled,
    products.divide: quotient,
    products.multiply_matrices: matmul,
    products.add_product: addmm,
    products.contract: einsum,
    positions.places_in_order: places_in_order,
    aten.pow.Tensor_Scalar: raised,
    aten.square.default: lambda n, values: raised(n, values, 2),
    aten.sqrt.default: lambda n, values: raised(n, values, 0.5),
    aten.rsqrt.default: lambda n, values: raised(n, values, -0.5),
    aten.reciprocal.default: lambda n, values: raised(n, values, -1),
    aten.exp.default: lambda _, values: each(lambda x: x.exp(), values),
    aten.expm1.default: lambda _, values: each(lambda x: x.expm1(), values),
    aten.log.default: lambda _, values: each(lambda x: x.log(), values),
    aten.log1p.default: lambda _, values: each(lambda x: x.log1p(), values),
    aten.linalg_vector_norm.default: length,
    aten.layer_norm.default: layer_norm,
    aten.native_layer_norm.default: lambda *args: [layer_norm(*args)],
    aten.rms_norm.default: rms_norm,
    aten.group_norm.default: group_norm,
    aten.instance_norm.default: instance_norm,
    aten.softmax.int: softmax,
    aten._softmax.default: softmax,
    norms.attend: attention,
}
