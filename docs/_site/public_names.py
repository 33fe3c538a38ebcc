"""The directive ``public-names``: every public name of a package, from its docstrings.

What is public is what ``__all__`` names, so that a page cannot forget one. A name that
``farfield`` itself has is documented under that shorter one, once.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any, get_origin

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import farfield


def callable_package(thing: Any) -> bool:
    """Whether a package is a function too."""
    return isinstance(thing, ModuleType) and callable(thing)


def directive_for(thing: Any) -> str:
    """The directive of autodoc that documents an object."""
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if inspect.isroutine(thing) or callable_package(thing) else "autodata"


def options(thing: Any) -> list[str]:
    """Tables are named, and not printed."""
    return ["   :no-value:"] if isinstance(thing, dict) else []


def taken_by_farfield(package: str) -> list[str]:
    """What ``farfield`` itself has from inside of a package."""
    homes = farfield._HOMES.items()
    return [name for name, where in homes if f"{where}.".startswith(f"{package}.")]


def at_home(thing: Any, package: str) -> bool:
    """Whether a package documents an object: it is not another public package's own."""
    own = ".".join(getattr(thing, "__module__", package).split(".")[:2])
    return own == package or own.removeprefix("farfield.") not in farfield.__all__


def documented(package: str) -> list[tuple[str, Any]]:
    """Full name and object of what the page of a package documents."""
    home, itself = importlib.import_module(package), package.rpartition(".")[2]
    found = [(package, home)] if callable_package(home) else []
    for name in sorted({*home.__all__, *taken_by_farfield(package)}, key=str.lower):
        short = name in farfield.__all__ and name in (*taken_by_farfield(package), itself)
        thing = getattr(farfield if short else home, name)
        if not isinstance(thing, ModuleType) and name != itself and at_home(thing, package):
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


def without_borrowed_words(
    _app: Sphinx, what: str, _name: str, thing: Any, _options: Any, lines: list[str]
) -> None:
    """Leave a value without its type's docstring; give a package that is called the function's."""
    if callable_package(thing) and what == "function":
        lines[:] = (inspect.getdoc(thing.function) or "").splitlines()
    kind = get_origin(thing) or type(thing)
    if what == "data" and " ".join(lines).split() == (inspect.getdoc(kind) or "").split():
        lines.clear()


def with_plain_types(_app: Sphinx, *given: Any) -> None:
    """Keep what ends in ``_`` from being taken for a link."""
    lines = given[-1]
    lines[:] = [line.replace("numpy.str_]", "numpy.str\\_]") for line in lines]


def of_others(
    _app: Sphinx, _what: str, name: str, _thing: Any, _skip: bool, _options: Any
) -> bool | None:
    """Leave out what scikit-learn gives every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def with_dashes(_app: Sphinx, document: nodes.document) -> None:
    """Write a dash between a parameter and what it means."""
    for text in list(document.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public-names", PublicNames)
    # Before and after napoleon, which rewrites what it is given.
    app.connect("autodoc-process-docstring", without_borrowed_words, priority=400)
    app.connect("autodoc-process-docstring", with_plain_types, priority=600)
    app.connect("autodoc-skip-member", of_others)
    app.connect("doctree-read", with_dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
