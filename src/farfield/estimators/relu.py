"""A single network."""

from dataclasses import dataclass
from typing import final

from farfield.estimators.archive import can_be_saved
from farfield.estimators.incremental import IncrementalClassifier
from farfield.estimators.methods import Method, Plain


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class ReLUClassifier(IncrementalClassifier):
    """One ReLU network: the model whose far field the papers are about.

    Parameters: see ``farfield.estimators.settings.Settings`` and ``NeuralClassifier``.

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
