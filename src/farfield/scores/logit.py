"""Scores of logits, which see what softmax forgets: how large the logits are.

Several instances are averaged first, ``z[c] = mean_i z[i, c]``, as the probabilities are in the
predictive scores: instances that disagree cancel, and the score rises. Stable for every finite
logit: nothing is exponentiated before the largest logit has been subtracted.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import InputError
from farfield.scores.simplex import Array, with_instances

LogitScore = Literal["negative_max_logit", "energy"]


def negative_max_logit(z: Array) -> Array:
    """Score by the largest mean logit, negated: ``-max_c z[c]`` (Hendrycks et al., 2022).

    Args:
        z: Logits, ``(instances, points, classes)`` or ``(points, classes)``; finite.

    Returns:
        ``(points,)``.

    >>> negative_max_logit(np.array([[2.0, -1.0], [0.5, 0.0]]))
    array([-2. , -0.5])
    """
    return _like(z, -_mean(z).amax(dim=-1))


def energy(z: Array, temperature: float = 1.0) -> Array:
    """Score by the free energy of the mean logits: ``-T log sum_c exp(z[c] / T)``.

    Liu et al., "Energy-based out-of-distribution detection", 2020.

    Args:
        z: Logits, ``(instances, points, classes)`` or ``(points, classes)``; finite.
        temperature: ``T``, positive.

    Returns:
        ``(points,)``, between ``-max_c z[c] - T log classes`` and ``-max_c z[c]``.

    >>> energy(np.array([[0.0, 0.0]])).round(6)
    array([-0.693147])
    """
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InputError(f"temperature must be a positive number, got {temperature}.")
    mean = _mean(z)
    largest = mean.detach().amax(dim=-1, keepdim=True)
    excess = torch.logsumexp((mean - largest) / temperature, dim=-1)
    return _like(z, -(temperature * excess + largest[..., 0]))


LOGIT_SCORES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"negative_max_logit": negative_max_logit, "energy": energy}
)
"""Every score of logits by its name."""


def _mean(z: NDArray[Any] | Tensor) -> Tensor:
    """Average over instances without overflow; half precision goes to float32."""
    values = with_instances(z, "Logits")
    if not isinstance(values, Tensor):
        dtype = np.float32 if values.dtype.itemsize <= 4 else np.float64
        values = torch.from_numpy(values.astype(dtype, order="C"))
    if not bool(values.detach().isfinite().all()):
        raise InputError(
            "Logits must be finite, got NaN or infinity. "
            "Check the inputs; for limits along a ray, score the probabilities at infinity."
        )
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    # Divided first: the sum of a thousand logits of 1e36 leaves the range of float32.
    return values[0] if len(values) == 1 else (values / len(values)).sum(0)


def _like(z: Array, scores: Tensor) -> Array:
    """Scores as the kind of array that logits came in."""
    return scores if isinstance(z, Tensor) else scores.numpy()
