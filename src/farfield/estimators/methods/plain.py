"""Deep ensembles: members that differ by starting weights and order of the rows."""

from dataclasses import dataclass
from typing import final

from farfield.estimators.methods.method import Architecture, Method
from farfield.networks.stack import Stack


@final
@dataclass(frozen=True, slots=True)
class Plain(Method):
    """Independent members (Lakshminarayanan et al. 2017); one member is a single network."""

    members: int = 1

    def stack(self, architecture: Architecture, rows: int, seed: int) -> Stack:
        """Stack the members."""
        return architecture.build(self.members, seed)
