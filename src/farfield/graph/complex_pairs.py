"""Complex numbers on the way, as pairs of real ones: Fourier transforms and what is done to them.

A model may go to frequencies and come back: mix its places by the real part of a transform, or
scale each frequency by a complex weight. To real inputs and outputs all of that is affine. So a
complex value becomes a real one with a last dimension of two, a transform along one dimension a
matrix, and the product of two complex values four real ones. No rule has to know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from farfield.graph.program import FREE, Program, Ref, Step

aten = torch.ops.aten
Written = Ref | None
SAME = (aten.clone.default, aten.alias.default, aten.detach.default, aten.neg.default)


def fourier_matrix(length: int, normalization: int, forward: bool) -> Tensor:
    """``(2 length, 2 length)``: what a transform makes of pairs, each of which lies in a row.

    >>> fourier_matrix(2, 0, True)[0].tolist()  # the first number, real, goes to both frequencies
    [1.0, 0.0, 1.0, 0.0]
    """
    units = torch.view_as_complex(torch.eye(2 * length, dtype=torch.float64).view(-1, length, 2))
    made = aten._fft_c2c.default(units, [1], normalization, forward)
    return torch.view_as_real(made).flatten(1)


def signal_matrix(frequencies: int, normalization: int, length: int) -> Tensor:
    """``(2 frequencies, length)``: the way back from half of the frequencies to real numbers."""
    units = torch.eye(2 * frequencies, dtype=torch.float64).view(-1, frequencies, 2)
    made: Tensor = aten._fft_c2r.default(torch.view_as_complex(units), [1], normalization, length)
    return made


def conjugation() -> Tensor:
    """By what the two parts of a pair are multiplied when it is conjugated."""
    return torch.tensor([1.0, -1.0], dtype=torch.float64)


def read_complex(program: Program) -> Program:
    """Write complex values as pairs; the program as it is where something else is done to them."""
    if not any(step.target in READERS and step.target not in BESIDE for step in program.steps):
        return program
    writer = _Writer({program.input: (FREE, *program.input_shape)})
    for step in program.steps:
        if not writer.read(step):
            return program
    return program.with_steps(tuple(writer.steps))


@dataclass
class _Writer:
    """Writes steps anew.

    Attributes:
        shapes: Of all values, as the model sees them.
        pairs: Names of those that are complex.
        steps: What was written so far.
    """

    shapes: dict[str, tuple[int, ...]]
    pairs: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)

    def read(self, step: Step) -> bool:
        """Write a step; whether that could be done."""
        if step.shape is not None:
            self.shapes[step.name] = step.shape
        if self.pairs.isdisjoint(step.refs()) and not _makes(step):
            self.steps.append(step)
            return True
        begin = len(self.steps)
        known = step.target in READERS and not self.mixes_rows(step)
        last = READERS[step.target](self, step) if known else None
        if last is None or step.shape is None:
            return False
        shape = step.shape
        if step.target not in BACK:
            self.pairs.add(step.name)
            shape = (*shape, 2)
        alias = replace(step, target=aten.alias.default, args=(last,), kwargs={}, shape=shape)
        made = [replace(each, source=step.source) for each in self.steps[begin:]]
        self.steps[begin:] = [*made, alias]
        return True

    def mixes_rows(self, step: Step) -> bool:
        """Whether a step transforms the rows of a batch, however many these are."""
        shape = self.shapes.get(step.args[0].name, ())
        return step.target in TRANSFORMS and any(shape[dim] == FREE for dim in step.args[1])

    def write(self, target: Any, *args: Any) -> Ref:
        """Add a step."""
        name = f"pair/{len(self.steps)}"  # no traced name has a slash
        self.steps.append(Step(name, target, args))
        return Ref(name)

    def is_pair(self, item: Any) -> bool:
        """Whether an argument is a complex value."""
        return isinstance(item, Ref) and item.name in self.pairs

    def pair(self, item: Ref) -> Ref:
        """A value as a complex one."""
        if self.is_pair(item):
            return item
        return self.write(
            aten.constant_pad_nd.default, self.write(aten.unsqueeze.default, item, -1), [0, 1]
        )

    def along(
        self, value: Ref, shape: Sequence[int], dim: int, matrix: Ref, real: bool = False
    ) -> Ref:
        """Apply a matrix along one dimension of pairs; whether that makes them ``real``."""
        count = len(shape)
        order = [each for each in range(count) if each != dim]
        others = [shape[each] for each in order]
        moved = self.write(aten.permute.default, value, [*order, dim, count])
        flat = self.write(aten.view.default, moved, [*others, 2 * shape[dim]])
        made = self.write(aten.matmul.default, flat, matrix)
        if real:
            return self.write(aten.permute.default, made, _inverse([*order, dim]))
        parted = self.write(aten.view.default, made, [*others, shape[dim], 2])
        return self.write(aten.permute.default, parted, _inverse([*order, dim, count]))

    def transform(
        self, value: Ref, shape: Sequence[int], dims: Sequence[int], rest: tuple[int, bool]
    ) -> Ref:
        """Transform pairs along some dimensions, one after another."""
        for dim in dims:
            matrix = self.write(fourier_matrix, shape[dim], *rest)
            value = self.along(value, shape, dim, matrix)
        return value


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _makes(step: Step) -> bool:
    """Whether a step makes complex numbers of real ones."""
    kind = step.kwargs.get("dtype")
    converted = isinstance(kind, torch.dtype) and kind.is_complex
    return step.target in MAKERS or (step.target is aten._to_copy.default and converted)


def _made_pair(writer: _Writer, step: Step) -> Written:
    kind = step.kwargs.get("dtype")
    real = isinstance(kind, torch.dtype) and not kind.is_complex
    return None if real else writer.pair(step.args[0])


def _transformed(writer: _Writer, step: Step) -> Written:
    value, dims, normalization, forward = step.args
    return writer.transform(value, writer.shapes[step.name], dims, (normalization, forward))


def _to_frequencies(writer: _Writer, step: Step) -> Written:
    """Half of the frequencies tell the others, where the values are real."""
    value, dims, normalization, onesided = step.args
    lengths = writer.shapes[value.name]
    made = writer.transform(writer.pair(value), lengths, dims, (normalization, True))
    if not onesided:
        return made
    return writer.write(aten.slice.Tensor, made, dims[-1], 0, lengths[dims[-1]] // 2 + 1)


def _from_frequencies(writer: _Writer, step: Step) -> Written:
    value, dims, normalization, length = step.args
    shape = writer.shapes[value.name]
    *others, last = dims
    value = writer.transform(value, shape, others, (normalization, False))
    matrix = writer.write(signal_matrix, shape[last], normalization, length)
    return writer.along(value, shape, last, matrix, real=True)


def _product(writer: _Writer, step: Step) -> Written:
    left, right = step.args
    if not all(isinstance(each, Ref) for each in (left, right)):
        other = right if isinstance(left, Ref) else left
        return None if isinstance(other, complex) else writer.write(step.target, left, right)
    if not (writer.is_pair(left) and writer.is_pair(right)):
        left, right = (
            each if writer.is_pair(each) else writer.write(aten.unsqueeze.default, each, -1)
            for each in (left, right)
        )
        return writer.write(aten.mul.Tensor, left, right)
    (a, b), (c, d) = (
        [writer.write(aten.select.int, each, -1, place) for place in (0, 1)]
        for each in (left, right)
    )
    ac, bd, ad, bc = (
        writer.write(aten.mul.Tensor, *each) for each in ((a, c), (b, d), (a, d), (b, c))
    )
    real, imaginary = writer.write(aten.sub.Tensor, ac, bd), writer.write(aten.add.Tensor, ad, bc)
    return writer.write(aten.stack.default, [real, imaginary], -1)


def _sum(writer: _Writer, step: Step) -> Written:
    if step.kwargs or not all(isinstance(each, Ref) for each in step.args):
        return None
    return writer.write(step.target, *map(writer.pair, step.args))


def _as_is(writer: _Writer, step: Step) -> Written:
    return writer.write(step.target, *step.args)


def _looked_at(_: _Writer, step: Step) -> Written:
    """Complex numbers seen as pairs, or pairs seen as complex numbers, are what they are."""
    return Ref(step.args[0].name)


def _part(writer: _Writer, step: Step) -> Written:
    """Dimensions are counted from the front; from behind the pair would be one of them."""
    value, dim, *rest = step.args
    return None if dim < 0 else writer.write(step.target, value, dim, *rest)


def _conjugated(writer: _Writer, step: Step) -> Written:
    return writer.write(aten.mul.Tensor, step.args[0], writer.write(conjugation))


def _size(writer: _Writer, step: Step) -> Written:
    return writer.write(aten.linalg_vector_norm.default, step.args[0], 2, [-1])


TRANSFORMS = (aten._fft_c2c.default, aten._fft_r2c.default, aten._fft_c2r.default)
MAKERS = (aten._fft_r2c.default, aten.view_as_complex.default)
BACK = (aten._fft_c2r.default, aten.view_as_real.default, aten.abs.default)
READERS: dict[Any, Callable[[_Writer, Step], Written]] = {
    aten._to_copy.default: _made_pair,
    aten._fft_c2c.default: _transformed,
    aten._fft_r2c.default: _to_frequencies,
    aten._fft_c2r.default: _from_frequencies,
    aten.view_as_complex.default: _looked_at,
    aten.view_as_real.default: _looked_at,
    aten.mul.Tensor: _product,
    aten.add.Tensor: _sum,
    aten.sub.Tensor: _sum,
    aten.abs.default: _size,
    aten.slice.Tensor: _part,
    aten.select.int: _part,
    aten._conj.default: _conjugated,
    aten._conj_physical.default: _conjugated,
    aten.resolve_conj.default: _looked_at,
    **dict.fromkeys(SAME, _as_is),
}
# What says nothing of complex numbers by itself.
BESIDE = (
    *(aten._to_copy.default, aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.abs.default),
    *(aten.slice.Tensor, aten.select.int, *SAME),
)
