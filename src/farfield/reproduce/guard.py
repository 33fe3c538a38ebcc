"""What does a guard change, next to every other remedy? Its promises, and who sees what is foreign.

Networks and boosted trees on fourteen tasks, guarded: what is promised, what changes near the data
(accuracy, NLL, rows that stay bit-identical), and what AUROC says at natural shifts, far away, in
noise and under attack, next to every other remedy.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from farfield.evaluate import calibration, detection
from farfield.levels import KEEP
from farfield.reproduce import rivals
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Findings, PaperComparison
from farfield.reproduce.guard_measures import attacked, blindness, stillness
from farfield.reproduce.guard_tables import draw, standings, tables, words
from farfield.reproduce.guard_tasks import TASKS, GuardTask
from farfield.reproduce.rivals.rival import Rival, answers

NAME = "guard"
TITLE = "What does a guard change, next to every other remedy?"
SOURCE = "farfield's own comparison; see docs/guard.md"
NEEDS: tuple[str, ...] = ()
QUICK = ("plain", "guard", "ccu", "laplace", "energy", "nearest")
FEWER = "fewer kept"


def settings(quick: bool, seed: int) -> Settings:
    """All tasks and remedies; in quick mode one task and those that are soon made."""
    return {
        "seed": seed,
        "tasks": ["half-moons"] if quick else [name for name in TASKS if _importable(name)],
        "methods": list(QUICK) if quick else None,
        "directions": 500,
        "attack": {"rows": 50, "steps": 5} if quick else {"rows": 200, "steps": 30},
        # Shares of kept rows that a column might need, beside the default.
        "kept": [0.95] if quick else [0.98, 0.95],
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """One step for each remedy on each task whose files are there."""
    shared = {key: settings[key] for key in ("seed", "directions", "attack")}
    found: list[Stage] = []
    for task in settings["tasks"]:
        if not _available(task, request.data_dir):
            continue
        for method in rivals.names(TASKS[task]):
            if settings["methods"] is None or method in settings["methods"]:
                own = {**shared, "task": task, "method": method}
                run = partial(_measure, task, method, settings, request.data_dir)
                found.append(Stage(f"{task}: {method}", own, run))
        own = {"seed": settings["seed"], "kept": settings["kept"], "task": task}
        run = partial(_fewer, task, settings, request.data_dir)
        found.append(Stage(f"{task}: {FEWER}", own, run))
    return found


def _importable(task: str) -> bool:
    library = TASKS[task].boosted
    return library is None or importlib.util.find_spec(library) is not None


def _available(task: str, folder: Path | None) -> bool:
    needs = TASKS[task].needs
    return not needs or (folder is not None and all((folder / each).exists() for each in needs))


@functools.lru_cache(maxsize=1)
def _opened(task: str, folder: Path | None, seed: int) -> tuple[GuardTask, dict[str, Any]]:
    """A task, and the models that were made for it; of the last task alone."""
    del seed  # models of another seed are others
    return TASKS[task].read(folder), {}


def _fewer(name: str, settings: Settings, folder: Path | None) -> Result:
    task, models = _opened(name, folder, settings["seed"])
    return rivals.fewer_kept(task, settings["seed"], models, settings["kept"])


def _measure(name: str, method: str, settings: Settings, folder: Path | None) -> Result:
    """Make one model and measure it near and far."""
    task, models = _opened(name, folder, settings["seed"])
    start = time.perf_counter()
    rival = rivals.make(method, task, settings["seed"], models)
    seconds = time.perf_counter() - start
    found: Result = {}
    inside, p = answers(rival, torch.from_numpy(task.test[0]))
    if p is not None:
        fit = calibration(p.numpy(), task.test[1])
        found = {"accuracy": fit.accuracy, "nll": fit.nll, "ece": fit.ece}
    for kind, sets in (("near", task.near), ("far", task.far())):
        found[kind] = {
            key: _detected(rival, inside, torch.from_numpy(np.ascontiguousarray(foreign)))
            for key, foreign in sets.items()
        }
    found["blindness"] = blindness(task, rival, settings["directions"])
    if rival.still is not None:
        found["features_still"] = stillness(task, rival.still, settings["directions"])
    if rival.smooth:
        found["attacked"] = attacked(task, rival, inside, **settings["attack"])
    return {**found, **rival.extra, "seconds_to_make": round(seconds, 1)}


def _detected(rival: Rival, inside: torch.Tensor, foreign: torch.Tensor) -> dict[str, float]:
    scores, p = answers(rival, foreign)
    result = detection(inside, scores)
    found = {"auroc": result.auroc, "fpr95": result.fpr95}
    if p is not None:
        found["mmc"] = float(p.amax(dim=1).mean())
    return found


def present(_settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Every promise beside what was found, and every remedy on every task."""
    tasks: dict[str, dict[str, Result]] = {}
    for name, result in results.items():
        task, method = name.split(": ", 1)
        tasks.setdefault(task, {})[method] = result
    fewer = {task: found.pop(FEWER, {}) for task, found in tasks.items()}
    numbers: dict[str, Any] = {
        "standings": list(standings(tasks, fewer)),
        "fewer_kept": fewer,
        "tasks": tasks,
    }
    absent = [task for task in TASKS if task not in tasks]
    if absent:
        numbers["not_measured"] = absent
    return Findings(
        words(numbers), promises(tasks), tables(numbers), [draw(numbers)], numbers=numbers
    )


def promises(tasks: Mapping[str, Mapping[str, Any]]) -> list[PaperComparison]:
    """What a guard promises, beside the worst that was found."""
    guards = [each for found in tasks.values() for each in found.values() if "verified" in each]
    known, new = (
        min(each[f"identical_{rows}"] for each in guards) for rows in ("training", "test")
    )
    lost = max(each["nll_change"] for each in guards)
    accuracy = max(abs(each["accuracy_difference"]) for each in guards)
    blind = max(share for each in guards for share in each["blindness"].values())
    broken = sum(not (each["verified"] and each["certificate_survives"]) for each in guards)
    rows = (
        ("largest share of blind directions", "0", blind, blind == 0),
        ("certificates that were broken", "0", broken, broken == 0),
        ("largest change of accuracy", "0", accuracy, accuracy == 0),
        ("least share of training rows bit-identical", f">= {KEEP}", known, known >= KEEP),
        ("least share of test rows bit-identical", ">= 0.985", new, new >= 0.985),
        ("largest change of NLL on test rows", "<= 0.002", lost, lost <= 0.002),
    )
    why = "Shares and likelihoods of new rows hold on average; tables of a few hundred rows vary."
    return [
        PaperComparison(f"guards: {quantity}", meant, ours, "docs/guard.md", why, agrees=fine)
        for quantity, meant, ours, fine in rows
    ]
