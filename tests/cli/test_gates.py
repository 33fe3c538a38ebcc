"""Findings on the command line: explained, budgeted, accepted."""

import subprocess
import sys

import numpy as np
import pytest
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
    rows = rng.normal(size=(120, 2))
    lines = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0 else 'no'}" for a, b in rows]
    (home / "train.csv").write_text("\n".join(["a,b,outcome", *lines]) + "\n")
    made = invoke(
        "train", "relu", "--data", home / "train.csv", "--label", "outcome", "--epochs", 5,
        "--hidden", "8", "-o", home / "model.safetensors",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    return home


def audit(folder, *more):
    return invoke(
        "audit", folder / "model.safetensors", "--data", folder / "train.csv", "--label", "outcome",
        "--directions", 20, "--samples", 40, "--out", folder / "out", *more,
    )  # fmt: skip


def test_findings_are_shown_with_commands_that_name_the_files(folder):
    result = audit(folder)
    assert result.exit_code == 0
    assert "FF101 error: certain in every direction" in result.output
    assert f"farfield guard {folder}/model.safetensors --data {folder}/train.csv" in "".join(
        result.output.split("\n")
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
