"""All scores of a numpy array in one sweep over memory, a cache-sized block of points at a time.

The array is read from main memory once. Per block, the instances are reduced first, along the
contiguous direction; only what is left, ``(points, classes)``, is summed over classes. The
logarithm, the expensive part, is taken once per entry. Extra memory is one block and a few
``(points, classes)`` arrays per thread, whatever the number of points.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from farfield.scores.simplex import ProbabilityScore, refuse, sum_tolerance

_BLOCK_BYTES = 3 << 20
_INSTANCE_GROUP = 32
_SHORT_ROW = 32

_OF_EACH_INSTANCE = frozenset({"expected_entropy", "mutual_information"})


def sweep(
    p: NDArray[Any], wanted: Sequence[ProbabilityScore], factor: float
) -> dict[str, NDArray[Any]]:
    """Compute the wanted scores of ``(instances, points, classes)``; entropies times factor.

    float16 is computed, and returned, in float32. Uses as many threads as torch would.
    """
    instances, points, classes = p.shape
    dtype = np.result_type(p.dtype, np.float32)
    tolerance = sum_tolerance(float(np.finfo(p.dtype).eps))
    out: dict[str, NDArray[Any]] = {name: np.empty(points, dtype) for name in wanted}
    step = max(1, _BLOCK_BYTES // (instances * classes * dtype.itemsize))
    starts = range(0, points, step)

    def work(mine: Sequence[int]) -> None:
        """Sweep over some blocks; numpy lets other threads run meanwhile."""
        block = _Block(instances, min(step, points), classes, dtype)
        for start in mine:
            part = p[:, start : start + step]
            into = {name: scores[start : start + step] for name, scores in out.items()}
            # Logarithms of zero are looked after; NaN and infinite input is refused below.
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                if not block.score(part.astype(dtype, copy=False), into, tolerance, factor):
                    refuse(part, start)

    workers = min(torch.get_num_threads(), len(starts))
    if workers == 1:
        work(starts)
    else:
        # Neighbouring blocks go to one worker, so that the first error is about the first block.
        share = -(-len(starts) // workers)
        shares = [starts[k * share : (k + 1) * share] for k in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, shares))
    return out


class _Block:
    """One thread's scratch memory, and the arithmetic on a block of points."""

    def __init__(self, instances: int, points: int, classes: int, dtype: np.dtype[Any]) -> None:
        self._scratch = np.empty((instances, points, classes), dtype)
        self._ones = np.ones(classes, dtype)
        self._seen_zeros = False

    def score(
        self, p: NDArray[Any], out: dict[str, NDArray[Any]], tolerance: float, factor: float
    ) -> bool:
        """Write scores of ``p`` into ``out``; False when a row is not a distribution."""
        instances, points, classes = p.shape
        sums = np.matmul(p, self._ones)
        if not (1 - tolerance <= sums.min() and sums.max() <= 1 + tolerance):
            return False
        logarithms = not _OF_EACH_INSTANCE.isdisjoint(out)
        if not logarithms and p.min() < 0:
            return False
        mean = _sum(p)
        mean /= instances
        if "one_minus_max_probability" in out:
            self._one_minus_max(mean, out["one_minus_max_probability"])
        if "class_variance" in out:
            deviation = np.subtract(p, mean, out=self._scratch[:, :points])
            variance = out["class_variance"]
            np.matmul(_sum_of_products(deviation, deviation), self._ones, out=variance)
            variance /= instances * classes
        if "predictive_entropy" in out or logarithms:
            total = self._entropy(mean[None], factor)
            data = self._entropy(p, factor / instances) if logarithms and instances > 1 else total
            # The logarithm of a negative entry is NaN, which saves a pass that looks for them.
            if np.isnan(data).any():
                return False
            self._write_entropies(total, data, out)
        return True

    def _one_minus_max(self, mean: NDArray[Any], out: NDArray[Any]) -> None:
        """Write ``1 - max_c m``; short rows go column by column, which is several times faster."""
        if mean.shape[1] > _SHORT_ROW:
            np.max(mean, axis=1, out=out)
        else:
            np.maximum(mean[:, 0], mean[:, 1], out=out)
            for column in mean.T[2:]:
                np.maximum(out, column, out=out)
        np.subtract(1, out, out=out)
        np.maximum(out, 0, out=out)

    def _write_entropies(
        self, total: NDArray[Any], data: NDArray[Any], out: dict[str, NDArray[Any]]
    ) -> None:
        """Write the entropy of the mean, the mean entropy and their difference."""
        if "predictive_entropy" in out:
            out["predictive_entropy"][:] = total
        if "expected_entropy" in out:
            out["expected_entropy"][:] = data
        if "mutual_information" in out:
            np.subtract(total, data, out=out["mutual_information"])
            np.maximum(out["mutual_information"], 0, out=out["mutual_information"])

    def _entropy(self, p: NDArray[Any], factor: float) -> NDArray[Any]:
        """Return the entropies summed over instances, at least zero in spite of rounding."""
        scratch = self._scratch[: len(p), : p.shape[1]]
        entropy: NDArray[Any]
        if not self._seen_zeros:
            entropy = np.matmul(_sum_of_products(np.log(p, out=scratch), p), self._ones)
            self._seen_zeros = bool(np.isnan(entropy).any())
        if self._seen_zeros:
            # 0 log 0 was NaN. With the smallest normal number added it is 0, and the logarithms
            # of numbers above 1e-30 (float32) stay as they are.
            np.add(p, np.finfo(p.dtype).tiny, out=scratch)
            entropy = np.matmul(_sum_of_products(np.log(scratch, out=scratch), p), self._ones)
        entropy *= -factor
        np.maximum(entropy, 0, out=entropy)
        return entropy


def _sum(a: NDArray[Any]) -> NDArray[Any]:
    """Sum over instances, in groups so that rounding does not grow with their number."""
    if len(a) <= _INSTANCE_GROUP:
        total: NDArray[Any] = np.add.reduce(a, axis=0)
        return total
    return _sum(np.stack([_sum(group) for group in _groups(a)]))


def _sum_of_products(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Sum ``a * b`` over instances without storing the products; in groups, as `_sum`."""
    if len(a) <= _INSTANCE_GROUP:
        products: NDArray[Any] = np.einsum("ipc,ipc->pc", a, b)
        return products
    return _sum(
        np.stack([_sum_of_products(*pair) for pair in zip(_groups(a), _groups(b), strict=True)])
    )


def _groups(a: NDArray[Any]) -> list[NDArray[Any]]:
    """Split the first axis into groups of bounded length."""
    return [a[start : start + _INSTANCE_GROUP] for start in range(0, len(a), _INSTANCE_GROUP)]
