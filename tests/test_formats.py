"""One table of formats, and everything that tells or lists them reads it."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import farfield as ff
from farfield.cli import farfield as command
from farfield.errors import CaptureError
from farfield.formats import FORMATS, Format, listed, readable, register, suffixes, tell
from farfield.graph.models import READERS

ROOT = Path(__file__).parents[1]


def test_a_name_or_a_suffix_is_registered_once():
    before = dict(FORMATS)
    with pytest.raises(ValueError, match="'pt2' is registered already"):
        register(Format("pt2", "another"))
    with pytest.raises(ValueError, match=r"\.onnx is the suffix of 'onnx' already"):
        register(Format("another", "another", suffixes=(".new", ".onnx")))
    assert before == FORMATS


def test_every_format_that_can_be_read_has_a_reader():
    assert {*READERS, "farfield"} == {name for name, each in FORMATS.items() if not each.advice}


def test_a_suffix_that_can_be_read_decides_and_others_do_not(tmp_path):
    for name in ("model.sav", "model.json", "model"):
        (tmp_path / name).write_bytes(b"tree\nversion=v4\n")
        assert tell(tmp_path / name).name == "lightgbm"
    (tmp_path / "model.pt2").write_bytes(b"tree\nversion=v4\n")
    assert tell(tmp_path / "model.pt2").name == "pt2"


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.pt", "notes.md", "nothing"])
def test_what_is_not_read_says_what_is(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x80\x04N." if name == "nothing" else b"text")
    with pytest.raises(CaptureError) as caught:
        readable(tmp_path / name)
    assert "pickle" in str(caught.value) or listed() in str(caught.value)


def test_a_saved_estimator_is_opened_by_load(tmp_path):
    data = ff.datasets.half_moons(0)
    ff.ReLUClassifier(hidden=(4,), epochs=1).fit(data.X, data.y).save(tmp_path / "model")
    with pytest.raises(CaptureError, match=r"open it with farfield\.load"):
        ff.capture(tmp_path / "model")


def test_help_and_documents_list_every_format():
    shown = " ".join(CliRunner().invoke(command, ["audit", "--help"]).output.split())
    assert listed() in shown
    shown = CliRunner().invoke(command, ["verify", "--help"]).output
    assert all(suffix in shown for suffix in suffixes("guard"))
    table = (ROOT / "docs" / "models.md").read_text("utf-8").split("## ")[0]
    assert all(suffix in table for suffix in suffixes("model") if suffix != ".safetensors")
    assert all(library in table for library in re.findall(r"XGBoost|LightGBM|CatBoost", listed()))
