"""FF0xx: budgets of ``farfield.toml`` that are broken, or that cannot be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from farfield.audit.findings.directions import known
from farfield.audit.findings.entry import unnoticed
from farfield.audit.findings.finding import Measure
from farfield.audit.findings.kind import FindingKind, Found
from farfield.estimate import value_of
from farfield.report.content.words import percent

if TYPE_CHECKING:
    from farfield.audit.fields.entry import Mistake
    from farfield.audit.policy import Budgets
    from farfield.audit.record import Audit

SHOWN = 5
IGNORE = "Never: change the budget, or accept the finding with a reason and an expiry date."


def _budgets(audit: Audit) -> Budgets | None:
    return None if audit.policy is None else audit.policy.budgets


def _limits(audit: Audit) -> Mapping[str, float]:
    """Name of a family to the blind share that it may have, by its budget and ``max_blind``."""
    budgets, most = _budgets(audit), audit.verdict.max_blind
    blind = None if budgets is None else budgets.blind
    limits = {} if most is None else {family.name: most for family in audit.families}
    if blind is None:
        return limits
    own = blind if isinstance(blind, Mapping) else {each.name: blind for each in audit.families}
    return limits | {name: min(share, limits.get(name, 1.0)) for name, share in own.items()}


def _blind(audit: Audit) -> Found | None:
    if audit.model_is_guarded:
        return None
    limits = _limits(audit)
    over = [
        (each, limits[each.name])
        for each in audit.families
        if each.name in limits and value_of(each.share) > limits[each.name]
    ]
    if not over:
        return None
    evidence: list[Measure] = []
    for each, limit in over:
        evidence.append(Measure(f"blind: {each.name}", each.share, known(each.share), share=True))
        evidence.append(Measure(f"allowed: {each.name}", limit, "limit", share=True))
    told = ", ".join(
        f"{each.name} {percent(value_of(each.share))} ({percent(limit)} allowed)"
        for each, limit in over
    )
    return Found(
        f"The blind share is above its budget: {told}.",
        tuple(evidence),
        action=audit.at_hand.guard(),
    )


def _share(mistake: Mistake, audit: Audit) -> float:
    return value_of(unnoticed(mistake, audit))


def _entry(audit: Audit) -> Found | None:
    budgets = _budgets(audit)
    limit = None if budgets is None else budgets.entry_errors
    if limit is None or audit.entry_errors is None:
        return None
    over = [each for each in audit.entry_errors.mistakes if _share(each, audit) > limit]
    if not over:
        return None
    over.sort(key=lambda each: -_share(each, audit))
    worst = over[0]
    return Found(
        f"{worst.column}, {worst.error}: {percent(_share(worst, audit))} of the rows "
        f"change class without a sign; {percent(limit)} are allowed. {len(over)} errors are above "
        "the budget.",
        (
            *(
                Measure(
                    f"{each.column}, {each.error}",
                    unnoticed(each, audit),
                    known(unnoticed(each, audit)),
                    share=True,
                )
                for each in over[:SHOWN]
            ),
            Measure("allowed", limit, "limit", share=True),
        ),
        tuple(dict.fromkeys(each.column for each in over)),
        "" if audit.model_is_guarded else audit.at_hand.guard("--envelope"),
    )


def _accuracy(audit: Audit) -> Found | None:
    return _number(audit, "accuracy", "accuracy", at_least=True)


def _ece(audit: Audit) -> Found | None:
    return _number(audit, "ece", "calibration error (ECE)", at_least=False)


def _number(audit: Audit, name: str, what: str, *, at_least: bool) -> Found | None:
    budgets = _budgets(audit)
    limit = None if budgets is None else getattr(budgets, name)
    if limit is None or audit.health is None or name not in audit.health.numbers:
        return None
    got = audit.health.numbers[name]
    if (got.value >= limit) if at_least else (got.value <= limit):
        return None
    word = "at least" if at_least else "at most"
    return Found(
        f"The {what} is {percent(got.value)} on {audit.health.rows:,} rows; {word} "
        f"{percent(limit)} is asked for.",
        (
            Measure(what, got, "interval", share=True),
            Measure(f"{word}", limit, "limit", share=True),
        ),
        action="" if at_least else "ff.TemperatureScaling(estimator).fit(X_held_out, y_held_out)",
    )


def _unjudged(audit: Audit) -> Found | None:
    missing = [*_missing(audit)]
    if not missing:
        return None
    label = () if audit.health is not None else ("--label", "COLUMN")
    return Found(
        f"This audit cannot say whether a budget is kept: {'; '.join(missing)}.",
        (),
        action=audit.at_hand.audit(*label),
    )


def _missing(audit: Audit) -> Iterator[str]:
    budgets = _budgets(audit)
    if budgets is None:
        return
    numbers = {} if audit.health is None else audit.health.numbers
    for name in ("accuracy", "ece"):
        if getattr(budgets, name) is not None and name not in numbers:
            yield f"{name} needs labels of classes"
    if budgets.entry_errors is not None and audit.entry_errors is None:
        yield "entry_errors needs a table and a classifier"
    names = {family.name for family in audit.families}
    for name in sorted(set(_limits(audit)) - names):
        yield f"there is no family {name}, there are {', '.join(sorted(names))}"


def _kind(
    code: str, title: str, how: str, todo: str, find: Callable[[Audit], Found | None]
) -> FindingKind:
    return FindingKind(
        code=code,
        title=title,
        severity="error",
        why="Somebody has said how much is too much, in farfield.toml, and it is more than that.",
        how=how,
        todo=todo,
        ignore=IGNORE,
        find=find,
    )


KINDS = (
    _kind(
        "FF001",
        "blind share above its budget",
        "The blind share of each family is held against `budgets.blind` and --max-blind; of a "
        "sampled share, its middle.",
        "Guard the model, or show why more is acceptable.",
        _blind,
    ),
    _kind(
        "FF002",
        "entry errors above their budget",
        "For each error of data entry, the share of rows whose class it changes without a sign is "
        "held against `budgets.entry_errors`; the middle of its interval counts.",
        "Check the columns named at entry, or put an envelope around the model.",
        _entry,
    ),
    _kind(
        "FF003",
        "accuracy below its budget",
        "The accuracy over all labelled rows is held against `budgets.accuracy`; the middle of its "
        "interval counts.",
        "Check that the data is what the model was made for, or make a better model.",
        _accuracy,
    ),
    _kind(
        "FF004",
        "calibration error above its budget",
        "The expected calibration error over all labelled rows is held against `budgets.ece`; the "
        "middle of its interval counts.",
        "Scale the temperature on rows that were not trained on.",
        _ece,
    ),
    FindingKind(
        code="FF005",
        title="a budget could not be judged",
        severity="error",
        why=(
            "A gate that is open because nobody looked is worse than none: a budget that cannot be "
            "judged fails the audit."
        ),
        how="The budgets of farfield.toml are held against what the audit has numbers for.",
        todo="Give labels (--label), or take the budget out of farfield.toml.",
        ignore=IGNORE,
        find=_unjudged,
    ),
)
CODES = frozenset(kind.code for kind in KINDS)
