"""FF3xx: members of an ensemble, and predicted spreads, that give no sign far away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.audit.findings.directions import is_bare
from farfield.audit.findings.finding import Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.report.content.words import percent, plural

if TYPE_CHECKING:
    from farfield.audit.record import Audit

# Members agree in a family of directions if they do on at least this share of its rays.
MOST = 0.5
SHOWN = 5


def _agree(audit: Audit) -> Found | None:
    if audit.model.instances < 2 or not is_bare(audit):
        return None
    families = [each for each in audit.families if each.rays and 1 - each.disagreeing >= MOST]
    if not families:
        return None
    families.sort(key=lambda each: each.disagreeing)
    worst = families[0]
    return Found(
        f"All {audit.model.instances} members end in the same class on "
        f"{percent(1 - worst.disagreeing)} of the {plural(worst.rays, 'ray')} of {worst.name}: "
        "there, the vote says no more than one of them.",
        tuple(
            Measure(f"rays on which all members agree: {each.title}", 1 - each.disagreeing,
                    "seen" if audit.verdict.seen_to is not None else "sample", share=True)
            for each in families
        ),
        action=audit.at_hand.guard(),
    )  # fmt: skip


def _collapse(audit: Audit) -> Found | None:
    bad = [each for each in audit.collapses if each.collapses >= MOST]
    if not bad:
        return None
    bad.sort(key=lambda each: -each.collapses)
    columns = tuple(dict.fromkeys(each.feature for each in bad))
    worst = bad[0]
    return Found(
        f"{plural(len(columns), 'feature')} make the predicted spread shrink to its smallest value "
        f"far away. The worst: {worst.feature}, going {worst.side}, for "
        f"{percent(worst.collapses)} of the sampled rows.",
        tuple(
            Measure(f"{each.feature}, {each.side}: rows that collapse", each.collapses, "sample",
                    share=True)
            for each in bad[:SHOWN]
        ),
        columns,
        audit.at_hand.train(
            "regressor", "--set", "members=10", gaps=bool(audit.data.missing),
            python="ff.EnsembleRegressor(members=10).fit(X, y)",
        ),
    )  # fmt: skip


KINDS = (
    FindingKind(
        code="FF301",
        title="members agree out there",
        severity="warning",
        why=(
            "An ensemble is asked because its members are hoped to disagree about what they have "
            "not seen. Where all of them end in the same class far away, their disagreement, and "
            "every score that is made of it, vanishes."
        ),
        how=(
            "Every ray is followed to infinity for each member. The finding is made if all members "
            f"end in one class on at least {percent(MOST)} of the rays of some family. On each ray "
            "the answer is exact; the share is of the rays that were followed."
        ),
        todo=(
            "Guard the ensemble; more members, or members that are anchored apart "
            "(`farfield train anchored`), make unanimity rarer but prove nothing."
        ),
        ignore="If members are not meant to tell anything about being far away.",
        find=_agree,
    ),
    FindingKind(
        code="FF302",
        title="spread collapses",
        severity="error",
        why=(
            "A regressor that predicts its own spread is trusted where the spread is small. If it "
            "shrinks to nothing far away from the data, the model is surest where it knows least."
        ),
        how=(
            "The slope of the raw scale is computed at infinity, exactly, for both ends of every "
            "numeric feature without a bound. The spread collapses where the slope is negative for "
            f"every member; the finding lists ends where that is so for at least {percent(MOST)} "
            "of the sampled rows."
        ),
        todo="Use an ensemble: its members part in every direction in which their slopes differ.",
        ignore="If inputs are provably kept inside of the ranges of the training data.",
        find=_collapse,
    ),
)
