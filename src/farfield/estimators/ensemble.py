"""Deep ensembles."""

from dataclasses import dataclass
from typing import final

from farfield.estimators.archive import can_be_saved
from farfield.estimators.incremental import IncrementalClassifier
from farfield.estimators.methods import Method, Plain
from farfield.estimators.settings import count_problems


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

    Further parameters: see ``farfield.estimators.settings.Settings`` and ``NeuralClassifier``.
    """

    members: int = 10

    def _problems(self) -> list[str]:
        """List unusable parameters."""
        return [*super()._problems(), *count_problems(self, "members")]

    def _method(self) -> Method:
        """Train independent members."""
        return Plain(self.members)
