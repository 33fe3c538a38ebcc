"""What a calibration did, in numbers."""

from dataclasses import dataclass


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
