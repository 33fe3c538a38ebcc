"""What an audit looks at: a model, a sample of its data, and what may be moved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.audit.black_box import BlackBox, Seen, look
from farfield.audit.fields.kinds import Task
from farfield.data import TableColumn
from farfield.errors import UnsupportedOperation
from farfield.exact import FarField, at_infinity
from farfield.exact.piecewise import require_piecewise_affine
from farfield.graph.network import Network
from farfield.graph.rules import RowFunction
from farfield.shrinkage import ledoit_wolf

Floats = NDArray[np.float64]
# Above this many columns, directions are scaled column by column: a full covariance costs d^3.
MOST_WHITENED = 2000
# To find what tells a model most: how many features are shuffled, in how many rows, and how many
# numbers that may come to.
MOST_SHUFFLED, MOST_ROWS, FEWEST_ROWS, MOST_NUMBERS = 300, 200, 8, 100_000_000


@dataclass(frozen=True, eq=False)
class Subject:
    """A model together with a sample of its data.

    Attributes:
        model: The captured network, or a model that can only be evaluated.
        task: Whether it classifies or regresses.
        classes: Names of the classes.
        moving: The features in the order of their columns; empty for images.
        rows: ``(rows, *input)`` a sample of the data.
        labels: ``(rows,)`` their classes, or ``None``.
        low: ``(inputs,)`` smallest value of each column over all rows.
        high: ``(inputs,)`` largest value.
        mean: ``(inputs,)`` mean over all rows.
        std: ``(inputs,)`` standard deviation over all rows.
        count: How many rows that were.
    """

    model: Network | BlackBox
    task: Task
    classes: tuple[str, ...]
    moving: tuple[TableColumn, ...]
    rows: Floats
    labels: NDArray[np.int64] | None
    low: Floats
    high: Floats
    mean: Floats
    std: Floats
    count: int = 0

    @property
    def exact(self) -> bool:
        """Whether the model can be followed to infinity, or only be looked at."""
        return isinstance(self.model, Network)

    @property
    def network(self) -> Network:
        """The captured network, for what only a network has."""
        assert isinstance(self.model, Network), "ask subject.exact first"
        return self.model

    def far(self, origin: Any, direction: Tensor) -> FarField | Seen:
        """Follow rays to infinity, or look along them as far as is looked."""
        if isinstance(self.model, BlackBox):
            return look(self.model, origin, direction, self.in_deviations(direction))
        return at_infinity(self.model, origin, direction, undecided="mark")

    @property
    def weights(self) -> int:
        """How many numbers all instances of a model have; 0 where nobody can know."""
        if isinstance(self.model, BlackBox):
            return 0
        return sum(group.parameters for group in self.model.groups)

    @property
    def work(self) -> float:
        """About how many products of numbers one row costs; 0 where nobody can know."""
        if isinstance(self.model, BlackBox):
            return 0.0
        functions = (
            len(group.members) * each.work
            for group in self.model.groups
            for step in group.program.steps
            for each in step.args
            if isinstance(each, RowFunction)
        )
        shared = (
            len(group.members) * sum(each.numel() for each in group.shared.values())
            + sum(each.numel() for each in group.stacked.values())
            for group in self.model.groups
        )
        return float(sum(functions) + sum(shared))

    @property
    def is_image(self) -> bool:
        """Whether rows have more than one dimension."""
        return len(self.model.input_shape) > 1

    @cached_property
    def scale(self) -> Floats:
        """``(inputs,)`` one standard deviation; 1 for constant columns."""
        return np.where(self.std > 0, self.std, 1.0)

    @cached_property
    def centre(self) -> Floats:
        """The median row; of a category its most frequent value."""
        return self.typical(self.rows)

    def typical(self, rows: Floats) -> Floats:
        """The median of some rows; of a category their most frequent value."""
        flat = rows.reshape(len(rows), -1)
        median = np.median(flat, axis=0)
        for feature in self.moving:
            if feature.binary:
                median[feature.places[0]] = np.round(median[feature.places[0]])
            elif feature.categorical:
                block = list(feature.places)
                median[block] = 0.0
                median[block[int(flat[:, block].sum(axis=0).argmax())]] = 1.0
        return median.reshape(self.rows.shape[1:])

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """``(inputs,)`` columns that may grow without bound on both sides."""
        free = np.ones(int(np.prod(self.rows.shape[1:])), dtype=bool)
        numbers = {feature.name for feature in self.numbers}
        for feature in self.moving:
            bounded = np.isfinite([feature.low, feature.high]).any()
            if feature.name not in numbers or bounded:
                free[list(feature.places)] = False
        return free

    @cached_property
    def numbers(self) -> list[TableColumn]:
        """Columns that are moved as numbers: no categories, and none that holds one value only.

        If all of them hold one value only, as in a single row, nothing is known of any.
        """
        numeric = [feature for feature in self.moving if not feature.discrete]
        places = [feature.places[0] for feature in numeric]
        varies = self.low[places] < self.high[places]
        if not varies.any():
            return numeric
        return [feature for feature, moves in zip(numeric, varies, strict=True) if moves]

    @cached_property
    def piecewise(self) -> bool:
        """Whether every operation has affine pieces that meet, so that rays can be walked."""
        if not self.exact:
            return False
        try:
            require_piecewise_affine(self.network, "this", continuous=True)
        except UnsupportedOperation:
            return False
        return True

    def spread(self, count: int) -> Floats:
        """Rows that stand for the data: evenly spaced in the sample, at most ``count``."""
        places = np.linspace(0, len(self.rows) - 1, min(count, len(self.rows))).round().astype(int)
        chosen: Floats = self.rows[np.unique(places)]
        return chosen

    def whitened_directions(self, count: int, rng: np.random.Generator) -> Floats:
        """Directions that are uniform on the sphere after whitening by the data.

        ``direction = S^(1/2) u`` with ``u`` uniform on the sphere and ``S`` the covariance of the
        free columns, shrunk as Ledoit and Wolf (2004) do. All other columns stay.
        """
        places = np.flatnonzero(self.is_free)
        drawn = rng.standard_normal((count, len(places)))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        directions = np.zeros((count, self.is_free.size))
        if self._root is not None:
            drawn = drawn @ self._root
        directions[:, places] = drawn * self.scale[places]
        return directions.reshape(count, *self.rows.shape[1:])

    @cached_property
    def _root(self) -> Floats | None:
        """``S^(1/2)`` of the free columns in standard deviations; ``None`` for too many."""
        places = np.flatnonzero(self.is_free)
        if len(self.rows) < 2 or len(places) > MOST_WHITENED:
            return None
        standard = (self.rows.reshape(len(self.rows), -1) - self.mean)[:, places]
        values, vectors = np.linalg.eigh(ledoit_wolf(standard / self.scale[places]))
        root: Floats = vectors * np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
        return root

    def in_deviations(self, directions: Tensor) -> Tensor:
        """``(rays,)`` how many standard deviations one step along a direction is."""
        scale = torch.from_numpy(self.scale).to(directions)
        lengths: Tensor = (directions.flatten(1) / scale).norm(dim=1)
        return lengths

    def by_effect(self, rng: np.random.Generator) -> list[TableColumn]:
        """Numeric features, by the mean change of ``p`` when they are shuffled, largest first."""
        numeric = self.numbers
        tried = numeric[:MOST_SHUFFLED]
        numbers = self.centre.size * max(1, len(tried))
        rows = self.spread(int(np.clip(MOST_NUMBERS // numbers, FEWEST_ROWS, MOST_ROWS)))
        before = self.model.probabilities(rows).mean(dim=0)
        effect = np.zeros(len(numeric))
        for index, feature in enumerate(tried):
            moved = rows.copy()
            place = feature.places[0]
            moved[:, place] = moved[rng.permutation(len(rows)), place]
            after = self.model.probabilities(moved).mean(dim=0)
            effect[index] = float((after - before).abs().sum(dim=-1).mean())
        return [numeric[place] for place in np.argsort(-effect, kind="stable")]
