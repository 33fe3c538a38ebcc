"""Values that are put among others, sorted, resized or sampled, by their definitions."""

import itertools
from typing import Any

import numpy as np
import torch
from flint import arb
from torch import Tensor

from campaigns.exact_numbers import Array, Numbers, each


def put(target: Any) -> Any:
    """Put one value into another: PyTorch moves the numbers of their elements."""

    def placed(numbers: Numbers, base: Any, *rest: Any, **named: Any) -> Array:
        found = [numbers.array(base)]
        args: list[Any] = [_numbered(found[0], 0)]
        for item in rest:
            if isinstance(item, np.ndarray) or (isinstance(item, Tensor) and _is_source(item)):
                found.append(numbers.array(item))
                args.append(_numbered(found[-1], found[0].size))
            else:
                args.append(item)
        moved = target(*args, **named).long().numpy()
        return np.concatenate([each.ravel() for each in found])[moved]

    return placed


def _is_source(item: Tensor) -> bool:
    return item.is_floating_point()


def _numbered(values: Array, first: int) -> Tensor:
    places = torch.arange(first, first + values.size, dtype=torch.float64)
    return places.reshape(values.shape)


def copy(numbers: Numbers, base: Any, source: Any) -> Array:
    return np.broadcast_to(numbers.array(source), base.shape)


def index_put(
    numbers: Numbers, base: Any, positions: Any, source: Any, accumulate: bool = False
) -> Array:
    result, values = numbers.array(base).copy(), numbers.array(source)
    where = tuple(slice(None) if each is None else each.numpy() for each in positions)
    if accumulate:
        np.add.at(result, where, values)
    else:
        result[where] = values
    return result


def scatter_add(numbers: Numbers, base: Any, dim: int, index: Tensor, source: Any) -> Array:
    result = numbers.array(base).copy()
    places = list(np.indices(tuple(index.shape)))
    inside = tuple(slice(0, length) for length in index.shape)
    places[dim] = index.numpy()
    np.add.at(result, tuple(places), numbers.array(source)[inside])
    return result


def scatter_value(numbers: Numbers, base: Any, dim: int, index: Tensor, number: float) -> Array:
    result = base.copy()
    np.put_along_axis(result, index.numpy(), numbers.read(number), axis=dim)
    return result


def where(numbers: Numbers, mask: Tensor, yes: Any, no: Any) -> Array:
    return np.where(mask.numpy(), numbers.array(yes), numbers.array(no))


def full_like(numbers: Numbers, values: Array, number: float, **_: Any) -> Array:
    return np.broadcast_to(numbers.array(float(number)), values.shape)


def cumsum(_: Numbers, values: Array, dim: int, **__: Any) -> Array:
    return np.cumsum(values, axis=dim)


def running(function: Any) -> Any:
    return lambda _, values, dim: (function.accumulate(values, axis=dim), None)


def in_order(_: Numbers, values: Array, dim: int = -1, descending: bool = False, **__: Any) -> Any:
    rising = np.sort(values, axis=dim)
    return (np.flip(rising, axis=dim) if descending else rising), None


def in_stable_order(numbers: Numbers, values: Array, **named: Any) -> Any:
    return in_order(numbers, values, **named)


def top(_: Numbers, values: Array, k: int, dim: int = -1, largest: bool = True, *__: Any) -> Any:
    rising = np.sort(values, axis=dim)
    order = np.flip(rising, axis=dim) if largest else rising
    return np.take(order, range(k), axis=dim), None


def at_rank(rank: Any) -> Any:
    """One of the values in order; ``rank`` finds its place of their number and the arguments."""

    def one(_: Numbers, values: Array, *args: Any) -> Any:
        place, dim, keepdim = rank(values, *args)
        return np.take(np.sort(values, axis=dim), [place] if keepdim else place, axis=dim), None

    return one


def _doubtful(one: Any, other: Any) -> bool:
    """Whether two balls may or may not be in order; equal numbers are equal."""
    exact = not isinstance(one, arb) or (one.is_exact() and other.is_exact())
    return not exact and bool(one.overlaps(other))


def place_of_largest(
    numbers: Numbers, values: Array, dim: int, keepdim: bool = False, sign: int = 1
) -> Array:
    def best(row: Array) -> Any:
        place = int(np.argmax(row) if sign > 0 else np.argmin(row))
        others = (each for k, each in enumerate(row) if k != place)
        unknown = any(_doubtful(row[place], each) for each in others)
        return arb("nan") if unknown else numbers.read(place)

    found = np.apply_along_axis(lambda row: np.array([best(row)], dtype=object), dim, values)
    return found if keepdim else found.squeeze(dim)


def places_in_order(numbers: Numbers, values: Array, count: int, dim: int, sign: int = 1) -> Array:
    def order(row: Array) -> Array:
        places = np.argsort(-row if sign > 0 else row)
        pairs = itertools.combinations(row, 2)
        if any(_doubtful(*pair) for pair in pairs):
            return np.array([arb("nan")] * count, dtype=object)
        return np.array([numbers.read(int(place)) for place in places[:count]], dtype=object)

    return np.apply_along_axis(order, dim, values)


def _whole(numbers: Numbers, index: Array) -> tuple[Array, Array]:
    """Exact numbers as the whole numbers that they are, and where they are not known."""
    unknown = each(lambda x: isinstance(x, arb) and x.is_nan(), index).astype(bool)
    known = np.where(unknown, numbers.array(0.0), index)
    found = each(lambda x: next(k for k in range(10**4) if x == numbers.read(k)), known)
    return found.astype(int), unknown


def take_at(numbers: Numbers, values: Any, dim: int, index: Array) -> Array:
    places, unknown = _whole(numbers, index)
    found = np.take_along_axis(numbers.array(values), places, axis=dim)
    return np.where(unknown, index, found)


def put_at(numbers: Numbers, base: Any, dim: int, index: Array, source: Any) -> Array:
    places, unknown = _whole(numbers, index)
    assert not unknown.any()
    result = numbers.array(base).copy()
    put = np.broadcast_to(numbers.array(source), places.shape)
    np.put_along_axis(result, places, put, axis=dim)
    return result


def resized(target: Any) -> Any:
    """Resize images along one dimension after the other, by what becomes of unit vectors."""

    def resize(numbers: Numbers, values: Array, sizes: Any, align: bool, *scales: Any) -> Array:
        for axis in (-2, -1):
            length = values.shape[axis]
            units = torch.eye(length, dtype=torch.float64)[:, None, :, None].expand(-1, 1, -1, 2)
            keep, own = (1, 0) if axis == -2 else (0, 1)
            given = _settings(sizes, scales, keep, own)
            images = units if axis == -2 else units.transpose(2, 3)
            made = target(images, given[0], align, *given[1:]).select(2 + keep, 0)[:, 0]
            matrix = numbers.array(made.double())
            values = np.moveaxis(np.moveaxis(values, axis, -1) @ matrix, -1, axis)
        return values

    return resize


def _settings(sizes: Any, scales: Any, keep: int, own: int) -> list[Any]:
    """The settings of one dimension; the other stays two."""
    goal = None
    if sizes is not None:
        goal = [0, 0]
        goal[keep], goal[own] = 2, sizes[own]
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        factors = [1.0, 1.0]
        factors[own] = scales[0][own]
        return [goal, factors]
    return [goal, *scales] if all(each is None for each in scales) else [goal]


def sampled(target: Any) -> Any:
    """Sample images at places, by what becomes of unit vectors."""

    def sample(numbers: Numbers, values: Array, grid: Tensor, *settings: Any) -> Array:
        inner = values.shape[2:]
        count = int(np.prod(inner))
        units = torch.eye(count, dtype=torch.float64).reshape(count, 1, *inner)
        made = target(units, grid[:1].expand(count, *grid.shape[1:]), *settings)
        weights = numbers.array(made.reshape(count, -1))
        out = values.reshape(*values.shape[:2], count) @ weights
        return out.reshape(*values.shape[:2], *made.shape[2:])

    return sample
