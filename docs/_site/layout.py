"""The directive ``layout``: every class that the fields of a class are made of, from docstrings.

Types are followed from field to field, so that a part of ``audit.json`` cannot be forgotten.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

# Public, and documented with their packages.
ELSEWHERE = {"Estimate", "EntryErrors"}


def inside(hint: Any) -> Iterator[type]:
    """The classes of ours that a type is made of."""
    if isinstance(hint, type) and is_dataclass(hint) and hint.__module__.startswith("farfield."):
        yield hint
    for part in get_args(hint):
        yield from inside(part)


def parts(whole: type) -> list[type]:
    """All classes that fields lead to, in the order in which they are met."""
    found: dict[type, None] = {}
    waiting = [whole]
    while waiting:
        for hint in get_type_hints(waiting.pop(0)).values():
            new = [part for part in inside(hint) if part not in found and part is not whole]
            found |= dict.fromkeys(new)
            waiting += new
    return list(found)


class Layout(SphinxDirective):
    """Document the parts of the class that is the argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write autodoc's directives and have them read."""
        home, _, name = self.arguments[0].rpartition(".")
        lines = []
        for part in parts(getattr(importlib.import_module(home), name)):
            if part.__name__ not in ELSEWHERE:
                lines += [f".. autoclass:: {part.__module__}.{part.__name__}", ""]
        return self.parse_text_to_nodes(StringList(lines, source=self.arguments[0]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("layout", Layout)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
