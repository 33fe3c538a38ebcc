"""Modules, traced to networks: all rows of a batch at once, or one at a time where that must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from farfield.errors import CaptureError, UnsupportedOperation
from farfield.graph.assemble import mixture
from farfield.graph.categories import read_categories
from farfield.graph.export import (
    Read,
    as_example,
    first_line,
    module_dtype,
    quiet_export,
)
from farfield.graph.heads import Head, Member
from farfield.graph.network import Network
from farfield.graph.one_row import one_row
from farfield.graph.outcome import agrees
from farfield.graph.program import Program
from farfield.graph.recorded import exported_steps, read_steps, replayed
from farfield.graph.refusals import RowsMoved
from farfield.graph.rules import RULES
from farfield.graph.simplify import simplify

Reader = Callable[..., Read]
# An example shows the shape of an input; more rows would only cost time.
EXAMPLE_ROWS = 4
INFLUENCE = (
    "rows of a batch influence one another in {}: it answers otherwise when they are asked one by "
    "one, so a single ray cannot be followed; normalise with running statistics"
)


@dataclass(frozen=True, eq=False)
class Traced:
    """A module, read once.

    Attributes:
        network: What it is to analyses.
        program: Its own operations, one by one.
        constants: Its own weights, by name.
        names: What the module calls them.
        head: What was taken off at its end.
        members: The members of a mean, without it.
    """

    network: Network
    program: Program
    constants: Mapping[str, Tensor]
    names: Mapping[str, str]
    head: Head
    members: Sequence[Member]

    @property
    def per_row(self) -> bool:
        """Whether rows are read one at a time."""
        return self.members[0].program.per_row


def trace(module: nn.Module, example: Tensor, *, dtype: torch.dtype = torch.float64) -> Traced:
    """Capture a module, and keep the program that it was read from.

    Args:
        module: The module.
        example: One batch of inputs.
        dtype: The floating-point type of the analysis.

    Raises:
        CaptureError: If it cannot be read.
    """
    rows = as_example(example)[:EXAMPLE_ROWS]
    # A module may do something else while it is watched; torch.export has the last word.
    for read in (read_steps, exported_steps):
        found = _traced(module, rows, dtype, read)
        if agrees(found.network, module, rows):
            return found
    if found.per_row and agrees(found.network, module, rows, one_by_one=True):
        raise CaptureError(INFLUENCE.format(type(module).__name__))
    raise CaptureError(
        f"the captured {type(module).__name__} gives other numbers than the model on the "
        "example; its forward() probably uses random numbers or changes its state"
    )


def _traced(module: nn.Module, rows: Tensor, dtype: torch.dtype, read: Reader) -> Traced:
    """Trace all rows of a batch at once, or one at a time."""
    free: _Export | None = None
    try:
        free = _Export(read(module, rows))
        return free.traced(dtype)
    except CaptureError as error:
        if isinstance(error, UnsupportedOperation) and not isinstance(error, RowsMoved):
            raise
        return _row_by_row(module, rows, dtype, error, free, read)


def _row_by_row(
    module: nn.Module,
    rows: Tensor,
    dtype: torch.dtype,
    error: CaptureError,
    free: _Export | None,
    read: Reader = read_steps,
) -> Traced:
    """Trace a batch of one row, where a whole batch cannot be followed for the given reason."""
    try:
        single = _Export(read(module, rows[:1], one_row=True), True)
        if not single.has_rows:
            raise error
        found = single.traced(dtype)
    except CaptureError as second:
        known = isinstance(second, UnsupportedOperation) or isinstance(error, RowsMoved)
        raise (second if known else error) from None
    if free is None:
        return found
    # What the model itself computes is told as it stands, rows and all.
    return replace(found, program=free.read.program, constants=free.read.constants)


def read_script(module: torch.jit.ScriptModule, rows: Tensor, dtype: torch.dtype) -> Network:
    """Read a module of TorchScript.

    Raises:
        CaptureError: If it cannot be read.
    """
    from torch._export.converter import TS2EPConverter  # PyTorch's own way; not public

    try:
        with quiet_export():
            exported = TS2EPConverter(
                module, (rows.to(module_dtype(module, rows.dtype)),), {}
            ).convert()
    except Exception as error:  # torch documents no common base of what it raises
        raise CaptureError(
            f"PyTorch could not convert the TorchScript module: {first_line(error)}. Pass the "
            "module that it was made of."
        ) from error
    network = read_program(exported, dtype)
    if not agrees(network, module, rows):
        raise CaptureError("the TorchScript module gives other numbers than what was read of it")
    return network


def read_whole(read: Read, dtype: torch.dtype) -> Network:
    """Make a network of what was read, all rows of a batch at once.

    Raises:
        CaptureError: If that cannot be.
    """
    return _Export(read).traced(dtype).network


def read_program(exported: ExportedProgram, dtype: torch.dtype) -> Network:
    """Make a network of what was exported before: all rows at once, or else one at a time.

    Raises:
        CaptureError: If it cannot be read.
    """
    whole = _Export(replayed(exported))
    try:
        return whole.traced(dtype).network
    except CaptureError as error:
        if isinstance(error, UnsupportedOperation) and not isinstance(error, RowsMoved):
            raise
        if whole.read.rows > 1:
            raise
        if whole.read.rows == 1:
            single = replace(whole, per_row=True)
            if not single.has_rows:
                raise
            return single.traced(dtype).network
        row = torch.zeros(1, *whole.read.program.input_shape, dtype=whole.floating)
        found = _row_by_row(exported.module(check_guards=False), row, dtype, error, whole)
    if not agrees(
        found.network, exported.module(check_guards=False), row.expand(2, *row.shape[1:])
    ):
        raise CaptureError(INFLUENCE.format("the exported program"))
    return found.network


@dataclass(frozen=True, eq=False)
class _Export:
    """What was read of a module, and whether rows are to be read one at a time."""

    read: Read
    per_row: bool = False

    @property
    def floating(self) -> torch.dtype:
        """The floating-point type of the weights; single precision without any."""
        kinds = (each.dtype for each in self.read.constants.values() if each.is_floating_point())
        return next(kinds, torch.float32)

    @property
    def has_rows(self) -> bool:
        """Whether the output of a batch of one has one row."""
        shapes = {step.name: step.shape for step in self.read.program.steps}
        return (shapes.get(self.read.program.output) or (1,))[:1] == (1,)

    def traced(self, dtype: torch.dtype) -> Traced:
        """Simplify what was traced, and make a network of it."""
        own, constants, names, rows, folds = self.read
        codes = read_categories(own, constants)
        head, members = simplify(codes.program, constants, rows, per_row=self.per_row)
        if folds and not self.per_row and any(map(_grows, members)):
            raise RowsMoved("growth is not followed where rows are folded into another dimension")
        network = mixture(members, constants, head, dtype)
        if codes.counts:
            network = replace(network, columns=codes.columns)
        program = one_row(own) if self.per_row else own
        return Traced(network, program, constants, names, head, members)


def _grows(member: Member) -> bool:
    """Whether slopes and intercepts are not enough for a member."""
    targets = (step.target for step in member.program.steps if not step.constant)
    return any(target in RULES and RULES[target].kind == "growth" for target in targets)
