"""Audits as JSON: there and back, and what is refused."""

import errno
import json
import math

import pytest

import farfield as ff
from farfield.audit.fields.directions import Family
from farfield.audit.fields.facts import DataFacts, ModelFacts, Provenance
from farfield.audit.fields.verdict import Verdict
from farfield.errors import InputError
from farfield.evaluate import Estimate


def small(**more):
    sampled = Estimate(0.5, 0.4, 0.6, 0.95, "Clopper-Pearson")
    never = (1.0, math.inf, math.nan)
    families = (
        Family("axes", "Axes", 0.25, 4, (1.0,), {"a": 1.0}, 3.0, never[:2], {"e": (0.0,)}, 0.0),
        Family("random", "Random", sampled, 9, (), {}, math.inf, (), {}, 0.5),
    )
    fields = {
        "verdict": Verdict(False, 0.5, "random", 0.99, 0.1, "It fails."),
        "task": "classification",
        "model": ModelFacts("m.onnx", "onnx", 1, (2,), ("a", "</script>"), 10),
        "data": DataFacts("d.csv", 3, 2, {"a": 3}, {}, (), 3),
        "families": families,
        "provenance": Provenance("0", {"torch": "2"}, "here", 0, 1.0, "today"),
        "health": None,
        "guard": None,
    }
    empty = ("features", "curve_steps", "rays", "surfaces", "detection", "out_sets", "pictures")
    fields |= dict.fromkeys((*empty, "collapses", "remedies"), ())
    return ff.Audit(**(fields | more))


def test_round_trip_keeps_types_and_infinity(tmp_path):
    audit = small()
    path = tmp_path / "new" / "audit.json"
    audit.to_json(path)
    again = ff.Audit.from_json(path)
    assert again == audit
    assert again.blindness["axes"] == 0.25
    assert isinstance(again.blindness["random"], Estimate)
    assert math.isinf(again.families[0].settled[1])
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_passed_is_true_unless_it_failed():
    assert not small().passed
    assert small(verdict=Verdict(None, 1.0, "axes", 0.99, None, "s")).passed
    assert small(verdict=Verdict(True, 0.0, "axes", 0.99, 0.5, "s")).passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[1, 2", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no schema_version"),
        ('{"schema_version": 99}', "schema version 99"),
        ('{"schema_version": 1}', "not a farfield audit"),
    ],
)
def test_other_files_are_refused_in_words(tmp_path, text, message):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        ff.Audit.from_json(path)


def test_a_typing_error_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(small().to_json().replace('"threshold"', '"treshold"'))
    with pytest.raises(InputError, match=r"verdict\.threshold"):
        ff.Audit.from_json(path)
    with pytest.raises(InputError, match="cannot read"):
        ff.Audit.from_json(tmp_path / "nothing.json")


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "audit.json"
    path.write_text("before")

    def full(self, *args, **kwargs):
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(InputError, match="No space left"):
        small().to_json(path)
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["audit.json"]
