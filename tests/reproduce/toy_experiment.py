"""A small experiment that counts how often its steps run, for the tests of the framework."""

import time
from pathlib import Path

import numpy as np

from farfield.report.figure import new_figure
from farfield.reproduce import Figure, Findings, PaperComparison, ResultTable, Stage

NAME = "toy"
TITLE = "A toy & <b>its</b> title"
SOURCE = "nowhere <script>alert(1)</script>"
NEEDS: tuple[str, ...] = ()


def settings(quick, seed):
    return {"seed": seed, "steps": 3 if quick else 5, "log": "", "pause": 0.0}


def steps(settings, request):
    return [
        Stage(
            f"step {index}",
            {"seed": settings["seed"], "index": index},
            lambda *earlier, index=index: _run(index, settings, earlier),
            needs=(f"step {index - 1}",) if index else (),
        )
        for index in range(settings["steps"])
    ]


def _run(index, settings, earlier):
    if settings["log"]:
        with Path(settings["log"]).open("a") as file:
            file.write(f"{index}\n")
    time.sleep(settings["pause"])
    before = earlier[0]["total"] if earlier else 0
    return {"total": before + index, "values": np.arange(index + 1), "nested": {"x": [1.5, None]}}


def present(settings, results):
    total = max(each["total"] for each in results.values())
    figure = new_figure(2, 2)
    figure.subplots().plot(results["step 0"]["values"], [0.0], "o")
    return Findings(
        ["A sentence with <i>markup</i> & more."],
        [
            PaperComparison("total <1>", 3, total, "page & 7", "because <b>", tolerance=0),
            PaperComparison("claimed", "a", "b", "there", "not so", agrees=False),
            PaperComparison("printed nowhere", None, 1.0, "there"),
            PaperComparison("without end", float("inf"), 1.0, "there"),
        ],
        [ResultTable("numbers", "50% of a_b", ["name & co", "value"], [["<x>", 0.5], ["y", None]])],
        [Figure("dot", 'a "dot"', figure)],
    )
