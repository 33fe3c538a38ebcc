"""Modules and exported programs, read by watching what they do to two batches.

Sizes that an operation is told are plain numbers in a recording. Those that come from the number of
rows differ between two batches, and are multiples of it in both; all others are the same. Whatever
else differs (a branch that hangs on the number of rows, a number drawn at random) is not recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram

from farfield.graph.decompose import told
from farfield.graph.export import (
    Read,
    StatedProgram,
    evaluation_mode,
    export_module,
    kept_whole,
    module_dtype,
    read_exported,
)
from farfield.graph.program import FREE, SIZE, Program, Ref, Step
from farfield.graph.recorder import INPUT, Recording, RecordingError, Watchable, record
from farfield.graph.watched import WatchedModule, WatchedProgram

aten = torch.ops.aten
# Few rows and many: a branch between them shows.
FEW, MANY = 3, 10_007
# Shapes of these may leave one length to be found.
VIEWS = (aten.view.default, aten._unsafe_view.default)
BRANCH = "what is done hangs on the number of rows"


def read_steps(module: nn.Module, example: Tensor, *, one_row: bool = False) -> Read:
    """Read a module in evaluation mode; it stays as it is.

    The batch size is free, unless the module is to be read on a batch of exactly one row.

    Raises:
        CaptureError: If it cannot be read.
    """
    try:
        return recorded(module, example, one_row=one_row)
    except RecordingError:
        return exported_steps(module, example, one_row=one_row)


def exported_steps(module: nn.Module, example: Tensor, *, one_row: bool = False) -> Read:
    """Do the same by torch.export."""
    return read_exported(export_module(module, example, one_row=one_row))


def recorded(module: nn.Module, example: Tensor, *, one_row: bool = False) -> Read:
    """Read a module by what it does to batches.

    Raises:
        RecordingError: If it does something that is not followed there.
    """
    dtype = module_dtype(module, example.dtype)
    with evaluation_mode(module):
        return watched(WatchedModule(module), tuple(example.shape[1:]), dtype, int(one_row))


def replayed(exported: ExportedProgram) -> Read:
    """Read a program that was exported before.

    Raises:
        CaptureError: If it cannot be read.
    """
    given = StatedProgram.of(exported)
    if given.is_plain:
        return read_exported(exported)
    subject = WatchedProgram(exported, given.constants, given.names, given.output)
    try:
        return watched(subject, given.shape, given.dtype, given.rows)
    except RecordingError:
        return read_exported(exported)


def watched(subject: Watchable, shape: tuple[int, ...], dtype: torch.dtype, rows: int) -> Read:
    """Read something that is free in the number of its rows, or has so many.

    Raises:
        RecordingError: If it does something that is not followed there.
    """
    few = record(subject, (rows or FEW, *shape), dtype, _becomes)
    if rows:
        return _read(few, shape, rows, False)
    merged = _Merged()
    # What loops over rows would be long.
    many = record(subject, (MANY, *shape), dtype, _becomes, few.written)
    recording = merged.recording(few, many)
    return _read(recording, shape, 0, len(merged.folds) > 1)


def _read(recording: Recording, shape: tuple[int, ...], rows: int, folds: bool) -> Read:
    output = {step.name: step.shape for step in recording.steps}.get(recording.output)
    if output is None:
        raise RecordingError("the module returns what it is given, or one of its constants")
    sizes = (_size(step.shape or (), rows) for step in recording.steps)
    program = Program(
        steps=recording.steps,
        input=INPUT,
        output=recording.output,
        input_shape=shape,
        output_shape=output[1:],
        width=max((_size((FREE, *shape), rows), *sizes)),
    )
    return Read(program, recording.constants, recording.names, rows, folds)


def _size(shape: Sequence[int], rows: int) -> int:
    """How many numbers a row has; all of them, where there is one."""
    size = 1
    for length in shape if rows == 1 else shape[1:]:
        size *= 1 if length == FREE else length
    return size


@cache
def _becomes(func: OpOverload) -> Callable[..., Any] | None:
    """What an operation is made of; nothing where it stays whole."""
    kept = kept_whole()
    if func in kept:
        return None
    composite, others = told(kept)
    become = composite.get(func) or others.get(func)
    if become is None and func._can_decompose():
        become = func.decompose
    return become


class _Rows(NamedTuple):
    """A size that is so many times the number of rows."""

    times: int


@dataclass
class _Merged:
    """What two recordings have in common.

    Attributes:
        folds: By what rows were multiplied in first dimensions.
        sizes: Multiples of the number of rows that operations are told.
    """

    folds: set[int] = field(default_factory=lambda: {1})
    sizes: set[int] = field(default_factory=set)

    def recording(self, few: Recording, many: Recording) -> Recording:
        """Merge two recordings.

        Raises:
            RecordingError: If they differ in more than sizes.
        """
        if few.output != many.output:
            raise RecordingError(BRANCH)
        steps = [self._step(*pair) for pair in _pairs(few.steps, many.steps)]
        for name, tensor in few.constants.items():
            other = many.constants[name]
            if tensor.data_ptr() != other.data_ptr() and not _are_same(tensor, other):
                raise RecordingError("constants change from call to call")
        return replace(few, steps=(*_counted(self.sizes), *steps))

    def _step(self, few: Step, many: Step) -> Step:
        same = few.name == many.name and few.kwargs.keys() == many.kwargs.keys()
        if not same or few.target is not many.target:
            raise RecordingError(BRANCH)
        args = _both(few.args, many.args)
        if few.target in VIEWS:
            args = (args[0], _left_open(args[1]))
        kwargs = {key: _both(each, many.kwargs[key]) for key, each in few.kwargs.items()}
        shape = _both(few.shape, many.shape)
        if shape and isinstance(shape[0], _Rows):
            self.folds.add(shape[0].times)
        shape = shape and tuple(FREE if isinstance(each, _Rows) else each for each in shape)
        named = {key: self._told(each) for key, each in kwargs.items()}
        return replace(few, args=self._told(args), kwargs=named, shape=shape)

    def _told(self, given: Any) -> Any:
        """Arguments with names for sizes that hang on the number of rows."""
        if isinstance(given, _Rows):
            self.sizes.add(given.times)
            return Ref(_size_name(given.times))
        if isinstance(given, (list, tuple)):
            return type(given)(map(self._told, given))
        return given


def _both(few: Any, many: Any) -> Any:
    """What an argument is in two recordings."""
    if type(few) is not type(many):
        raise RecordingError(BRANCH)
    if isinstance(few, (list, tuple)):
        return type(few)(_both(*pair) for pair in _pairs(few, many))
    if few == many or (few != few and many != many):
        return few
    times, rest = divmod(few, FEW) if type(few) is int else (0, 1)
    if rest or times < 1 or times * MANY != many:
        raise RecordingError("numbers change from call to call")
    return _Rows(times)


def _pairs(few: Sequence[Any], many: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    if len(few) != len(many):
        raise RecordingError(BRANCH)
    return zip(few, many, strict=True)


def _left_open(lengths: Sequence[Any]) -> list[Any]:
    """A shape, in which one length that hangs on the number of rows need not be told."""
    free = [isinstance(each, _Rows) for each in lengths]
    if sum(free) != 1 or -1 in lengths:
        return list(lengths)
    return [-1 if isinstance(each, _Rows) else each for each in lengths]


def _are_same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def _size_name(times: int) -> str:
    return f"rows/{times}"  # no operation is called so


def _counted(sizes: Iterable[int]) -> Iterator[Step]:
    """Steps that find multiples of the number of rows."""
    single = _size_name(1)
    if sizes:
        yield Step(single, SIZE, (Ref(INPUT), 0))
    for times in sorted({*sizes} - {1}):
        yield Step(_size_name(times), operator.mul, (Ref(single), times))
