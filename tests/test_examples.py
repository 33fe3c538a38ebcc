"""Examples and the code in the documentation run as they stand."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest

from farfield import datasets
from farfield.cli import farfield

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Smaller than they are drawn.
SMALL = {"deep_ensembles.py": ["4"], "discs.py": ["24"], "entry_errors.py": ["4"]}
FENCE = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "half_moons", partial(datasets.half_moons, points=120))
    monkeypatch.setattr("sys.argv", [path.name, str(tmp_path), *SMALL.get(path.name, [])])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


def fences(*languages):
    for page in PAGES:
        blocks = [
            block for name, block in FENCE.findall(page.read_text("utf-8")) if name in languages
        ]
        # The blocks of the tutorial build on one another: test_tutorial.py runs them.
        for number, block in enumerate(blocks if page.name != "tutorial.md" else ()):
            yield pytest.param(block, id=f"{page.name}-{number}")


BLOCKS = list(fences("python", "py"))
SECOND = BLOCKS.pop(1)


def test_code_of_the_readme_in_a_new_interpreter(tmp_path):
    """A reader copies one fence into a new interpreter, in a folder of their own."""
    (block,) = SECOND.values
    (tmp_path / "copied.py").write_text(block, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "copied.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", BLOCKS)
def test_code_in_the_documentation(block, nursery, tmp_path):
    """The same for all others."""
    done = nursery.run(block, folder=tmp_path)
    assert done.returncode == 0, done.stderr.decode()


def test_code_that_fails_is_noticed(nursery, tmp_path):
    done = nursery.run("import farfield\nfarfield.nothing\n", folder=tmp_path)
    assert done.returncode == 1
    assert b"has no attribute 'nothing'" in done.stderr


@pytest.mark.parametrize("block", list(fences("sh")))
def test_commands_in_the_documentation(block, tmp_path, monkeypatch):
    """Every command and option that is shown exists, and takes what it is shown with."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    for line in block.replace("\\\n", " ").splitlines():
        command = line.split(" > ")[0]  # what a shell writes to a file is its own affair
        words = [str(Path(word).expanduser()) for word in shlex.split(command, comments=True)]
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        elif words[:1] == ["farfield"]:
            with click.Context(farfield, info_name="farfield") as context:
                _, found, rest = farfield.resolve_command(context, words[1:])
                found.make_context(words[1], list(rest), parent=context)
        else:
            assert not words or words[0] in ("pip", "git", "python"), line
