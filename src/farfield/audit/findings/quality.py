"""FF4xx: how good the model's numbers are on data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.audit.findings.finding import Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.report.content.words import is_telling, percent, score_title

if TYPE_CHECKING:
    from farfield.audit.fields.quality import Detected
    from farfield.audit.record import Audit

# A calibration error whose interval lies above this is worth a finding.
MISCALIBRATED = 0.05


def _calibration(audit: Audit) -> Found | None:
    health = audit.health
    if health is None or "ece" not in health.numbers or health.numbers["ece"].low <= MISCALIBRATED:
        return None
    ece, accuracy = health.numbers["ece"], health.numbers["accuracy"]
    sure = "" if health.mmc is None else f"; it is {percent(health.mmc)} sure on average"
    return Found(
        f"On {health.rows:,} rows confidence and accuracy are {percent(ece.value)} apart on "
        f"average. The model is right on {percent(accuracy.value)}{sure}.",
        (
            Measure("calibration error (ECE)", ece, "interval", share=True),
            Measure("accuracy", accuracy, "interval", share=True),
        ),
        action="ff.TemperatureScaling(estimator).fit(X_held_out, y_held_out)",
    )


def _constant(audit: Audit) -> Found | None:
    health = audit.health
    if health is None or health.baseline is None or "accuracy" not in health.numbers:
        return None
    accuracy = health.numbers["accuracy"]
    if accuracy.value >= health.baseline:
        return None
    return Found(
        f"The model is right on {percent(accuracy.value)} of {health.rows:,} rows; always naming "
        f"the most frequent class is right on {percent(health.baseline)}. Most likely the columns "
        "are in another order or scale than in training, or the labels are others.",
        (
            Measure("accuracy", accuracy, "interval", share=True),
            Measure("accuracy of the most frequent class", health.baseline, "exact", share=True),
        ),
        action=audit.at_hand.audit("--expected-accuracy", "0.9"),
    )


def _distance(audit: Audit) -> Found | None:
    beaten = [pair for pair in map(_best, _by_set(audit).values()) if pair is not None]
    if not beaten:
        return None
    beaten.sort(key=lambda pair: pair[0].auroc.value - pair[1].auroc.value)
    own, plain = beaten[0]
    return Found(
        f"{plain.dataset} is told from the data with an AUROC of {percent(plain.auroc.value)} by "
        f"{score_title(plain.score).lower()}, which does not look at what the model says; the "
        f"model's best score ({score_title(own.score).lower()}) reaches "
        f"{percent(own.auroc.value)}.",
        tuple(
            Measure(f"{each.dataset}: AUROC of {score_title(each.score).lower()}", each.auroc,
                    "interval", share=True)
            for pair in beaten
            for each in pair
        ),
        action=audit.at_hand.guard("--envelope"),
    )  # fmt: skip


def _by_set(audit: Audit) -> dict[str, list[Detected]]:
    grouped: dict[str, list[Detected]] = {}
    for each in audit.detection:
        if each.reference or is_telling(each.score, audit.model.instances):
            grouped.setdefault(each.dataset, []).append(each)
    return grouped


def _best(found: list[Detected]) -> tuple[Detected, Detected] | None:
    """The best score and the best distance, if the distance is better beyond their intervals."""
    own = [each for each in found if not each.reference]
    plain = [each for each in found if each.reference]
    if not own or not plain:
        return None
    mine, theirs = (max(each, key=lambda one: one.auroc.value) for each in (own, plain))
    return (mine, theirs) if theirs.auroc.low > mine.auroc.high else None


KINDS = (
    FindingKind(
        code="FF401",
        title="miscalibrated",
        severity="warning",
        why=(
            "If 90% confidence does not mean being right nine times out of ten, thresholds on the "
            "confidence do not do what they were set for, near the data already."
        ),
        how=(
            "The expected calibration error in bins of equal width over the labelled rows, with "
            f"a bootstrap interval. The finding is made if the whole interval lies above "
            f"{percent(MISCALIBRATED)}. On the data of its own training a model looks better than "
            "it is."
        ),
        todo=(
            "Scale the temperature on rows that were not trained on (ff.TemperatureScaling), then "
            "audit again. It changes nothing infinitely far away."
        ),
        ignore="If only the predicted class is used, never the probability.",
        find=_calibration,
    ),
    FindingKind(
        code="FF402",
        title="a plain distance beats every score",
        severity="warning",
        why=(
            "The model's own uncertainty is worth its price only if it tells strange inputs better "
            "than what needs no model: the distance to the training data."
        ),
        how=(
            "For every set of foreign data (--ood) the AUROC of each score of the model is held "
            "against the Mahalanobis distance and the distance to the nearest neighbours. The "
            "finding is made if the interval of the best distance lies above that of the best "
            "score."
        ),
        todo=(
            "Put a check of distance beside the model: `farfield guard --envelope` does that and "
            "leaves the outputs alone."
        ),
        ignore="If the foreign set is nothing that can reach the model.",
        find=_distance,
    ),
    FindingKind(
        code="FF403",
        title="worse than a constant answer",
        severity="error",
        why=(
            "A model that is right less often than the most frequent class was most likely given "
            "other inputs than it was trained on, and then nothing else in the audit can be "
            "trusted."
        ),
        how=(
            "The accuracy over all labelled rows is held against the share of the most frequent "
            "class."
        ),
        todo=(
            "Check that columns are in the model's order and scaled as in training, and that the "
            "labels are the model's own; state what the makers report with --expected-accuracy."
        ),
        ignore="Never, unless the rows were chosen because the model fails on them.",
        find=_constant,
    ),
)
