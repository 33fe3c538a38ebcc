"""Devices, pipes, full disks and terminals of another age: one line, never a traceback."""

import json
import os
import resource
import stat
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from farfield.cli import farfield as command
from farfield.errors import InputError


def run(*args, env=None, limit=None):
    def restrict():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", "from farfield.cli import main; main()", *map(str, args)],
        capture_output=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        preexec_fn=restrict if limit is not None else None,
        timeout=300,
    )


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
    rows = rng.normal(size=(60, 2))
    lines = [f"{a:.3f},{b:.3f},{'jä' if a > b else 'nö'}" for a, b in rows]
    text = "\n".join(["größe,宽,y", *lines])
    (folder / "train.csv").write_text(text + "\n", encoding="utf-8")
    done = invoke(
        "train", "relu", "--data", folder / "train.csv", "--label", "y", "--epochs", 2,
        "--hidden", "4", "-o", folder / "model.safetensors",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def audit(home, *more, how=invoke, **options):
    return how(
        "audit", home / "model.safetensors", "--data", home / "train.csv", "--label", "y",
        "--directions", 20, "--samples", 20, *more, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def written(home):
    assert audit(home, "--out", home / "out", "--quiet").exit_code == 0
    return home / "out" / "audit.json"


def test_terminals_that_know_few_characters(home, written):
    env = {"PYTHONIOENCODING": "ascii"}
    done = run("report", written, "-o", home / "page.html", env=env)
    assert done.returncode == 0, done.stderr
    assert b"gr??e" in done.stdout
    done = audit(home, "--out", home / "again", "--json", how=run, env=env)
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


def test_a_full_disk_ends_in_one_line(home):
    out = home / "full" / "safe.pt2"
    done = run(
        "guard", home / "model.safetensors", "--data", home / "train.csv", "--label", "y",
        "--quiet", "-o", out, limit=1000,
    )  # fmt: skip
    assert "cannot write" in refused(done)
    assert not out.exists()
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize(("allowed", "code"), [("1", 0), ("0", 1)])
def test_a_reader_that_leaves_changes_no_exit_code(home, allowed, code):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", "from farfield.cli import main; main()", "audit"]
    command += [home / "model.safetensors", "--data", home / "train.csv", "--label", "y"]
    command += ["--directions", "20", "--samples", "20", "--max-blind", allowed]
    command += ["--out", home / "left"]
    done = subprocess.run(
        list(map(str, command)), stdout=writer, stderr=subprocess.PIPE, check=False, timeout=300
    )
    os.close(writer)
    assert done.returncode == code
    # What broke its budget is said where errors are said, and nothing else.
    assert done.stderr == b"" if code == 0 else done.stderr.startswith(b"farfield: FF001")
    assert done.stderr.count(b"\n") <= 1
