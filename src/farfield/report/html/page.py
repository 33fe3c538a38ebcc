"""Put the page together: templates, styles and scripts in one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from farfield.estimate import value_of
from farfield.files import replacing
from farfield.report.content import words
from farfield.report.content.detection import contests
from farfield.report.content.entry_errors import best_score, error_grid, swaps_tried, worst_mistakes
from farfield.report.content.features import columns_told, feature_rows
from farfield.report.content.findings import IN_FULL, evidenced, lived_with
from farfield.report.content.flips import flip_rows
from farfield.report.content.glossary import words_used
from farfield.report.content.headline import headline
from farfield.report.content.sections import (
    LARGEST,
    Limits,
    ends_told,
    most_divided,
    sections,
    settled_middle,
    settled_told,
    shown_rays,
    shown_surfaces,
)
from farfield.report.content.switches import beyond_told, comes_to_rest, made_of, switch_told
from farfield.report.html.charts import bar, columns, spark, stack
from farfield.report.html.compiled import COMPILED
from farfield.report.html.payload import payload

if TYPE_CHECKING:
    from farfield.audit.record import Audit

SCRIPTS = ("page.js", "table.js", "ray.js", "what_if.js", "surface.js")
PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
# Smaller than this nothing is left to leave out.
SMALLEST = Limits(1, 1, 1, 1, 1, 1, 1, 1, 1)
# Errors of data entry in the table; the grid above it has them all.
MISTAKES = 40
# Columns in the table of smallest changes.
FLIPS = 60
# Rows that a cell of a notebook has room for.
IN_NOTEBOOKS = 10


def write_report(audit: Audit, path: str | Path) -> Path:
    """Write the report: one self-contained page, whole or not at all.

    Args:
        audit: What to show; nothing is computed again.
        path: Where to write it.

    Returns:
        The path.

    Raises:
        InputError: If the place cannot be written to.
    """
    path = Path(path)
    page = render(audit)
    with replacing(path) as temporary:
        temporary.write_bytes(page)
    return path


def render(audit: Audit) -> bytes:
    """Make the page as UTF-8, at most 5 MB: less of everything until it fits."""
    limits = Limits()
    while True:
        # Half a surrogate pair, which JSON can hold and UTF-8 cannot, becomes a question mark.
        page = _render(audit, limits).encode("utf-8", "replace")
        if len(page) <= LARGEST or limits == SMALLEST:
            return page
        limits = limits.halved()


def _render(audit: Audit, limits: Limits) -> str:
    rows = feature_rows(audit, limits)
    parts = sections(audit, limits)
    style, script, early = asset("page.css"), "".join(map(asset, SCRIPTS)), asset("theme.js")
    return (
        environment()
        .get_template("page.html")
        .render(
            audit=audit,
            limits=limits,
            headline=headline(audit),
            parts=[each for each in parts if each.filled],
            missing=[each for each in parts if not each.filled and each.missing],
            rows=rows,
            rays=shown_rays(audit, limits),
            surfaces=shown_surfaces(audit, limits),
            contests=contests(audit, limits),
            error_grid=error_grid(audit, limits),
            swaps_tried=swaps_tried(audit),
            flips=flip_rows(audit, min(FLIPS, limits.rows)),
            mistakes=worst_mistakes(audit, min(MISTAKES, limits.rows)),
            divided=most_divided(audit),
            words=[(slug(word), word, meaning) for word, meaning in words_used(audit)],
            term=_linked({slug(word) for word, _ in words_used(audit)}),
            in_full=IN_FULL,
            policy=policy(style, script, early),
            style=Markup(style),
            script=Markup(script),
            early=Markup(early),
            payload=Markup(payload(audit, [row.index for row in rows], limits)),
        )
    )


def notebook_summary(audit: Audit) -> str:
    """Make the essentials for a notebook, without scripts and in the notebook's own colours."""
    return (
        environment()
        .get_template("notebook.html")
        .render(
            audit=audit,
            headline=headline(audit),
            families=audit.families[:IN_NOTEBOOKS],
            rows=feature_rows(audit, Limits(features=IN_NOTEBOOKS)),
        )
    )


@cache
def environment() -> Environment:
    """The templates and the words they may use; everything is escaped unless it is ours."""
    made = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=COMPILED,
    )
    made.filters.update(
        percent=words.percent,
        number=words.number,
        distance=words.distance,
        share=words.share,
        middle=value_of,
        beyond=words.beyond,
        score=lambda name: words.shorten(words.visible(words.score_title(name))),
        metric=lambda name: words.shorten(words.visible(words.metric_title(name))),
        meaning=words.metric_meaning,
        quantity=words.quantity,
        name=lambda name: words.shorten(words.visible(name)),
        text=lambda name: words.shorten(words.visible(name), 1000),
    )
    made.globals.update(
        bar=bar, columns=columns, stack=stack, spark=spark, measured=words.measured,
        plural=words.plural, is_picture=is_picture, ends_told=ends_told, settled_told=settled_told,
        settled_middle=settled_middle, made_of=made_of, switch_told=switch_told,
        beyond_told=beyond_told, comes_to_rest=comes_to_rest, is_telling=words.is_telling,
        far_end=words.far_end, lasting=words.lasting, best_score=best_score, evidenced=evidenced,
        lived_with=lived_with, columns_told=columns_told,
    )  # fmt: skip
    return made


def compile_templates() -> dict[str, bytes]:
    """Compile every template, and return what ``COMPILED`` knows then."""
    for each in _templates().iterdir():
        environment().get_template(each.name)
    return COMPILED.known


def slug(word: str) -> str:
    """The name of a word's place on the page.

    >>> slug("Reach, the last switch"), slug("Standard deviation (sd)")
    ('word-reach', 'word-standard-deviation')
    """
    return "word-" + re.sub(r"[^a-z]+", "-", re.split(r"[,(]", word.lower())[0]).strip("-")


def _linked(known: set[str]) -> Callable[[str, str], Markup]:
    """Words as links to their meanings further down, if the page has these."""

    def term(word: str, text: str) -> Markup:
        place = slug(word)
        if place not in known:
            return Markup.escape(text)
        return Markup('<a class="term" href="#{}">{}</a>').format(place, text)

    return term


def is_picture(uri: str) -> bool:
    """Whether this is a picture inside of the page, and not an address."""
    return PICTURE.fullmatch(uri) is not None


def _template(name: str) -> str:
    return (_templates() / name).read_text(encoding="utf-8")


def _templates() -> Traversable:
    return files(__package__) / "templates"


@cache
def asset(name: str) -> str:
    """Read one of our own styles or scripts."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def policy(style: str, *scripts: str) -> str:
    """Allow exactly our own style and scripts, pictures inside of the page, and nothing else."""
    allowed = " ".join(map(_hash, scripts))
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
