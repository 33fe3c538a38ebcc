"""A second process for half of an audit.

It is forked by a command that has loaded everything and begun nothing, and waits for work. Where
that is not safe, or there is no second core, whoever wanted it done does the work himself. So he
does if anything goes wrong there: then it goes wrong again, and is reported from where it belongs.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, final

import torch

from farfield.forks import forked

Receive = Callable[[], Any]
# What is handed over is copied; more than this costs more than it saves.
MOST_BYTES = 1 << 27
GUARDS = ("farfield.guard.function", "farfield.guard.model", "farfield.guard.protect")

_WAITING: list[SecondProcess] = []


@final
class SecondProcess:
    """The other end of a pipe. It takes one piece of work, and gives one answer."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def send(self, value: Any) -> None:
        """Send what the work receives next."""
        self.send_bytes(pickle.dumps(value))

    def send_bytes(self, message: bytes) -> None:
        """Send what is pickled already; a process that has died is found out later."""
        with suppress(OSError):
            self._pipe.send_bytes(message)

    def is_done(self) -> bool:
        """Whether there is an answer, or nobody left to give one."""
        try:
            return self._pipe.poll()
        except OSError:
            return True

    def answer(self) -> Any:
        """Wait for what the work returned; ``None`` if it failed, or the process has died."""
        try:
            return pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            return None


@contextmanager
def second_process() -> Iterator[None]:
    """Have a second process wait for work meanwhile, if that is safe and there is a core for it."""
    if torch.get_num_threads() == 1:
        yield
        return
    with forked(_serve) as pipe:
        if pipe is not None:
            _WAITING.append(SecondProcess(pipe))
        try:
            yield
        finally:
            _WAITING.clear()


def begin(work: Callable[[Any, Receive], Any], given: Callable[[], Any]) -> SecondProcess | None:
    """Begin ``work(given(), receive)`` in the process that waits, if one does."""
    if not _WAITING:
        return None
    try:
        message = pickle.dumps((work, given()))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    if len(message) > MOST_BYTES:
        return None
    second = _WAITING.pop()
    second.send_bytes(message)
    return second


def _serve(pipe: Connection) -> None:
    """Do one piece of work."""
    torch.set_num_threads(1)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(pipe, inbox), daemon=True).start()
    with suppress(Exception):
        # Loaded while the first process reads model and data.
        for name in GUARDS:
            import_module(name)

    def receive() -> Any:
        return pickle.loads(inbox.get())

    answer = pickle.dumps(None)
    with suppress(Exception):
        work, given = receive()
        answer = pickle.dumps(work(given, receive))
    with suppress(OSError):
        pipe.send_bytes(answer)


def _receive(pipe: Connection, inbox: SimpleQueue[bytes]) -> None:
    """Take messages as they come, so that nobody waits; leave when the first process has ended."""
    with suppress(EOFError, OSError):
        while True:
            inbox.put(pipe.recv_bytes())
    os._exit(0)
