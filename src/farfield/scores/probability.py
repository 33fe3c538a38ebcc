"""Scores of probabilities: how unsure is the mean, how unsure is each, how much do they disagree.

With ``p[i, c]`` the probability of class ``c`` under instance ``i`` and ``m`` the mean over
instances, ``H(m) = H(p) averaged + the rest``: total uncertainty is data uncertainty plus
knowledge uncertainty (Depeweg et al., 2018; Malinin and Gales, 2018; Smith and Gal, 2018).

Gradients (torch) are finite everywhere. At ``p = 0`` the derivative of ``-p log p``, which
grows without bound there, is that at the smallest normal number, ``-log(tiny)`` (87.3 in
float32, 708.4 in float64); at ``p = 1`` it is -1. Classes that tie for the largest probability
share its gradient evenly. Where a score is clipped at zero its gradient is zero.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast, get_args

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

from farfield.errors import InputError
from farfield.scores.simplex import (
    Array,
    ProbabilityScore,
    Unit,
    refuse,
    sum_tolerance,
    unit_factor,
    with_instances,
)
from farfield.scores.sweep import sweep

_NAMES: tuple[ProbabilityScore, ...] = get_args(ProbabilityScore)
_BLOCK_ENTRIES = 1 << 22


def one_minus_max_probability(p: Array) -> Array:
    """Score by what the most probable class leaves over: ``1 - max_c m[c]``.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.

    Returns:
        ``(points,)``, from 0 to ``1 - 1 / classes``.

    >>> import numpy as np
    >>> one_minus_max_probability(np.array([[0.75, 0.25], [0.5, 0.5]]))
    array([0.25, 0.5 ])
    """
    return _score(p, "one_minus_max_probability")


def class_variance(p: Array) -> Array:
    """Score by the spread of the instances: the mean over classes of ``Var_i p[i, c]``.

    The variance is that of the population (divided by the number of instances), so instances
    that each put all their mass on one class give the mean of ``v_c (1 - v_c)``, ``v`` being
    the share of votes. One instance gives 0.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.

    Returns:
        ``(points,)``, from 0 to 1/4.

    >>> import numpy as np
    >>> class_variance(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    array([0.25])
    """
    return _score(p, "class_variance")


def predictive_entropy(p: Array, unit: Unit = "nats") -> Array:
    """Score by the entropy of the mean, total uncertainty: ``H(m) = -sum_c m[c] log m[c]``.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.
        unit: ``"nats"``, or ``"bits"`` (from 0 to 1 for two classes).

    Returns:
        ``(points,)``, from 0 to ``log classes``.

    >>> import numpy as np
    >>> predictive_entropy(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), unit="bits")
    array([1.])
    """
    return _score(p, "predictive_entropy", unit)


def expected_entropy(p: Array, unit: Unit = "nats") -> Array:
    """Score by the mean entropy of the instances, data uncertainty: ``mean_i H(p[i])``.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.
        unit: ``"nats"`` or ``"bits"``.

    Returns:
        ``(points,)``, from 0 to the predictive entropy.

    >>> import numpy as np
    >>> expected_entropy(np.array([[[1.0, 0.0]], [[0.5, 0.5]]]), unit="bits")
    array([0.5])
    """
    return _score(p, "expected_entropy", unit)


def mutual_information(p: Array, unit: Unit = "nats") -> Array:
    """Score by what the instances disagree about, knowledge uncertainty: ``H(m) - mean_i H(p[i])``.

    Never negative (Jensen's inequality): what rounding leaves below zero is clipped. One
    instance gives 0.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.
        unit: ``"nats"`` or ``"bits"``.

    Returns:
        ``(points,)``, from 0 to the predictive entropy.

    >>> import numpy as np
    >>> mutual_information(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), unit="bits")
    array([1.])
    """
    return _score(p, "mutual_information", unit)


def all_scores(p: Array, unit: Unit = "nats") -> dict[str, Array]:
    """Compute every score of probabilities in one pass, in bounded extra memory.

    Tensors that carry gradients are the exception: they need memory in proportion to their size.

    Args:
        p: Probabilities, ``(instances, points, classes)`` or ``(points, classes)``.
        unit: Of the entropies and the mutual information, ``"nats"`` or ``"bits"``.

    Returns:
        Score name to ``(points,)``, in the order of `PROBABILITY_SCORES`.

    >>> import numpy as np
    >>> scores = all_scores(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), unit="bits")
    >>> {name: values.tolist() for name, values in scores.items()}
    {'one_minus_max_probability': [0.5], 'class_variance': [0.25], 'predictive_entropy': [1.0],
     'expected_entropy': [0.0], 'mutual_information': [1.0]}
    """
    return cast("dict[str, Array]", _scores(p, _NAMES, unit))


PROBABILITY_SCORES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "one_minus_max_probability": one_minus_max_probability,
        "class_variance": class_variance,
        "predictive_entropy": predictive_entropy,
        "expected_entropy": expected_entropy,
        "mutual_information": mutual_information,
    }
)
"""Every score of probabilities by its name."""


def score_by_name(name: str) -> Callable[..., Any]:
    """Look up a score of probabilities.

    >>> score_by_name("predictive_entropy").__name__
    'predictive_entropy'
    """
    try:
        return PROBABILITY_SCORES[name]
    except (KeyError, TypeError):
        raise InputError(
            f"Unknown score {name!r}. Scores of probabilities: {', '.join(PROBABILITY_SCORES)}."
        ) from None


def _score(p: Array, name: ProbabilityScore, unit: str = "nats") -> Array:
    """Compute one score."""
    return cast("Array", _scores(p, (name,), unit)[name])


def _scores(
    p: NDArray[Any] | Tensor, wanted: Sequence[ProbabilityScore], unit: str
) -> Mapping[str, NDArray[Any] | Tensor]:
    """Send numpy, and tensors that share memory with numpy, through the sweep; others to torch."""
    factor = unit_factor(unit)
    values = with_instances(p, "Probabilities")
    if not isinstance(values, Tensor):
        return sweep(values, wanted, factor)
    shared = _as_numpy(values)
    if shared is not None:
        swept = sweep(shared, wanted, factor)
        return {name: torch.from_numpy(scores) for name, scores in swept.items()}
    if values.requires_grad:
        return _tensor_scores(values, wanted, factor)
    step = max(1, _BLOCK_ENTRIES // (values.shape[0] * values.shape[2]))
    blocks = [_tensor_scores(block, wanted, factor) for block in torch.split(values, step, dim=1)]
    return {name: torch.cat([block[name] for block in blocks]) for name in wanted}


def _as_numpy(p: Tensor) -> NDArray[Any] | None:
    """Share the memory of a tensor that nothing is differentiated through, else None."""
    plain = p.device.type == "cpu" and p.dtype in (torch.float32, torch.float64)
    tangent = forward_ad.unpack_dual(p).tangent
    if not plain or p.requires_grad or tangent is not None:
        return None
    try:
        return p.numpy()
    except RuntimeError:  # a tensor inside of a torch.func transform has no memory of its own
        return None


def _tensor_scores(
    p: Tensor, wanted: Sequence[ProbabilityScore], factor: float
) -> dict[str, Tensor]:
    """Compute scores by differentiable torch operations; half precision goes to float32."""
    _check(p)
    p = p.to(torch.promote_types(p.dtype, torch.float32))
    mean = p.mean(dim=0)
    scores: dict[str, Tensor] = {}
    if "one_minus_max_probability" in wanted:
        scores["one_minus_max_probability"] = (1.0 - mean.amax(dim=-1)).clamp(min=0.0)
    if "class_variance" in wanted:
        scores["class_variance"] = (p - mean).square().mean(dim=(0, 2))
    if set(wanted) - set(scores):
        total, data = factor * _entropy(mean), factor * _entropy(p).mean(dim=0)
        knowledge = (total - data).clamp(min=0.0)
        scores |= {
            "predictive_entropy": total,
            "expected_entropy": data,
            "mutual_information": knowledge,
        }
    return {name: scores[name] for name in wanted}


def _entropy(p: Tensor) -> Tensor:
    """Return ``-sum p log p``, with finite gradients at zero."""
    logarithm = p.clamp(min=torch.finfo(p.dtype).tiny).log()
    return (p * logarithm).sum(dim=-1).neg().clamp(min=0.0)


def _check(p: Tensor) -> None:
    """Refuse rows that are no distribution."""
    with torch.no_grad():
        tolerance = sum_tolerance(torch.finfo(p.dtype).eps)
        sums = p.sum(dim=-1, dtype=torch.promote_types(p.dtype, torch.float32))
        if not ((sums - 1.0).abs().amax() <= tolerance and p.amin() >= 0):
            refuse(p.detach().to("cpu", torch.float64).numpy())
