"""Time calls side by side."""

import time
from collections.abc import Callable


def in_turn(
    calls: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Time calls in turn, so that all meet the same machine; the best of each."""
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = clock()
            call()
            if turn:
                best[name] = min(best[name], clock() - start)
    return best
