"""What happened while training."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class History:
    """Losses and epochs of one training.

    Attributes:
        validation: One row per epoch: the validation loss of every member.
        best_epoch: Epoch each member's weights are from, counted from 1.
        epochs: Epochs that were run.
    """

    validation: list[list[float]] = field(default_factory=list)
    best_epoch: list[int] = field(default_factory=list)
    epochs: int = 0
