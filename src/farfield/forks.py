"""Work in a process of its own: two threads share one interpreter, two processes do not.

To fork is safe as long as there is one thread, so the system is asked. Where it does not tell (it
is not Linux), or there are more threads, there is no other process, and whoever wanted one does the
work himself.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

TASKS = Path("/proc/self/task")


@contextmanager
def forked(work: Callable[[Connection], None]) -> Iterator[Connection | None]:
    """Run ``work`` in another process meanwhile, at the other end of a pipe.

    The process ends with the block. Interrupts are for the first process, which ends this one.

    Yields:
        Our end of the pipe; ``None`` where it is not safe to fork.
    """
    if not _has_one_thread():
        yield None
        return
    fork = get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_run, args=(work, theirs, ours), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.kill()
        process.join()


def _run(work: Callable[[Connection], None], pipe: Connection, other_end: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    other_end.close()
    work(pipe)


def _has_one_thread() -> bool:
    """Whether nothing else runs in this process, threads of libraries included."""
    try:
        return sum(1 for _ in TASKS.iterdir()) == 1
    except OSError:
        return False
