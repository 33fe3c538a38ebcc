"""Notebooks run from top to bottom, and say what they are shown to say."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.whole

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
# Of a phone, in letters.
WIDTH = 72


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("runner", ROOT / "tools" / "run_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def said(outputs):
    """Texts as they are, and where there are pictures."""
    return [output.get("text") or output["data"].get("text/plain", "picture") for output in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_it_shows(path, runner):
    notebook = json.loads(path.read_text("utf-8"))
    kept = [said(cell["outputs"]) for cell in code(notebook)]
    with torch.random.fork_rng(devices=[]):
        found = [said(outputs) for outputs in runner.run(notebook)]
    assert found == kept
    assert any("picture" in each for each in kept)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_can_be_read_on_a_phone(path):
    text = path.read_text("utf-8")
    notebook = json.loads(text)
    assert len(text) < 100_000
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in code(notebook):
        shown = ["".join(cell["source"]), *("".join(each) for each in said(cell["outputs"]))]
        assert max(len(line) for each in shown for line in each.splitlines()) <= WIDTH
        assert all(len(each.splitlines()) <= 25 for each in shown)


def test_a_failing_cell_fails(runner):
    with pytest.raises(ZeroDivisionError):
        runner.run({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})


def test_outputs_are_kept_as_jupyter_keeps_them(runner):
    source = ["print('a')\n", "import matplotlib.pyplot as plt\n", "plt.plot([1, 2])\n", "1 + 1"]
    (outputs,) = runner.run({"cells": [{"cell_type": "code", "source": source}]})
    kinds = [output["output_type"] for output in outputs]
    assert kinds == ["stream", "execute_result", "display_data"]
    assert said(outputs) == [["a\n"], ["2"], "picture"]
