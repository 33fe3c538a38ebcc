"""The tutorial does what it shows: its files and commands in order, each beside its output."""

import re
import shlex
from pathlib import Path

import pytest

from nursery import COMMAND

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SCRIPT = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
# The numbers of a training hang on the processor's sums a little.
NEAR = 0.05


def run(line, folder, nursery):
    words = shlex.split(line, comments=True)
    if words[0] == "python":
        code, arguments = SCRIPT, words[1:]
    else:
        assert words[0] == "farfield", line
        code, arguments = COMMAND, words[1:]
    done = nursery.run(code, *arguments, folder=folder, env={"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def near(shown, word):
    """Whether two words are the same, up to numbers that are near."""
    ours, theirs = (
        [float(each.replace(",", "")) for each in NUMBER.findall(w)] for w in (shown, word)
    )
    return NUMBER.sub("#", shown) == NUMBER.sub("#", word) and ours == pytest.approx(
        theirs, rel=NEAR, abs=0.01
    )


def found(shown, words):
    """The rest of the output behind the place that says what is shown, wherever lines break."""
    wanted = shown.split()
    for place in range(len(words) - len(wanted) + 1):
        if all(map(near, wanted, words[place:])):
            return words[place + len(wanted) :]
    pytest.fail(f"not in the output: {shown}\n" + " ".join(words))


def test_the_tutorial_shows_what_happens(tmp_path, nursery):
    output = None
    for language, block in FENCE.findall(PAGE.read_text("utf-8")):
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", block)[1]
            (tmp_path / name).write_text(block, "utf-8")
        elif language == "sh":
            lines = [line for line in block.splitlines() if not line.startswith("pip ")]
            output = "".join(run(line, tmp_path, nursery) for line in lines).split()
        elif language == "text":
            for shown in block.split("...\n"):
                output = found(shown, output)
    assert (tmp_path / "safe.onnx").is_file()
