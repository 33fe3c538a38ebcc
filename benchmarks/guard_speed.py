"""What does a guard cost: to make, and in front of every prediction?"""

import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.infinity import mlp
from benchmarks.timing import in_turn
from farfield.guard import guard

QUESTION = (
    "Guarding 100,000 rows of 30 features takes how many seconds? How many times the plain "
    "network's time does the guarded one take for one row and for batches of 1,000 rows, on "
    "30-256-256-2 in float32: rows like the data, and rows that are all outside?"
)
TARGETS = {
    "guard_100000_rows_seconds": "<= 10",
    "batch_1000_overhead": "<= 1.3",
    "one_row_overhead": "<= 1.5",
}
ROWS, COLUMNS, BATCH = 100_000, 30, 1000


def measure() -> dict[str, float]:
    """Time the guard and its predictions, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure()
    finally:
        torch.set_num_threads(threads)


def _measure() -> dict[str, float]:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(COLUMNS, COLUMNS))
    rows = (rng.normal(size=(ROWS, COLUMNS)) @ mixing).astype(np.float32)
    model = mlp(COLUMNS, 256, 256, 2).float()
    start = time.perf_counter()
    safe = guard(model, rows)
    seconds = time.perf_counter() - start
    inside = torch.from_numpy(rows[:BATCH])
    outside = inside * 30.0
    calls: dict[str, Callable[[], object]] = {
        "plain": lambda: model(inside),
        "guarded": lambda: safe(inside),
        "guarded_outside": lambda: safe(outside),
        "plain_row": lambda: model(inside[:1]),
        "guarded_row": lambda: safe(inside[:1]),
    }
    with torch.no_grad():
        best = in_turn(calls, 600)
    return {
        "guard_100000_rows_seconds": seconds,
        "batch_1000_overhead": best["guarded"] / best["plain"],
        "batch_1000_overhead_all_outside": best["guarded_outside"] / best["plain"],
        "one_row_overhead": best["guarded_row"] / best["plain_row"],
        "plain_batch_seconds": best["plain"],
        "guarded_batch_seconds": best["guarded"],
        "plain_row_seconds": best["plain_row"],
        "guarded_row_seconds": best["guarded_row"],
        "training_rows_inside": safe.certificate.training.share,
    }
