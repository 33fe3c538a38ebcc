"""Before and after the guard, as an audit shows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from farfield.audit.findings import Comparison
from farfield.audit.subject import Floats, Subject
from farfield.evaluate import Estimate
from farfield.guard.compare import Side, compare
from farfield.guard.falsify import falsify
from farfield.guard.model import GuardedModel
from farfield.guard.protect import guard

# Of the sampled rows, every fifth is kept out of the guard and only compared on.
KEPT_OUT = 5
# The promise: beyond three data radii no class above 1/K + 0.01.
RADII, EPSILON = 3.0, 0.01


def guarded(
    subject: Subject, rows: Floats, labels: Any, *, radii: float, epsilon: float, seed: int
) -> GuardedModel:
    """Guard a subject's model on rows of its data; one-hot blocks are categories."""
    blocks = [list(feature.places) for feature in subject.moving if feature.categorical]
    return guard(
        subject.network,
        rows,
        radii=radii,
        epsilon=epsilon,
        labels=labels,
        categorical=blocks or None,
        random_state=seed,
    )


def before_and_after(
    subject: Subject,
    ood: dict[str, Floats],
    *,
    threshold: float,
    seed: int,
    given: GuardedModel | None = None,
) -> Comparison:
    """Compare with a given guard, or with one that is fitted on most of the sampled rows.

    Rows of the result: blind shares by family, accuracy, likelihood and calibration, AUROC and
    FPR95 of every out-of-distribution set by the model's own confidence, milliseconds per row and
    per batch.
    """
    rows, labels = subject.rows, subject.labels
    apart = np.arange(len(rows)) % KEPT_OUT == 0
    if given is not None or apart.all():
        apart[:] = True
    safe = given
    if safe is None:
        inside = rows if apart.all() else rows[~apart]
        known = None if labels is None else labels if apart.all() else labels[~apart]
        safe = guarded(subject, inside, known, radii=RADII, epsilon=EPSILON, seed=seed)
    found = compare(
        None,
        safe,
        rows[apart],
        None if labels is None else labels[apart],
        ood=ood,
        threshold=threshold,
        random_state=seed,
    )
    certificate = safe.certificate
    attack = falsify(safe, random_state=seed)
    return Comparison(
        promise=found.statement,
        rows=_rows(found.before, found.after),
        certificate={
            "radius in whitened units": certificate.radius,
            "radius in data radii": certificate.radii,
            "epsilon": certificate.epsilon,
            "classes": float(certificate.classes),
            "prototypes": float(certificate.prototypes),
            "training rows unchanged": certificate.training.share,
            "unseen rows unchanged": found.identical,
            "rows with the same class": found.same_class,
            "largest probability allowed beyond the radius": certificate.largest_probability,
            "largest probability an attack found there": attack.largest,
            "metric": certificate.metric,
            "growth": certificate.method,
        },
    )


def _rows(before: Side, after: Side) -> dict[str, tuple[float, float]]:
    rows = {
        f"blind: {name}": (_value(share), _value(after.blindness[name]))
        for name, share in before.blindness.items()
    }
    for name in ("accuracy", "nll", "ece"):
        first, second = getattr(before, name), getattr(after, name)
        if first is not None and second is not None:
            rows[name] = (float(first), float(second))
    for name, (auroc, fpr95) in before.detection.items():
        rows[f"AUROC: {name}"] = (auroc, after.detection[name][0])
        rows[f"FPR95: {name}"] = (fpr95, after.detection[name][1])
    rows["milliseconds for one row"] = (1e3 * before.row_seconds, 1e3 * after.row_seconds)
    rows["milliseconds for a batch"] = (1e3 * before.batch_seconds, 1e3 * after.batch_seconds)
    return rows


def _value(share: float | Estimate) -> float:
    return share.value if isinstance(share, Estimate) else float(share)
