"""Temperature scaling and Platt scaling: calibrate the logits on held-out data."""

import copy
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional

from farfield.errors import InputError
from farfield.estimators.archive import can_be_saved, save
from farfield.estimators.ensemble import ReLUClassifier
from farfield.estimators.history import CalibrationReport
from farfield.estimators.prediction import InstanceClassifier, probabilities_of
from farfield.estimators.settings import RandomState, draw_seed
from farfield.evaluate import calibration
from farfield.networks.folding import fold_outputs
from farfield.objectives.likelihood import Likelihood

CalibrationMethod = Literal["temperature", "platt"]

# Separable data would drive the temperature to zero; within these bounds it stays a number.
LOG_LIMIT = math.log(100.0)
ITERATIONS = 200


class CalibrationWarning(UserWarning):
    """A calibration that would not help was not applied."""


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureScaling(InstanceClassifier, BaseEstimator):  # type: ignore[misc]  # untyped base
    """Divide logits by one number, or apply Platt's affine map to a binary logit.

    ``"temperature"`` (Guo et al. 2017): ``softmax(z / T)``, any number of classes; never changes
    a prediction of a single network. ``"platt"``: ``sigmoid(a f + b)``, binary. Both minimise the
    negative log-likelihood on held-out rows with LBFGS. Where that fails to improve it, the
    logits stay as they are and a ``CalibrationWarning`` says so; ``report_`` has the numbers.
    Confidence far away is not repaired: a positive factor leaves the limits 0 and 1 alone.

    Attributes:
        estimator: A farfield classifier; ``None`` for ``ReLUClassifier()``.
        method: ``"temperature"`` or ``"platt"``.
        holdout: Share of the rows kept for calibration.
        prefit: The estimator is fitted already; all rows given to ``fit`` calibrate it.
        random_state: Seed of the split.
    """

    estimator: Any = field(default=None, kw_only=False)
    method: CalibrationMethod = "temperature"
    holdout: float = 0.25
    prefit: bool = False
    random_state: RandomState = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Train the estimator on one part of the rows and calibrate it on the other.

        Args:
            X: ``(rows, features)``.
            y: Labels.
            sample_weight: Weights of the rows, in training and calibration.
            validation: ``(X, y)`` to calibrate on; then all rows train.
        """
        self._check()
        if y is None:
            raise InputError("TemperatureScaling requires y to be passed, but the target y is None")
        if self.prefit:
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            held = (X, y, sample_weight)
        else:
            train, held = self._divide(X, y, sample_weight, validation)
            base = ReLUClassifier() if self.estimator is None else clone(self.estimator)
            self.estimator_ = base.fit(*train)
        if not hasattr(self.estimator_, "instances_"):
            raise InputError(
                "estimator must be a farfield classifier with instances_, got "
                f"{type(self.estimator_).__name__}"
            )
        self.classes_ = self.estimator_.classes_
        self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        self._calibrate(*held)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file; read it with ``farfield.load``.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        save(self, path)

    def _restore_instances(self, estimator: Any) -> None:
        """Take up a loaded estimator and calibrate its instances again."""
        self.estimator_ = estimator
        self._apply(self.report_.factor, self.report_.bias)

    def _check(self) -> None:
        """Refuse unusable parameters."""
        if self.method not in ("temperature", "platt"):
            raise InputError(f"method must be 'temperature' or 'platt', got {self.method!r}")
        if not 0 < self.holdout < 1:
            raise InputError(f"holdout must be in (0, 1), got {self.holdout!r}")
        if self.prefit and self.estimator is None:
            raise InputError("prefit=True needs a fitted estimator, got None")

    def _divide(self, X: Any, y: Any, weights: Any, validation: Any) -> tuple[Any, Any]:
        """Return training and calibration rows, each ``(X, y, sample_weight)``."""
        if validation is not None:
            return (X, y, weights), (*validation, None)
        try:
            checked, labels = validate_data(
                self, X, y, dtype=None, allow_nd=True, ensure_min_samples=2
            )
            if weights is not None:
                weights = _check_sample_weight(weights, checked, dtype=np.float64)
        except ValueError as error:
            raise InputError(str(error)) from error
        counts = np.unique(labels, return_counts=True)[1]
        both = round(self.holdout * len(labels)) >= len(counts) and counts.min() > 1
        index = np.arange(len(labels))
        first, second = train_test_split(
            index,
            test_size=self.holdout,
            random_state=draw_seed(self.random_state) % 2**32,
            stratify=labels if both else None,
        )
        X = X if hasattr(X, "iloc") else checked
        parts = [
            (
                X.iloc[part] if hasattr(X, "iloc") else X[part],
                labels[part],
                None if weights is None else weights[part],
            )
            for part in (first, second)
        ]
        return parts[0], parts[1]

    def _calibrate(self, X: Any, y: Any, weights: Any) -> None:
        """Fit the map, compare before and after, and fold it into copies of the instances."""
        labels = np.asarray(y)
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise InputError(f"held-out labels {unknown.tolist()} are not among the classes seen")
        codes = np.searchsorted(self.classes_, labels)
        outputs = np.concatenate(list(self.estimator_._outputs(X)), axis=1)
        if self.method == "platt" and len(self.classes_) != 2:
            raise InputError(
                f"method='platt' is for two classes, got {len(self.classes_)}; use 'temperature'"
            )
        weight = (
            torch.ones(len(codes)) if weights is None else torch.from_numpy(np.asarray(weights))
        )
        factor, bias = _fit_map(outputs, codes, weight.double(), self.method)
        before, after = outputs, _mapped(outputs, factor, bias)
        nlls = [_nll(torch.from_numpy(z), codes, weight.double()) for z in (before, after)]
        errors = [calibration(probabilities_of(z).mean(0), codes).ece for z in (before, after)]
        applied = bool(nlls[1] < nlls[0])
        if not applied:
            warnings.warn(
                f"calibration would move the negative log-likelihood on {len(codes)} held-out "
                f"rows from {float(nlls[0]):.6g} to {float(nlls[1]):.6g}; logits stay as they are",
                CalibrationWarning,
                stacklevel=3,
            )
            factor, bias = 1.0, 0.0
        self.report_ = CalibrationReport(
            factor, bias, len(codes), float(nlls[0]), float(nlls[1]), errors[0], errors[1], applied
        )
        self._apply(factor, bias)

    def _apply(self, factor: float, bias: float) -> None:
        """Fold the map into copies of the estimator's instances."""
        self.temperature_, self.bias_ = 1 / factor, bias
        count = self._likelihood().outputs
        shift = torch.zeros(count).double()
        shift[-1] = bias
        self.instances_ = [
            fold_outputs(copy.deepcopy(instance), torch.full((count,), factor).double(), shift)
            for instance in self.estimator_.instances_
        ]
        self.module_ = self.instances_[0]

    def _likelihood(self) -> Likelihood:
        """Return what the outputs mean."""
        likelihood: Likelihood = self.estimator_._likelihood()
        return likelihood

    def _outputs(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield calibrated outputs of all instances, in pieces."""
        return self._outputs_of(self._inputs(X), self.instances_)

    def _inputs(self, X: Any) -> NDArray[Any]:
        """Check the inputs of a prediction as the estimator does."""
        check_is_fitted(self)
        values: NDArray[Any] = self.estimator_._inputs(X)
        return values

    def _outputs_of(
        self, values: NDArray[Any], instances: Sequence[nn.Module]
    ) -> Iterator[NDArray[Any]]:
        """Run instances as the estimator does."""
        pieces: Iterator[NDArray[Any]] = self.estimator_._outputs_of(values, instances)
        return pieces


def _mapped(outputs: NDArray[Any], factor: float, bias: float) -> NDArray[Any]:
    """Multiply logits and shift the last one."""
    mapped = outputs * factor
    mapped[..., -1] += bias
    return mapped


def _nll(outputs: Tensor, codes: NDArray[Any], weights: Tensor) -> Tensor:
    """Weighted mean negative log-likelihood of the mean over instances."""
    if outputs.shape[-1] == 1:
        signs = torch.from_numpy(2.0 * codes - 1)
        logs = functional.logsigmoid(outputs[..., 0] * signs)
    else:
        logs = outputs.log_softmax(-1)[:, torch.arange(len(codes)), torch.from_numpy(codes)]
    rows = math.log(outputs.shape[0]) - logs.logsumexp(0)
    return (rows * weights).sum() / weights.sum()


def _fit_map(
    outputs: NDArray[Any], codes: NDArray[Any], weights: Tensor, method: CalibrationMethod
) -> tuple[float, float]:
    """Minimise the negative log-likelihood over factor and bias with LBFGS."""
    logits = torch.from_numpy(outputs)
    free = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([free], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def unpack() -> tuple[Tensor, Tensor]:
        factor = (LOG_LIMIT * torch.tanh(free[0] / LOG_LIMIT)).exp()
        return factor, free[1] if method == "platt" else torch.zeros(()).double()

    def loss() -> Tensor:
        optimizer.zero_grad()
        factor, bias = unpack()
        shift = functional.pad(bias.view(1), (logits.shape[-1] - 1, 0))
        value = _nll(logits * factor + shift, codes, weights)
        torch.autograd.backward(value)
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    factor, bias = unpack()
    return float(factor.detach()), float(bias.detach())
