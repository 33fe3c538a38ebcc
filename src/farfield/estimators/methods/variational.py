"""Bayes by backprop (Blundell et al. 2015): a normal distribution over every weight.

The loss of ``S`` weight samples ``w = mu + softplus(rho) * eps`` is::

    mean over samples of NLL(w) + beta * (log q(w) - log p(w)) / n

with the scale mixture prior ``p = pi N(0, s1^2) + (1 - pi) N(0, s2^2)`` for every weight and
``beta`` annealed linearly from 0 over the first share of the epochs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from farfield.errors import InputError
from farfield.estimators.methods.method import Architecture, Method
from farfield.networks.mlp import StackedMLP
from farfield.networks.parameters import Parameters
from farfield.networks.stack import Stack
from farfield.networks.stacked_module import StackedModule
from farfield.networks.streams import Purpose, Streams

Reparameterization = Literal["weights", "local"]


@dataclass(frozen=True, slots=True)
class MixturePrior:
    """``pi N(0, sigma1^2) + (1 - pi) N(0, sigma2^2)`` for every weight."""

    pi: float
    sigma1: float
    sigma2: float

    def log_density(self, values: Tensor) -> Tensor:
        """Return the log density of every value."""
        first = math.log(self.pi) + _log_normal(values, torch.tensor(self.sigma1))
        second = math.log1p(-self.pi) + _log_normal(values, torch.tensor(self.sigma2))
        return torch.logaddexp(first, second)


def _log_normal(values: Tensor, scale: Tensor) -> Tensor:
    """Log density of N(0, scale^2)."""
    return -0.5 * (values / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)


@final
@dataclass(frozen=True, slots=True)
class Variational(Method):
    """One posterior over weights; instances are weights drawn from it.

    Attributes:
        samples: Instances.
        elbo_samples: Weight samples per training step.
        prior: The prior.
        rho_init: Where every ``rho`` starts.
        kl_weight: ``beta`` once annealed.
        annealing: Share of the epochs over which ``beta`` grows to ``kl_weight``.
        reparameterization: Sample ``"weights"``, or each row's pre-activations (``"local"``,
            Kingma et al. 2015; perceptrons only), which gives gradients of lower variance.
    """

    samples: int
    elbo_samples: int
    prior: MixturePrior
    rho_init: float
    kl_weight: float
    annealing: float
    reparameterization: Reparameterization

    def stack(self, architecture: Architecture, rows: int, seed: int) -> Stack:
        """Build the posterior around one network."""
        local = self.reparameterization == "local"
        if architecture.factory is None and architecture.batch_norm:
            raise InputError("sampled weights cannot share batch statistics; set batch_norm=False")
        if local and architecture.dropout > 0:
            raise InputError("reparameterization='local' samples units itself; set dropout=0")
        inner = architecture.build(1, seed)
        if local and not isinstance(inner, StackedMLP):
            raise InputError(
                "reparameterization='local' needs the built-in perceptron, got a module; "
                "use reparameterization='weights'"
            )
        return _Posterior(inner, self, rows)

    def instances(self, stack: Stack, example: Tensor, seed: int) -> list[nn.Module]:
        """Draw weights from the posterior."""
        assert isinstance(stack, _Posterior)
        draws = Streams(seed, self.samples, Purpose.INSTANCES)
        return [stack.draw(draws, sample) for sample in range(self.samples)]


class _Posterior:
    """A stack whose parameters are ``mu`` and ``rho`` of an inner stack's parameters."""

    def __init__(self, inner: StackedMLP | StackedModule, method: Variational, rows: int) -> None:
        self.members = 1
        self.noise = inner.noise
        self.buffers = inner.buffers
        self._inner = inner
        self._method = method
        self._rows = rows
        self._beta = 0.0
        self._complexity: Tensor | None = None
        shapes = inner.parameters.shapes
        self.parameters = Parameters([*shapes, *shapes])
        half = len(inner.parameters.values)
        self.parameters.values[:half] = inner.parameters.values
        self.parameters.values[half:] = method.rho_init

    def begin(self, progress: float) -> None:
        """Anneal the weight of the KL term."""
        annealing = self._method.annealing
        share = 1.0 if annealing <= 0 else min(1.0, progress / annealing)
        self._beta = share * self._method.kl_weight

    def apply(self, tensors: Sequence[Tensor], inputs: Tensor, *, training: bool) -> Tensor:
        """Map inputs through sampled weights (training) or the posterior mean.

        Returns ``(samples, 1, rows, outputs)`` while training.
        """
        half = len(tensors) // 2
        means, rhos = tensors[:half], tensors[half:]
        if not training:
            return self._inner.apply(means, inputs, training=False)
        scales = [functional.softplus(rho) for rho in rhos]
        draws = self._method.elbo_samples
        sampled = self._sample(means, scales, draws)
        self._complexity = self._divergence(sampled, means, scales)
        expanded = inputs.expand(draws, *inputs.shape[1:])
        if self._method.reparameterization == "local":
            assert isinstance(self._inner, StackedMLP)
            return self._local(self._inner, means, scales, expanded).unsqueeze(1)
        return self._inner.apply(sampled, expanded, training=True).unsqueeze(1)

    def penalty(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """Return the KL term of the last samples, ``(1,)``."""
        if self._complexity is None:
            return None
        return self._beta * self._complexity / self._rows

    def module(self, member: int) -> nn.Module:
        """Return the network at the posterior mean."""
        half = len(self.parameters.views) // 2
        for view, mean in zip(
            self._inner.parameters.views, self.parameters.views[:half], strict=True
        ):
            view.copy_(mean)
        return self._inner.module(member)

    def draw(self, draws: Streams, sample: int) -> nn.Module:
        """Return a network with weights drawn from the posterior."""
        half = len(self.parameters.views) // 2
        generator = draws.generator(sample)
        for view, mean, rho in zip(
            self._inner.parameters.views,
            self.parameters.views[:half],
            self.parameters.views[half:],
            strict=True,
        ):
            noise = torch.from_numpy(generator.standard_normal(tuple(view.shape))).float()
            view.copy_(mean + functional.softplus(rho) * noise)
        return self._inner.module(0)

    def _sample(
        self, means: Sequence[Tensor], scales: Sequence[Tensor], draws: int
    ) -> list[Tensor]:
        """Draw weights, ``(draws, ...)``."""
        return [
            mean + scale * self.noise.normal(draws, *mean.shape[1:])[0]
            for mean, scale in zip(means, scales, strict=True)
        ]

    def _divergence(
        self, sampled: Sequence[Tensor], means: Sequence[Tensor], scales: Sequence[Tensor]
    ) -> Tensor:
        """Estimate KL(q || p) with the sampled weights, ``(1,)``."""
        total = torch.zeros(1)
        for weights, mean, scale in zip(sampled, means, scales, strict=True):
            gap = _log_normal(weights - mean, scale) - self._method.prior.log_density(weights)
            total = total + gap.sum() / weights.shape[0]
        return total

    def _local(
        self, inner: StackedMLP, means: Sequence[Tensor], scales: Sequence[Tensor], inputs: Tensor
    ) -> Tensor:
        """Sample pre-activations: mean ``M a``, variance ``S^2 a^2``, one draw per row."""
        values = inputs.transpose(1, 2)
        count = len(inner.sizes) - 1
        for index, (mean, scale) in enumerate(zip(means[:count], scales[:count], strict=True)):
            homogeneous = torch.cat([values, torch.ones_like(values[:, :1])], dim=1)
            centre = mean @ homogeneous
            spread = (scale.square() @ homogeneous.square()).sqrt()
            values = centre + spread * self.noise.normal(*centre.shape)[0]
            if index < count - 1:
                values = inner.activate(values)
        return values.transpose(1, 2)
