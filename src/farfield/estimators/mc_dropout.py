"""Monte-Carlo dropout."""

from dataclasses import dataclass
from typing import final

from farfield.estimators.archive import can_be_saved
from farfield.estimators.classifier import NeuralClassifier
from farfield.estimators.methods import MCDropout, Method
from farfield.estimators.settings import count_problems


@final
@can_be_saved
@dataclass(kw_only=True, eq=False, repr=False)
class MCDropoutClassifier(NeuralClassifier):
    """Monte-Carlo dropout (Gal and Ghahramani 2016) with masks drawn once, at the end of ``fit``.

    Every mask is an instance: the same for all points and all calls, so predictions are
    reproducible and each instance is a plain network.

    Attributes:
        samples: How many masks.
        dropout: Share of hidden units dropped, while training and in every mask.

    Further parameters: see ``farfield.estimators.settings.Settings`` and ``NeuralClassifier``.
    A ``module`` needs ``torch.nn.Dropout`` layers of its own.
    """

    samples: int = 50
    dropout: float = 0.2

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        return [*super()._problems(), *count_problems(self, "samples")]

    def _method(self) -> Method:
        """Train one network with dropout."""
        return MCDropout(self.samples)
