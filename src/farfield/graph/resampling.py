"""Rules for images that are resized or sampled: each output is a fixed mean of some inputs.

Resizing goes dimension by dimension. Its weights along one of them are what the operation itself
makes of unit vectors, so that a matrix says exactly what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from farfield.graph.rowwise import row_dimensions
from farfield.graph.rules import Affine, Domain, V, rule

aten = torch.ops.aten
Resize = Callable[[Tensor, int], Tensor]


def _along(domain: Domain[V], value: Any, resize: Resize) -> V:
    """Resize both dimensions of images, one after the other."""
    for place in (0, 1):
        length = value.shape[place - 2]
        units = torch.eye(length).to(value.new_zeros(()))[:, None, :, None]
        # Two columns that stay two: of images with one, some versions take rows for columns.
        images = units.expand(length, 1, length, 2)
        made = resize(images if place == 0 else images.transpose(2, 3), place)
        matrix = made.select(3 - place, 0).reshape(length, -1)
        taps = int((matrix != 0).sum(dim=0).max())
        if place == 0:
            weight = matrix.T.contiguous()
            act = Affine(lambda rows, each: torch.matmul(each, rows), (weight,), terms=taps)
        else:
            act = Affine(torch.matmul, (matrix,), terms=taps)
        value = domain.affine(act, value)
    result: V = value
    return result


@rule(aten.upsample_bilinear2d.vec, kind="affine")
def bilinear(
    domain: Domain[V],
    value: Any,
    sizes: Sequence[int] | None,
    align_corners: bool,
    scales: Sequence[float] | None = None,
) -> V:
    """Weighted means of neighbours, dimension by dimension."""

    def resize(units: Tensor, place: int) -> Tensor:
        goal = None if sizes is None else _only(sizes, place, 2)
        scale = None if scales is None else _only(scales, place, 1.0)
        made: Tensor = aten.upsample_bilinear2d.vec(units, goal, align_corners, scale)
        return made

    return _along(domain, value, resize)


def _smoothed(target: Any) -> None:
    @rule(target, kind="affine")
    def lower(
        domain: Domain[V],
        value: Any,
        sizes: Sequence[int],
        align_corners: bool,
        high: float | None = None,
        wide: float | None = None,
    ) -> V:
        """Weighted means of neighbours against aliasing, dimension by dimension."""

        def resize(units: Tensor, place: int) -> Tensor:
            scales = _only((high, wide), place, None)
            made: Tensor = target(units, _only(sizes, place, 2), align_corners, *scales)
            return made

        return _along(domain, value, resize)


_smoothed(aten._upsample_bilinear2d_aa.default)
_smoothed(aten._upsample_bicubic2d_aa.default)


def _only(pair: Sequence[Any], place: int, otherwise: Any) -> list[Any]:
    """Keep one of two settings."""
    return [pair[0], otherwise] if place == 0 else [otherwise, pair[1]]


def _not_bicubic(_: Any, __: Any, mode: int, *___: Any) -> str | None:
    """Refuse the one kind of sampling whose weights have signs."""
    return "samples bicubically, which has no rule; sample bilinearly" if mode == 2 else None


@rule(
    aten.grid_sampler_2d.default,
    aten.grid_sampler_3d.default,
    kind="affine",
    refuse=_not_bicubic,
)
def grid_sampler(domain: Domain[V], value: Any, grid: Tensor, mode: int, *settings: Any) -> V:
    """Weighted means of neighbours of constant places."""
    lead, dims = row_dimensions(value), grid.shape[-1]
    sampler = aten.grid_sampler_2d if dims == 2 else aten.grid_sampler_3d

    def sample(rows: Tensor) -> Tensor:
        places = grid[:1].expand(rows.shape[0], *grid.shape[1:]) if lead else grid
        made: Tensor = sampler(rows, places.to(rows), mode, *settings)
        return made

    return domain.affine(Affine(sample, terms=0 if mode == 1 else 2**dims), value)
