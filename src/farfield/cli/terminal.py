"""What commands show: output whose reader may leave, and progress where somebody watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class Show(Protocol):
    """Takes the name of a stage and the share of it that is done."""

    def __call__(self, stage: str, done: float = 0.0) -> None:
        """Show it."""


class Output(Console):
    """A console that leaves a closed pipe to its caller, instead of exiting with code 1."""

    def on_broken_pipe(self) -> None:
        """Say what happened; there is nobody left to write for."""
        self.quiet = True
        raise BrokenPipeError


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Write the rest nowhere if the reader leaves, as ``| head`` does; the exit code counts."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def stages(quiet: bool = False) -> Iterator[Show]:
    """Show the stage of a long command in one line on standard error; nothing if it is piped."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _stage, _done=0.0: None
        return
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        line = progress.add_task("", total=1.0)

        def show(stage: str, done: float = 0.0) -> None:
            progress.update(line, description=stage, completed=done)

        yield show
