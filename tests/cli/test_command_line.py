"""The command line: quick help, the demo, errors in one line."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import farfield
from farfield.cli import ASLEEP, main
from farfield.cli import farfield as command
from farfield.errors import InputError
from farfield.reproduce import demo as experiment


def run(*args, code="from farfield.cli import main; main()"):
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False
    )


def test_help_answers_at_once_without_loading_what_is_slow():
    code = (
        "import sys, farfield.cli\n"
        "try: farfield.cli.farfield(['--help'])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "slow = {'torch', 'sklearn', 'numpy', 'matplotlib', 'rich', 'pydantic'} & {*sys.modules}\n"
        "assert not slow, slow"
    )
    done = run(code=code)
    assert done.returncode == 0, done.stderr
    assert "demo" in done.stdout


PROGRAM = (
    "import atexit, sys; from farfield.cli import program\n"
    "atexit.register(lambda: print('called', end=' '))\n"
    "program()"
)


def test_a_program_leaves_at_once_and_loses_nothing():
    done = run("--version", code=PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == [farfield.__version__, "called"]
    done = run("explain", "FF999", code=PROGRAM)
    assert (done.returncode, done.stdout.strip()) == (2, "called")
    assert done.stderr.startswith("farfield: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_what_a_program_could_not_write_is_an_error():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "--version"], stdout=full, check=False
        )
    assert done.returncode


@pytest.mark.whole
def test_demo_writes_its_picture_and_says_what_it_found(tmp_path, monkeypatch, short_attack):
    titles = ("One ReLU network", "Ensemble of ten", "RBF network", "One ReLU network, guarded")
    assert set(titles) < set(experiment.MODELS)
    small = {"directions": 10, "samples": 10, "models": titles}
    monkeypatch.setattr(experiment, "settings", lambda quick, seed: {**small, "seed": seed})
    few = partial(farfield.datasets.half_moons, points=80, validation=40)
    monkeypatch.setattr(experiment, "half_moons", few)
    monkeypatch.setattr(experiment, "audit", partial(experiment.audit, directions=10))
    make = experiment.make_model
    narrow = {"hidden": (6, 6), "epochs": 30}
    monkeypatch.setattr(experiment, "make_model", lambda name, own: make(name, own | narrow))
    result = CliRunner().invoke(command, ["demo", "--out", str(tmp_path / "new"), "--seed", "1"])
    assert result.exit_code == 0, result.output
    picture = tmp_path / "new" / "far-field.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "new" / "index.html").read_text("utf-8")
    for title in titles:
        assert title in result.output
        folder = title.lower().replace(",", "").replace(" ", "-")
        assert f'href="{folder}/report.html"' in page
        assert (tmp_path / "new" / folder / "report.html").is_file()
    names = {path.name for path in picture.parent.iterdir() if path.is_file()}
    assert names == {"far-field.png", "index.html"}
    lines = result.output.splitlines()
    before, after = (
        next(line.split("│") for line in lines if title in line)
        for title in ("One ReLU network", "One ReLU network, guarded")
    )
    assert before[2:4] == after[2:4], "a guard keeps the accuracy"
    assert [cells[4].strip() for cells in (before, after)] == ["100.0%", "0.0%"]
    assert "farfield guard MODEL" in lines[-1]


def test_errors_are_one_line_and_exit_with_2(monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise InputError("x is wrong; make it right")

    monkeypatch.setattr("farfield.cli.farfield", fail)
    monkeypatch.setattr(sys, "argv", ["farfield", "demo"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == "farfield: x is wrong; make it right\n"
    monkeypatch.setattr(sys, "argv", ["farfield", "--debug", "demo"])
    with pytest.raises(SystemExit):
        main()
    assert "Traceback" in capsys.readouterr().err


def test_bad_usage_exits_with_2():
    assert CliRunner().invoke(command, ["nonsense"]).exit_code == 2
    assert run("demo", "--seed", "many").returncode == 2


def train_on(tmp_path, row):
    """Arguments that train on a table that ends with a row."""
    data = tmp_path / "data.csv"
    data.write_text("a,y\n" + "1,0\n2,1\n" * 1000 + f"{row}\n")
    out = tmp_path / "model.safetensors"
    return "train", "relu", "--data", str(data), "--label", "y", "-o", str(out)


@pytest.mark.whole
def test_refusals_end_with_two(tmp_path):
    """Whatever reads the file has stopped before the process ends; else it is aborted (134).

    In a new interpreter: forks of one that has loaded everything are not seen to abort.
    """
    done = run(*train_on(tmp_path, "1,2,3"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_open_quotation_marks_are_refused(tmp_path):
    result = CliRunner().invoke(command, train_on(tmp_path, '1,"'))
    assert isinstance(result.exception, InputError)
    assert "\n" not in str(result.exception)


def test_threads_wait_asleep_unless_somebody_says_otherwise(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["farfield", "--version"])
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("KMP_BLOCKTIME", "200")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with pytest.raises(SystemExit):
        main()
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
    assert os.environ["GOMP_SPINCOUNT"] == ASLEEP["GOMP_SPINCOUNT"]
    assert os.environ["KMP_BLOCKTIME"] == "200"


def test_threads_wait_as_somebody_said(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["farfield", "--version"])
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    monkeypatch.setenv("GOMP_SPINCOUNT", "")
    monkeypatch.delenv("GOMP_SPINCOUNT")
    with pytest.raises(SystemExit):
        main()
    assert os.environ["OMP_WAIT_POLICY"] == "active"
    assert "GOMP_SPINCOUNT" not in os.environ
