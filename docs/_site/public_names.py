"""The directive ``public-names``: every public name of a package, from its docstrings.

What is public is what ``__all__`` names, so that a page cannot forget one. A name that
``farfield`` itself has is documented under that shorter one, once.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import farfield


def directive_for(thing: Any) -> str:
    """The directive of autodoc that documents an object."""
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if callable(thing) else "autodata"


def options(thing: Any) -> list[str]:
    """Tables are named, and not printed."""
    return ["   :no-value:"] if isinstance(thing, dict) else []


def names_of(package: str) -> list[str]:
    """What a package promises: its ``__all__``, and what ``farfield`` takes from inside of it."""
    home = importlib.import_module(package)
    taken = [
        name for name, where in farfield._HOMES.items() if f"{where}.".startswith(f"{package}.")
    ]
    return sorted({*home.__all__, *taken}, key=str.lower)


def documented(package: str) -> list[tuple[str, Any]]:
    """Full name and object of what the page of a package documents."""
    home, itself = importlib.import_module(package), package.rpartition(".")[2]
    found = [(package, home)] if callable(home) else []
    for name in names_of(package):
        short = name in farfield.__all__
        thing = getattr(farfield if short else home, name)
        if not isinstance(thing, ModuleType) and name != itself:
            found.append((f"farfield.{name}" if short else f"{package}.{name}", thing))
    return found


class PublicNames(SphinxDirective):
    """Document every public name of the package that is the argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write autodoc's directives and have them read."""
        lines = []
        for name, thing in documented(self.arguments[0]):
            lines += [f".. {directive_for(thing)}:: {name}", *options(thing), ""]
        return self.parse_text_to_nodes(StringList(lines, source=self.arguments[0]))


def in_our_words(
    _app: Sphinx, what: str, _name: str, thing: Any, _options: Any, lines: list[str]
) -> None:
    """Take away a docstring that is that of the value's type, and mend types that end in ``_``."""
    lines[:] = [line.replace("numpy.str_]", "numpy.str\\_]") for line in lines]
    if what == "data" and "\n".join(lines).strip() == (inspect.getdoc(type(thing)) or "").strip():
        lines.clear()


def of_others(
    _app: Sphinx, _what: str, name: str, _thing: Any, _skip: bool, _options: Any
) -> bool | None:
    """Leave out what scikit-learn gives every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", in_our_words)
    app.connect("autodoc-skip-member", of_others)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
