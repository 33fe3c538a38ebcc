"""Anchored ensembles (Pearce, Leibfried and Brintrup 2020).

Each member is pulled towards its own draw from the prior instead of towards zero.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.method import Architecture, Method
from farfield.estimators.optimizers import Pull
from farfield.estimators.settings import count_problems, number_problems
from farfield.networks.mlp import StackedMLP
from farfield.networks.stack import Stack
from farfield.networks.streams import Purpose, Streams


@final
@dataclass(frozen=True, slots=True)
class Anchored(Method):
    """``loss_j = NLL + noise / (2 n) * sum_i (theta_i - anchor_ji)^2 / variance_i``.

    Anchors ``anchor_ji ~ N(0, variance_i)`` are drawn once per member. The prior variance of a
    weight is ``prior_variance / fan_in``, that of a bias ``prior_variance``.

    Attributes:
        members: How many networks.
        prior_variance: Scale of the prior.
        noise: Data noise; 1 for a likelihood that carries its own.
    """

    members: int = 10
    prior_variance: float = 2.0
    noise: float = 1.0

    def stack(self, architecture: Architecture, rows: int, seed: int) -> Stack:
        """Stack the members."""
        return architecture.build(self.members, seed)

    def pull(self, stack: Stack, rows: int, seed: int) -> Pull:
        """Draw the anchors, and return the penalty towards them."""
        prior = Streams(seed, stack.members, Purpose.PRIOR)
        variances = [self.prior_variance / fan for fan in _fan_ins(stack)]
        anchors = [prior.normal(*v.shape[1:]) * v.sqrt() for v in variances]
        precision = torch.cat([self.noise / rows / v.flatten() for v in variances])
        return Pull(precision, torch.cat([anchor.flatten() for anchor in anchors]))


def _fan_ins(stack: Stack) -> list[Tensor]:
    """Return how many inputs each parameter shares its sum with; 1 for biases and norms."""
    fans = []
    for index, view in enumerate(stack.parameters.views):
        fan = torch.ones_like(view)
        if isinstance(stack, StackedMLP):
            if index < len(stack.sizes) - 1:
                fan[..., :-1] = max(view.shape[2] - 1, 1)
        elif view.dim() > 2:
            fan.fill_(view[0, 0].numel())
        fans.append(fan)
    return fans


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class AnchoredEnsembleClassifier(NeuralClassifier):
    """An anchored ensemble (Pearce, Leibfried and Brintrup 2020).

    Member ``j`` minimises ``NLL + noise / (2 n) * sum_i (theta_i - anchor_ji)^2 / variance_i``
    with anchors drawn from the prior: randomised maximum a posteriori sampling.
    ``weight_decay`` is not used.

    Attributes:
        members: How many networks.
        prior_variance: A weight's prior variance times its layer's number of inputs, and a
            bias's prior variance.
        noise: Data noise; cross-entropy is a likelihood as it stands, hence 1.

    Further parameters: see ``TrainingSettings`` and ``NeuralClassifier``.
    """

    members: int = 10
    prior_variance: float = 2.0
    noise: float = 1.0

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        return [
            *super()._problems(),
            *count_problems(self, "members"),
            *number_problems(self, "prior_variance", "noise"),
        ]

    def _method(self) -> Method:
        """Train members pulled to their anchors."""
        return Anchored(self.members, self.prior_variance, self.noise)
