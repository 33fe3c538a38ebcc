"""What a network's outputs mean: the loss of a row, its gradient, and the distance between outputs.

Outputs have shape ``(..., outputs, rows)`` and targets ``(..., targets, rows)``: rows last.
Losses are negative log-likelihoods in nats, one per row.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

LikelihoodName = Literal["gaussian", "laplace", "mse", "mae"]

SCALE_EPSILON = 1e-6


class Likelihood(Protocol):
    """A family of predictive distributions."""

    @property
    def outputs(self) -> int:
        """Numbers the network gives per row."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the negative log-likelihood of every row, ``(..., rows)``."""

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """Write the derivative of ``loss`` with respect to the outputs into ``out``."""

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """Return KL(reference || outputs) of every row, ``(..., rows)``."""


@runtime_checkable
class Classes(Protocol):
    """A family over classes: it can be confident in one of them."""

    def log_confidence(self, outputs: Tensor) -> Tensor:
        """Return ``log max_c p(c)`` of every row, ``(..., rows)``."""


@dataclass(frozen=True, slots=True)
class Categorical:
    """Softmax over ``classes`` logits; targets are one-hot (or any distribution).

    Example:
        >>> logits, target = torch.zeros(4, 1), torch.eye(4)[:, :1]
        >>> round(float(Categorical(4).loss(logits, target)), 6) == round(math.log(4), 6)
        True
    """

    classes: int

    @property
    def outputs(self) -> int:
        """One logit per class."""
        return self.classes

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """``-sum_c y_c log softmax(z)_c``."""
        return -(targets * outputs.log_softmax(-2)).sum(-2)

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """``softmax(z) - y``."""
        torch.softmax(outputs, -2, out=out)
        out.sub_(targets)

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """``sum_c p_c (log p_c - log q_c)``."""
        log_p, log_q = reference.log_softmax(-2), outputs.log_softmax(-2)
        return (log_p.exp() * (log_p - log_q)).sum(-2)

    def log_confidence(self, outputs: Tensor) -> Tensor:
        """``max_c log softmax(z)_c``."""
        return outputs.log_softmax(-2).amax(-2)


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """One logit and a sigmoid; targets are 0 or 1."""

    outputs: ClassVar[int] = 1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """``softplus(z) - y z``."""
        return (functional.softplus(outputs) - targets * outputs).sum(-2)

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """``sigmoid(z) - y``."""
        torch.sigmoid(outputs, out=out)
        out.sub_(targets)

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """``p (log p - log q)`` summed over both classes."""
        gap = functional.softplus(outputs) - functional.softplus(reference)
        return (gap + reference.sigmoid() * (reference - outputs)).sum(-2)

    def log_confidence(self, outputs: Tensor) -> Tensor:
        """``log sigmoid(|z|)``."""
        return functional.logsigmoid(outputs.abs()).sum(-2)


def scale_of(rho: Tensor) -> Tensor:
    """``softplus(rho) + 1e-6``: a positive scale from any real output."""
    return functional.softplus(rho) + SCALE_EPSILON


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Mean and ``rho``; standard deviation ``sigma = softplus(rho) + 1e-6``.

    Example:
        >>> rho = torch.tensor(1.0).expm1().log()
        >>> outputs = torch.stack([torch.tensor([2.0]), rho.view(1)])
        >>> loss = Gaussian().loss(outputs, torch.tensor([[2.0]]))
        >>> round(float(loss), 4) == round(0.5 * math.log(2 * math.pi), 4)
        True
    """

    outputs: ClassVar[int] = 2

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """``log(2 pi sigma^2) / 2 + (y - mean)^2 / (2 sigma^2)``."""
        scale = scale_of(outputs[..., 1, :])
        standard = (outputs[..., 0, :] - targets[..., 0, :]) / scale
        return scale.log() + 0.5 * standard.square() + 0.5 * math.log(2 * math.pi)

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """``(mean - y) / sigma^2`` and ``(1 - (y - mean)^2 / sigma^2) / sigma * sigmoid(rho)``."""
        rho = outputs[..., 1, :]
        scale = functional.softplus(rho).add_(SCALE_EPSILON)
        standard = (outputs[..., 0, :] - targets[..., 0, :]).div_(scale)
        torch.div(standard, scale, out=out[..., 0, :])
        pull = standard.square_().neg_().add_(1).div_(scale)
        torch.mul(pull, rho.sigmoid(), out=out[..., 1, :])

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """KL between two normal distributions."""
        p, q = scale_of(reference[..., 1, :]), scale_of(outputs[..., 1, :])
        gap = reference[..., 0, :] - outputs[..., 0, :]
        return (q / p).log() + (p.square() + gap.square()) / (2 * q.square()) - 0.5


@dataclass(frozen=True, slots=True)
class Laplace:
    """Mean and ``rho``; scale ``b = softplus(rho) + 1e-6``, variance ``2 b^2``."""

    outputs: ClassVar[int] = 2

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """``log(2 b) + |y - mean| / b``."""
        scale = scale_of(outputs[..., 1, :])
        return (2 * scale).log() + (outputs[..., 0, :] - targets[..., 0, :]).abs() / scale

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """``sign(mean - y) / b`` and ``(1 - |y - mean| / b) / b * sigmoid(rho)``."""
        rho = outputs[..., 1, :]
        scale = functional.softplus(rho).add_(SCALE_EPSILON)
        gap = outputs[..., 0, :] - targets[..., 0, :]
        torch.div(gap.sign(), scale, out=out[..., 0, :])
        pull = gap.abs_().div_(scale).neg_().add_(1).div_(scale)
        torch.mul(pull, rho.sigmoid(), out=out[..., 1, :])

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """KL between two Laplace distributions."""
        p, q = scale_of(reference[..., 1, :]), scale_of(outputs[..., 1, :])
        gap = (reference[..., 0, :] - outputs[..., 0, :]).abs()
        return (q / p).log() + (p * (-gap / p).exp() + gap) / q - 1


@dataclass(frozen=True, slots=True)
class Squared:
    """One output; squared error."""

    outputs: ClassVar[int] = 1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """``(y - mean)^2``."""
        return (outputs - targets).square().sum(-2)

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """``2 (mean - y)``."""
        torch.sub(outputs, targets, out=out)
        out.mul_(2)

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """Half the squared distance: KL of two unit normals."""
        return 0.5 * (reference - outputs).square().sum(-2)


@dataclass(frozen=True, slots=True)
class Absolute:
    """One output; absolute error."""

    outputs: ClassVar[int] = 1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """``|y - mean|``."""
        return (outputs - targets).abs().sum(-2)

    def gradient(self, outputs: Tensor, targets: Tensor, out: Tensor) -> None:
        """``sign(mean - y)``."""
        torch.sub(outputs, targets, out=out)
        out.sign_()

    def divergence(self, reference: Tensor, outputs: Tensor) -> Tensor:
        """Return the KL of two Laplace distributions of unit scale."""
        gap = (reference - outputs).abs().sum(-2)
        return (-gap).exp() + gap - 1


REGRESSION: dict[LikelihoodName, Likelihood] = {
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "mse": Squared(),
    "mae": Absolute(),
}
