"""Confidence enhancing data augmentation (Hein et al. 2019, eq. 1)."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from farfield.objectives.confidence_enhancing import ConfidenceEnhancing
from farfield.objectives.objective import Batch, MemberNetwork


@final
@dataclass(frozen=True)
class CEDA(ConfidenceEnhancing):
    """Be unsure on noise: every batch has as many noise points as rows.

    Constants: see :class:`ConfidenceEnhancing`.

    >>> CEDA().ratio
    1.0
    """

    def _outside(
        self,
        network: MemberNetwork,
        batch: Batch,
        drawn: Tensor,
        generators: list[torch.Generator],
    ) -> Tensor:
        """Return the noise as it was drawn."""
        return drawn
