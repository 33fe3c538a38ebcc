"""Mixing with the uniform answer: ``p' = 1 / K + (p - 1 / K) / T``.

One positive factor: the order of classes is that of the model, probabilities sum to one, and for
T = 1 nothing is touched. In floating point a large T would make classes equal, and ``argmax`` would
then answer with the first of them, so whatever is below the top stays below it by a few units in
the last place. All of it is monotone in p: classes may meet, but never change places.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Classes below the top keep at least this many units in the last place.
KEPT_APART = 8
# Logits are cut off here: an overflow of the model is still larger than everything else.
LARGEST = 1e300
# No probability is taken to be smaller, so that every logarithm is finite.
LEAST = 1e-300


def mix(p: Tensor, temperature: Tensor) -> Tensor:
    """Mix probabilities with the uniform answer.

    Args:
        p: ``(rows, classes)``. Rows that hold NaN get the uniform answer, at any temperature.
        temperature: ``(rows,)`` float64, at least 1.

    Returns:
        ``(rows, classes)`` in the type of ``p``, at least float32; the same bits where T is 1.

    >>> p = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    >>> mix(p, torch.tensor([1.0, 1e300], dtype=torch.float64)).argmax(dim=1).tolist()
    [0, 1]
    """
    # Half precision is too coarse for a promise about hundredths.
    p = p.to(torch.promote_types(p.dtype, torch.float32))
    kind = p.dtype
    mixed = _mixed(p.to(torch.float64), temperature, float(torch.finfo(kind).eps))
    mixed = torch.where((temperature == 1.0)[:, None], p, mixed.to(kind))
    return torch.where(torch.isnan(p).any(dim=1, keepdim=True), _uniform(p), mixed)


def mix_logits(logits: Tensor, temperature: Tensor) -> Tensor:
    """Mix in terms of logits: ``log p'`` relative to the largest; untouched where T is 1.

    Args:
        logits: ``(rows, classes)``; half precision is returned as float32. Rows that
            hold NaN get equal logits.
        temperature: ``(rows,)`` float64, at least 1.

    >>> z = torch.tensor([[3e38, -3e38]])
    >>> mix_logits(z, torch.tensor([1e9], dtype=torch.float64)).argmax(dim=1).tolist()
    [0]
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    apart = KEPT_APART * float(torch.finfo(logits.dtype).eps)
    exact = logits.to(torch.float64).clamp(-LARGEST, LARGEST)
    below = exact < exact.amax(dim=1, keepdim=True)
    mixed = _mixed(torch.softmax(exact, dim=1), temperature, 0.0).clamp(min=LEAST)
    mixed = mixed.log() - mixed.amax(dim=1, keepdim=True).log()
    mixed = torch.where(below, mixed.clamp(max=-apart), torch.zeros_like(mixed))
    mixed = torch.where((temperature == 1.0)[:, None], logits, mixed.to(logits.dtype))
    return torch.where(torch.isnan(logits).any(dim=1, keepdim=True), _zeros(logits), mixed)


def _mixed(p: Tensor, temperature: Tensor, eps: float) -> Tensor:
    """``1 / K + (p - 1 / K) / T`` in float64, what is below the top kept below it."""
    share = 1.0 / p.shape[1]
    mixed = share + (p - share) / temperature[:, None]
    if not eps:
        return mixed
    top = mixed.amax(dim=1, keepdim=True)
    below = p < p.amax(dim=1, keepdim=True)
    return torch.where(below, torch.minimum(mixed, top * (1.0 - KEPT_APART * eps)), top)


def _uniform(p: Tensor) -> Tensor:
    return torch.full_like(p, 1.0 / p.shape[1])


def _zeros(logits: Tensor) -> Tensor:
    return torch.zeros_like(logits)
