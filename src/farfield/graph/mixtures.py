"""Mixtures of distributions as instances: equal weights, or small whole multiples of one weight."""

from __future__ import annotations

import math
from collections.abc import Sequence

from farfield.errors import NotFollowed

# How many instances a mixture with unequal weights may become.
MOST_INSTANCES = 64
# Weights are often rounded to float32; fractions of up to 64 parts differ by far more.
TOLERANCE = 1e-6


def times(weights: Sequence[float]) -> list[int]:
    """How many instances each member of a mixture has to be, so that a plain mean weighs it right.

    Raises:
        NotFollowed: If no small number of instances does.

    >>> times([0.25, 0.5, 0.25]), times([1 / 3] * 3), times([1.0, 0.0])
    ([1, 2, 1], [1, 1, 1], [1, 0])
    """
    used = [weight for weight in weights if weight > TOLERANCE]
    if max(used) - min(used) <= TOLERANCE * max(used):
        return [int(weight > TOLERANCE) for weight in weights]
    for total in range(len(used), MOST_INSTANCES + 1):
        counts = [round(weight * total) for weight in weights]
        exact = all(
            math.isclose(weight, count / total, rel_tol=0, abs_tol=TOLERANCE)
            for weight, count in zip(weights, counts, strict=True)
        )
        if exact and sum(counts) == total:
            return counts
    listed = ", ".join(f"{weight:.6g}" for weight in weights[:6])
    raise NotFollowed(
        f"the model averages {len(weights)} members with the weights {listed}"
        f"{', ...' if len(weights) > 6 else ''}; farfield takes apart equal weights, and multiples "
        f"of a common share of at least 1/{MOST_INSTANCES}. Use such weights."
    )
