"""The findings of an audit in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from farfield.audit import families
from farfield.audit.findings import Family, Task, Verdict
from farfield.audit.settings import Settings
from farfield.guard.function import GuardedFunction
from farfield.guard.model import GuardedModel


def verdict(
    found: Sequence[Family], settings: Settings, task: Task, seen_to: float | None = None
) -> Verdict:
    """Put the largest blind share into words.

    Args:
        found: The families of directions.
        settings: The threshold and the limit.
        task: What the model does.
        seen_to: How far out a model was looked at that cannot be followed; ``None`` if it was.
    """
    if not found:
        sentence = "Every feature is bounded or categorical: there is no far away to be blind in."
        passed = None if settings.max_blind is None else True
        return Verdict(
            passed, 0.0, "none", settings.threshold, settings.max_blind, sentence, seen_to
        )
    worst = max(found, key=lambda family: families.share_value(family.share))
    blind = families.share_value(worst.share)
    passed = None if settings.max_blind is None else blind <= settings.max_blind
    directions = f"{blind:.1%} of the directions" if blind < 1 else "every direction"
    where = f"in {directions} ({worst.title[0].lower()}{worst.title[1:]})"
    sure = f"at least {settings.threshold:.0%} sure of one class"
    if task == "regression":
        sentence = f"The model predicts with no sign of being far out {where}."
    elif seen_to is None:
        sentence = f"The model is {sure} infinitely far out {where}."
    else:
        sentence = (
            f"Seen {seen_to:,.0f} standard deviations out, the model is {sure} {where}. This was "
            "sampled by evaluating the model; what it does between and beyond the places that were "
            "looked at is not known."
        )
    return Verdict(
        passed, blind, worst.name, settings.threshold, settings.max_blind, sentence, seen_to
    )


def guarded_verdict(
    plain: Verdict, settings: Settings, guard: GuardedModel | GuardedFunction
) -> Verdict:
    """The verdict on a guarded model: uniform at infinity, in every direction, by proof."""
    certificate = guard.certificate
    blind = float(1 / certificate.classes >= settings.threshold)
    sentence = (
        f"Infinitely far out the guarded model gives every class 1/{certificate.classes}, in every "
        f"direction, by proof; unguarded it would be blind in {plain.blind:.1%} of the directions. "
        "Families and features below show the model inside of the guard."
    )
    passed = None if settings.max_blind is None else blind <= settings.max_blind
    return Verdict(
        passed, blind, "all, by the guard", settings.threshold, settings.max_blind, sentence
    )
