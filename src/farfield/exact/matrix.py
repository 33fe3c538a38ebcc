"""Integers of any length, and affine operations as matrices of them, read off the operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import torch
from flint import fmpz, fmpz_mat
from numpy.typing import NDArray
from torch import Tensor

from farfield.graph.rules import Affine

Integers = NDArray[np.object_]
LEAST = math.ulp(0.0)
# Numbers that are converted before somebody looks at the clock.
STRIDE = 1 << 16
# Unit vectors are pushed through an operation in blocks of about this many numbers.
BLOCK = 1 << 22
# Exact products that are held in memory, or computed in one call, at a time.
PRODUCTS = 1 << 20
# Exact numbers that all matrices of a walk may hold together: some hundred bytes each.
NUMBERS = 1 << 22


def objects(items: Sequence[Any], shape: tuple[int, ...]) -> Integers:
    """Put integers into an array of a shape."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """``numpy.where`` for arrays of integers of any length."""
    return np.where(condition, yes, no)


def as_integers(
    values: NDArray[np.float64], check: Callable[[], None] = lambda: None
) -> tuple[Integers, Any]:
    """Floats as integers over a common power of two; ``check`` is called now and then."""
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64)
    shifts = choose(whole == 0, 0, exponents.astype(np.int64) - 53)
    least = int(min(shifts.min(initial=0), 0))
    numerators: list[Any] = []
    for start in range(0, len(whole), STRIDE):
        check()
        part = slice(start, start + STRIDE)
        pairs = zip(whole[part].tolist(), (shifts[part] - least).tolist(), strict=True)
        numerators += [fmpz(m << e) for m, e in pairs]
    return objects(numerators, values.shape), fmpz(1 << -least)


def quotient(top: Any, bottom: Any) -> float:
    """A quotient of integers, rounded once; infinite where it is beyond the range of floats.

    Its sign survives: what is not zero does not become zero.

    >>> quotient(1, 3), quotient(-1, 10**400), quotient(10**400, 1), quotient(0, 5)
    (0.333..., -5e-324, inf, 0.0)
    """
    sign = 1.0 if (top > 0) == (bottom > 0) else -1.0
    try:
        rounded = int(top) / int(bottom)
    except OverflowError:
        return sign * math.inf
    return sign * LEAST if rounded == 0 and top != 0 else rounded


class BudgetSpent(Exception):  # noqa: N818 - control flow inside the package
    """Exact arithmetic would take longer, or more memory, than it may."""


class ExactBudget:
    """Seconds that exact arithmetic may take, and how many exact numbers its matrices may hold."""

    def __init__(self, seconds: float) -> None:
        self.end = monotonic() + seconds
        self.room = NUMBERS

    def check(self) -> None:
        """See whether there is time left.

        Raises:
            BudgetSpent: If there is not.
        """
        if monotonic() >= self.end:
            raise BudgetSpent("exact arithmetic takes too long")

    def store(self, numbers: int) -> None:
        """Keep exact numbers for later walks.

        Raises:
            BudgetSpent: If there is no time or no room left.
        """
        self.check()
        self.room -= numbers
        if self.room < 0:
            raise BudgetSpent("the network is too large for exact arithmetic")


@dataclass(frozen=True, slots=True)
class Matrix:
    """A linear map with rational entries ``values / denominator``.

    A row of outputs has a ``shape``. Where that is faster it is ``dense``: cut into blocks of
    outputs.
    """

    shape: tuple[int, ...]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Integers
    denominator: Any
    dense: tuple[Any, ...] = ()

    def apply(self, vectors: Integers, budget: ExactBudget) -> Integers:
        """Multiply each row of ``vectors``."""
        if self.dense:
            left = fmpz_mat(len(vectors), vectors.shape[1], list(vectors.ravel()))
            blocks = []
            for block in self.dense:
                budget.check()
                entries = (left * block).entries()
                blocks.append(objects(entries, (len(vectors), block.ncols())))
            return np.concatenate(blocks, axis=1)
        outputs = math.prod(self.shape)
        result = objects([fmpz(0)] * (len(vectors) * outputs), (len(vectors), outputs))
        starts = np.flatnonzero(np.diff(self.rows, prepend=-1))
        # Whole outputs at a time, so that the products in memory stay few.
        step = max(1, PRODUCTS * len(starts) // max(1, len(self.rows) * len(vectors)))
        for first in range(0, len(starts), step):
            budget.check()
            some = starts[first : first + step]
            end = starts[first + step] if first + step < len(starts) else len(self.rows)
            products = vectors[:, self.columns[some[0] : end]] * self.values[some[0] : end]
            result[:, self.rows[some]] = np.add.reduceat(products, some - some[0], axis=1)
        return result


def read_matrix(
    operation: Affine, shapes: Sequence[tuple[int, ...]], place: int, budget: ExactBudget
) -> Matrix:
    """Read the matrix of an affine operation with respect to one of its inputs.

    Copies are followed by numbering the elements; everything else by unit vectors, which is exact:
    a product with one, and sums with zeros.
    """
    rows, *row = shapes[place]
    size = math.prod(row)
    weights = [weight.double() for weight in operation.weights]
    device = weights[0].device if weights else torch.device("cpu")
    blanks = [torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes]

    def image(units: Tensor) -> Tensor:
        """Outputs for units of shape ``(blocks, rows, *row)``, one row each."""

        def one(block: Tensor) -> Tensor:
            data = [block if index == place else blank for index, blank in enumerate(blanks)]
            return operation.function(*data, *weights)

        return one(units[0]) if len(units) == 1 else torch.vmap(one)(units).flatten(0, 1)

    if operation.terms == 0 and operation.magnitude is None:
        numbered = torch.arange(1, size + 1, dtype=torch.float64, device=device)
        budget.store(size)
        found = image(numbered.reshape(1, 1, *row).expand(1, rows, *row))[0]
        source = found.flatten().long().cpu().numpy()
        kept = np.flatnonzero(source)
        ones = objects([fmpz(1)] * len(kept), kept.shape)
        return Matrix(tuple(found.shape), kept, source[kept] - 1, ones, fmpz(1))
    entries = []
    shape: tuple[int, ...] = ()
    lanes = max(1, BLOCK // (rows * size))
    for start in range(0, size, lanes * rows):
        count = min(lanes * rows, size - start)
        block = torch.zeros(-(-count // rows) * rows, size, dtype=torch.float64, device=device)
        block[torch.arange(count), torch.arange(start, start + count)] = 1
        images = image(block.reshape(-1, rows, *row))
        shape, found = tuple(images.shape[1:]), images.reshape(len(images), -1)
        unit, output = (index.cpu().numpy() for index in torch.nonzero(found, as_tuple=True))
        budget.store(len(unit))
        entries.append((output, unit + start, found[unit, output].cpu().numpy()))
    output, unit, values = (np.concatenate(each) for each in zip(*entries, strict=True))
    order = np.lexsort((unit, output))
    return _matrix(
        shape, size, output[order], unit[order], values[order], operation.averages, budget
    )


def _matrix(
    shape: tuple[int, ...],
    size: int,
    output: NDArray[np.int64],
    unit: NDArray[np.int64],
    values: NDArray[np.float64],
    averages: bool,
    budget: ExactBudget,
) -> Matrix:
    """Store the entries of a matrix as integers."""
    if averages:
        counts = np.rint(1 / values).astype(np.int64)
        scale = math.lcm(*(int(count) for count in np.unique(counts)))
        integers = objects([fmpz(scale // int(count)) for count in counts], counts.shape)
        denominator = fmpz(scale)
    else:
        integers, denominator = as_integers(values, budget.check)
    dense: tuple[Any, ...] = ()
    width = math.prod(shape)
    if len(values) > width * size // 4:
        table = np.zeros((size, width), dtype=object)
        table[unit, output] = integers
        step = max(1, PRODUCTS // (32 * size))
        dense = tuple(_block(table[:, first : first + step]) for first in range(0, width, step))
    return Matrix(shape, output, unit, integers, denominator, dense)


def _block(table: Integers) -> Any:
    rows, columns = table.shape
    return fmpz_mat(rows, columns, [fmpz(entry) for entry in table.ravel()])
