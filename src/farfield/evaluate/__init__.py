"""Evaluation: detection, calibration, confidence and regression, with intervals on request.

For detection **out-of-distribution is positive** and scores are uncertainties: higher means
more uncertain. A number of the given points is a plain ``float``; what it says about the
distribution they were drawn from is an `Estimate`, which carries its interval.
"""

from farfield.estimate import Estimate, clopper_pearson
from farfield.evaluate.calibration import Calibration, ReliabilityBin, calibration
from farfield.evaluate.confidence import mean_max_confidence
from farfield.evaluate.confidence_result import ConfidenceRow, ConfidenceTable, ModelConfidence
from farfield.evaluate.confidence_table import (
    ADVERSARIAL_NOISE,
    ADVERSARIAL_SAMPLES,
    Attack,
    confidence_table,
)
from farfield.evaluate.detection import Detection, detection
from farfield.evaluate.regression import (
    Regression,
    combine_members,
    gaussian_nll,
    laplace_nll,
    mixture_nll,
    regression,
)
from farfield.evaluate.smallest_flip import SmallestFlip

__all__ = [
    "ADVERSARIAL_NOISE",
    "ADVERSARIAL_SAMPLES",
    "Attack",
    "Calibration",
    "ConfidenceRow",
    "ConfidenceTable",
    "Detection",
    "Estimate",
    "ModelConfidence",
    "Regression",
    "ReliabilityBin",
    "SmallestFlip",
    "calibration",
    "clopper_pearson",
    "combine_members",
    "confidence_table",
    "detection",
    "gaussian_nll",
    "laplace_nll",
    "mean_max_confidence",
    "mixture_nll",
    "regression",
]
