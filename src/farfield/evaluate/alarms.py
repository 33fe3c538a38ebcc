"""What might notice that a row is strange: a model's own scores, a range check, a guard.

Each is set so that it gives an alarm in the same share of correct rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.errors import FarfieldError
from farfield.scores import all_scores

if TYPE_CHECKING:
    from farfield.data import TableColumn

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
# The share of correct rows in which anything may give an alarm.
ALARMS = 0.01
# Scores that say different things of a single network.
SINGLE = ("one_minus_max_probability", "predictive_entropy")


class Answering(Protocol):
    """A model that gives probabilities."""

    def probabilities(self, x: Any) -> Tensor:
        """Answer rows, ``(instances, rows, classes)``."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of some rows.

    Attributes:
        label: ``(rows,)``; -1 where it gives no number, or refuses to answer.
        confidence: ``(rows,)``.
        scores: Name of a score to ``(rows,)``.
    """

    label: NDArray[np.int64]
    confidence: Floats
    scores: dict[str, Floats]

    def part(self, part: slice) -> Answers:
        """What it says of some of them."""
        scores = {name: values[part] for name, values in self.scores.items()}
        return Answers(self.label[part], self.confidence[part], scores)


def answers(model: Answering, rows: Floats) -> Answers:
    """Ask a model."""
    p = model.probabilities(rows)
    known = torch.isfinite(p).all(dim=-1).all(dim=0)
    p = torch.where(known[None, :, None], p, 1 / p.shape[-1]).double()
    mean = p.mean(dim=0)
    every = all_scores(p.numpy())
    names = SINGLE if len(p) == 1 else tuple(every)
    return Answers(
        torch.where(known, mean.argmax(dim=-1), -1).numpy(),
        torch.where(known, mean.amax(dim=-1), 0.0).numpy(),
        {name: np.asarray(every[name]) for name in names},
    )


def ask_parts(model: Answering, rows: Floats, parts: Sequence[slice]) -> Answers:
    """Ask about all errors at once; one by one if the model refuses, which is no answer then."""
    try:
        return answers(model, rows)
    except FarfieldError:
        return _joined([_asked_alone(model, rows[part]) for part in parts])


def _asked_alone(model: Answering, rows: Floats) -> Answers | int:
    try:
        return answers(model, rows)
    except FarfieldError:
        return len(rows)


def _joined(found: Sequence[Answers | int]) -> Answers:
    """Put answers together; a number stands for as many rows without one."""
    names = next((tuple(each.scores) for each in found if isinstance(each, Answers)), SINGLE)
    every = [
        each
        if isinstance(each, Answers)
        else Answers(
            np.full(each, -1), np.zeros(each), {name: np.full(each, np.inf) for name in names}
        )
        for each in found
    ]
    return Answers(
        np.concatenate([each.label for each in every]),
        np.concatenate([each.confidence for each in every]),
        {name: np.concatenate([each.scores[name] for each in every]) for name in names},
    )


@dataclass(frozen=True, eq=False)
class Alarms:
    """What might notice that a row is strange, each at the same rate of false alarms.

    Attributes:
        scores: Name of a score of the model to what it must exceed.
        low: ``(inputs,)`` what the range check allows.
        high: ``(inputs,)``.
        blocks: The inputs of each category: one of them has to be 1.
        guard: From rows to how far they are from the data, if there is a guard.
        far: What that distance must exceed.
    """

    scores: dict[str, float]
    low: Floats
    high: Floats
    blocks: tuple[tuple[int, ...], ...] = ()
    guard: Callable[[Floats], Floats] | None = None
    far: float = np.inf

    @classmethod
    def over(
        cls,
        model: Answering,
        rows: Floats,
        columns: Sequence[TableColumn],
        guard: Callable[[Floats], Floats] | None = None,
        unseen: Floats | None = None,
        alarms: float = ALARMS,
    ) -> Alarms:
        """Set every alarm so that at most a share of correct rows sets it off.

        Args:
            model: The model.
            rows: Correct rows.
            columns: What their inputs are.
            guard: From rows to how far they are from the data.
            unseen: Correct rows that the guard was not made from.
            alarms: The share.
        """
        scores = answers(model, rows).scores
        low, high = range_limits(rows, alarms)
        blocks = tuple(column.places for column in columns if column.categorical)
        for block in blocks:
            low[list(block)], high[list(block)] = -np.inf, np.inf
        far = np.inf
        if guard is not None:
            far = _limit(guard(rows if unseen is None else unseen), alarms)
        limits = {name: _limit(values, alarms) for name, values in scores.items()}
        return cls(limits, low, high, blocks, guard, far)

    def outside(self, rows: Floats) -> Flags:
        """``(rows, inputs)`` values beyond their range; no value of a category at its first."""
        found: Flags = (rows < self.low) | (rows > self.high)
        for block in self.blocks:
            found[:, block[0]] = rows[:, list(block)].sum(axis=1) != 1
        return found


def _limit(values: Floats, alarms: float) -> float:
    """What at most a share of values exceed."""
    return float(np.quantile(values, 1 - alarms, method="higher"))


def range_limits(rows: Floats, alarms: float) -> tuple[Floats, Floats]:
    """Limits of every column, such that together they keep at least ``1 - alarms`` of the rows.

    They are order statistics, equally deep in every column, as deep as that allows.

    >>> low, high = range_limits(np.arange(100.0)[:, None], 0.04)
    >>> low.tolist(), high.tolist()
    ([2.0], [97.0])
    """
    ordered = np.sort(rows, axis=0)
    shallow, deep = 0, len(rows) // 2
    while deep - shallow > 1:
        middle = (shallow + deep) // 2
        low, high = ordered[middle], ordered[-1 - middle]
        out = ((rows < low) | (rows > high)).any(axis=1)
        shallow, deep = (shallow, middle) if out.mean() > alarms else (middle, deep)
    return ordered[shallow].copy(), ordered[-1 - shallow].copy()
