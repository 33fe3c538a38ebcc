"""``farfield reproduce`` on the command line."""

import json
import sys

import pytest
from click.testing import CliRunner

from farfield.cli import farfield as command
from farfield.reproduce import NAMES


def invoke(*arguments):
    return CliRunner().invoke(command, ["reproduce", *arguments])


def test_list_names_every_experiment():
    result = invoke("--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == list(NAMES)


def test_a_name_is_needed():
    result = invoke()
    assert result.exit_code == 2
    assert "--list" in result.output


def test_an_unknown_name_is_an_input_error():
    result = invoke("know-your-limits-9")
    assert result.exit_code != 0
    assert "know-your-limits-3" in str(result.exception)


def test_missing_data_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("FARFIELD_DATA", raising=False)
    result = invoke("uci", "--out", str(tmp_path))
    assert "boston.csv.gz" in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_one_experiment_prints_its_page_alone_when_piped(tmp_path, monkeypatch):
    from farfield.reproduce import hein_theorem_3_2 as experiment

    small = experiment.settings(True, 0) | {"gammas": ["auto"], "directions": 8, "rings": 20}
    monkeypatch.setattr(
        experiment, "settings", lambda quick, seed: small | {"seed": seed, "epochs": 2}
    )
    result = invoke("hein-theorem-3-2", "--quick", "--out", str(tmp_path), "--seed", "2")
    assert result.exit_code == 0, result.output
    page = tmp_path / "hein-theorem-3-2" / "index.html"
    assert result.output.strip() == str(page)
    document = json.loads((page.parent / "results.json").read_text())
    assert document["run"]["mode"] == "quick"
    assert document["run"]["seed"] == 2


def test_all_writes_a_page_that_leads_to_each(tmp_path, monkeypatch):
    from farfield import reproduce
    from farfield.reproduce import hein_theorem_3_2 as experiment

    small = experiment.settings(True, 0) | {"gammas": ["auto"], "directions": 8, "rings": 20}
    monkeypatch.setattr(experiment, "settings", lambda quick, seed: small | {"epochs": 2})
    monkeypatch.setattr(reproduce, "NAMES", ("hein-theorem-3-2", "uci"))
    monkeypatch.delenv("FARFIELD_DATA", raising=False)
    result = invoke("all", "--quick", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "skipped uci: needs data" in result.output
    overview = (tmp_path / "index.html").read_text()
    assert 'href="hein-theorem-3-2/index.html"' in overview
    assert "skipped: needs data" in overview


@pytest.mark.skipif(sys.platform == "win32", reason="terminals differ")
def test_help_has_examples():
    result = invoke("--help")
    assert "farfield reproduce all --quick" in result.output
