"""Ensembles for regression: predictive distributions, mixed over members."""

from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from torch import nn

from farfield.errors import InputError, failures
from farfield.estimators.anchored import Anchored
from farfield.estimators.archive import can_be_saved
from farfield.estimators.ensemble import Plain
from farfield.estimators.learner import Learner
from farfield.estimators.mc_dropout import MCDropout
from farfield.estimators.method import Method
from farfield.estimators.mixture import Mixture
from farfield.estimators.rows import Scaling, TrainingRows, normalize_weights
from farfield.estimators.settings import count_problems, number_problems
from farfield.evaluate.regression import Family
from farfield.networks.folding import fold_outputs
from farfield.objectives.likelihood import REGRESSION, SCALE_EPSILON, LikelihoodName

Variant = Literal["plain", "anchored", "mc-dropout"]


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleRegressor(RegressorMixin, Learner):  # type: ignore[misc]  # untyped base
    """A deep ensemble for regression (Lakshminarayanan, Pritzel and Blundell 2017).

    Every member gives a mean and, for ``"gaussian"`` and ``"laplace"``, a scale
    ``softplus(rho) + 1e-6``. The ensemble is the mixture::

        mean     = mean over m of mean_m
        variance = mean over m of (variance_m + mean_m^2) - mean^2

    with ``variance_m = scale_m^2`` (Gaussian) or ``2 scale_m^2`` (Laplace). ``"mse"`` and
    ``"mae"`` have no head for the scale: it is one constant per member, the maximum likelihood
    estimate on the training rows (as a normal or a Laplace distribution).

    Features and targets are standardised inside. ``instances_`` take unscaled inputs and give
    ``(mean, rho)``: the mean in the units of y, and ``rho`` such that the scale in the units of
    y is ``target_scale_ * (softplus(rho) + 1e-6)``.

    Attributes:
        likelihood: ``"gaussian"``, ``"laplace"``, ``"mse"`` or ``"mae"``.
        members: How many networks, or masks of ``"mc-dropout"``.
        variant: ``"plain"``, ``"anchored"`` (Pearce et al. 2020) or ``"mc-dropout"``.
        prior_variance: Prior variance of the anchored variant.
        noise: Data noise of the anchored variant.

    Further parameters: see ``TrainingSettings``.

    Example:
        >>> X = np.linspace(-1, 1, 50)[:, None]
        >>> model = EnsembleRegressor(members=2, hidden=(20,), epochs=60, random_state=0)
        >>> mean, std = model.fit(X, 3 * X[:, 0]).predict(X, return_std=True)
        >>> bool(np.abs(mean - 3 * X[:, 0]).max() < 0.5), mean.shape == std.shape
        (True, True)
    """

    likelihood: LikelihoodName = "gaussian"
    members: int = 5
    variant: Variant = "plain"
    prior_variance: float = 2.0
    noise: float = 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Train.

        Args:
            X: ``(rows, features)``; with ``module`` set, any number of dimensions.
            y: ``(rows,)`` numbers.
            sample_weight: Weight of every row in the loss.
            validation: ``(X, y)`` to watch in place of a held-out share of the rows.
        """
        self._check_settings()
        X, y = self._numbers(X, y, reset=True)
        seed = self._seed()
        scaling, target = self._scale(X), Scaling.of(y)
        self.target_shift_, self.target_scale_ = float(target.shift), float(target.scale)
        weights = None
        if sample_weight is not None:
            weights = normalize_weights(self._checked_weights(sample_weight, X))
        rows = TrainingRows(scaling.apply(X), target.apply(y)[:, None], weights)
        held = None
        if validation is not None:
            held_X, held_y = self._numbers(*self._pair(validation), reset=False)
            held = TrainingRows(scaling.apply(held_X), target.apply(held_y)[:, None])
        elif self.patience is not None:
            rows, held = self._split(rows, None, seed)
        trainer = self._trainer(rows, REGRESSION[self.likelihood], seed)
        trainer.run(rows, held)
        self._finish(trainer, scaling, rows, seed)
        if self.likelihood in ("mse", "mae"):
            self.member_scale_ = self._constant_scale(X, y, weights)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mixture's mean, and its standard deviation when asked.

        Args:
            X: Points.
            return_std: Return ``(mean, std)``.
        """
        mixture = self.predict_mixture(X)
        return (mixture.mean, mixture.std) if return_std else mixture.mean

    def predict_mixture(self, X: Any) -> Mixture:
        """Return the predictive distribution of every point: a mixture over instances."""
        outputs = np.concatenate(list(self._outputs(X)), axis=1)
        family: Family = "laplace" if self.likelihood in ("laplace", "mae") else "gaussian"
        if outputs.shape[-1] == 1:
            scales = np.broadcast_to(self.member_scale_[:, None], outputs.shape[:2])
        else:
            scales = self.target_scale_ * (np.logaddexp(0, outputs[..., 1]) + SCALE_EPSILON)
        return Mixture(family, outputs[..., 0], scales)

    def predict_instances(self, X: Any) -> NDArray[Any]:
        """Return every instance's mean and scale, ``(instances, points, 2)``."""
        mixture = self.predict_mixture(X)
        return np.stack([mixture.means, mixture.scales], axis=-1)

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[Any]:
        """Return the central interval of the mixture, ``(points, 2)``.

        Args:
            X: Points.
            level: Probability inside; as much lies below as above.
        """
        return self.predict_mixture(X).interval(level)

    def nll(self, X: Any, y: Any) -> float:
        """Return the mean negative log density of y under the ensemble, in nats.

        As in the papers, the ensemble is the single normal (or Laplace) distribution with the
        mixture's mean and variance.
        """
        values = np.asarray(y, dtype=np.float64)
        mixture = self.predict_mixture(X)
        if values.shape != mixture.mean.shape:
            raise InputError(f"y must have shape {mixture.mean.shape}, got {values.shape}")
        return float(mixture.collapsed_nll(values).mean())

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        variants = ("plain", "anchored", "mc-dropout")
        return [
            *super()._problems(),
            *count_problems(self, "members"),
            *number_problems(self, "prior_variance", "noise"),
            *failures(
                self,
                ("likelihood", self.likelihood in REGRESSION, f"one of {list(REGRESSION)}"),
                ("variant", self.variant in variants, "'plain', 'anchored' or 'mc-dropout'"),
            ),
        ]

    def _method(self) -> Method:
        """Return the variant's method."""
        if self.variant == "anchored":
            return Anchored(self.members, self.prior_variance, self.noise)
        return MCDropout(self.members) if self.variant == "mc-dropout" else Plain(self.members)

    def _finish_instance(self, instance: nn.Module) -> nn.Module:
        """Undo the scaling of the targets in the output that is the mean."""
        outputs = REGRESSION[self.likelihood].outputs
        factor, shift = torch.ones(outputs).double(), torch.zeros(outputs).double()
        factor[0], shift[0] = self.target_scale_, self.target_shift_
        return fold_outputs(instance, factor, shift)

    def _numbers(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check inputs and targets together."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X, y = self._validate(X, y, reset=reset, y_numeric=True, ensure_min_samples=2)
        return X, y.astype(np.float64)

    def _constant_scale(self, X: NDArray[Any], y: NDArray[Any], weights: Any) -> NDArray[Any]:
        """Estimate each instance's scale from its residuals on the training rows."""
        means = np.concatenate(list(self._outputs_of(X, self.instances_)), axis=1)[..., 0]
        weights = None if weights is None else weights.numpy()
        if self.likelihood == "mse":
            scale = np.sqrt(np.average((means - y) ** 2, axis=1, weights=weights))
        else:
            scale = np.average(np.abs(means - y), axis=1, weights=weights)
        return np.asarray(scale + SCALE_EPSILON * self.target_scale_)
