"""What does a guard cost: to make, and in front of every prediction?"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.infinity import mlp
from benchmarks.missing import NotHere
from benchmarks.timing import in_turn
from farfield.guard import guard

QUESTION = (
    "Guarding 100,000 rows of 30 features takes how many seconds of one core? How many times the "
    "plain model's time does the guarded one take: for one row and for batches of 1,000, on tables "
    "(30-64-64-2, 30-256-256-2), pixels (784-1024-1024-10) and with XGBoost's 500 trees; for rows "
    "like the data, and for rows that are all outside? Processor time on one thread, the best of "
    "many turns, side by side; single rows are twenty different ones, one after the other. By how "
    "many megabytes is an ONNX file larger than the model's weights?"
)
TARGETS = {
    "guard_100000_rows_seconds": "<= 10",
    "batch_1000_overhead": "<= 1.3",
    "one_row_overhead": "<= 1.5",
    "pixels_batch_1000_overhead": "<= 1.3",
    "pixels_one_row_overhead": "<= 1.5",
    "xgboost_batch_1000_overhead": "<= 1.2",
    "onnx_growth_megabytes": "<= 5",
    "pixels_onnx_growth_megabytes": "<= 5",
}
ROWS, COLUMNS, BATCH, SINGLES = 100_000, 30, 1000, 20
PIXEL_ROWS, SIDE = 5000, 28
TREES, TREE_ROWS = 500, 5000


def measure() -> dict[str, Any]:
    """Time the guard and its predictions, on one thread.

    NumPy's threads, too: they go on waiting for more in a loop, which would count.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return {**_tables(), **_pixels(), **_trees()}
    finally:
        torch.set_num_threads(threads)


def _rows(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Correlated normal columns."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(COLUMNS, COLUMNS))
    return np.asarray(rng.normal(size=(count, COLUMNS)) @ mixing, dtype=np.float32)


def _images(count: int) -> NDArray[np.float32]:
    """Smooth pictures between 0 and 1: random waves."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0.0, 1.0, SIDE)
    waves = np.cos(np.pi * np.arange(8)[:, None] * grid)
    weights = rng.normal(size=(count, 8, 8)) / (1.0 + np.add.outer(np.arange(8), np.arange(8)))
    found = np.einsum("nij,ia,jb->nab", weights, waves, waves).reshape(count, -1)
    return np.asarray(1.0 / (1.0 + np.exp(-found)), dtype=np.float32)


def _tables() -> dict[str, Any]:
    rows = _rows(ROWS)
    model = mlp(COLUMNS, 256, 256, 2).float()
    # Imports and the first export are paid once, by whatever is guarded first.
    guard(model, rows[:500])
    start = time.process_time()
    safe = guard(model, rows)
    seconds = time.process_time() - start
    small = mlp(COLUMNS, 64, 64, 2).float()
    found = _ratios(model, safe, rows, 300, "")
    found |= _ratios(small, guard(small, rows), rows, 300, "small_")
    return {
        "guard_100000_rows_seconds": seconds,
        **found,
        "onnx_growth_megabytes": _growth(model, safe),
        "views": [view.name for view in safe.certificate.views],
        "training_rows_inside": safe.certificate.training.share,
    }


def _pixels() -> dict[str, Any]:
    rows = _images(PIXEL_ROWS)
    model = mlp(SIDE * SIDE, 1024, 1024, 10).float()
    safe = guard(model, rows, metric="isotropic")
    return {
        **_ratios(model, safe, rows, 80, "pixels_"),
        "pixels_onnx_growth_megabytes": _growth(model, safe),
        "pixels_views": [view.name for view in safe.certificate.views],
    }


def _growth(model: Any, safe: Any) -> float:
    """Megabytes of a guarded file beyond the model's own weights."""
    own = sum(weights.numel() * weights.element_size() for weights in model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "safe.onnx"
        safe.to_onnx(path)
        return (path.stat().st_size - own) / 1e6


def _ratios(
    model: Any, safe: Any, rows: NDArray[np.float32], repeats: int, name: str
) -> dict[str, float]:
    inside = torch.from_numpy(rows[:BATCH])
    outside, singles = inside * 30.0, inside[:SINGLES].split(1)
    calls: dict[str, Callable[[], object]] = {
        "plain": lambda: model(inside),
        "guarded": lambda: safe(inside),
        "outside": lambda: safe(outside),
        "plain_row": lambda: [model(one) for one in singles],
        "guarded_row": lambda: [safe(one) for one in singles],
    }
    with torch.no_grad():
        best = in_turn(calls, repeats, time.process_time)
    return {
        f"{name}batch_1000_overhead": best["guarded"] / best["plain"],
        f"{name}batch_1000_overhead_all_outside": best["outside"] / best["plain"],
        f"{name}one_row_overhead": best["guarded_row"] / best["plain_row"],
        f"{name}plain_batch_seconds": best["plain"],
        f"{name}plain_row_seconds": best["plain_row"] / SINGLES,
    }


def _trees() -> dict[str, Any]:
    try:
        from xgboost import XGBClassifier
    except ImportError as reason:
        raise NotHere("needs xgboost: pip install 'farfield[bench]'") from reason
    rows = _rows(TREE_ROWS)
    labels = (np.abs(rows[:, 0]) > np.abs(rows[:, 1])).astype(int)
    model = XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, random_state=0)
    model.fit(rows, labels)
    safe = guard(model.predict_proba, rows, labels=labels)
    batch, one = rows[:BATCH], rows[:1]
    best = in_turn(
        {
            "plain": lambda: model.predict_proba(batch),
            "guarded": lambda: safe.predict_proba(batch),
            "plain_row": lambda: model.predict_proba(one),
            "guarded_row": lambda: safe.predict_proba(one),
        },
        300,
        time.process_time,
    )
    return {
        "xgboost_batch_1000_overhead": best["guarded"] / best["plain"],
        "xgboost_one_row_overhead": best["guarded_row"] / best["plain_row"],
        "xgboost_plain_batch_seconds": best["plain"],
        "xgboost_views": [view.name for view in safe.certificate.views],
    }
