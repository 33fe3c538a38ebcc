"""Watch a reader: what it opens for writing, starts or loads, and for how long it works."""

import contextlib
import os
import signal
import sys
from pathlib import Path

# More seconds of work than a small file may ask for; and of waiting, on a busy machine.
MOST_WORK, MOST_WAITING = 10.0, 120.0
FORBIDDEN = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn",
    "subprocess.Popen", "socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request",
    "pickle.find_class", "marshal.loads", "ctypes.dlopen", "code.__new__",
)  # fmt: skip
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class Hang(BaseException):
    """A reader took too long."""


class Watch:
    """What happened that must not.

    An audit hook of Python cannot be taken off again; there is one, which looks on only while
    ``watching``.
    """

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.found = []
        self._on = False
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def watching(self):
        """Look on, with an alarm set."""
        self.found.clear()
        old = [signal.signal(number, _hang) for number in (signal.SIGPROF, signal.SIGALRM)]
        signal.setitimer(signal.ITIMER_PROF, MOST_WORK)
        signal.setitimer(signal.ITIMER_REAL, MOST_WAITING)
        self._on = True
        try:
            yield
        finally:
            self._on = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in zip((signal.SIGPROF, signal.SIGALRM), old, strict=True):
                signal.signal(number, handler)

    def _hear(self, event, args):
        if not self._on:
            return
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & WRITING and not self._inside(path):
                self.found.append(f"{path} was opened for writing")
        elif event.startswith(FORBIDDEN):
            if event == "marshal.loads" or (event == "code.__new__"):
                return  # how Python itself imports modules
            self.found.append(f"{event} {args!r:.200}")
        elif event in CHANGES and not self._inside(args[0]):
            self.found.append(f"{event} {args!r:.200}")

    def _inside(self, path):
        if not isinstance(path, str | bytes | Path):
            return isinstance(path, int)  # a descriptor that was opened before
        return os.path.realpath(os.fsdecode(path)).startswith((self.folder + os.sep, "/dev/null"))


def _hang(number, frame):
    raise Hang("waiting" if number == signal.SIGALRM else "working")
