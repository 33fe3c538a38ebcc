"""What a model is made of, and what it does beyond the last switch on a ray."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from farfield.report.content.words import distance, plural

if TYPE_CHECKING:
    from farfield.audit.fields.directions import Family
    from farfield.audit.record import Audit


def comes_to_rest(audit: Audit) -> bool:
    """Whether the model is constant far away, as trees are."""
    return bool(audit.families) and all(family.constant for family in audit.families)


def switch_told(family: Family, audit: Audit) -> str:
    """Where the last switch is, and what may come after it; empty where there is none."""
    if audit.verdict.seen_to is not None or not math.isfinite(family.reach):
        return ""
    if family.reach == 0 and not family.constant:
        # A linear model: nothing in it switches.
        return ""
    told = f"{distance(family.reach)} on the middle ray"
    if family.constant:
        return f"{told}; nothing changes beyond"
    return f"{told}; the class may still change beyond" if audit.task == "classification" else told


def beyond_told(audit: Audit) -> str:
    """What happens on a ray beyond the last switch."""
    if comes_to_rest(audit):
        return "Beyond the last switch of a split nothing changes."
    if not any(math.isfinite(each.reach) for each in audit.rays):
        return ""
    if not any(each.reach > 0 for each in audit.rays):
        return "Nothing switches on these rays: logits are straight lines, which may still cross."
    return "Beyond the last switch of a neuron, logits are straight lines, which may still cross."


def made_of(audit: Audit) -> str:
    """How many numbers a model holds."""
    if comes_to_rest(audit):
        return plural(audit.model.parameters, "threshold or leaf", "thresholds and leaves")
    return plural(audit.model.parameters, "parameter")
