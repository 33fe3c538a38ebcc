"""Findings on the command line: explained, budgeted, accepted."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from farfield.audit.findings import KINDS
from farfield.cli import farfield as command


def invoke(*args):
    return CliRunner().invoke(command, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of two columns, and a network that is blind everywhere."""
    home = tmp_path_factory.mktemp("gates")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 2))
    lines = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0 else 'no'}" for a, b in rows]
    (home / "train.csv").write_text("\n".join(["a,b,outcome", *lines]) + "\n")
    made = invoke(
        "train", "relu", "--data", home / "train.csv", "--label", "outcome", "--epochs", 5,
        "--hidden", "8", "-o", home / "model.safetensors",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    return home


FEW = ("--directions", 5, "--samples", 20, "--no-guard")


def audit(folder, *more):
    return invoke(
        "audit", folder / "model.safetensors", "--data", folder / "train.csv", "--label", "outcome",
        *FEW, "--out", folder / ("again" if more else "out"), *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown(folder):
    """An audit as it is, without a file of budgets."""
    return audit(folder)


@pytest.fixture(scope="module")
def saved(folder, shown):
    """What it wrote."""
    return folder / "out" / "audit.json"


def test_findings_are_shown_with_commands_that_name_the_files(folder, shown):
    assert shown.exit_code == 0
    assert "FF101 error: certain in every direction" in shown.output
    assert f"farfield guard {folder}/model.safetensors --data {folder}/train.csv" in "".join(
        shown.output.split("\n")
    ).replace("  ", " ")


def test_a_broken_budget_fails_and_is_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "farfield.toml").write_text("[budgets]\nblind = 0.2\naccuracy = 0.5\n")
    result = audit(folder, "--quiet")
    assert result.exit_code == 1
    assert result.stderr.startswith("farfield: FF001 blind share above its budget: ")
    assert "FF003" not in result.stderr
    accepted = '[[accepted]]\ncode = "FF001"\nreason = "a demonstration"\nuntil = 2999-01-01\n'
    with (folder / "farfield.toml").open("a") as file:
        file.write(accepted)
    assert audit(folder, "--quiet").exit_code == 0


def test_another_file_can_be_named_and_mistakes_in_it_are_one_line(folder, tmp_path):
    strict = tmp_path / "strict.toml"
    strict.write_text('fail_on = "error"\n')
    assert audit(folder, "--quiet", "--config", strict).exit_code == 1
    strict.write_text('fail_on = "nothing"\n')
    result = audit(folder, "--config", strict)
    assert f"{strict}: fail_on: Input should be 'error', 'warning' or 'note'" in str(
        result.exception
    )
    missing = audit(folder, "--config", tmp_path / "none.toml")
    assert "none.toml" in str(missing.exception)


def test_explain_lists_and_explains_without_pytorch():
    code = (
        "import sys; from farfield.cli import main; sys.argv = ['farfield', 'explain', 'ff201']\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("FF201: an entry error goes unnoticed\n\nSeverity: error")
    listed = invoke("explain").output.splitlines()
    assert [line.split()[0] for line in listed] == list(KINDS)
    assert "there is no finding FF000; there are FF001" in str(invoke("explain", "FF000").exception)


def test_reports_are_printed_or_written(folder, saved, tmp_path):
    printed = invoke("report", saved, "--format", "github")
    assert printed.exit_code == 0
    assert printed.stdout.startswith(f"::error file={folder}/model.safetensors,title=FF101")
    written = invoke("report", saved, "--format", "sarif", "-o", tmp_path / "a.sarif")
    assert written.exit_code == 0
    assert '"version": "2.1.0"' in (tmp_path / "a.sarif").read_text()
    assert invoke("report", saved, "--format", "pdf").exit_code == 2


def test_diff_gates(saved, tmp_path):
    worse = tmp_path / "better.json"
    worse.write_text(re.sub(r'"share": 1.0', '"share": 0.0', saved.read_text()))
    assert invoke("diff", saved, saved, "--gate").exit_code == 0
    assert invoke("diff", worse, saved).exit_code == 0
    gated = invoke("diff", worse, saved, "--gate", "--format", "json")
    assert gated.exit_code == 1
    assert json.loads(gated.stdout)["changes"][0]["way"] == "worse"
    page = invoke("diff", worse, saved, "--format", "html", "-o", tmp_path / "diff.html")
    assert page.exit_code == 0
    assert (tmp_path / "diff.html").read_text().startswith("<!doctype html>")


ACTION = Path(__file__).parents[2] / "examples" / "github-action"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder with a ``farfield`` for scripts: it asks here, where everything is loaded.

    One word a line goes through a pipe; an exit code comes back, and what was printed is in a file.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    asked, ended, printed = (folder / name for name in ("asked", "ended", "printed"))
    os.mkfifo(asked)
    os.mkfifo(ended)
    (folder / "farfield").write_text(
        f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{asked}'\nread -r code < '{ended}'\n"
        f"cat '{printed}'\nexit \"$code\"\n"
    )
    (folder / "farfield").chmod(0o755)

    monkeypatch.chdir(tmp_path)

    def answer():
        while words := asked.read_text().splitlines():
            code = 2  # if nothing comes of it, nobody waits
            try:
                done = invoke(*words)
                printed.write_bytes(done.stdout_bytes)
                code = done.exit_code
            finally:
                ended.write_text(f"{code}\n")

    answering = threading.Thread(target=answer)
    answering.start()
    yield folder
    if answering.is_alive():
        asked.write_text("")
    answering.join()


def test_the_action_audits_annotates_and_fails_on_budgets(folder, tools, tmp_path):
    strict = tmp_path / "farfield.toml"
    strict.write_text("[budgets]\nblind = 0.2\n")
    inputs = yaml.safe_load((ACTION / "action.yml").read_text())["inputs"]
    given = {name.upper(): each.get("default", "") for name, each in inputs.items()}
    given |= {
        "MODEL": str(folder / "model.safetensors"), "DATA": str(folder / "train.csv"),
        "LABEL": "outcome", "OPTIONS": " ".join(map(str, FEW)), "CONFIG": str(strict),
        "OUT": str(tmp_path / "out"), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", ACTION / "audit.sh"], env={**os.environ, **given}, capture_output=True, text=True,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "::error file=" in done.stdout
    assert "FF001" in done.stdout
    assert (tmp_path / "out" / "farfield.sarif").exists()
    assert (tmp_path / "out" / "farfield.xml").exists()


def test_the_action_passes_inputs_as_variables_only():
    steps = yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]
    assert all("${{" not in step["run"] for step in steps)
    script = (ACTION / "audit.sh").read_text()
    named = {name for step in steps for name in step.get("env", {})} - {"INSTALL"}
    assert all(f"${name}" in script or f"${{{name}" in script for name in named)


def test_the_hook_is_a_command_that_there_is(monkeypatch):
    config = ACTION.parent / "pre-commit" / ".pre-commit-config.yaml"
    hook = yaml.safe_load(config.read_text())["repos"][0]["hooks"][0]
    program, name, *rest = hook["entry"].split()
    assert program == "farfield"
    parsed = command.commands[name].make_context(name, list(rest))
    assert parsed.params["model"] == ("model.onnx",)
    assert all(re.search(hook["files"], file) for file in ("model.onnx", "farfield.toml"))
