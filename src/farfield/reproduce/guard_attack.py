"""The worst point in a ball around foreign rows: how sure an adversary can make a remedy.

Projected gradient ascent on the certainty, from the row itself and from a random point of the ball,
and on whatever else the remedy names as worth climbing, such as minus the guard's own distance. The
surest point of all counts, the row itself included.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from farfield.evaluate import detection
from farfield.objectives.attacks import PGD
from farfield.reproduce.guard_tasks import GuardTask
from farfield.reproduce.rivals.rival import Rival, Rows, in_batches

SEED = 0
# Deep networks on images take longer: fewer rows, fewer steps, from the rows alone.
DEEP_ROWS, DEEP_STEPS = 32, 8
STARTS: tuple[Literal["centre", "uniform"], ...] = ("centre", "uniform")


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
