"""One line that says how far a training is, how fast, and how long it will take."""

import sys
import time
from typing import TextIO


class Progress:
    """Rewrites one line on a terminal; says nothing anywhere else.

    Args:
        total: Images in the whole training.
        done: Images of an earlier run that need not be repeated.
        stream: Where to write; standard error by default.
        show: Write, or not; ``None`` for only on a terminal.
        every: Seconds between two updates.
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        stream: TextIO | None = None,
        show: bool | None = None,
        every: float = 0.5,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._show = self._stream.isatty() if show is None else show
        self._total, self._done, self._first = total, done, done
        self._every = every
        self._start = time.perf_counter()
        self._written = -every
        self._width = 0

    def advance(self, images: int, text: str) -> None:
        """Count images, and write when it is time."""
        self._done += images
        elapsed = time.perf_counter() - self._start
        if not self._show or elapsed - self._written < self._every:
            return
        self._written = elapsed
        rate = (self._done - self._first) / max(elapsed, 1e-9)
        left = (self._total - self._done) / max(rate, 1e-9)
        self._write(f"{text}  {rate:,.0f} images/s  {clock(left)} left")

    def close(self) -> None:
        """Leave the line behind."""
        if self._show and self._width:
            self._stream.write("\n")
            self._stream.flush()

    def _write(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)


def clock(seconds: float) -> str:
    """Write a duration as minutes and seconds, or hours.

    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
