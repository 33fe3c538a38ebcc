"""The one display of progress: a line on standard error, where somebody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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
    if shown is False:
        yield lambda _stage, _done=0.0: None
        return
    # Takes a while to load, for what nobody may see.
    from rich import progress as bars
    from rich.console import Console

    console = Console(stderr=True, force_terminal=shown or None)
    if not (console.is_terminal if shown is None else shown):
        yield lambda _stage, _done=0.0: None
        return
    text = bars.TextColumn("{task.description:<12}")
    clocks = bars.TimeElapsedColumn(), bars.TimeRemainingColumn()
    with bars.Progress(
        text, bars.BarColumn(), *clocks, console=console, transient=True
    ) as progress:
        line = progress.add_task("", total=1.0)

        def show(stage: str, done: float = 0.0) -> None:
            progress.update(line, description=stage, completed=done)

        yield show
