"""Bounded domains: intervals for features, and blocks that hold one category each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError


class Box:
    """The inputs that can occur: ``low <= x <= high`` for each feature, categories apart.

    Args:
        low: A number for all features, or one per feature (the shape of one input); ``-inf`` where
            a feature has no lower bound.
        high: The same for upper bounds.
        categorical: Blocks of features (positions in a flattened input), each a one-hot code: one
            of its features is 1, the others 0. They are moved from category to category
            (:meth:`moves`), never scaled.

    Raises:
        InputError: For NaN, a lower bound above the upper one, or blocks that overlap.

    >>> box = Box(0.0, [1.0, 1.0, 5.0])
    >>> box.exit([0.5, 0.5, 1.0], [1.0, 0.0, 1.0]).tolist()
    [0.5]
    >>> Box(0.0, 1.0, categorical=[[1, 2, 3]]).moves([0.3, 0.0, 1.0, 0.0]).tolist()
    [[0.3, 1.0, 0.0, 0.0], [0.3, 0.0, 0.0, 1.0]]
    """

    def __init__(self, low: Any, high: Any, categorical: Sequence[Sequence[int]] = ()) -> None:
        self.low, self.high = _bound(low, "low"), _bound(high, "high")
        self.categorical = tuple(tuple(int(place) for place in block) for block in categorical)
        try:
            wrong = self.low > self.high
        except RuntimeError as error:
            raise InputError(
                f"low has shape {tuple(self.low.shape)} and high {tuple(self.high.shape)}; give "
                "one number each, or one per feature"
            ) from error
        if bool(wrong.any()):
            places = torch.nonzero(wrong.reshape(-1)).flatten()[:5].tolist()
            raise InputError(f"low is above high for features {places}; the box is empty")
        places = [place for block in self.categorical for place in block]
        if len(set(places)) < len(places):
            raise InputError("categorical blocks overlap; a feature belongs to at most one block")
        if any(len(block) < 2 for block in self.categorical) or any(p < 0 for p in places):
            raise InputError(
                "a categorical block needs at least two features, given by their positions from 0"
            )

    def bounds(self, shape: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds for inputs of a shape.

        Raises:
            InputError: If the box was made for another shape.
        """
        size = int(np.prod(shape))
        if any(place >= size for block in self.categorical for place in block):
            raise InputError(f"a categorical block names features beyond the {size} of the input")
        try:
            low, high = (b.to(like).expand(shape) for b in (self.low, self.high))
        except RuntimeError as error:
            sizes = tuple(self.low.shape), tuple(self.high.shape)
            raise InputError(
                f"the box has bounds of shape {sizes[0]} and {sizes[1]}; inputs have {shape}"
            ) from error
        return low, high

    def contains(self, x: Any) -> Tensor:
        """Whether rows lie in the box, ``(rows,)``; a categorical block must hold a single 1."""
        rows = _rows(x)
        low, high = self.bounds(tuple(rows.shape[1:]), rows)
        inside = ((rows >= low) & (rows <= high)).flatten(1).all(dim=1)
        return inside & self._coded(rows)

    def _coded(self, rows: Tensor) -> Tensor:
        flat = rows.flatten(1)
        good = torch.ones(len(flat), dtype=torch.bool, device=flat.device)
        for block in self.categorical:
            code = flat[:, list(block)]
            good &= ((code == 0) | (code == 1)).all(dim=1) & (code.sum(dim=1) == 1)
        return good

    def project(self, x: Any) -> Tensor:
        """The nearest rows in the box: features cut off, the largest entry of a block made 1."""
        rows = _rows(x)
        low, high = self.bounds(tuple(rows.shape[1:]), rows)
        flat = torch.clamp(rows, low, high).flatten(1)
        for block in self.categorical:
            code = rows.flatten(1)[:, list(block)]
            one_hot = torch.nn.functional.one_hot(code.argmax(dim=1), len(block))
            flat[:, list(block)] = one_hot.to(flat)
        return flat.reshape(rows.shape)

    def moves(self, x: Any) -> Tensor:
        """Every row that differs from one row in the category of a single block."""
        row = _rows(x)
        if len(row) != 1:
            raise InputError(f"moves() takes one row, got {len(row)}")
        if not bool(self._coded(row)):
            raise InputError("moves() needs one-hot categorical blocks; project() the row first")
        flat, found = row.flatten(1)[0], []
        for block in self.categorical:
            for place in block:
                if flat[place] != 1:
                    moved = flat.clone()
                    moved[list(block)], moved[place] = 0.0, 1.0
                    found.append(moved)
        return torch.stack(found).reshape(-1, *row.shape[1:]) if found else row[:0]

    def exit(self, origin: Any, direction: Any) -> Tensor:
        """Where rays leave the box, ``(rays,)``; infinite where they never do.

        Raises:
            InputError: If an origin lies outside, or a ray moves within a categorical block.
        """
        origins, directions = torch.broadcast_tensors(_rows(origin), _rows(direction))
        self.check(origins, directions)
        outside = ~self.contains(origins)
        if bool(outside.any()):
            places = torch.nonzero(outside).flatten()
            raise InputError(
                f"{len(places)} of {len(origins)} rays start outside the box (rows "
                f"{places[:5].tolist()}); project their origins first: box.project(origin)"
            )
        low, high = self.bounds(tuple(origins.shape[1:]), origins)
        wall = torch.where(directions > 0, high, low)
        when = torch.where(directions == 0, torch.inf, (wall - origins) / directions)
        return when.flatten(1).amin(dim=1)

    def check(self, origins: Tensor, directions: Tensor) -> None:
        """See that no ray moves within a categorical block, and that blocks are coded."""
        self.bounds(tuple(origins.shape[1:]), origins)
        for block in self.categorical:
            moving = (directions.flatten(1)[:, list(block)] != 0).any(dim=1)
            if bool(moving.any()):
                places = torch.nonzero(moving).flatten()[:5].tolist()
                raise InputError(
                    f"{int(moving.sum())} directions (rows {places}) move within the categorical "
                    f"block {list(block)}; categories are not scaled. Set these features to 0 in "
                    "direction, and start from each category in turn: box.moves(origin)"
                )
        if not bool(self._coded(origins).all()):
            raise InputError(
                "an origin's categorical block is not one-hot (a single 1, otherwise 0); "
                "project it first: box.project(origin)"
            )

    def __repr__(self) -> str:
        blocks = f", {len(self.categorical)} categorical blocks" if self.categorical else ""
        return f"Box({self.low.numel()} low, {self.high.numel()} high bounds{blocks})"


def _bound(values: Any, name: str) -> Tensor:
    try:
        bound = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as numbers: {error}") from error
    if bool(torch.isnan(bound).any()):
        raise InputError(f"{name} holds NaN; use -inf or inf where a feature has no bound")
    if bool((bound == (torch.inf if name == "low" else -torch.inf)).any()):
        raise InputError(f"{name} holds {'inf' if name == 'low' else '-inf'}: the box is empty")
    return bound


def _rows(x: Any) -> Tensor:
    rows = x if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x))
    rows = rows if rows.is_floating_point() else rows.double()
    return rows[None] if rows.ndim == 1 else rows
