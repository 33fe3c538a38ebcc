"""Which score tells foreign data apart best, set by set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farfield.report.content.words import is_telling

if TYPE_CHECKING:
    from farfield.audit.fields.quality import Detected
    from farfield.audit.record import Audit
    from farfield.report.content.sections import Limits


@dataclass(frozen=True)
class Trial:
    """One score on one data set; ``best`` if no score has a higher AUROC there."""

    found: Detected
    best: bool


@dataclass(frozen=True)
class ScoreContest:
    """All scores on one data set, the best first."""

    dataset: str
    trials: list[Trial]
    remark: str


def contests(audit: Audit, limits: Limits) -> list[ScoreContest]:
    """Group detection by data set, and say who wins."""
    grouped: dict[str, list[Detected]] = {}
    telling = [each for each in audit.detection if is_telling(each.score, audit.model.instances)]
    for each in telling[: 4 * limits.rows]:
        grouped.setdefault(each.dataset, []).append(each)
    made = []
    for dataset, found in grouped.items():
        found.sort(key=lambda each: -_order(each.auroc.value))
        top = found[0].auroc.value
        trials = [Trial(each, each.auroc.value == top) for each in found]
        made.append(ScoreContest(dataset, trials, _remark(found)))
    return made


def _order(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _remark(found: list[Detected]) -> str:
    """Whether plain distances beat what the model says about itself."""
    own = [each.auroc for each in found if not each.reference]
    references = [each.auroc for each in found if each.reference]
    if not own or not references:
        return ""
    mine, theirs = max(each.value for each in own), max(each.value for each in references)
    if theirs > mine:
        return (
            "Here a plain distance to the training data does better than every score of the model."
        )
    return "Here the model's best score does at least as well as a plain distance to its data."
