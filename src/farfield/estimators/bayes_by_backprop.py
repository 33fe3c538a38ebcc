"""Bayes by backprop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.methods import Method, Variational
from farfield.estimators.methods.variational import MixturePrior, Reparameterization
from farfield.estimators.settings import count_problems, number_problems


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class BayesByBackpropClassifier(NeuralClassifier):
    """Bayes by backprop (Blundell et al. 2015): weights drawn from a learned posterior.

    The constants of "Know Your Limits" (pi 0.196422, sigma 0.606531 and 0.904837, rho init -7.649,
    KL weight 0.102995, learning rate 0.00689, at most 20 epochs) do not work: on half-moons, over
    five seeds, validation accuracy was 0.90 to 0.92 and mutual information below 0.0001 nats
    everywhere, because the posterior starts as a point and has no time to widen. With the
    defaults here (rho init -3, 200 epochs) accuracy was 0.980 to 0.992 and mean mutual
    information on a ring of radius 5 was 4.5 to 8.6 times that on validation data.

    Attributes:
        samples: Weight draws that become instances.
        elbo_samples: Weight draws per training step.
        prior_pi, prior_sigma1, prior_sigma2: Scale mixture prior of every weight.
        rho_init: Start of ``rho``; a weight's deviation is ``softplus(rho)``.
        kl_weight: Weight of the KL term once annealed.
        annealing: Share of the epochs over which that weight grows from zero.
        reparameterization: ``"weights"`` or ``"local"``.

    Further parameters: see ``farfield.estimators.settings.Settings`` and ``NeuralClassifier``.
    """

    hidden: Sequence[int] = (25,)
    learning_rate: float = 0.01
    epochs: int = 200
    samples: int = 50
    elbo_samples: int = 3
    prior_pi: float = 0.5
    prior_sigma1: float = 1.0
    prior_sigma2: float = 3.0
    rho_init: float = -3.0
    kl_weight: float = 0.3
    annealing: float = 0.4
    reparameterization: Reparameterization = "weights"

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        problems = [
            *super()._problems(),
            *count_problems(self, "samples", "elbo_samples"),
            *number_problems(self, "prior_sigma1", "prior_sigma2", "kl_weight"),
        ]
        if not 0 < self.prior_pi < 1:
            problems.append(f"prior_pi must be in (0, 1), got {self.prior_pi!r}")
        if not 0 <= self.annealing <= 1:
            problems.append(f"annealing must be in [0, 1], got {self.annealing!r}")
        if self.reparameterization not in ("weights", "local"):
            problems.append(
                f"reparameterization must be 'weights' or 'local', got {self.reparameterization!r}"
            )
        return problems

    def _method(self) -> Method:
        """Train one posterior."""
        return Variational(
            samples=self.samples,
            elbo_samples=self.elbo_samples,
            prior=MixturePrior(self.prior_pi, self.prior_sigma1, self.prior_sigma2),
            rho_init=self.rho_init,
            kl_weight=self.kl_weight,
            annealing=self.annealing,
            reparameterization=self.reparameterization,
        )
