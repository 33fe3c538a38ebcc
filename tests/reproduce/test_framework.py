"""Steps are kept, resumed and shared; pages are self-contained and escaped."""

import json
import os
import re
import signal
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from farfield.errors import InputError, MissingDependency
from farfield.reproduce import PaperComparison, ResultTable, RunRequest, Stage, find_experiment
from farfield.reproduce.page import to_csv, to_latex
from farfield.reproduce.runner import missing_data, run_all, run_experiment
from farfield.reproduce.store import Store
from reproduce import toy_experiment as toy


def runs(log):
    return log.read_text().split() if log.exists() else []


def test_a_folder_with_figures_tables_results_and_page(tmp_path):
    outcome = run_experiment(toy, RunRequest(tmp_path / "toy"))
    assert outcome.status == "done"
    assert outcome.page == tmp_path / "toy" / "index.html"
    found = {str(p.relative_to(tmp_path / "toy")) for p in tmp_path.rglob("*") if p.is_file()}
    assert {
        "index.html", "results.json", "figures/dot.png", "figures/dot.svg", "tables/numbers.csv",
        "tables/numbers.tex",
    } <= found  # fmt: skip
    document = json.loads((tmp_path / "toy" / "results.json").read_text())
    assert document["comparisons"][0]["difference"] == 7
    assert document["comparisons"][0]["agrees"] is False
    assert document["comparisons"][3]["published"] == "inf"
    assert document["run"]["mode"] == "full"
    assert len(document["run"]["seconds"]) == 5


def test_a_second_run_computes_nothing(tmp_path):
    log = tmp_path / "log"
    request = RunRequest(tmp_path / "toy", quick=True)
    run_experiment(toy, request, changes={"log": str(log)})
    assert runs(log) == ["0", "1", "2"]
    run_experiment(toy, request, changes={"log": str(log)})
    assert runs(log) == ["0", "1", "2"]


def test_more_steps_and_other_settings_compute_only_what_is_new(tmp_path):
    log = tmp_path / "log"
    run_experiment(toy, RunRequest(tmp_path / "toy", quick=True), changes={"log": str(log)})
    run_experiment(toy, RunRequest(tmp_path / "toy"), changes={"log": str(log)})
    assert runs(log) == ["0", "1", "2", "3", "4"]
    run_experiment(toy, RunRequest(tmp_path / "toy", quick=True, seed=1), changes={"log": str(log)})
    assert runs(log)[5:] == ["0", "1", "2"]


SCRIPT = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, sys.argv[2])
from reproduce import toy_experiment as toy
from farfield.reproduce import RunRequest
from farfield.reproduce.runner import run_experiment
folder = Path(sys.argv[1])
log = folder / "log"

def pause(_):
    if len(log.read_text().split()) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

toy.time = SimpleNamespace(sleep=pause)
run_experiment(toy, RunRequest(folder / "toy"), changes={"log": str(log)})
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process the POSIX way")
def test_a_killed_run_goes_on_and_loses_at_most_one_step(tmp_path, nursery):
    log = tmp_path / "log"
    done = nursery.run(SCRIPT, tmp_path, Path(__file__).parents[1])
    assert done.returncode == -signal.SIGKILL, done.stderr
    started = runs(log)
    assert len(started) == 3
    assert not (tmp_path / "toy" / "index.html").exists()
    run_experiment(toy, RunRequest(tmp_path / "toy"), changes={"log": str(log)})
    again = runs(log)[len(started) :]
    assert "0" not in again
    assert len(set(again) & set(started)) <= 1
    assert sorted({*started, *again}) == ["0", "1", "2", "3", "4"]
    assert not list(tmp_path.rglob(".*safetensors"))


def test_a_damaged_result_is_computed_again(tmp_path):
    log = tmp_path / "log"
    request = RunRequest(tmp_path / "toy", quick=True)
    run_experiment(toy, request, changes={"log": str(log)})
    file = next((tmp_path / "toy" / "steps").glob("step-1-*.safetensors"))
    file.write_bytes(file.read_bytes()[:40])
    run_experiment(toy, request, changes={"log": str(log)})
    assert runs(log)[3:] == ["1"]


def test_results_come_back_as_they_were(tmp_path):
    store = Store(tmp_path, "x")
    step = Stage("a b/c", {"n": 1}, dict)
    values = {"text": "ä", "list": [1, 2.5, None], "array": np.eye(2), "flag": np.bool_(True)}
    store.save(step, values)
    back = store.load(step)
    assert back is not None
    assert back["text"] == "ä"
    assert back["list"] == [1, 2.5, None]
    assert back["flag"] is True
    np.testing.assert_array_equal(back["array"], np.eye(2))
    assert store.load(Stage("a b/c", {"n": 2}, dict)) is None


def test_a_result_that_is_no_plain_data_is_refused(tmp_path):
    with pytest.raises(TypeError, match="plain data"):
        Store(tmp_path, "x").save(Stage("a", {}, dict), {"thing": object()})
    assert not list(tmp_path.iterdir())


def test_shared_steps_are_found_by_other_experiments(tmp_path):
    calls = []

    class Other:
        NAME, TITLE, SOURCE, NEEDS = "one", "", "", ()

        def settings(self, quick, seed):
            return {}

        def steps(self, settings, request):
            def run():
                calls.append(1)
                return {"x": 1}

            return [Stage("training", {"n": 1}, run, shared=True)]

        def present(self, settings, results):
            assert results["training"] == {"x": 1}
            return toy.Findings()

    first, second = Other(), Other()
    second.NAME = "two"
    run_experiment(first, RunRequest(tmp_path / "one"))
    run_experiment(second, RunRequest(tmp_path / "two"))
    assert calls == [1]


class Reader(HTMLParser):
    """Collects tags and links, and fails on unbalanced ones."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    assert not reader.open
    return reader


def test_everything_on_a_page_is_escaped_and_nothing_is_fetched(tmp_path):
    page = read(run_experiment(toy, RunRequest(tmp_path / "toy")).page)
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert "i" not in page.tags
    for text in ("A toy & <b>its</b> title", "total <1>", "because <b>", "<i>markup</i>", "<x>"):
        assert text in page.text
    assert not [link for link in page.links if link.startswith(("http", "//"))]
    assert [link for link in page.links if link.startswith("data:image/png;base64,")]
    for link in page.links:
        assert link.startswith("data:") or (tmp_path / "toy" / link).is_file()


def test_a_difference_is_explained_and_agreement_is_not(tmp_path):
    text = read(run_experiment(toy, RunRequest(tmp_path / "toy")).page).text
    assert "not so" in text
    close = PaperComparison("x", 0.5, 0.6, "s", "why", tolerance=0.1)
    assert close.agreement is True
    assert PaperComparison("x", 0.5, 0.61, "s", "why", tolerance=0.1).agreement is False
    assert PaperComparison("x", None, 0.6, "s").agreement is None
    assert PaperComparison("x", "1", 0.6, "s").difference is None


def test_all_skips_what_it_cannot_run_and_says_why(tmp_path):
    class Needy:
        NAME, TITLE, SOURCE, NEEDS = "needy", "Needs <data>", "", ("a/b.csv",)

    class Lacking(Needy):
        NAME, NEEDS = "lacking", ()

        def settings(self, quick, seed):
            raise MissingDependency("install <thing>")

    experiments = {"toy": toy, "needy": Needy(), "lacking": Lacking()}
    outcomes = run_all(experiments, RunRequest(tmp_path, quick=True), progress=lambda text: None)
    assert [outcome.status for outcome in outcomes] == ["done", "skipped", "skipped"]
    page = read(tmp_path / "index.html")
    assert "a/b.csv" in page.text
    assert "FARFIELD_DATA" in page.text
    assert "install <thing>" in page.text
    assert "toy/index.html" in page.links
    with pytest.raises(InputError, match=re.escape("a/b.csv")):
        run_experiment(Needy(), RunRequest(tmp_path / "needy"))


def test_missing_files_are_named(tmp_path):
    class Needy:
        NAME, NEEDS = "needy", ("here.csv", "gone.csv")

    (tmp_path / "here.csv").touch()
    assert "gone.csv" in missing_data(Needy(), tmp_path)
    assert "here.csv" not in missing_data(Needy(), tmp_path).replace(str(tmp_path), "")
    (tmp_path / "gone.csv").touch()
    assert missing_data(Needy(), tmp_path) == ""


def test_tables_refuse_rows_of_another_length():
    with pytest.raises(InputError, match="2 columns"):
        ResultTable("t", "", ["a", "b"], [[1]])


def test_csv_and_latex():
    table = ResultTable("t", "a & b", ["x", "y %"], [["p_1", 0.123456789], ["q", float("inf")]])
    assert to_csv(table).splitlines()[1] == "p_1,0.123456789"
    latex = to_latex(table)
    assert r"a \& b" in latex
    assert r"p\_1 & 0.1235 \\" in latex
    assert r"$\infty$" in latex


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="know-your-limits-3"):
        find_experiment("know-your-limits-4")


def test_progress_names_every_step(tmp_path):
    lines = []
    run_experiment(toy, RunRequest(tmp_path / "toy", quick=True), progress=lines.append)
    assert lines[0] == "toy 1/3: step 0"
    assert len(lines) == 4
