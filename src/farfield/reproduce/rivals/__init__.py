"""Remedies for confidence far from the data, from their papers' mathematics, one file each.

None of them is public: they are what the guard is compared with. ``make`` fits one of
them by its name; ``names`` says which there are for a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from farfield.reproduce.guard_tasks import GuardTask, TaskEntry
from farfield.reproduce.rivals import boosted, trained
from farfield.reproduce.rivals.base import Base
from farfield.reproduce.rivals.ccu import ccu
from farfield.reproduce.rivals.ddu import ddu
from farfield.reproduce.rivals.energy import energy, energy_tuned
from farfield.reproduce.rivals.guarded import at_shares, guarded
from farfield.reproduce.rivals.kdg import kdg
from farfield.reproduce.rivals.laplace import mixture
from farfield.reproduce.rivals.nearest import nearest, nearest_inputs
from farfield.reproduce.rivals.preload import preload
from farfield.reproduce.rivals.prood import prood
from farfield.reproduce.rivals.rgpr import rgpr
from farfield.reproduce.rivals.rival import Rival
from farfield.reproduce.rivals.vim import vim

MEMBERS = 3
# What can be put on a trained network: the network, the data, a seed.
POST_HOC: dict[str, Callable[[Base, GuardTask, int], Rival]] = {
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
PERCEPTRON: dict[str, Callable[[Base, GuardTask, int], Rival]] = {
    "kdg": kdg,
    "energy, tuned": energy_tuned,
}
TRAINED = ("temperature", "ensemble", "anchored", "ceda", "acet", "rbf")
BOOSTED = ("temperature", "ensemble", "ccu", "nearest")


def names(entry: TaskEntry) -> list[str]:
    """The remedies that a task is measured with."""
    if entry.boosted:
        return ["plain", "guard", *BOOSTED]
    if entry.published:
        return ["plain", "guard", "ceda", "acet", "ceda, guarded", "acet, guarded", *POST_HOC]
    return ["plain", "guard", *TRAINED, *POST_HOC, "laplace mixture", *PERCEPTRON]


def make(method: str, task: GuardTask, seed: int, models: dict[str, Any]) -> Rival:
    """Fit a remedy. ``models`` remembers networks that several of them need."""
    if task.boosted:
        return _boosted(method, task, seed, models)
    if method.endswith(", guarded"):
        return guarded(_trained(method.removesuffix(", guarded"), task, seed, models), task, seed)
    if method == "laplace mixture":
        plain = [trained.train("plain", task, each) for each in range(seed, seed + MEMBERS)]
        return mixture([Base.of(each, task) for each in plain], task)
    if method in ("plain", *TRAINED):
        model = _trained(method, task, seed, models)
        kinds = {"rbf": trained.rbf} if task.networks is None else {method: trained.single}
        return kinds.get(method, trained.captured)(model, task)
    plain_model = _trained("plain", task, seed, models)
    if method == "guard":
        return guarded(plain_model, task, seed)
    if "base" not in models:
        models["base"] = Base.of(plain_model, task)
    return {**POST_HOC, **PERCEPTRON}[method](models["base"], task, seed)


def fewer_kept(
    task: GuardTask, seed: int, models: dict[str, Any], shares: Sequence[float]
) -> dict[str, Any]:
    """What the guard would reach if it kept fewer rows."""
    if not task.boosted:
        return at_shares(_trained("plain", task, seed, models), task, seed, shares)
    return at_shares(boosted.ask(_boosted_model(task, seed, models)), task, seed, shares)


def _trained(method: str, task: GuardTask, seed: int, models: dict[str, Any]) -> Any:
    """A network, trained once."""
    if method not in models:
        models[method] = trained.train(method, task, seed)
    return models[method]


def _boosted_model(task: GuardTask, seed: int, models: dict[str, Any]) -> Any:
    if "plain" not in models:
        models["plain"] = boosted.train(task, seed)
    return models["plain"]


def _boosted(method: str, task: GuardTask, seed: int, models: dict[str, Any]) -> Rival:
    """Remedies for a black box."""
    if method == "temperature":
        return boosted.temperature(task, seed)
    if method == "ensemble":
        seeds = range(seed, seed + trained.MEMBERS)
        return boosted.plain([boosted.train(task, each) for each in seeds])
    if method == "nearest":
        return nearest_inputs(task, seed)
    ask = boosted.ask(_boosted_model(task, seed, models))
    if method == "guard":
        return guarded(ask, task, seed)
    if method == "ccu":
        return ccu(boosted.as_rows(ask), task, seed, smooth=False)
    return boosted.plain([models["plain"]])
