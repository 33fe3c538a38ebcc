"""How a remedy is measured: the directions it is blind in, and the worst points near foreign rows.

Directions are the families of an audit, in closed form or looked at. The worst point in a ball is
found by projected gradient ascent on the certainty, from the row itself and from a random point of
the ball, and on whatever else the remedy names as worth climbing, such as minus the guard's own
distance. The surest point of all counts, the row itself included.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from farfield.audit.black_box import BlackBox
from farfield.audit.families import FamilyRays, axes, follow, random_directions
from farfield.audit.subject import Subject
from farfield.data import TableColumn
from farfield.estimate import value_of
from farfield.evaluate import detection
from farfield.levels import BLIND
from farfield.objectives.attacks import PGD
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.rival import Rays, Rival, Rows, in_batches

SEED = 0
# Wide inputs are looked at along fewer rays.
WIDE, WIDE_AXES, WIDE_RAYS = 800, 100, 100
# Rows that directions are scaled like, and that the usual scores are those of.
MOST = 2000
# A score is blind where it accepts like this share of the data.
ACCEPTED = 0.95
# Deep networks on images take longer: fewer rows, fewer steps, from the rows alone.
DEEP_ROWS, DEEP_STEPS = 32, 8
STARTS: tuple[Literal["centre", "uniform"], ...] = ("centre", "uniform")


def blindness(task: GuardTask, rival: Rival, directions: int) -> dict[str, float]:
    """The share of rays on which it is as sure at the end as it is at the data.

    Of probabilities: at least 99% for one class, as in an audit. Of scores: not above what 95% of
    the training rows stay under, so that the end of the ray counts as known.
    """
    if rival.far is None:
        seen = replace(_subject(task), model=_asked(task, rival))
        families = rays(task, directions).values()
        return {each.name: value_of(follow(seen, each, BLIND).share) for each in families}
    if rival.by_confidence:
        return _shares(task, directions, rival.far, lambda found: found >= BLIND)
    usual = _usual(task, rival)
    return _shares(task, directions, rival.far, lambda found: found <= usual)


def stillness(task: GuardTask, still: Rays, directions: int) -> dict[str, float]:
    """The share of rays on which features stand still in the end."""
    return _shares(task, directions, still, lambda found: found)


@functools.lru_cache(maxsize=1)
def rays(task: GuardTask, directions: int) -> dict[str, FamilyRays]:
    """Both ends of every feature, and random directions scaled like the data: as tensors."""
    subject, rng = _subject(task), np.random.default_rng(SEED)
    wide, shape = subject.is_free.size > WIDE, subject.centre.shape
    along = axes(subject)
    found = {}
    if along is not None:
        count = len(along.direction)
        ends = rng.permutation(count)[: 2 * WIDE_AXES] if wide else np.arange(count)
        each = along.direction[:][ends].reshape(-1, *shape)
        found["axes"] = replace(along, direction=each, sampled=wide)
    away = random_directions(subject, min(directions, WIDE_RAYS) if wide else directions, rng)
    if away is not None:
        found["random"] = away
    return {
        name: replace(
            family,
            origin=torch.from_numpy(family.origin),
            direction=torch.from_numpy(family.direction),
        )
        for name, family in found.items()
    }


def _shares(
    task: GuardTask, directions: int, far: Rays, count: Callable[[Tensor], Tensor]
) -> dict[str, float]:
    return {
        name: float(count(far(family.origin, family.direction)).double().mean())
        for name, family in rays(task, directions).items()
    }


@functools.lru_cache(maxsize=1)
def _subject(task: GuardTask) -> Subject:
    """The data of a task as an audit sees it, before any model."""
    X, y = task.train
    flat = X.reshape(len(X), -1)
    blocks = {place: block for block in task.blocks for place in block}
    columns: tuple[TableColumn, ...] = tuple(
        TableColumn(
            f"x{place}",
            blocks.get(place, (place,)),
            values=tuple(map(str, blocks.get(place, ()))),
        )
        for place in range(flat.shape[1])
        if blocks.get(place, (place,))[0] == place
    )
    nobody = BlackBox(lambda _: None, X.shape[1:], task.classes)
    return Subject(
        model=nobody,
        task="classification",
        classes=tuple(map(str, range(task.classes))),
        moving=columns,
        rows=X[np.random.default_rng(SEED).permutation(len(X))[:MOST]],
        labels=y,
        low=flat.min(axis=0),
        high=flat.max(axis=0),
        mean=flat.mean(axis=0),
        std=flat.std(axis=0),
    )


def _asked(task: GuardTask, rival: Rival) -> BlackBox:
    """A remedy without a closed form, as a model that can only be asked."""
    answer = rival.probabilities
    assert answer is not None, "scores have their far field in closed form"
    return BlackBox(
        lambda rows: in_batches(answer, torch.from_numpy(rows)).numpy(),
        task.train[0].shape[1:],
        task.classes,
    )


def _usual(task: GuardTask, rival: Rival) -> float:
    rows = torch.from_numpy(task.train[0][:MOST])
    return float(torch.quantile(in_batches(rival.uncertainty, rows), ACCEPTED))


def attacked(
    task: GuardTask, rival: Rival, inside: Tensor, *, rows: int, steps: int
) -> dict[str, Any]:
    """AUROC against foreign rows before and after the attack, for each set of them."""
    deep = task.train[0].ndim > 2
    count, steps = (min(rows, DEEP_ROWS), min(steps, DEEP_STEPS)) if deep else (rows, steps)
    noise = {name: each for name, each in task.far().items() if name.startswith("noise")}
    found = {}
    for name, foreign in {**task.near, **noise}.items():
        some = torch.from_numpy(foreign[:count])
        box = None if name in noise else task.box
        worst = _worst(rival, some, task, steps, box)
        before = detection(inside, in_batches(rival.uncertainty, some)).auroc
        found[name] = {"clean": before, "auroc": detection(inside, worst).auroc}
    return found


def _worst(
    rival: Rival, rows: Tensor, task: GuardTask, steps: int, box: tuple[float, float] | None
) -> Tensor:
    """The least uncertainty that was found around each row."""
    least = in_batches(rival.uncertainty, rows)
    low, high = box or (-torch.inf, torch.inf)
    units = torch.from_numpy(task.units)
    climbs: list[Rows] = [lambda x: -rival.uncertainty(x), *rival.climbs]
    for climb in climbs:
        for start in STARTS[: 1 if rows.ndim > 2 else 2]:
            attack = PGD(task.ball, steps, None, rule="decaying", start=start)
            generator = torch.Generator().manual_seed(SEED)
            found = attack.maximize(climb, rows, generator, low=low, high=high, scale=units)
            least = torch.minimum(least, in_batches(rival.uncertainty, found.inputs))
    return least
