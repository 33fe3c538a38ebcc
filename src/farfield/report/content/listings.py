"""The essentials of an audit in words: what was found, in lines and small tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.estimate import value_of
from farfield.report.content.detection import contests
from farfield.report.content.entry_errors import changing, made_in
from farfield.report.content.features import columns_told, first_told
from farfield.report.content.flips import flip_rows
from farfield.report.content.headline import headline
from farfield.report.content.sections import Limits, is_bound, settled_middle
from farfield.report.content.switches import made_of
from farfield.report.content.words import (
    beyond,
    measured,
    metric_title,
    number,
    percent,
    plural,
    quantity,
    reached,
    score_title,
    share,
    unnatural,
)
from farfield.report.content.words import harmless as _name

if TYPE_CHECKING:
    from farfield.audit.fields.entry import EntryErrors
    from farfield.audit.fields.features import End, Feature
    from farfield.audit.record import Audit

# Features that a screen has room for.
SHOWN = 12
ERRORS = "Errors of data entry, worst first"
ERROR_HEAD = (
    "Error of data entry",
    "Class changes",
    "Unnoticed by scores",
    "Nor by range or guard",
)


@dataclass(frozen=True)
class Listing:
    """A small table of words.

    Attributes:
        title: What it shows.
        head: Titles of the columns.
        rows: Cells; the first column names things, the others are set flush right.
        note: A remark below.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def listings(audit: Audit, most: int | None = SHOWN) -> list[Listing]:
    """All small tables that have rows, each cut to ``most`` of them; all rows if ``None``."""
    made: tuple[Callable[[Audit, int | None], Listing], ...] = (
        families, features, flips, entry_errors, spread, health, detection, guard,
    )  # fmt: skip
    return [listing for listing in (make(audit, most) for make in made) if listing.rows]


def families(audit: Audit, most: int | None = None) -> Listing:
    """Blind shares by family of directions."""
    rows: list[tuple[str, ...]] = [
        (
            _name(each.title),
            share(each.share),
            f"{each.rays:,}",
            settled_middle(each, audit) if len(each.settled) == 3 else "",
        )
        for each in audit.families[:most]
    ]
    head: tuple[str, ...] = ("Directions", "Blind", "Rays", "99.9% sure from (sd)")
    if audit.task == "regression":
        head, rows = head[:3], [row[:3] for row in rows]
    return Listing("Directions", head, tuple(rows))


def features(audit: Audit, most: int | None = None) -> Listing:
    """What happens at the ends of features; those that make the model sure soonest come first."""
    moved = [each for each in audit.features if each.down is not None or each.up is not None]
    moved.sort(key=lambda feature: feature.soonest)
    rows = tuple(
        (_name(each.name), *_end(each.down, each, audit), *_end(each.up, each, audit))
        for each in moved[:most]
    )
    cut = f"{len(rows)} of {plural(len(audit.features), 'feature')}; all are in the report."
    return Listing(
        "Features, by how soon they make the model sure",
        ("Feature", "Down: ends as", "99.9% from", "Up: ends as", "99.9% from"),
        rows,
        cut if len(rows) < len(audit.features) else "",
    )


def entry_errors(audit: Audit, most: int | None = None) -> Listing:
    """The worst errors of data entry."""
    if audit.entry_errors is None:
        return Listing(ERRORS, ERROR_HEAD, ())
    return entry_listing(audit.entry_errors, most)


def entry_listing(found: EntryErrors, most: int | None) -> Listing:
    """Errors of data entry that change a class, worst first."""
    telling = changing(found)
    rows = tuple(
        (
            _name(f"{each.column}: {each.error}"),
            *(percent(value_of(value)) for value in (each.flips, each.silent, each.slips)),
        )
        for each in telling[:most]
    )
    cut = f"{len(rows)} of {plural(len(telling), 'error')} that change a class, {made_in(found)}."
    return Listing(ERRORS, ERROR_HEAD, rows, cut if rows else "")


def flips(audit: Audit, most: int | None = None) -> Listing:
    """The smallest changes of columns, those that need least first."""
    every = flip_rows(audit, len(audit.flips))
    rows = tuple((_name(each.name), each.half, each.within, each.sure) for each in every[:most])
    head = (
        "Column",
        "Half of the rows flip within",
        "Flip within 1 sd",
        "Half are 99.9% sure within",
    )
    note = f"{every[0].sentence[:1].upper()}{every[0].sentence[1:]}." if every else ""
    return Listing("Smallest changes of one column", head, rows, _name(note, 300) if note else "")


def spread(audit: Audit, most: int | None = None) -> Listing:
    """Where a regressor's predicted spread collapses."""
    worst = sorted(audit.collapses, key=lambda each: -_known(each.collapses))
    rows = tuple(
        (_name(each.feature), each.side, percent(each.collapses), number(each.scale_slope))
        for each in worst[:most]
    )
    head = ("Feature", "Goes", "Rows that collapse", "Growth of the scale")
    return Listing("Predicted spread", head, rows)


def health(audit: Audit, most: int | None = None) -> Listing:
    """Quality on the data."""
    numbers = {} if audit.health is None else audit.health.numbers
    rows = tuple(
        (_name(metric_title(key)), *measured(key, value)) for key, value in numbers.items()
    )
    on = "" if audit.health is None else f" ({plural(audit.health.rows, 'row')})"
    return Listing(f"Quality on the data{on}", ("Measure", "Value", "Interval"), rows[:most])


def detection(audit: Audit, most: int | None = None) -> Listing:
    """How well scores tell other data apart; the best of each data set is marked."""
    rows = []
    for contest in contests(audit, Limits()):
        trials = contest.trials if most is None else contest.trials[:5]
        for trial in trials:
            found = trial.found
            marks = [text for text, is_so in (("best", trial.best), ("reference", found.reference))
                     if is_so]  # fmt: skip
            note = f" ({', '.join(marks)})" if marks else ""
            numbers = [percent(each.value) for each in (found.auroc, found.aupr, found.fpr95)]
            title = f"{_name(score_title(found.score))}{note}"
            rows.append((_name(contest.dataset), title, *numbers))
    head = ("Data set", "Score", "AUROC", "AUPR", "FPR95")
    return Listing("Telling other data apart", head, tuple(rows))


def guard(audit: Audit, most: int | None = None) -> Listing:
    """Before and after the guard."""
    found = audit.guard
    rows = tuple(
        (_name(metric_title(key)), quantity(before, key), quantity(after, key))
        for key, (before, after) in ({} if found is None else found.rows).items()
    )
    note = "" if found is None else _name(found.promise, 600)
    return Listing("Before and after the guard", ("Quantity", "Before", "After"), rows[:most], note)


def warnings(audit: Audit) -> list[str]:
    """What casts doubt on everything else, a line each."""
    return [f"Warning: {_name(text, 1000)}" for text in audit.warnings]


def opening(audit: Audit) -> list[str]:
    """The verdict in words."""
    top = headline(audit)
    known = f" ({top.known})" if top.known else ""
    sampled = audit.verdict.seen_to is not None
    holds = "evaluated only" if sampled else made_of(audit)
    members = f", {plural(audit.model.instances, 'member')}" if audit.model.instances > 1 else ""
    return [
        f"{top.badge}. {top.number} {top.of}{known}.",
        _name(audit.verdict.sentence, 1000),
        f"{_name(audit.model.source)}{members}, {holds}; "
        f"{_name(audit.data.source)}, {plural(audit.data.rows, 'row')}, "
        f"{columns_told(audit)}.",
        *(f"Note: {_name(note, 1000)}" for note in audit.data.notes),
    ]


def closing(audit: Audit) -> list[str]:
    """What can be done."""
    if not audit.remedies:
        return []
    lines = ["What to do"]
    for each in audit.remedies[:SHOWN]:
        proof = "proven" if each.proven else "no proof"
        lines.append(f"  {_name(each.name)} ({proof}): {_name(each.what, 300)}")
        if each.command:
            lines.append(f"    {_name(each.command, 300)}")
    return ["\n".join(lines)]


def _end(end: End | None, feature: Feature, audit: Audit) -> tuple[str, str]:
    """One end as two cells."""
    if end is None:
        return "", ""
    unit = _name(feature.unit, 24) if feature.unit else ""
    bound, value = is_bound(end.exact, audit), end.value[1]
    notes = (
        first_told(end, feature, audit),
        beyond(end.beyond[1], bound=bound),
        unnatural(value, feature.low, feature.high),
    )
    seen = audit.verdict.seen_to is not None
    note = "; ".join(filter(None, notes))
    far = reached(value, unit, bound=bound, seen=seen)
    label = f"{_name(end.label, 40)}, {percent(end.confidence[1])}"
    return label, f"{far} ({note})" if note else far


def _known(value: float) -> float:
    return -1.0 if math.isnan(value) else value
