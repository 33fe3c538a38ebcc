"""Changes of single inputs: what a model says of them, and the smallest that it agrees with.

Floats are coarser than exact places, and a threshold belongs to one side: so places are moved
outwards by as little as it takes until the model itself agrees. Models that cannot be walked are
looked at in steps that grow; what is found there holds, but may not be the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ask = Callable[[Floats], Floats]
# How many numbers the rows of one question may hold, and how many rows.
BLOCK, ROWS = 1 << 20, 4096
# How far outwards a place is moved at most, in units of the last place: 0, 1, 4, 16, ...
NUDGES = (0.0, *(4.0**power for power in range(19)))
# Where models are looked at, in standard deviations, and how often a change is halved then.
STEPS = tuple(float(digit * 10.0**power) for power in range(-3, 6) for digit in (1, 2, 5))
HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Entries:
    """Pairs of a row and an input, each to be changed alone, one way.

    Attributes:
        row: ``(entries,)``.
        place: ``(entries,)`` the input.
        sign: ``(entries,)`` up or down.
        stop: ``(entries,)`` how far it may go.
    """

    row: NDArray[np.int64]
    place: NDArray[np.int64]
    sign: Floats
    stop: Floats

    def __getitem__(self, some: Any) -> Entries:
        return Entries(self.row[some], self.place[some], self.sign[some], self.stop[some])

    def __len__(self) -> int:
        return len(self.row)


Holds = Callable[[Entries, Floats], Flags]


@dataclass(frozen=True, eq=False)
class Asker:
    """Asks a model about rows with single inputs changed.

    Attributes:
        ask: From rows to the model's own probabilities, ``(rows, classes)``.
        rows: ``(rows, inputs)``.
        before: ``(rows, classes)`` what it says of them.
        scale: ``(inputs,)`` a standard deviation.
        level: The confidence that counts as sure.
    """

    ask: Ask
    rows: Floats
    before: Floats
    scale: Floats
    level: float

    def blocks(self, count: int) -> Iterator[slice]:
        """So many entries, as many at a time as memory should hold."""
        size = int(np.clip(BLOCK // self.rows.shape[1], 16, ROWS))
        return (slice(first, first + size) for first in range(0, count, size))

    def look(self, entries: Entries, holds: Holds) -> Floats:
        """Look in steps that grow; then halve what was found. Infinite where nothing was."""
        reached, before = np.full(len(entries), np.inf), np.zeros(len(entries))
        open_ = np.arange(len(entries))
        reached[holds(entries, np.zeros(len(entries)))] = 0.0
        open_ = open_[np.isinf(reached)]
        for step in STEPS:
            if not len(open_):
                break
            some = entries[open_]
            t = np.minimum(step * self.scale[some.place], some.stop)
            good = holds(some, t)
            reached[open_[good]] = t[good]
            before[open_[~good]] = t[~good]
            open_ = open_[~good & (t < some.stop)]
        return self._halved(entries, before, reached, holds)

    def _halved(self, entries: Entries, low: Floats, high: Floats, holds: Holds) -> Floats:
        """Bring what holds at ``high`` and not at ``low`` closer together."""
        chosen = np.flatnonzero(np.isfinite(high) & (high > 0))
        some, low, best = entries[chosen], low[chosen], high[chosen]
        for _ in range(HALVINGS if len(chosen) else 0):
            middle = low + (best - low) / 2
            good = holds(some, middle)
            best, low = np.where(good, middle, best), np.where(good, low, middle)
        found = high.copy()
        found[chosen] = best
        return found

    def confirmed(self, entries: Entries, t: Floats, holds: Holds) -> tuple[Floats, Flags]:
        """Move places outwards until the model itself agrees; and which of them are confirmed.

        Those that are not are looked for in steps instead, and are not exact.
        """
        found, kept = t.copy(), np.ones(len(t), dtype=bool)
        open_ = np.flatnonzero(np.isfinite(t))
        size = np.abs(self.rows[entries.row, entries.place])
        unit = np.finfo(np.float64).eps * (size + np.where(np.isfinite(t), t, 0.0))
        for nudge in NUDGES:
            if not len(open_):
                break
            some = entries[open_]
            tried = np.minimum(t[open_] + nudge * unit[open_], some.stop)
            good = holds(some, tried)
            found[open_[good]] = tried[good]
            open_ = open_[~good]
        if len(open_):
            kept[open_] = False
            found[open_] = self.look(entries[open_], holds)
        return found, kept

    def flips(self, entries: Entries, t: Floats) -> Flags:
        """Whether the class is another one that far away."""
        before = self.before.argmax(axis=1)[entries.row]
        return np.asarray(self.labels(entries, t) != before)

    def is_sure(self, entries: Entries, t: Floats) -> Flags:
        """Whether some class has the level that far away."""
        return np.asarray(self._asked(entries, t, lambda p: p.max(axis=1)) >= self.level)

    def labels(self, entries: Entries, t: Floats) -> NDArray[np.int64]:
        """The class that far away; -1 where that is nowhere."""
        found = self._asked(entries, t, lambda p: p.argmax(axis=1)).astype(np.int64)
        found[~np.isfinite(t)] = -1
        return found

    def _asked(self, entries: Entries, t: Floats, what: Callable[[Floats], Any]) -> Floats:
        """What the model says with single inputs changed; a change is added as users would."""
        found = np.zeros(len(entries))
        known = np.flatnonzero(np.isfinite(t))
        for part in self.blocks(len(known)):
            chosen = known[part]
            some = entries[chosen]
            rows = self.rows[some.row]
            rows[np.arange(len(some)), some.place] += some.sign * t[chosen]
            found[chosen] = what(self.ask(rows))
        return found
