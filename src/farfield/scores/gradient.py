"""How much a score changes with the input: the norm of its gradient.

"Know Your Limits" (Ulmer and Cinà), Theorem 1: far away from the data this norm tends to zero
for every score, so a network that is sure there stays sure.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.scores.logit import LOGIT_SCORES, LogitScore
from farfield.scores.probability import PROBABILITY_SCORES
from farfield.scores.simplex import Array, ProbabilityScore


def gradient_magnitude(
    model: Any,
    x: Array,
    score: ProbabilityScore | LogitScore | Callable[[Tensor], Tensor] = "predictive_entropy",
    *,
    batch_size: int = 4096,
) -> Array:
    """Compute the Euclidean norm of ``d score / d x`` at every point.

    Args:
        model: What turns inputs into the score's argument: an object with methods
            ``probabilities`` and ``logits`` (a captured network), or any differentiable function
            of a tensor that returns ``(instances, points, classes)`` or ``(points, classes)``.
        x: Inputs, ``(points, ...)``, floating point. Points must not influence one another
            (batch normalisation belongs in evaluation mode).
        score: Name of a score, or a function from the model's output to ``(points,)``.
        batch_size: Points differentiated at once; bounds the memory.

    Returns:
        ``(points,)``, of the kind and floating-point type of ``x``.

    The score of two logits ``(0, f(x))`` with ``f = 3 x1 + 4 x2`` where it changes at rate one:

    >>> logits = lambda x: torch.stack([torch.zeros(len(x)), x @ torch.tensor([3.0, 4.0])], dim=1)
    >>> gradient_magnitude(logits, torch.tensor([[1.0, 1.0]]), "negative_max_logit")
    tensor([5.])
    """
    function = _composed(model, score)
    points = torch.tensor(np.asarray(x)) if not isinstance(x, Tensor) else x
    if not points.is_floating_point() or points.ndim < 2 or points.numel() == 0:
        raise InputError(
            "x must be a floating-point array of shape (points, features, ...), "
            f"got dtype {points.dtype} with shape {tuple(points.shape)}."
        )
    if not bool(points.isfinite().all()):
        raise InputError("x must be finite, got NaN or infinity. Remove or impute these points.")
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}.")
    norms = torch.cat([_norms(function, batch) for batch in torch.split(points, batch_size)])
    return norms if isinstance(x, Tensor) else norms.numpy()


def _composed(model: Any, score: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the score as a function of the input."""
    if isinstance(score, str):
        known = {**PROBABILITY_SCORES, **LOGIT_SCORES}
        if score not in known:
            raise InputError(f"Unknown score {score!r}. Scores: {', '.join(known)}.")
        measure: Callable[[Tensor], Tensor] = known[score]
        attribute = "probabilities" if score in PROBABILITY_SCORES else "logits"
    else:
        measure, attribute = score, "probabilities"
    output = getattr(model, attribute, model)
    if not callable(output):
        raise InputError(
            f"model must be a function or have a method {attribute}, got {type(model).__name__}."
        )
    return lambda x: measure(output(x))


def _norms(function: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
    """Differentiate one batch, whatever gradient mode the caller is in."""
    with torch.inference_mode(False), torch.enable_grad():
        inputs = batch.detach().clone().requires_grad_(True)
        scores = function(inputs)
        if not isinstance(scores, Tensor) or scores.shape != (len(batch),):
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InputError(f"The score must be a tensor of shape ({len(batch)},), got {got}.")
        gradient = None
        if scores.requires_grad:
            (gradient,) = torch.autograd.grad(scores.sum(), inputs, allow_unused=True)
        if gradient is None:
            raise InputError(
                "The score does not depend on x through differentiable torch operations. "
                "The model must take the tensor it is given: no detach, numpy or no_grad inside."
            )
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1)
    return norms
