"""The directive ``house``: the packages as floors, drawn from CONTRIBUTING.md.

The test of imports reads the same lines, so that what is drawn here is what holds. Arguments are
the packages that a walk passes through; they are numbered in that order.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

SOURCE = Path(__file__).parents[2] / "CONTRIBUTING.md"
WIDTH, FLOOR, LETTER, GAP = 760, 46, 8.2, 10


def floors() -> list[tuple[list[str], str]]:
    """Packages and what they are for, the highest floor first."""
    drawing = re.search(r"```text\n(cli .*?)```", SOURCE.read_text("utf-8"), re.DOTALL)
    if drawing is None:
        raise ExtensionError(f"{SOURCE} has no drawing of the house")
    found = []
    for line in drawing[1].splitlines():
        names, _, words = line.partition("  ")
        found.append((names.split(", "), words.strip()))
    return found


def picture(stops: list[str]) -> str:
    """The floors as SVG, with a number on every package that is passed."""
    rows = floors()
    missing = set(stops) - {name for names, _ in rows for name in names}
    if missing:
        raise ExtensionError(f"{SOURCE} does not draw {', '.join(sorted(missing))}")
    height = len(rows) * (FLOOR + GAP)
    floors_drawn = "".join(_floor(*row, place, stops) for place, row in enumerate(rows))
    return (
        f'<svg class="house" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="The packages, floor by floor; imports go down only">{floors_drawn}</svg>'
    )


def _floor(names: list[str], words: str, place: int, stops: list[str]) -> str:
    top, left, parts = place * (FLOOR + GAP), 0.0, []
    for name in names:
        width = len(name) * LETTER + 26 + (22 if name in stops else 0)
        parts.append(_box(name, left, top, width, stops))
        left += width + 8
    label = html.escape(words)
    below = f'<text class="words" x="2" y="{top + FLOOR - 4}">{label}</text>'
    return "".join(parts) + below


def _box(name: str, left: float, top: int, width: float, stops: list[str]) -> str:
    passed = name in stops
    box = f'<rect class="{"passed" if passed else "room"}" x="{left + 1}" y="{top + 1}" '
    box += f'width="{width}" height="26" rx="5"/>'
    begin = left + (32 if passed else 13)
    number = ""
    if passed:
        number = (
            f'<text class="number" x="{left + 11}" y="{top + 19}">{stops.index(name) + 1}</text>'
        )
    return (
        box + number + f'<text class="name" x="{begin}" y="{top + 19}">{html.escape(name)}</text>'
    )


class House(SphinxDirective):
    """Draw the floors, and number the packages that are named."""

    optional_arguments = 100

    def run(self) -> list[nodes.Node]:
        """Draw."""
        self.env.note_dependency(str(SOURCE))
        return [nodes.raw("", picture(list(self.arguments)), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("house", House)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
