"""The console that commands print tables on."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """A console that leaves a closed pipe to its caller, instead of exiting with code 1."""

    def on_broken_pipe(self) -> None:
        """Say what happened; there is nobody left to write for."""
        self.quiet = True
        raise BrokenPipeError
