"""What an attack maximises: the confidence of a model, or its error on a label.

Several instances are attacked together, through the mean of their probabilities.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from farfield.errors import InputError

Value = Callable[[Tensor], Tensor]


def log_mean_probabilities(instances: Sequence[nn.Module], inputs: Tensor) -> Tensor:
    """Return ``log mean_i p_i(x)``, ``(points, classes)``; one logit means two classes."""
    logs = [_log_softmax(instance(inputs)) for instance in instances]
    if len(logs) == 1:
        return logs[0]
    return torch.stack(logs).logsumexp(0) - math.log(len(logs))


def log_confidence(instances: Sequence[nn.Module]) -> Value:
    """Return ``x -> log max_c mean_i p_i(c | x)``: an attack on this makes adversarial noise.

    >>> value = log_confidence([nn.Identity()])
    >>> round(float(value(torch.zeros(1, 4)).exp()), 6)
    0.25
    """
    return lambda inputs: log_mean_probabilities(instances, inputs).amax(-1)


def cross_entropy(instances: Sequence[nn.Module], labels: Tensor) -> Value:
    """Return ``x -> -log mean_i p_i(y | x)``: an attack on this makes adversarial samples.

    Args:
        instances: Plain modules, inputs to logits.
        labels: ``(points,)`` whole numbers.

    >>> value = cross_entropy([nn.Identity()], torch.tensor([1]))
    >>> round(float((-value(torch.zeros(1, 4))).exp()), 6)
    0.25
    """

    def value(inputs: Tensor) -> Tensor:
        logs = log_mean_probabilities(instances, inputs)
        return -logs.gather(1, labels[:, None])[:, 0]

    return value


def check_labels(labels: Tensor, points: int, classes: int) -> Tensor:
    """Return labels as int64, or say which are not among the classes.

    Raises:
        InputError: For another shape, labels that are not whole, or out of range.
    """
    if labels.shape != (points,):
        raise InputError(f"labels must have shape ({points},), got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise InputError(f"labels must be integers from 0 to {classes - 1}, got {labels.dtype}")
    whole = labels.long()
    wrong = (whole < 0) | (whole >= classes)
    if bool(wrong.any()):
        where = int(wrong.int().argmax())
        raise InputError(
            f"labels must lie in 0 to {classes - 1} for a network with {classes} outputs, got "
            f"{int(whole[where])} at point {where}; number the classes from 0"
        )
    return whole


def _log_softmax(logits: Tensor) -> Tensor:
    if logits.shape[-1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    return logits.log_softmax(-1)
