"""Two audits, one after the other: what got better, what got worse, and what cannot be told.

A number with an interval is better or worse only if the two intervals do not overlap; otherwise the
difference may be chance, and is called unclear. Exact numbers differ or do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from farfield.audit.fields.kinds import Share
from farfield.audit.findings.entry import unnoticed
from farfield.audit.findings.finding import Finding
from farfield.estimate import Estimate, value_of
from farfield.report.content.words import SHARES, metric_title

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from farfield.audit.record import Audit

Way = Literal["better", "worse", "same", "unclear", "new", "gone"]
# Of these numbers more is better; of all others less is.
MORE = frozenset({"accuracy", "auroc"})
COMPARED = ("accuracy", "nll", "brier", "ece", "rmse", "mae")


@dataclass(frozen=True)
class Change:
    """One number before and after.

    Attributes:
        what: What was measured.
        way: Whether it got better or worse, beyond chance.
        old: Before; ``None`` if it was not measured.
        new: After; ``None`` if it is not measured any more.
        share: Whether it is a share.
    """

    what: str
    way: Way
    old: Share | None
    new: Share | None
    share: bool = True


@dataclass(frozen=True)
class Difference:
    """What differs between two audits.

    Attributes:
        old: Source and day of the first.
        new: Source and day of the second.
        notes: What makes the two hard to compare.
        changes: Numbers, the worse ones first.
        appeared: Findings that are new, or that say more columns than before.
        vanished: Findings that are gone.
    """

    __pydantic_config__: ClassVar = {"ser_json_inf_nan": "strings"}

    old: str
    new: str
    notes: tuple[str, ...]
    changes: tuple[Change, ...]
    appeared: tuple[Finding, ...]
    vanished: tuple[Finding, ...]

    @property
    def is_worse(self) -> bool:
        """Whether a number got worse, or a finding appeared that is no note and not accepted."""
        bad = [each for each in self.appeared if each.accepted is None and each.severity != "note"]
        return bool(bad) or any(each.way == "worse" for each in self.changes)

    def to_json(self) -> str:
        """Write it as JSON."""
        return _adapter().dump_json(self, indent=1).decode() + "\n"


@cache
def _adapter() -> TypeAdapter[Difference]:
    from pydantic import TypeAdapter

    return TypeAdapter(Difference)


def difference(old: Audit, new: Audit) -> Difference:
    """Compare two audits."""
    still = {each.code for each in new.findings}
    changes = sorted(_changes(old, new), key=lambda each: WAYS.index(each.way))
    return Difference(
        _name(old),
        _name(new),
        tuple(_notes(old, new)),
        tuple(changes),
        tuple(_more(old, new)),
        tuple(each for each in old.findings if each.code not in still),
    )


WAYS: tuple[Way, ...] = ("worse", "new", "gone", "unclear", "better", "same")


def _name(audit: Audit) -> str:
    return f"{audit.model.source}, {audit.provenance.made[:10]}"


def _more(old: Audit, new: Audit) -> Iterator[Finding]:
    """Findings that were not there, or not for all of their columns."""
    before: dict[str, set[str]] = {}
    for each in old.findings:
        if each.accepted is None:
            before.setdefault(each.code, set()).update(each.columns)
    for each in new.findings:
        if each.code not in before or not before[each.code].issuperset(each.columns):
            yield each


def _notes(old: Audit, new: Audit) -> Iterator[str]:
    for what, one, other in (
        ("data", old.data.sha256, new.data.sha256),
        ("threshold", old.verdict.threshold, new.verdict.threshold),
        ("task", old.task, new.task),
        ("classes", old.model.classes, new.model.classes),
        ("version of farfield", old.provenance.farfield, new.provenance.farfield),
    ):
        if one != other:
            yield f"the {what} {'are' if what.endswith('s') else 'is'} not the same in both"
    if old.verdict.seen_to != new.verdict.seen_to:
        yield "one was followed exactly and the other only evaluated"


@dataclass(frozen=True)
class _Number:
    kind: str
    value: Share
    share: bool = True


def _changes(old: Audit, new: Audit) -> Iterator[Change]:
    before, after = _numbers(old), _numbers(new)
    for what, number in (before | after).items():
        one, other = (None if what not in each else each[what].value for each in (before, after))
        yield Change(what, _way(number.kind, one, other), one, other, number.share)


def _numbers(audit: Audit) -> dict[str, _Number]:
    """What is compared."""
    # The families of a guarded model show what is inside of the guard.
    proven = audit.verdict.blind if audit.model_is_guarded else None
    found = {
        f"Blind: {each.name}": _Number("blind", each.share if proven is None else proven)
        for each in audit.families
    }
    for name, value in ({} if audit.health is None else audit.health.numbers).items():
        if name in COMPARED:
            found[metric_title(name)] = _Number(name, value, name in SHARES)
    errors = () if audit.entry_errors is None else audit.entry_errors.mistakes
    if errors:
        worst = max((unnoticed(each, audit) for each in errors), key=value_of)
        found["Worst entry error, unnoticed"] = _Number("errors", worst)
    best: dict[str, Estimate] = {}
    for each in audit.detection:
        if not each.reference and each.auroc.value >= value_of(best.get(each.dataset, -1.0)):
            best[each.dataset] = each.auroc
    return found | {f"AUROC: {name}": _Number("auroc", value) for name, value in best.items()}


def _way(kind: str, old: Share | None, new: Share | None) -> Way:
    if old is None or new is None:
        return "new" if old is None else "gone"
    (low, high), (new_low, new_high) = _ends(old), _ends(new)
    if (low, high) == (new_low, new_high):
        return "same"
    if any(map(math.isnan, (low, high, new_low, new_high))):
        return "unclear"
    if new_low <= high and low <= new_high:
        return "unclear"
    up = new_low > high
    return "better" if up is (kind in MORE) else "worse"


def _ends(value: Share) -> tuple[float, float]:
    return (value.low, value.high) if isinstance(value, Estimate) else (value, value)
