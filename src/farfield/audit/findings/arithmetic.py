"""FF5xx: where the model's own arithmetic gives out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farfield.audit.findings.finding import Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.report.content.words import number, percent, plural

if TYPE_CHECKING:
    from farfield.audit.fields.arithmetic import Lapse
    from farfield.audit.record import Audit

SHOWN = 5


def _lapses(audit: Audit, *, answer: bool) -> list[Lapse]:
    found = () if audit.arithmetic is None else audit.arithmetic.lapses
    return [each for each in found if each.answer is answer]


def _columns(lapses: list[Lapse]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.column for each in lapses if each.column))


def _where(lapse: Lapse) -> str:
    place = f" (a value of {number(lapse.value)})" if lapse.column else ""
    return f"{lapse.ray}, from {number(lapse.deviations)} standard deviations on{place}"


def _measures(lapses: list[Lapse]) -> tuple[Measure, ...]:
    return tuple(
        Measure(f"{each.ray}: from", each.deviations, "seen", unit="standard deviations")
        for each in lapses[:SHOWN]
    )


def _overflow(audit: Audit) -> Found | None:
    lapses = _lapses(audit, answer=False)
    if not lapses or audit.arithmetic is None:
        return None
    kind = f" in {audit.arithmetic.precision}" if audit.arithmetic.precision else ""
    return Found(
        f"The model itself{kind} answers with NaN, infinity or no distribution on {len(lapses)} of "
        f"{plural(audit.arithmetic.rays, 'ray')}. The soonest: {_where(lapses[0])}.",
        _measures(lapses),
        _columns(lapses),
        "" if audit.model_is_guarded else audit.at_hand.guard(),
    )


def _rounding(audit: Audit) -> Found | None:
    lapses = _lapses(audit, answer=True)
    if not lapses or audit.arithmetic is None:
        return None
    kind = f" in {audit.arithmetic.precision}" if audit.arithmetic.precision else ""
    first = lapses[0]
    return Found(
        f"The model itself{kind} leaves its exact limit on {len(lapses)} of "
        f"{plural(audit.arithmetic.rays, 'ray')}. The soonest: {_where(first)}, where it says "
        f"{percent(first.got)} and the limit is {percent(first.limit)}.",
        _measures(lapses),
        _columns(lapses),
        "" if audit.model_is_guarded else audit.at_hand.guard(),
    )


KINDS = (
    FindingKind(
        code="FF501",
        title="NaN or overflow from some size on",
        severity="error",
        why=(
            "Beyond some size of the input the model answers with NaN or infinity. What uses the "
            "answer may take that for the first class, for a pass, or fail."
        ),
        how=(
            "The model itself, as it is deployed (by onnxruntime, by calling the module, by "
            "predict_proba), is asked at powers of ten along the ends of features and random "
            "directions, as far as a float32 can hold the input. What is seen between the powers "
            "of ten is not known. An error that the model raises is loud, and no finding."
        ),
        todo=(
            "Refuse inputs of that size before the model, or guard it: the guard answers with "
            "1/K beyond its radius."
        ),
        ignore="If the size named can never reach the model.",
        find=_overflow,
    ),
    FindingKind(
        code="FF502",
        title="rounding leaves the exact limit",
        severity="note",
        why=(
            "The limits of this audit are those of real numbers. In float32 differences between "
            "large logits drown in rounding, so from some size on the deployed model says "
            "something else than its own limit."
        ),
        how=(
            "As FF501; an answer has left the limit if some probability is more than 1% away from "
            "it, although it was at the limit nearer by or float64 still is, and no neuron "
            "switches any more."
        ),
        todo=(
            "Nothing, if inputs of that size cannot occur. Otherwise guard the model: its promise "
            "holds in floating point."
        ),
        ignore="If the size named can never reach the model.",
        find=_rounding,
    ),
)
