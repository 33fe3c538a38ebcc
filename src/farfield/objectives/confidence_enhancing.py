"""What CEDA and ACET share: noise in every batch, on which confidence is held down."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.networks.streams import Streams
from farfield.objectives.attacks import PGD
from farfield.objectives.likelihood import Classes
from farfield.objectives.noise import Noise, NoiseName, noise_for
from farfield.objectives.objective import Batch, MemberNetwork, Objective
from farfield.objectives.pixels import check_unit


@dataclass(frozen=True)
class ConfidenceEnhancing(Objective):
    """Cross-entropy on the data plus the log confidence on noise (Hein et al. 2019, eq. 1).

    With ``B`` rows and ``M = ceil(ratio * B)`` noise points, in one batch::

        (sum of cross-entropy over the rows + sum of log max_c p(c | noise)) / (B + M)

    Three-dimensional points are images in [0, 1]; one-dimensional ones are rows of a table,
    scaled as the network sees them.

    Attributes:
        ratio: Noise points per row; the paper's lambda.
        noise: ``"mixed"``, ``"permuted"``, ``"uniform"`` or ``"gaussian"``, see
            :mod:`farfield.objectives.noise`; ``None`` for the paper's ``"mixed"`` for images and
            ``"gaussian"`` for tables.
        smallest_sigma: Least width of the filter of noise images, in pixels.
        largest_sigma: Largest width.
        widen: How far uniform noise for tables goes beyond the data, in ranges.
        inflation: Factor on the covariance of Gaussian noise for tables.
    """

    ratio: float = 1.0
    noise: NoiseName | None = None
    smallest_sigma: float = 1.0
    largest_sigma: float = 2.5
    widen: float = 0.5
    inflation: float = 36.0

    def __post_init__(self) -> None:
        if not 0 < self.ratio < math.inf:
            raise InputError(f"ratio must be a positive number, got {self.ratio!r}")
        for features in (1,) if self.noise == "gaussian" else (1, 3):
            self._distribution(features)

    def __call__(self, network: MemberNetwork, batch: Batch, noise: Streams) -> Tensor:
        """Return the loss of the mixed batch for every member."""
        likelihood = batch.likelihood
        if not isinstance(likelihood, Classes):
            raise InputError(
                f"{type(self).__name__} lowers the confidence of classes, but "
                f"{type(likelihood).__name__} has none; use objective='nll' or 'adversarial' for "
                "regression"
            )
        generators = [torch.Generator().manual_seed(seed) for seed in noise.seeds()]
        outside = self._outside(network, batch, self._draw(batch, generators), generators)
        outputs = network(torch.cat([batch.inputs, outside], dim=1))
        rows, count = batch.inputs.shape[1], outside.shape[1]
        confidence = likelihood.log_confidence(outputs[..., rows:, :].transpose(-1, -2)).sum(-1)
        if confidence.dim() > 1:
            confidence = confidence.flatten(0, -2).mean(0)
        return (rows * batch.loss(outputs[..., :rows, :]) + confidence) / (rows + count)

    @abstractmethod
    def _outside(
        self,
        network: MemberNetwork,
        batch: Batch,
        drawn: Tensor,
        generators: list[torch.Generator],
    ) -> Tensor:
        """Return the points to be unsure at, ``(members, count, *features)``."""

    def _draw(self, batch: Batch, generators: list[torch.Generator]) -> Tensor:
        """Draw noise for every member, ``(members, count, *features)``."""
        features = batch.inputs.dim() - 2
        if features == 3:
            check_unit(batch.low, batch.high)
        count = math.ceil(self.ratio * batch.inputs.shape[1])
        distribution = self._distribution(features)
        parts = []
        for member, generator in enumerate(generators):
            data = batch.inputs[member] if batch.data is None else batch.data
            parts.append(distribution(data, count, generator, (batch.low, batch.high)))
        return torch.stack(parts)

    def _distribution(self, features: int) -> Noise:
        """Return what noise is drawn from."""
        name: NoiseName = self.noise or ("mixed" if features == 3 else "gaussian")
        return noise_for(
            features,
            name,
            smallest_sigma=self.smallest_sigma,
            largest_sigma=self.largest_sigma,
            widen=self.widen,
            inflation=self.inflation,
        )


@final
@dataclass(frozen=True)
class CEDA(ConfidenceEnhancing):
    """Be unsure on noise: every batch has as many noise points as rows (Hein et al. 2019, eq. 1).

    Constants: see :class:`ConfidenceEnhancing`.

    >>> CEDA().ratio
    1.0
    """

    def _outside(
        self,
        network: MemberNetwork,
        batch: Batch,
        drawn: Tensor,
        generators: list[torch.Generator],
    ) -> Tensor:
        """Return the noise as it was drawn."""
        return drawn


@final
@dataclass(frozen=True)
class ACET(ConfidenceEnhancing):
    """Be unsure at the most confident point near each noise point (Hein et al. 2019, eq. 4).

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
