"""Whatever messages and pages advise can be done."""

import re
from functools import cache
from pathlib import Path

import click
import pytest

import farfield as ff
from farfield.cli import farfield as command
from module_sources import read

ROOT = Path(__file__).parents[2]
MODULES = sorted(Path(ff.__file__).parent.rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Not the variables of style sheets: var(--line), --line: red.
OPTION = re.compile(r"(?<![\w-])(?<!var\()--[a-z][a-z-]*(?![\w:-])")


@cache
def options():
    found = {"--help"}
    for group in (command, *command.commands.values()):
        for parameter in group.params:
            if isinstance(parameter, click.Option):
                found |= {*parameter.opts, *parameter.secondary_opts}
    return found


@pytest.fixture(scope="module")
def modules():
    """What every module says."""
    return {path: read(path) for path in MODULES}


def test_options_named_in_the_code_exist(modules):
    known = options()
    wrong = [
        (path.name, name)
        for path, each in modules.items()
        for text in each.texts
        for name in OPTION.findall(text)
        if name not in known
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_named_in_the_documentation_exist(page):
    assert set(OPTION.findall(page.read_text("utf-8"))) <= options()


def test_arguments_named_in_messages_exist(modules):
    """Whatever is written as ``name=value`` is an argument of some function or class.

    Readers of other libraries' models name arguments of these.
    """
    foreign = ("scikit", "trees")
    own = [modules[path] for path in MODULES if path.parent.name not in foreign]
    arguments = {name for each in own for name in each.arguments}
    texts = [text for each in own for text in each.errors]
    advised = {name for text in texts for name in re.findall(r"\b([a-z_]+)=['\[]", text)}
    assert "label_kind" in advised
    assert advised <= arguments


def test_readers_of_tables_take_what_messages_about_tables_advise():
    table = {"--ignore", "--delimiter", "--categorical", "--schema", "--impute", "--label"}
    for name, more in (("audit", {"--label-kind", "--task"}), ("train", set())):
        assert table | more <= {opt for each in command.commands[name].params for opt in each.opts}
