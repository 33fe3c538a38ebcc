"""Remedies for confidence far from the data, from their papers' mathematics, one file each.

None of them is part of the package: they are what the guard is compared with. ``make`` fits one of
them by its name; ``names`` says which there are for a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.guard_data import Task
from benchmarks.rivals import boosted, trained
from benchmarks.rivals.base import Base
from benchmarks.rivals.ccu import ccu
from benchmarks.rivals.ddu import ddu
from benchmarks.rivals.energy import energy, energy_tuned
from benchmarks.rivals.guarded import at_shares, guarded
from benchmarks.rivals.kdg import kdg
from benchmarks.rivals.laplace import mixture
from benchmarks.rivals.nearest import nearest, nearest_inputs
from benchmarks.rivals.preload import preload
from benchmarks.rivals.prood import prood
from benchmarks.rivals.rgpr import rgpr
from benchmarks.rivals.rival import Rival
from benchmarks.rivals.vim import vim

SEED, MEMBERS = 0, 3
# What can be put on a trained network: the network, the data, a seed.
POST_HOC: dict[str, Callable[[Base, Task, int], Rival]] = {
    "ccu": lambda base, task, seed: ccu(base.probabilities, task, seed),
    "laplace": lambda base, task, _: mixture([base], task),
    "rgpr": lambda base, task, _: rgpr(base, task),
    "prood": prood,
    "preload": preload,
    "energy": lambda base, _, __: energy(base),
    "ddu": lambda base, task, _: ddu(base, task),
    "nearest": nearest,
    "vim": lambda base, _, __: vim(base),
}
# What needs a multilayer perceptron and its training set.
PERCEPTRON: dict[str, Callable[[Base, Task, int], Rival]] = {
    "kdg": kdg,
    "energy, tuned": energy_tuned,
}
TRAINED = ("temperature", "ensemble", "anchored", "ceda", "acet", "rbf")
BOOSTED = ("temperature", "ensemble", "ccu", "nearest")


def names(name: str, task: Task) -> list[str]:
    """The remedies that a task is measured with."""
    if task.boosted:
        return ["plain", "guard", *BOOSTED]
    if name == "cifar-10":
        return ["plain", "guard", "ceda", "acet", "ceda, guarded", "acet, guarded", *POST_HOC]
    return ["plain", "guard", *TRAINED, *POST_HOC, "laplace mixture", *PERCEPTRON]


def make(name: str, method: str, task: Task, models: dict[str, Any]) -> Rival:
    """Fit a remedy. ``models`` remembers networks that several of them need."""
    if task.boosted:
        return _boosted(method, task, models)
    if method.endswith(", guarded"):
        return guarded(_trained(name, method.removesuffix(", guarded"), task, models), task, SEED)
    if method == "laplace mixture":
        seeds = range(SEED, SEED + MEMBERS)
        plain = [trained.train(name, "plain", task, seed) for seed in seeds]
        return mixture([Base.of(each, task) for each in plain], task)
    if method in ("plain", *TRAINED):
        model = _trained(name, method, task, models)
        kinds = {"rbf": trained.rbf} if name != "cifar-10" else {method: trained.single}
        return kinds.get(method, trained.captured)(model, task)
    plain_model = _trained(name, "plain", task, models)
    if method == "guard":
        return guarded(plain_model, task, SEED)
    if "base" not in models:
        models["base"] = Base.of(plain_model, task)
    return {**POST_HOC, **PERCEPTRON}[method](models["base"], task, SEED)


def fewer_kept(name: str, task: Task, models: dict[str, Any]) -> dict[str, Any]:
    """What the guard would reach if it kept fewer rows."""
    if not task.boosted:
        return at_shares(_trained(name, "plain", task, models), task, SEED)
    return at_shares(boosted.ask(_boosted_model(task, models)), task, SEED)


def _trained(name: str, method: str, task: Task, models: dict[str, Any]) -> Any:
    """A network, trained once."""
    if method not in models:
        models[method] = trained.train(name, method, task, SEED)
    return models[method]


def _boosted_model(task: Task, models: dict[str, Any]) -> Any:
    if "plain" not in models:
        models["plain"] = boosted.train(task, SEED)
    return models["plain"]


def _boosted(method: str, task: Task, models: dict[str, Any]) -> Rival:
    """Remedies for a black box."""
    if method == "temperature":
        return boosted.temperature(task, SEED)
    if method == "ensemble":
        seeds = range(SEED, SEED + trained.MEMBERS)
        return boosted.plain([boosted.train(task, seed) for seed in seeds])
    if method == "nearest":
        return nearest_inputs(task, SEED)
    ask = boosted.ask(_boosted_model(task, models))
    if method == "guard":
        return guarded(ask, task, SEED)
    if method == "ccu":
        return ccu(boosted.as_rows(ask), task, SEED, smooth=False)
    return boosted.plain([models["plain"]])
