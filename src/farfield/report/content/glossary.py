"""What the words of a report mean; ``docs/glossary.md`` says the same of more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.report.content.switches import comes_to_rest, switch_told
from farfield.report.content.words import percent

if TYPE_CHECKING:
    from farfield.audit.record import Audit

Entry = tuple[str, str]
CONFIDENCE = "The largest of the probabilities that the model gives to its classes."
FAR_FIELD = (
    "What a value tends to when the input moves on forever in one direction. It is computed, not "
    "extrapolated."
)
SPREAD_BLIND = "A direction in which neither the predicted spread grows nor the members move apart."
FAMILY = "Directions that are drawn in one way: every feature alone, or random ones, for example."
REACH = "The distance on a ray beyond which no neuron, and no split of a tree, switches any more."
INSTANCE = "One network of several that answer together: a member, a dropout mask, a weight draw."
EXACT = "Every case was counted or proven."
SAMPLED = "Known from some cases, with an interval that says how well."
DEVIATION = "The typical distance of a value in the data from its mean."
SCORE = "A number that says how uncertain the model is: higher means more uncertain."
COVERED = "The inputs that a guard takes for familiar and does not change."
RADIUS = "The distance from the mean of the data to the furthest training row that is covered."
GUARD = (
    "A model that answers as the one inside of it where the data is, and as good as uniformly "
    "beyond a stated radius, with a proof."
)
WHITENED = (
    "Measured so that the columns of the data have no correlation and a deviation of one each."
)
ASSUMPTIONS = (
    "Conditions under which a proof says that confidence must become certain (Ulmer and Cinà, Know "
    "Your Limits, Proposition 2). The limits in this report do not need them."
)


def words_used(audit: Audit) -> list[Entry]:
    """The words of this report with their meanings, those that it can show only."""
    seen_to, several = audit.verdict.seen_to, audit.model.instances > 1
    entries: list[tuple[bool, str, str]] = [
        (True, "Blind", _blind(audit)),
        (audit.task == "classification", "Confidence", CONFIDENCE),
        (seen_to is None, "At infinity, the far field", FAR_FIELD),
        (seen_to is not None, "Seen", _seen(seen_to or 0.0)),
        (True, "Family of directions", FAMILY),
        (_switches(audit), "Reach, the last switch", _reach(audit)),
        (several, "Instance or member", INSTANCE),
        (True, "Exact", EXACT),
        (True, "Sampled, estimated", SAMPLED),
        (True, "Standard deviation (sd)", DEVIATION),
        (True, "Score", SCORE),
        (audit.guard is not None or bool(audit.remedies), "Guard", GUARD),
        (audit.guard is not None, "Covered set", COVERED),
        (audit.guard is not None, "Data radius", RADIUS),
        (True, "Whitened", WHITENED),
        (
            _has_assumptions(audit),
            "Assumptions of the theorem",
            ASSUMPTIONS,
        ),
    ]
    return [(word, meaning) for is_used, word, meaning in entries if is_used]


def _blind(audit: Audit) -> str:
    if audit.task == "regression":
        return SPREAD_BLIND
    sure = percent(audit.verdict.threshold)
    return f"A direction in which the model ends up {sure} sure of a class, or more."


def _seen(seen_to: float) -> str:
    return (
        "This model could only be evaluated. Every ray was looked at in a few places, the last "
        f"{seen_to:,.0f} standard deviations out; between and beyond them nothing is known."
    )


def _reach(audit: Audit) -> str:
    """Of neurons or of splits: a report does not speak of what its model has none of."""
    absent = "neuron, and no " if comes_to_rest(audit) else ", and no split of a tree,"
    return REACH.replace(absent, "")


def _switches(audit: Audit) -> bool:
    return any(switch_told(family, audit) for family in audit.families)


def _has_assumptions(audit: Audit) -> bool:
    ends = (end for each in audit.features for end in (each.down, each.up) if end is not None)
    return any(end.assumptions is not None for end in ends)
