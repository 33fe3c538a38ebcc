"""FF1xx: directions, and features, along which the model ends up certain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from farfield.audit.findings.finding import Known, Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.estimate import Estimate, value_of
from farfield.report.content.words import listed, number, percent, plural, reached

if TYPE_CHECKING:
    from farfield.audit.fields.directions import Family
    from farfield.audit.fields.features import End, Feature
    from farfield.audit.fields.kinds import Share
    from farfield.audit.record import Audit

# From this blind share on, a family of directions is worth a finding.
MANY = 0.1
# An end of a feature counts if at least this share of the rows ends certain there.
MOST = 0.5
# Numbers that a finding shows.
SHOWN = 5


def known(value: Share, otherwise: Known = "exact") -> Known:
    """How a share is known: its type says it."""
    return "interval" if isinstance(value, Estimate) else otherwise


def is_bare(audit: Audit) -> bool:
    """Whether a classifier answers by itself, without a guard around it."""
    return audit.task == "classification" and not audit.model_is_guarded


def _blind(families: list[Family]) -> tuple[Measure, ...]:
    return tuple(
        Measure(f"blind: {each.title}", each.share, known(each.share), share=True)
        for each in families
    )


def _everywhere(audit: Audit) -> Found | None:
    families = [each for each in audit.families if value_of(each.share) == 1]
    if not is_bare(audit) or not families:
        return None
    sure = percent(audit.verdict.threshold)
    names = listed([each.name for each in families])
    followed = sum(each.rays for each in families)
    return Found(
        f"Whichever way an input leaves the data, the model ends up {sure} sure of a class or "
        f"more: in every direction of {names} ({plural(followed, 'ray')}).",
        _blind(families),
        action=audit.at_hand.guard(),
    )


def _many(audit: Audit) -> Found | None:
    families = [each for each in audit.families if value_of(each.share) >= MANY]
    if not is_bare(audit) or not families or any(value_of(f.share) == 1 for f in families):
        return None
    families.sort(key=lambda each: -value_of(each.share))
    sure, worst = percent(audit.verdict.threshold), families[0]
    return Found(
        f"In {percent(value_of(worst.share))} of the directions ({worst.name}) the model ends up "
        f"{sure} sure of a class or more.",
        _blind(families),
        action=audit.at_hand.guard(),
    )


def _certain_ends(feature: Feature) -> list[tuple[str, End]]:
    ends = (("down", feature.down), ("up", feature.up))
    return [
        (side, end)
        for side, end in ends
        if end is not None and end.bound is None and value_of(end.blind) >= MOST
    ]


def _feature(audit: Audit) -> Found | None:
    if not is_bare(audit):
        return None
    certain = [(each, _certain_ends(each)) for each in audit.features]
    certain = [(feature, ends) for feature, ends in certain if ends]
    if not certain:
        return None
    certain.sort(key=lambda each: each[0].soonest)
    soonest = [(feature, *_soonest(ends)) for feature, ends in certain[:SHOWN]]
    return Found(
        f"{plural(len(certain), 'feature')} of {len(audit.features)} can do it alone. The soonest "
        f"is {_told(*soonest[0], audit)}",
        tuple(
            Measure(f"{feature.name}, {side}: 99.9% sure for good from (middle row)", end.value[1],
                    _how(end, audit), unit=feature.unit)
            for feature, side, end in soonest
            if math.isfinite(end.value[1])
        ),
        tuple(feature.name for feature, _ in certain),
        audit.at_hand.guard(),
    )  # fmt: skip


def _soonest(ends: list[tuple[str, End]]) -> tuple[str, End]:
    return min(ends, key=lambda each: _order(each[1].beyond[1]))


def _told(feature: Feature, side: str, end: End, audit: Audit) -> str:
    share = f"{percent(value_of(end.blind))} of the rows end certain of {end.label}"
    if not math.isfinite(end.value[1]):
        return f"{feature.name}, going {side}: {share}."
    seen = audit.verdict.seen_to is not None
    value = reached(end.value[1], feature.unit, bound=not end.exact and not seen, seen=seen)
    return (
        f"{feature.name}, going {side}: {share}, half of them 99.9% sure for good from {value} on; "
        f"in the data it is {number(feature.low)} to {number(feature.high)}."
    )


def _how(end: End, audit: Audit) -> Known:
    if audit.verdict.seen_to is not None:
        return "seen"
    return "exact" if end.exact else "at most"


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value


KINDS = (
    FindingKind(
        code="FF101",
        title="certain in every direction",
        severity="error",
        why=(
            "A model that is certain infinitely far away from its data, whichever way one goes, "
            "gives no sign when it is asked about something it has never seen: a faulty sensor, "
            "another population, a slip of the keyboard. High confidence then says nothing about "
            "whether a case resembles the training data. Single ReLU networks and logistic "
            "regressions do this by construction (Hein et al. 2019); temperature scaling does not "
            "help."
        ),
        how=(
            "Every ray of a family of directions is followed to infinity and the limit of the "
            "probabilities is computed. A direction is *blind* if the largest of them is at least "
            "the threshold (99% unless --threshold says otherwise). The finding is made if every "
            "ray of some family is blind. Shares that count all directions are exact; those of "
            "random directions carry a Clopper-Pearson interval."
        ),
        todo=(
            "Guard the model: `farfield guard` keeps every predicted class, leaves probabilities "
            "where the data is as they are to the bit, and proves that no class exceeds "
            "1/K + epsilon beyond a stated radius. With --envelope the outputs stay untouched and "
            "an alarm is added beside them. An ensemble helps only where its members disagree."
        ),
        ignore=(
            "If something in front of the model provably keeps inputs inside of the ranges of the "
            "training data: then give these bounds in a schema, and the audit will only look "
            "inside of them."
        ),
        find=_everywhere,
    ),
    FindingKind(
        code="FF102",
        title="one feature makes the model certain",
        severity="error",
        why=(
            "One wrong number is the most common error in data. If one column alone, all others "
            "as they were, makes the model certain, then one wrong number gives a confident "
            "answer."
        ),
        how=(
            "Each numeric column is moved up and down alone, from sampled rows of the data, to "
            "infinity. The finding is made for columns in which at least half of the rows end at "
            "the threshold's confidence or more at an end without a bound. The value from which "
            "on 99.9% is reached for good is exact where the report does not say otherwise, for "
            "each row; what is shown is the middle row."
        ),
        todo=(
            "Guard the model, or reject values outside of the ranges of the data before they "
            "reach it. Columns with natural bounds belong in a schema: an end that cannot occur "
            "is no direction."
        ),
        ignore=(
            "For columns that are checked at entry: accept the finding for these columns, with "
            "the reason."
        ),
        find=_feature,
    ),
    FindingKind(
        code="FF103",
        title="certain in many directions",
        severity="warning",
        why=(
            "In a part of all directions the model ends up certain, and gives no sign of being "
            "far away from its data; which part is hard to foresee for whoever uses it."
        ),
        how=(
            f"As FF101, for models that are blind in at least {percent(MANY)} of the directions of "
            "some family, but not in every one of any."
        ),
        todo="Guard the model, as for FF101; look at the table of directions for where it is.",
        ignore="As FF101. A budget for the blind share in farfield.toml says how much is too much.",
        find=_many,
    ),
)
