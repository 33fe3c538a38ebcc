"""FF6xx: on what grounds the audit's numbers, and the theorems about them, stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.audit.findings.finding import Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.report.content.words import percent, plural

if TYPE_CHECKING:
    from farfield.audit.record import Audit

SHOWN = 5
# From this share of its weights on it is worth saying that they have no part.
HALF = 0.5


def _theorem(audit: Audit) -> Found | None:
    checked = [
        (feature.name, side, end.assumptions)
        for feature in audit.features
        for side, end in (("down", feature.down), ("up", feature.up))
        if end is not None and end.assumptions is not None
    ]
    fails = sorted((each for each in checked if each[2] < 1), key=lambda each: each[2])
    if not fails:
        return None
    return Found(
        f"Of {plural(len(checked), 'end')} of features, {len(fails)} have rows in whose last "
        "region the assumptions of Proposition 2 do not hold: there the theorem says nothing. The "
        "limits in this audit do not need it.",
        tuple(
            Measure(f"{name}, {side}: rows for which they hold", share, "sample", share=True)
            for name, side, share in fails[:SHOWN]
        ),
        tuple(dict.fromkeys(name for name, _, _ in fails)),
    )


def _sampled(audit: Audit) -> Found | None:
    seen = audit.verdict.seen_to
    if seen is None:
        return None
    return Found(
        f"The model could only be evaluated, out to {seen:,.0f} standard deviations. What it does "
        "between and beyond the places that were looked at is not known.",
        (Measure("seen to", seen, "seen", unit="standard deviations"),),
        action=audit.at_hand.audit("--evidence", "exact"),
    )


def _undecided(audit: Audit) -> Found | None:
    if audit.verdict.seen_to is not None:
        return None
    worst = max(audit.families, key=lambda each: each.unanswered, default=None)
    if worst is None or not worst.unanswered:
        return None
    return Found(
        f"On {percent(worst.unanswered)} of the rays of {worst.name} several answers are possible "
        "far out: a jump is approached from an unknown side, or neighbours tie.",
        tuple(
            Measure(f"rays without one limit: {each.title}", each.unanswered, "sample", share=True)
            for each in audit.families
            if each.unanswered
        ),
    )


def _capped(audit: Audit) -> Found | None:
    cap = audit.model.cap
    if cap is None:
        return None
    return Found(
        f"No input whatever makes the model more than {percent(cap)} sure: its last layers, or its "
        "leaves, do not allow it.",
        (Measure("largest confidence anywhere", cap, "at most", share=True),),
    )


def _shallow(audit: Audit) -> Found | None:
    depth = audit.depth
    if depth is None or depth.idle < HALF * depth.weights:
        return None
    share = depth.idle / depth.weights
    return Found(
        f"Far from the data {percent(share)} of the model's {depth.weights:,} weights have no part "
        "in what it says: its limits hang on the first and the last layers alone, and depth drops "
        "out.",
        (Measure(f"weights without a part on {depth.rays} rays", share, "sample", share=True),),
    )


KINDS = (
    FindingKind(
        code="FF601",
        title="a theorem's assumption fails",
        severity="note",
        why=(
            "That ReLU networks become certain far away is proven under assumptions about the "
            "region that a ray ends in (Ulmer and Cinà 2021, Proposition 2). Who cites the "
            "theorem for this model should know where it does not apply."
        ),
        how=(
            "The Jacobian of the last region is computed at both open ends of every numeric "
            "feature, from some rows of the data, and the assumptions are checked on it."
        ),
        todo="Nothing: limits are computed, not derived from the theorem. Do not cite it there.",
        ignore="If nobody relies on the theorem.",
        find=_theorem,
    ),
    FindingKind(
        code="FF602",
        title="limits are sampled, not proven",
        severity="note",
        why=(
            "Numbers that were seen by asking a model at some places do not say what it does "
            "elsewhere."
        ),
        how=(
            "The finding is made for every model that cannot be followed exactly; the notes on the "
            "model say what stands in the way."
        ),
        todo=(
            "Run the audit with --evidence exact: it lists everything that has no rule. Exporting "
            "the model in another way often helps."
        ),
        ignore="If an estimate with an interval is enough.",
        find=_sampled,
    ),
    FindingKind(
        code="FF603",
        title="some directions have no one limit",
        severity="note",
        why=(
            "Where a model jumps exactly along a ray, or where neighbours tie, what it says far "
            "out depends on rounding or on the order of the training rows."
        ),
        how="Rays on which several limits are possible are counted, family by family.",
        todo="Look at the table of directions; a guard answers with 1/K there whatever the side.",
        ignore="If the share is small, or if inputs cannot get there.",
        find=_undecided,
    ),
    FindingKind(
        code="FF604",
        title="confidence has a cap",
        severity="note",
        why=(
            "Behind a norm a linear layer sees rows of bounded length, and the leaves of trees add "
            "up to bounded sums: the model's form alone says how sure it can ever be, far from the "
            "data and near it."
        ),
        how=(
            "From the last two layers, or from the largest and smallest leaves; no data is needed. "
            "It is a bound: no input may reach it."
        ),
        todo="Nothing. A threshold above the cap would never be met.",
        ignore="Always, unless a threshold is chosen by it.",
        find=_capped,
    ),
    FindingKind(
        code="FF605",
        title="depth drops out",
        severity="note",
        why=(
            "In pre-norm networks, as transformers are, blocks add values that stay bounded to a "
            "stream that grows, and a last norm divides by what grows. Far out the answer is then "
            "that of the embedding, the norm and the head, whatever the blocks have learnt: "
            "confidence there says nothing about what the model knows."
        ),
        how=(
            "Weights are changed a little, all of them, then halves and halves of halves, and the "
            "limits along some rays from rows of the data are computed again. Weights whose change "
            f"leaves every limit as it was have no part. The finding is made from {percent(HALF)} "
            "of the weights on, for models whose logits converge."
        ),
        todo=(
            "Nothing changes it but the architecture. Do not take the level that confidence "
            "converges to for a judgement; guard the model."
        ),
        ignore="If nobody looks at confidence far from the data.",
        find=_shallow,
    ),
)
