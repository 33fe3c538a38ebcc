"""The life cycle of every classifier."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from farfield.errors import InputError, failures
from farfield.estimators.learner import Learner
from farfield.estimators.prediction import InstanceClassifier
from farfield.estimators.rows import Scaling, TrainingRows, normalize_weights
from farfield.estimators.settings import ClassWeight
from farfield.estimators.trainer import Trainer
from farfield.objectives.likelihood import Bernoulli, Categorical, Likelihood


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralClassifier(InstanceClassifier, Learner):
    """A classifier around a stack of networks; subclasses choose the method.

    Attributes:
        logits: Binary problems as ``"one"`` logit with a sigmoid or ``"two"`` with a softmax.
        class_weight: ``None``, a mapping from class to weight, ``"balanced"`` (over the data)
            or ``"batch"`` (over each batch, the way Ulmer and Cinà weight the positive class).
    """

    logits: Literal["one", "two"] = "two"
    class_weight: ClassWeight = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, validation: Any = None) -> Self:
        """Train.

        Args:
            X: ``(rows, features)``; with ``module`` set, any number of dimensions.
            y: Labels of any type scikit-learn accepts.
            sample_weight: Weight of every row in the loss.
            validation: ``(X, y)`` to watch in place of a held-out share of the rows.
        """
        self._check_settings()
        X, labels = self._labelled(X, y, reset=True)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InputError(
                f"y has one class, {self.classes_[0]!r}; a classifier needs at least two"
            )
        codes = self._codes(labels, "y")
        weights = self._weights(X, labels, sample_weight)
        if weights is not None and len(np.unique(codes[weights.numpy() > 0])) < 2:
            raise InputError("fewer than two classes have rows of positive weight; add weight")
        seed = self._seed()
        scaling = self._scale(X)
        rows = TrainingRows(scaling.apply(X), self._encode(codes), weights)
        held = None
        if validation is not None:
            held = self._validation_rows(validation, scaling)
        elif self.patience is not None:
            rows, held = self._split(rows, codes, seed)
        trainer = self._trainer(
            rows, self._likelihood(), seed, balance=self.class_weight == "batch"
        )
        trainer.run(rows, held)
        self._finish(trainer, scaling, rows, seed)
        self._remember(trainer, scaling, seed)
        return self

    def _remember(self, trainer: Trainer, scaling: Scaling, seed: int) -> None:
        """Let classifiers that can go on training keep what they need for it."""

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        logits = ("logits", self.logits in ("one", "two"), "'one' or 'two'")
        return [*super()._problems(), *failures(self, logits)]

    def _labelled(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check inputs and labels together."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X, y = self._validate(X, y, reset=reset)
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise InputError(str(error)) from error
        return X, column_or_1d(y, warn=True)

    def _weights(self, X: NDArray[Any], labels: NDArray[Any], given: Any) -> Tensor | None:
        """Combine sample and class weights, mean one; ``None`` when all are equal."""
        by_class = self.class_weight is not None and self.class_weight != "batch"
        if given is None and not by_class:
            return None
        weights = self._checked_weights(given, X)
        if by_class:
            try:
                weights = weights * compute_sample_weight(self.class_weight, labels)
            except ValueError as error:
                raise InputError(str(error)) from error
        if not weights.sum() > 0:
            raise InputError("no row of any class has positive weight; add weight")
        return normalize_weights(weights)

    def _encode(self, codes: NDArray[Any]) -> Tensor:
        """Return targets for the likelihood: one-hot rows, or one column of 0 and 1."""
        if isinstance(self._likelihood(), Bernoulli):
            return torch.from_numpy(codes.astype(np.float32)[:, None])
        return torch.from_numpy(np.eye(len(self.classes_), dtype=np.float32)[codes])

    def _likelihood(self) -> Likelihood:
        """Return what the outputs mean."""
        if self.logits == "one" and len(self.classes_) == 2:
            return Bernoulli()
        return Categorical(len(self.classes_))

    def _validation_rows(self, validation: Any, scaling: Scaling) -> TrainingRows:
        """Check validation data given to ``fit``."""
        X, labels = self._labelled(*self._pair(validation), reset=False)
        codes = self._codes(labels, "validation")
        return TrainingRows(scaling.apply(X), self._encode(codes))

    def _codes(self, labels: NDArray[Any], where: str) -> NDArray[Any]:
        """Look labels up among the classes."""
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise InputError(f"{where} labels {unknown.tolist()} are not among the classes seen")
        return np.searchsorted(self.classes_, labels)
