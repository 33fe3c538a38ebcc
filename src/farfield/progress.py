"""The one display of progress: a line on standard error, where somebody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Show(Protocol):
    """Takes the name of a stage and the share of it that is done."""

    def __call__(self, stage: str, done: float = 0.0) -> None:
        """Show it."""


@contextmanager
def stages(shown: bool | None = None) -> Iterator[Show]:
    """Show the stage of something long, and how much of it is done.

    Args:
        shown: Whether to; ``None`` for only if standard error is a terminal.
    """
    console = Console(stderr=True, force_terminal=shown or None)
    if not (console.is_terminal if shown is None else shown):
        yield lambda _stage, _done=0.0: None
        return
    text = TextColumn("{task.description:<12}")
    columns = (text, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        line = progress.add_task("", total=1.0)

        def show(stage: str, done: float = 0.0) -> None:
            progress.update(line, description=stage, completed=done)

        yield show
