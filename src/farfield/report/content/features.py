"""The table of features: what each row says, in words and in an order to sort by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.estimate import value_of
from farfield.report.content.sections import Limits, is_bound
from farfield.report.content.words import (
    beyond,
    distance,
    far_end,
    is_telling,
    lasting,
    number,
    percent,
    plural,
    reached,
    score_title,
    share,
    shorten,
    unnatural,
    visible,
)

if TYPE_CHECKING:
    from farfield.audit.fields.features import End, Feature
    from farfield.audit.record import Audit


@dataclass(frozen=True)
class EndInWords:
    """One end of one feature as a row shows it.

    Attributes:
        label: The class there.
        stops: Its bound, if it has one.
        confidence: How sure the middle row is there.
        sureness: The same to sort by.
        spread: The least and the most that rows are.
        reached: The value from which on the model is 99.9% sure for good.
        first: The value at which it is so first, if that is another one.
        beyond: How far that is beyond the data.
        strange: Why no such value should occur, if so.
        far: How far it is beyond the data, to sort by.
    """

    label: str
    stops: str
    confidence: str
    sureness: float
    spread: str
    reached: str
    first: str
    beyond: str
    strange: str
    far: float


@dataclass(frozen=True)
class FeatureRow:
    """One row of the table.

    Attributes:
        index: Place of the feature among the columns, from 1.
        name: Its name.
        kind: Its kind.
        unit: Its unit.
        range: Smallest and largest value in the data.
        low: Smallest value in the data.
        curve: Confidence from the low end to the high end.
        dip: The lowest confidence on it.
        blind: Largest blind share of its ends; ``None`` if it has no ends.
        down: Its low end.
        up: Its high end.
        instead: What to say of a feature without ends.
    """

    index: int
    name: str
    kind: str
    unit: str
    range: str
    low: float
    curve: tuple[float, ...]
    dip: float | None
    blind: float | None
    down: EndInWords | None
    up: EndInWords | None
    instead: str


def feature_rows(audit: Audit, limits: Limits) -> list[FeatureRow]:
    """Make the rows: features that reach 99.9% soonest come first."""
    numbered = sorted(enumerate(audit.features, 1), key=lambda each: each[1].soonest)
    return [_row(index, feature, audit) for index, feature in numbered[: limits.features]]


def _row(index: int, feature: Feature, audit: Audit) -> FeatureRow:
    blind = [value_of(end.blind) for end in (feature.down, feature.up) if end is not None]
    known = [each for each in blind if not math.isnan(each)]
    return FeatureRow(
        index=index,
        name=feature.name,
        kind=feature.kind,
        unit=feature.unit,
        range=_range(feature),
        low=feature.low,
        curve=feature.curve,
        dip=min((each for each in feature.curve if math.isfinite(each)), default=None),
        blind=max(known) if known else None,
        down=_side(feature.down, feature, audit),
        up=_side(feature.up, feature, audit),
        instead=_instead(feature, audit),
    )


def _range(feature: Feature) -> str:
    """What values the data holds."""
    if feature.values:
        return plural(len(feature.values), "value")
    known = math.isfinite(feature.low + feature.high)
    return f"{number(feature.low)} to {number(feature.high)}" if known else ""


def columns_told(audit: Audit) -> str:
    """How many columns there are; and inputs, where categories are spread over several."""
    columns, inputs = len(audit.features), audit.data.features
    if 0 < columns < inputs and any(each.values for each in audit.features):
        return f"{plural(columns, 'feature')} as {plural(inputs, 'input')}"
    return plural(inputs, "feature")


def _side(end: End | None, feature: Feature, audit: Audit) -> EndInWords | None:
    if end is None:
        return None
    unit, bound = _short(feature.unit), is_bound(end.exact, audit)
    seen = audit.verdict.seen_to is not None
    low, median, high = end.confidence
    same = percent(low) == percent(high)
    return EndInWords(
        label=end.label,
        stops="" if end.bound is None else f"at its bound {distance(end.bound, unit)}",
        confidence=percent(median),
        sureness=median,
        spread="" if same else f"{percent(low)}\N{EN DASH}{percent(high)}",
        reached=reached(end.value[1], unit, bound=bound, seen=seen),
        first=first_told(end, feature, audit),
        beyond=beyond(end.beyond[1], bound=bound),
        strange=unnatural(end.value[1], feature.low, feature.high),
        far=end.beyond[1],
    )


def first_told(end: End, feature: Feature, audit: Audit) -> str:
    """Where the middle row is first sure, unless it stays so from there on, is already, or never.

    Of rows that are sure where they are, no first value is worth telling.
    """
    value = end.first[1]
    already = any(flip.column == feature.name and flip.sure.value == 0 for flip in audit.flips)
    if already or not math.isfinite(value) or number(value) == number(end.value[1]):
        return ""
    return f"first at {reached(value, _short(feature.unit))}"


def _short(unit: str) -> str:
    return shorten(visible(unit), 24) if unit else ""


def _instead(feature: Feature, audit: Audit) -> str:
    if feature.down is not None or feature.up is not None:
        return ""
    if feature.values:
        moved = f"Moved between its {plural(len(feature.values), 'value')}"
        known = [value for value in feature.values if math.isfinite(value.changed)]
        if not known:
            return f"{moved}."
        most = max(known, key=lambda value: value.changed)
        at = shorten(visible(most.value), 40)
        return f"{moved}: at most {percent(most.changed)} of rows change class (at “{at}”)."
    if audit.task == "regression":
        return "See the predicted spread below."
    if feature.low == feature.high or feature.name in audit.data.constant:
        return "Holds one value only, so it was not moved."
    return "It was not moved."


def detail(feature: Feature, audit: Audit, limits: Limits) -> dict[str, object]:
    """Everything known about one feature, as a table of words."""
    if feature.values:
        head = ["Value", "Rows with it", "Confidence before", "after", "Rows that change class"]
        rows = [
            [
                shorten(visible(value.value), 80),
                f"{value.rows:,}",
                percent(value.confidence[0]),
                percent(value.confidence[1]),
                percent(value.changed),
            ]
            for value in feature.values[: limits.values]
        ]
        more = len(feature.values) - len(rows)
        note = f"{plural(more, 'further value')} in the JSON file." if more > 0 else ""
        return {"head": head, "rows": rows, "note": note}
    ends = (feature.down, feature.up)
    if feature.down is None and feature.up is None:
        return {"head": [], "rows": [], "note": ""}
    columns = [_facts(end, feature, audit) for end in ends]
    titles = list(dict.fromkeys(title for column in columns for title in column))
    rows = [[title, *(column.get(title, "\N{EN DASH}") for column in columns)] for title in titles]
    note = (
        f"In the data: {number(feature.low)} to {number(feature.high)}, mean "
        f"{number(feature.mean)}, standard deviation {number(feature.std)}."
    )
    head = ["", "As it goes down", "As it goes up"]
    return {"head": head, "rows": rows, "note": note}


def _facts(end: End | None, feature: Feature, audit: Audit) -> dict[str, str]:
    """One end in words: title to text."""
    if end is None:
        return {}
    unit, seen_to = _short(feature.unit), audit.verdict.seen_to
    low, median, high = map(percent, end.confidence)
    bounded = f"at {distance(end.bound, unit)}" if end.bound is not None else ""
    facts = {
        "Where it ends": bounded or far_end(seen_to),
        "Class there": f"{shorten(visible(end.label), 60)} ({percent(end.share)} of rows)",
        "Confidence there (lowest, highest)": f"{low}, {median}, {high}",
        f"Rows that end {percent(audit.verdict.threshold)} sure or more": share(end.blind),
    }
    if audit.model.instances > 1:
        votes = sorted(end.votes.items(), key=lambda vote: -vote[1])[:5]
        facts["Votes there"] = ", ".join(
            f"{shorten(visible(name), 40)} {percent(value)}" for name, value in votes
        )
    bound = is_bound(end.exact, audit)
    for title, value, sd in zip(
        ("the first 5% of rows", "half of the rows", "95% of the rows"),
        end.value,
        end.beyond,
        strict=True,
    ):
        notes = (beyond(sd, bound=bound), unnatural(value, feature.low, feature.high))
        note, text = (
            "; ".join(filter(None, notes)),
            reached(value, unit, bound=bound, seen=seen_to is not None),
        )
        told = f"from {text} on" if math.isfinite(value) else text
        facts[f"{lasting(seen_to)}, for {title}"] = f"{told} ({note})" if note else told
    if not any(map(math.isnan, end.first)):
        facts["First 99.9% sure at (5%, 50%, 95% of rows)"] = ", ".join(
            reached(value, unit) for value in end.first
        )
    facts["How far rows go for that (5%, 50%, 95%)"] = ", ".join(
        distance(far, unit, bound=bound, seen=seen_to is not None) for far in end.distance
    )
    if end.assumptions is not None:
        facts["Assumptions of the theorem hold for"] = f"{percent(end.assumptions)} of rows"
    telling = [name for name in end.scores if is_telling(name, audit.model.instances)]
    for name in telling[:12]:
        facts[f"{score_title(visible(name))} there"] = number(end.scores[name])
    return facts
