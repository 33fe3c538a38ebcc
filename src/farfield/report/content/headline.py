"""The verdict in plain words: what the number is, and what it means for whoever relies on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from farfield.estimate import Estimate
from farfield.report.content.words import UNKNOWN, harmless, listed, percent

if TYPE_CHECKING:
    from farfield.audit.fields.directions import Family
    from farfield.audit.record import Audit

Outcome = Literal["passed", "failed", "unasked"]


@dataclass(frozen=True)
class Headline:
    """What stands at the top.

    Attributes:
        outcome: Whether the audit passed, failed, or had nothing to pass.
        badge: The outcome in a few words.
        number: The blind share.
        known: How well it is known: counted, or an interval.
        of: What it is a share of.
        meaning: Two sentences for people who rely on the model.
        family: The family that the number belongs to, if it is there.
    """

    outcome: Outcome
    badge: str
    number: str
    known: str
    of: str
    meaning: tuple[str, str]
    family: Family | None


def headline(audit: Audit) -> Headline:
    """Say what was found, before anything else."""
    verdict = audit.verdict
    family = next((each for each in audit.families if each.name == verdict.family), None)
    return Headline(
        outcome=_outcome(audit),
        badge=_badge(audit),
        number=percent(verdict.blind) if math.isfinite(verdict.blind) else "?",
        known=_known(family, verdict.seen_to),
        of=_counted(audit),
        meaning=_meaning(audit),
        family=family,
    )


def _outcome(audit: Audit) -> Outcome:
    if not audit.passed:
        return "failed"
    return "unasked" if audit.verdict.passed is None and audit.policy is None else "passed"


def _badge(audit: Audit) -> str:
    verdict = audit.verdict
    broken = list(dict.fromkeys(each.code for each in audit.findings if each.breaks))
    if broken and verdict.passed is not False:
        return f"Failed: {harmless(listed(broken))}"
    if verdict.passed is None or verdict.max_blind is None:
        return "No limit was set" if audit.policy is None else "Passed: nothing breaks its budget"
    allowed = f"{percent(verdict.max_blind)} allowed"
    return f"Passed: {allowed}" if verdict.passed else f"Failed: {allowed}"


def _known(family: Family | None, seen_to: float | None) -> str:
    if family is None:
        return ""
    if isinstance(family.share, Estimate):
        share = family.share
        how = "" if seen_to is None else f"sampled, seen {seen_to:,.0f} sd out; "
        return (
            f"{how}between {percent(share.low)} and {percent(share.high)}, "
            f"{percent(share.level)} confidence"
        )
    return "exact: every direction of the family was counted"


def _counted(audit: Audit) -> str:
    if audit.task == "regression":
        return "of directions: no sign of being far out"
    return f"of directions: {_sure(audit)} sure at the far end"


def _sure(audit: Audit) -> str:
    threshold = percent(audit.verdict.threshold)
    return "almost" if threshold == UNKNOWN else threshold


def _meaning(audit: Audit) -> tuple[str, str]:
    """Two sentences: what happens, and what not to conclude."""
    blind = audit.verdict.blind
    if not math.isfinite(blind):
        return ("The share of blind directions is not known.", "See the sections below.")
    if audit.task == "regression":
        return _meaning_of_regressor(blind)
    if blind == 0:
        return (
            f"In none of the directions that were followed does the model end up {_sure(audit)} "
            "sure of a class: far away from its data, its confidence stays lower.",
            "A low confidence can serve as a warning there; nearer to the data, look at the curves "
            "and distances below before relying on it.",
        )
    where = "every direction" if blind == 1 else f"{percent(blind)} of the directions"
    return (
        f"Push an input further and further away from anything the model has seen: in {where} "
        f"of this family it ends up {_sure(audit)} sure of some class, or more.",
        "So a high confidence is no evidence that a case resembles the training data; check inputs "
        "against the ranges below before relying on it.",
    )


def _meaning_of_regressor(blind: float) -> tuple[str, str]:
    if blind == 0:
        return (
            "In every direction that was followed, the predicted spread grows or the members move "
            "apart: the model gives a sign of being far away from its data.",
            "How fast the sign grows is shown below, feature by feature.",
        )
    where = "every direction" if blind == 1 else f"{percent(blind)} of the directions"
    return (
        f"Push an input further and further away from anything the model has seen: in {where} "
        "of this family neither the predicted spread nor the distance between members grows.",
        "So a narrow predicted interval is no evidence that a case resembles the training data.",
    )
