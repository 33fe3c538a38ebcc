"""Uncertainty scores: probabilities or logits of instances in, one number per point out.

Every score points one way: **higher = more uncertain**. Instances come first,
``(instances, points, classes)``; ``(points, classes)`` is one instance. numpy in gives numpy
out, torch in gives torch out, and the torch results are differentiable.

========================== ==================================================== =============
score                      of the probabilities ``p[i, c]`` with mean ``m[c]``  saturated
========================== ==================================================== =============
one_minus_max_probability  ``1 - max_c m[c]``                                   ``1 - max v``
class_variance             mean over c of the variance over i of ``p[i, c]``    mean ``v(1-v)``
predictive_entropy         ``H(m)``, total uncertainty                          ``H(v)``
expected_entropy           mean over i of ``H(p[i])``, data uncertainty         0
mutual_information         the difference, knowledge uncertainty                ``H(v)``
========================== ==================================================== =============

The last column is the value when every instance puts all its mass on one class and ``v`` is the
share of votes per class: what the scores become far away from the data. On logits:
``negative_max_logit`` and ``energy``.
"""

from farfield.scores.gradient import gradient_magnitude
from farfield.scores.logit import LOGIT_SCORES, LogitScore, energy, negative_max_logit
from farfield.scores.probability import (
    PROBABILITY_SCORES,
    all_scores,
    class_variance,
    expected_entropy,
    mutual_information,
    one_minus_max_probability,
    predictive_entropy,
    score_by_name,
)
from farfield.scores.simplex import ProbabilityScore, Unit

__all__ = [
    "LOGIT_SCORES",
    "PROBABILITY_SCORES",
    "LogitScore",
    "ProbabilityScore",
    "Unit",
    "all_scores",
    "class_variance",
    "energy",
    "expected_entropy",
    "gradient_magnitude",
    "mutual_information",
    "negative_max_logit",
    "one_minus_max_probability",
    "predictive_entropy",
    "score_by_name",
]
