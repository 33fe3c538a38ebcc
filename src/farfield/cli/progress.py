"""Progress on a terminal, and none when output is piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Show the stages of a long command on standard error, one line each.

    Yields:
        A function of the name of a stage and the share of it that is done.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _stage, _done: None
        return
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        known: dict[str, TaskID] = {}

        def show(stage: str, done: float) -> None:
            if stage not in known:
                known[stage] = progress.add_task(stage, total=1.0)
            progress.update(known[stage], completed=done)

        yield show
