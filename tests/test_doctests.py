"""Examples in docstrings show what happens.

Only modules that have any are loaded: looking into all others takes longer than running these.
"""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules():
    for path in sorted(SOURCES.rglob("*.py")):
        if ">>> " in path.read_text("utf-8"):
            yield ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(
                ".__init__"
            )


def examples(module):
    """The docstrings of a module that have examples; packages may be functions too."""
    found = doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__)
    return [each for each in found if each.examples]


@pytest.mark.parametrize("name", list(modules()))
def test_examples_show_what_happens(name):
    tests = examples(importlib.import_module(name))
    assert tests
    for test in tests:
        said = []
        failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
        assert not failed, "".join(said)


def test_an_example_that_shows_something_else_is_noticed():
    parser = doctest.DocTestParser()
    test = parser.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    said = []
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append).failed == 1
    assert "Expected:" in "".join(said)
