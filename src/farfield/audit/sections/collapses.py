"""Regressors far away: where the predicted scale collapses, and how fast the members part."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.audit.case import Case
from farfield.audit.families import regression_slopes
from farfield.audit.fields.features import Collapse
from farfield.exact import at_infinity

ROWS = 50


def compute(case: Case) -> dict[str, Any]:
    """Look at both open ends of every numeric feature.

    The scale of a head is ``softplus(rho) + eps``: it shrinks to ``eps`` where the slope of ``rho``
    is negative. The standard deviation between members grows like ``t * std(slopes of means)``.
    """
    subject = case.subject
    rows = subject.spread(ROWS)
    found = []
    for feature in subject.moving:
        if feature.discrete:
            continue
        for sign, bound in ((-1.0, feature.low), (1.0, feature.high)):
            if np.isfinite(bound):
                continue
            direction = np.zeros(rows.shape[1])
            direction[feature.places[0]] = sign
            far = at_infinity(subject.network, rows, direction)
            means, scales = regression_slopes(subject, far)
            shrinking = torch.zeros(len(rows)) if scales is None else (scales < 0).all(dim=0)
            found.append(
                Collapse(
                    feature=feature.name,
                    side="up" if sign > 0 else "down",
                    collapses=float(shrinking.double().mean()),
                    scale_slope=0.0 if scales is None else float(scales.median()),
                    spread_slope=float(means.std(dim=0, correction=0).median()),
                )
            )
    return {"collapses": tuple(found)}
