"""What do all scores of an ensemble's probabilities cost, next to reading them once?"""

import tracemalloc
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import in_turn
from farfield.scores import all_scores

QUESTION = (
    "All scores of (10, 1,000,000, 10) float32 probabilities in one call: how many times the time "
    "of summing that array once, and how much extra memory?"
)
# The tensor is measured too, without a target: torch sums with several threads.
TARGETS = {"ratio_numpy": "<= 10"}


def measure(points: int = 1_000_000, repeats: int = 7) -> dict[str, float | int]:
    """Time sums and scores in turn, so that both meet the same machine; the best of each."""
    logits = np.random.default_rng(0).standard_normal((10, points, 10), dtype=np.float32)
    p = torch.from_numpy(logits).mul_(3.0).softmax(dim=-1).numpy()
    del logits
    tensor = torch.from_numpy(p)
    calls: dict[str, Callable[[], object]] = {
        "numpy_sum": p.sum,
        "numpy_scores": lambda: all_scores(p),
        "torch_sum": tensor.sum,
        "torch_scores": lambda: all_scores(tensor),
    }
    best = in_turn(calls, repeats)
    tracemalloc.start()
    scores = all_scores(p)
    results = sum(values.nbytes for values in scores.values())
    extra = tracemalloc.get_traced_memory()[1] - results
    tracemalloc.stop()
    return {
        "points": points,
        "threads": torch.get_num_threads(),
        **{f"{name}_seconds": seconds for name, seconds in best.items()},
        "ratio_numpy": best["numpy_scores"] / best["numpy_sum"],
        "ratio_torch": best["torch_scores"] / best["torch_sum"],
        "array_megabytes": p.nbytes / 1e6,
        "extra_megabytes": extra / 1e6,
    }


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:22} {value:.4g}")
