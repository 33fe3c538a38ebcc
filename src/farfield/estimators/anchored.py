"""Anchored ensembles."""

from dataclasses import dataclass
from typing import final

from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.methods import Anchored, Method
from farfield.estimators.settings import count_problems, number_problems


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

    Further parameters: see ``farfield.estimators.settings.Settings`` and ``NeuralClassifier``.
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
