"""What a training and a calibration did, in numbers."""

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


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What calibration did on the held-out rows.

    Attributes:
        factor: What logits are multiplied by: one over the temperature.
        bias: What is added to the logit of the second class (Platt), else 0.
        rows: Held-out rows.
        nll_before, nll_after: Mean negative log-likelihood.
        ece_before, ece_after: Expected calibration error, 15 equal bins.
        applied: Whether the calibration is in use.
    """

    factor: float
    bias: float
    rows: int
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    applied: bool
