"""The comparison with other packages, in small, with those that are always here."""

import pytest


@pytest.fixture
def peers(monkeypatch):
    from pathlib import Path

    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks import peers

    monkeypatch.setattr(peers, "HIDDEN", (4, 4))
    monkeypatch.setattr(peers, "EPOCHS", 2)
    return peers


def test_both_sides_do_the_same_and_the_absent_say_why(peers):
    absent = dict.fromkeys(peers.PEERS, "ImportError: not here")
    found = peers.compare_all(absent | {"numpy clipper": "", "scikit-learn": ""}, 1)
    clipper = found["numpy clipper"]
    ours, theirs = clipper["results"].removesuffix(" regions").split(" and ")
    assert ours == theirs
    assert int(ours) > 10
    assert found["scikit-learn"]["theirs_over_ours"] > 0
    assert found["relucent"] == {"version": "did not install: ImportError: not here"}
    assert found["disagreements"] == 0


def test_results_that_differ_are_counted(peers, monkeypatch):
    wrong = peers.Task("count", lambda: 3, lambda: 4, peers._counts)
    monkeypatch.setattr(peers, "PEERS", {"numpy clipper": ((), lambda: wrong)})
    found = peers.compare_all({"numpy clipper": ""}, 1)
    assert found["disagreements"] == 1
    assert found["numpy clipper"]["results"] == "3 and 4 regions"


def test_packages_that_cannot_be_imported_give_the_reason(peers):
    assert peers._reason(("json",)) == ""
    assert peers._reason(("no_such_package",)).startswith("ModuleNotFoundError: No module named")
