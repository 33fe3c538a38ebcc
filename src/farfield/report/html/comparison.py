"""Several audits side by side: one row per model, a link to each report."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from farfield.files import replacing
from farfield.report.content import words
from farfield.report.content.detection import contests
from farfield.report.content.sections import Limits
from farfield.report.html.page import asset, environment, policy

if TYPE_CHECKING:
    from farfield.audit.record import Audit


@dataclass(frozen=True)
class ModelLine:
    """One model in the table."""

    title: str
    link: str
    verdict: str
    blind: dict[str, str]
    health: dict[str, str]
    detection: dict[str, str]


def write_comparison(
    audits: Mapping[str, tuple[str, Audit]],
    path: Path,
    *,
    title: str,
    rows: str = "the data that each audit was given",
    picture: Path | None = None,
) -> Path:
    """Write a page that compares audits; everything in it is read from them.

    Args:
        audits: Title of a model to the address of its report, relative to the page, and its audit.
        path: Where to write the page.
        title: Its heading.
        rows: What the models' quality was measured on, in words.
        picture: A PNG file to show on it.

    Returns:
        The path.
    """
    lines = [_line(name, link, audit) for name, (link, audit) in audits.items()]
    image = None
    if picture is not None:
        image = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
    style, early = asset("page.css"), asset("theme.js")
    page = (
        environment()
        .get_template("comparison.html")
        .render(
            title=title,
            rows=rows,
            lines=lines,
            families=_names(lines, "blind"),
            metrics=_names(lines, "health"),
            sets=_names(lines, "detection"),
            image=image,
            policy=policy(style, early),
            style=Markup(style),
            early=Markup(early),
        )
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def _line(title: str, link: str, audit: Audit) -> ModelLine:
    if audit.model_is_guarded:
        return _guarded_line(title, link, audit)
    best: dict[str, str] = {}
    for contest in contests(audit, Limits()):
        own = [trial.found for trial in contest.trials if not trial.found.reference]
        if own:
            best[contest.dataset] = (
                f"{words.share(own[0].auroc)}, {words.score_title(own[0].score)}"
            )
    numbers = audit.health.numbers if audit.health is not None else {}
    return ModelLine(
        title=title,
        link=link,
        verdict=audit.verdict.sentence,
        blind={family.title: words.share(family.share) for family in audit.families},
        health={words.metric_title(n): words.measured(n, each)[0] for n, each in numbers.items()},
        detection=best,
    )


def _guarded_line(title: str, link: str, audit: Audit) -> ModelLine:
    """What holds behind the guard; the sections of such an audit are about the model inside."""
    after = {} if audit.guard is None else {n: pair[1] for n, pair in audit.guard.rows.items()}
    numbers = audit.health.numbers if audit.health is not None else {}
    found = {n.removeprefix("AUROC: "): n for n in after if n.startswith("AUROC: ")}
    return ModelLine(
        title=title,
        link=link,
        verdict=audit.verdict.sentence,
        blind={family.title: f"{words.share(0.0)}, by proof" for family in audit.families},
        health={words.metric_title(n): words.quantity(after[n], n) for n in numbers if n in after},
        detection={n: f"{words.share(after[key])}, Confidence" for n, key in found.items()},
    )


def _names(lines: list[ModelLine], part: str) -> list[str]:
    """Every column that some line has, in the order in which they come."""
    return list(dict.fromkeys(name for line in lines for name in getattr(line, part)))
