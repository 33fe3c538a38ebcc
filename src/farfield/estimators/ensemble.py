"""Single networks and deep ensembles, which can go on training: ``partial_fit``."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from farfield.errors import InputError
from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.method import Architecture, Method
from farfield.estimators.rows import Scaling, TrainingRows
from farfield.estimators.settings import count_problems
from farfield.estimators.trainer import Trainer
from farfield.networks.stack import Stack


@final
@dataclass(frozen=True, slots=True)
class Plain(Method):
    """Independent members (Lakshminarayanan et al. 2017); one member is a single network."""

    members: int = 1

    def stack(self, architecture: Architecture, rows: int, seed: int) -> Stack:
        """Stack the members."""
        return architecture.build(self.members, seed)


@dataclass(kw_only=True, eq=False, repr=False)
class IncrementalClassifier(NeuralClassifier):
    """A classifier whose members can see more rows later."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train one epoch on these rows, going on from where the last call stopped.

        The scaling of the features and the classes are those of the first call, or of ``fit``.

        Args:
            X: ``(rows, features)``.
            y: Labels.
            classes: All labels that will ever come; needed in the first call.
            sample_weight: Weight of every row in the loss.
        """
        first = not hasattr(self, "_running")
        if first:
            self._check_settings()
        X, labels = self._labelled(X, y, reset=first)
        if first:
            self.classes_ = np.unique(labels if classes is None else classes)
            if len(self.classes_) < 2:
                raise InputError(
                    f"only one class, {self.classes_[0]!r}; name all of them with classes="
                )
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise InputError(
                f"classes={np.unique(classes).tolist()} is not the same as in the first call, "
                f"{self.classes_.tolist()}"
            )
        codes = self._codes(labels, "y")
        weights = self._weights(X, labels, sample_weight)
        if first:
            scaling, seed = self._scale(X), self._seed()
            rows = TrainingRows(scaling.apply(X), self._encode(codes), weights)
            balance = self.class_weight == "batch"
            self._remember(
                self._trainer(rows, self._likelihood(), seed, balance=balance), scaling, seed
            )
        trainer, scaling, seed = self._running
        rows = TrainingRows(scaling.apply(X), self._encode(codes), weights)
        trainer.run(rows, epochs=1)
        self._finish(trainer, scaling, rows, seed)
        return self

    def _remember(self, trainer: Trainer, scaling: Scaling, seed: int) -> None:
        """Keep the trainer with its optimiser."""
        self._running = (trainer, scaling, seed)


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class ReLUClassifier(IncrementalClassifier):
    """One ReLU network: the model whose far field the papers are about.

    Parameters: see ``TrainingSettings`` and ``NeuralClassifier``.

    Example:
        >>> import numpy as np
        >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> model = ReLUClassifier(hidden=(8,), epochs=50, learning_rate=0.05, random_state=0)
        >>> model.fit(X, ["left", "left", "right", "right"]).predict([[-3.0], [3.0]]).tolist()
        ['left', 'right']
    """

    def _method(self) -> Method:
        """Train one member."""
        return Plain(1)


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleClassifier(IncrementalClassifier):
    """A deep ensemble (Lakshminarayanan, Pritzel and Blundell 2017), trained all at once.

    ``p(y | x)`` is the mean of the members' probabilities. Members see all rows and differ by
    starting weights and the order of the rows; what a member becomes does not depend on how
    many train beside it.

    Attributes:
        members: How many networks.

    Further parameters: see ``TrainingSettings`` and ``NeuralClassifier``.
    """

    members: int = 10

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        return [*super()._problems(), *count_problems(self, "members")]

    def _method(self) -> Method:
        """Train independent members."""
        return Plain(self.members)
