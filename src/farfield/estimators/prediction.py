"""Predictions of a classifier that has instances."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from farfield.scores import LOGIT_SCORES, score_by_name


class InstanceClassifier(ClassifierMixin):  # type: ignore[misc]  # scikit-learn ships no types
    """Probabilities, labels and uncertainty scores out of the instances' outputs."""

    classes_: NDArray[Any]

    if TYPE_CHECKING:
        # Declared only: this mixin stands before the class that defines it.
        def _outputs(self, X: Any) -> Iterator[NDArray[Any]]:
            """Yield outputs of all instances, ``(instances, rows, outputs)``, in pieces."""

    def predict_instances(self, X: Any) -> NDArray[Any]:
        """Return every instance's probabilities, ``(instances, points, classes)``."""
        return np.concatenate([probabilities_of(part) for part in self._outputs(X)], axis=1)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the mean over instances, ``(points, classes)``."""
        return np.concatenate([probabilities_of(part).mean(0) for part in self._outputs(X)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of every point."""
        probabilities = self.predict_proba(X)
        labels: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return labels

    def uncertainty(self, X: Any, name: str = "predictive_entropy") -> NDArray[Any]:
        """Return a score of ``farfield.scores`` by name, ``(points,)``; higher = more uncertain.

        Args:
            X: Points.
            name: A score of probabilities, or of logits: ``"energy"``, ``"negative_max_logit"``.
        """
        if name in LOGIT_SCORES:
            score, view = LOGIT_SCORES[name], _two_logits
        else:
            score, view = score_by_name(name), probabilities_of
        return np.concatenate([score(view(part)) for part in self._outputs(X)])


def _two_logits(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return one logit per class: a single logit ``f`` is ``(0, f)``."""
    if outputs.shape[-1] == 1:
        return np.concatenate([np.zeros_like(outputs), outputs], axis=-1)
    return outputs


def probabilities_of(outputs: NDArray[Any]) -> NDArray[Any]:
    """Turn outputs ``(instances, points, outputs)`` into probabilities.

    Example:
        >>> probabilities_of(np.zeros((1, 1, 1))).tolist()
        [[[0.5, 0.5]]]
    """
    if outputs.shape[-1] == 1:
        return np.concatenate([expit(-outputs), expit(outputs)], axis=-1)
    return np.asarray(softmax(outputs, axis=-1))
