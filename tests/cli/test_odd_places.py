"""Devices, pipes, full disks and terminals of another age: one line, never a traceback."""

import json
import os
import stat
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner

from farfield.cli import farfield as command
from farfield.errors import InputError
from nursery import COMMAND

# Whoever reads the output has left.
LEFT = "import os; reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)\n"


def invoke(*args):
    return CliRunner().invoke(command, [str(arg) for arg in args])


def refused(done):
    """One line, exit code 2."""
    if isinstance(done, subprocess.CompletedProcess):
        assert done.returncode == 2, done
        [line] = done.stderr.decode().splitlines()
        return line
    assert isinstance(done.exception, InputError), done.output
    [line] = str(done.exception).splitlines()
    return line


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A small table with names that no old terminal knows, and an estimator for it."""
    folder = tmp_path_factory.mktemp("odd")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 2))
    lines = [f"{a:.3f},{b:.3f},{'jä' if a > b else 'nö'}" for a, b in rows]
    text = "\n".join(["größe,宽,y", *lines])
    (folder / "train.csv").write_text(text + "\n", encoding="utf-8")
    done = invoke(
        "train", "relu", "--data", folder / "train.csv", "--label", "y", "--epochs", 2,
        "--hidden", "4", "-o", folder / "model.safetensors",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def words(home, *more):
    return [
        "audit", home / "model.safetensors", "--data", home / "train.csv", "--label", "y",
        "--directions", 3, "--samples", 10, "--no-guard", *more,
    ]  # fmt: skip


def audit(home, *more):
    return invoke(*words(home, *more))


@pytest.fixture(scope="module")
def written(home):
    assert audit(home, "--out", home / "out", "--quiet").exit_code == 0
    return home / "out" / "audit.json"


def test_terminals_that_know_few_characters(home, written, nursery):
    env = {"PYTHONIOENCODING": "ascii"}
    done = nursery.run(COMMAND, "report", written, "-o", home / "page.html", env=env)
    assert done.returncode == 0, done.stderr
    assert b"gr??e" in done.stdout
    done = nursery.run(COMMAND, *words(home, "--out", home / "again", "--json"), env=env)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.decode("ascii"))
    assert printed["features"] == json.loads(written.read_text("utf-8"))["features"]


@pytest.mark.parametrize("source", ["/dev/zero", "/dev/stdin", "/dev/full", "fifo", "."])
def test_what_never_ends_is_not_read(home, source):
    if source == "fifo" and not (home / "fifo").exists():
        os.mkfifo(home / "fifo")
    place = home / source
    assert "cannot read" in refused(invoke("report", place)).lower()
    assert "cannot read" in refused(audit(home, "--schema", place)).lower()
    done = invoke("audit", home / "model.safetensors", "--data", place, "--label", "y")
    assert "cannot read" in refused(done).lower()
    if source != ".":
        done = invoke("audit", place, "--data", home / "train.csv", "--label", "y")
        assert "cannot read" in refused(done).lower()


def test_special_files_are_not_replaced(home, written):
    link, pipe = home / "link.html", home / "pipe.html"
    link.symlink_to(home / "train.csv")
    os.mkfifo(pipe)
    before = (home / "train.csv").read_bytes()
    for place in (link, pipe, "/dev/full"):
        assert "cannot write" in refused(invoke("report", written, "-o", place))
    assert link.is_symlink()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)  # noqa: PTH116 - a device
    assert (home / "train.csv").read_bytes() == before


def test_a_full_disk_ends_in_one_line(home, nursery):
    out = home / "full" / "safe.pt2"
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    done = nursery.run(
        full + COMMAND, "guard", home / "model.safetensors", "--data", home / "train.csv",
        "--label", "y", "--quiet", "-o", out,
    )  # fmt: skip
    assert "cannot write" in refused(done)
    assert not out.exists()
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize(("allowed", "code"), [("1", 0), ("0", 1)])
def test_a_reader_that_leaves_changes_no_exit_code(home, nursery, allowed, code):
    arguments = words(home, "--max-blind", allowed, "--out", home / "left")
    done = nursery.run(LEFT + COMMAND, *arguments)
    assert done.returncode == code
    # What broke its budget is said where errors are said, and nothing else.
    assert done.stderr == b"" if code == 0 else done.stderr.startswith(b"farfield: FF001")
    assert done.stderr.count(b"\n") <= 1


def test_a_reader_that_leaves_changes_no_exit_code_of_what_only_tells(nursery):
    done = nursery.run(LEFT + COMMAND, "explain")
    assert (done.returncode, done.stderr) == (0, b"")


def test_nobody_has_to_listen(home, written, nursery):
    """As where a shell closes the output: ``>&-``."""
    done = nursery.run(
        "import sys; sys.stdout = None\n" + COMMAND, "report", written, "--format", "text"
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_output_to_a_full_device_ends_in_one_line(written, nursery):
    full = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n"
    line = refused(nursery.run(full + COMMAND, "report", written, "--format", "text"))
    assert line == "farfield: cannot write: No space left on device"
