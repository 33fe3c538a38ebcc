"""Adversarial confidence enhancing training (Hein et al. 2019, eq. 4)."""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.objectives.attacks import PGD
from farfield.objectives.confidence_enhancing import ConfidenceEnhancing
from farfield.objectives.likelihood import Classes
from farfield.objectives.objective import Batch, MemberNetwork


@final
@dataclass(frozen=True)
class ACET(ConfidenceEnhancing):
    """Be unsure at the most confident point near each noise point.

    The point is found by projected gradient ascent on ``log max_c p(c | u)`` over
    ``|u - z|_inf <= epsilon``, the network in evaluation mode; images stay in [0, 1].

    Attributes:
        epsilon: Radius of the ball, in the units that the network sees: pixels in [0, 1], or
            standard deviations where an estimator standardises a table.
        steps: Gradient steps.
        step_size: Length of a step; ``None`` for ``2.5 * epsilon / steps``.
        restarts: Starts per step of the training.

    Further constants: see :class:`ConfidenceEnhancing`.

    >>> ACET().epsilon, ACET().steps, ACET().step_size
    (0.3, 40, 0.0075)
    """

    epsilon: float = 0.3
    steps: int = 40
    step_size: float | None = 0.0075
    restarts: int = 1

    def __post_init__(self) -> None:
        ConfidenceEnhancing.__post_init__(self)
        self._attack()

    def _attack(self) -> PGD:
        """Return the attack; refuses unusable constants."""
        return PGD(self.epsilon, self.steps, self.step_size, restarts=self.restarts)

    def _outside(
        self,
        network: MemberNetwork,
        batch: Batch,
        drawn: Tensor,
        generators: list[torch.Generator],
    ) -> Tensor:
        """Return the most confident points found near the noise."""
        likelihood = batch.likelihood
        assert isinstance(likelihood, Classes)

        def confidence(inputs: Tensor) -> Tensor:
            outputs = network(inputs, training=False)
            return likelihood.log_confidence(outputs.transpose(-1, -2))

        low, high = (0.0, 1.0) if drawn.dim() == 5 else (-math.inf, math.inf)
        return self._attack().maximize(confidence, drawn, generators, low=low, high=high).inputs
