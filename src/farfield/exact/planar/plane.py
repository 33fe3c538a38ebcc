"""Cut a two-dimensional slice of the input space into the network's exact linear regions.

In the slice ``origin + a u + b v`` every region is a convex polygon on which the logits are affine
in ``(a, b)``. The polygons start as one window; each layer cuts them along the lines where its
units change piece. Regions thinner than about 1e-12 of their distance from the slice's origin
are below what float64 can tell apart and are not separated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError, NumericalOverflow
from farfield.exact.piecewise import (
    free_rows,
    has_jumps,
    output_logits,
    pick_instance,
    require_piecewise_affine,
)
from farfield.exact.planar.boundaries import ROOM, Boundaries, boundaries, padded, seams
from farfield.exact.planar.contenders import bunches, contenders
from farfield.exact.planar.cutting import cut_by_largest
from farfield.exact.planar.plane_walk import Subdivision, walk_plane
from farfield.exact.planar.polygons import Polygons, join
from farfield.exact.planar.raster import Raster, raster
from farfield.graph.network import Network

# u and v count as parallel if the sine of their angle is below this.
PARALLEL = 1e-12


@dataclass(frozen=True)
class Plane:
    """The exact regions of a network in a window of the slice ``origin + a u + b v``.

    Attributes:
        vertices: ``(corners, 2)`` corners ``(a, b)`` of all polygons, counter-clockwise.
        offsets: ``(polygons + 1,)`` where the corners of each polygon start.
        slope: ``(polygons, classes, 2)`` and
        intercept: ``(polygons, classes)``: logits are ``slope @ (a, b) + intercept``.
        pattern: ``(polygons,)`` a 64-bit fingerprint of the activation pattern.
        extent: ``(a low, a high, b low, b high)`` of the window.
        origin: ``(*input,)`` the slice's origin, and
        u, v: ``(*input,)`` its directions.
        sides: ``(corners, 3)`` the line ``n . (a, b) + c = 0``, ``|n| = 1``, on which the side
            from each corner to the next lies.
        jumps: Whether the network may jump between polygons.
        proven: ``(polygons,)`` whether the network is proven to be affine on each, but for a seam
            of a millionth of its size along its sides; ``None`` if that was not asked for.
    """

    vertices: Tensor
    offsets: Tensor
    slope: Tensor
    intercept: Tensor
    pattern: Tensor
    extent: tuple[float, float, float, float]
    origin: Tensor
    u: Tensor
    v: Tensor
    sides: Tensor
    jumps: bool
    proven: Tensor | None = None

    def __len__(self) -> int:
        return len(self.pattern)

    def polygon(self, index: int) -> Tensor:
        """``(corners, 2)`` of one polygon."""
        return self.vertices[self.offsets[index] : self.offsets[index + 1]]

    @property
    def areas(self) -> Tensor:
        """``(polygons,)`` areas in the coordinates ``(a, b)``."""
        start = self.vertices[self.offsets[:-1]]
        counts = self.offsets.diff()
        local = self.vertices - start.repeat_interleave(counts, dim=0)
        following = torch.cat([local[1:], local[:1]])
        # The last corner of a polygon is followed by its first, which is at zero.
        following[self.offsets[1:] - 1] = 0
        twice = local[:, 0] * following[:, 1] - local[:, 1] * following[:, 0]
        owner = torch.arange(len(self)).repeat_interleave(counts)
        return twice.new_zeros(len(self)).index_add(0, owner, twice) / 2

    @property
    def centres(self) -> Tensor:
        """``(polygons, 2)`` a point inside each polygon: the mean of its corners."""
        counts = self.offsets.diff()
        owner = torch.arange(len(self)).repeat_interleave(counts)
        sums = self.vertices.new_zeros(len(self), 2).index_add(0, owner, self.vertices)
        means: Tensor = sums / counts[:, None]
        return means

    @property
    def probabilities(self) -> Tensor:
        """``(polygons, classes)`` at the centre of each polygon."""
        logits = (self.slope @ self.centres[:, :, None])[..., 0] + self.intercept
        return torch.softmax(logits, dim=-1)

    def points(self, coordinates: Any) -> Tensor:
        """Inputs ``(n, *input)`` of the network at coordinates ``(n, 2)`` of the slice."""
        ab = torch.as_tensor(coordinates, dtype=self.vertices.dtype).reshape(-1, 2)
        flat = ab @ torch.stack([self.u.flatten(), self.v.flatten()])
        inputs: Tensor = self.origin + flat.unflatten(1, self.origin.shape)
        return inputs

    def by_class(self) -> Plane:
        """The same plane, its polygons cut at the decision boundaries as well.

        Each polygon has one predicted class; polygons of one region share its pattern and map.
        """
        corners, polygons = padded(self.vertices, self.offsets), self._polygons()
        logits = torch.cat([self.slope, self.intercept[..., None]], dim=-1)
        whole, cut = np.ones(len(self), dtype=bool), []
        for bunch in bunches(contenders(corners, self.slope, self.intercept), ROOM):
            own, functions = bunch.polygon.numpy(), bunch.of(logits).permute(1, 2, 0)
            found = cut_by_largest(polygons[own], functions[..., None].numpy())
            if found is not None:
                whole[own] = False
                cut.append(replace(found, parent=own[found.parent]))
        if not cut:
            return self
        parts = join([polygons[whole], *cut])
        parts = parts[np.argsort(parts.parent, kind="stable")]
        parent = torch.from_numpy(parts.parent)
        vertices, offsets, sides = _flat(parts)
        return replace(
            self,
            vertices=vertices,
            offsets=offsets,
            sides=sides,
            slope=self.slope[parent],
            intercept=self.intercept[parent],
            pattern=self.pattern[parent],
            proven=None if self.proven is None else self.proven[parent],
        )

    def _polygons(self) -> Polygons:
        parts = (self.vertices, self.sides)
        corners, sides = (padded(each, self.offsets).numpy() for each in parts)
        return Polygons(corners, sides, self.offsets.diff().numpy(), np.arange(len(self)))

    def boundaries(self) -> Boundaries:
        """The decision boundaries: segments on which two classes tie above all others.

        Where the network jumps, segments with different classes on either side.
        """
        if self.jumps:
            apart = self.by_class()
            return seams(apart._polygons(), apart.probabilities.argmax(dim=-1))
        return boundaries(self.vertices, self.offsets, self.slope, self.intercept)

    def raster(self, pixels: int = 400) -> Raster:
        """Region, class and confidence at the centres of ``pixels * pixels`` pixels."""
        if pixels < 1:
            raise InputError(f"pixels must be at least 1, got {pixels}")
        return raster(self.vertices, self.offsets, self.slope, self.intercept, self.extent, pixels)


def slice_plane(
    network: Network,
    origin: Any,
    u: Any,
    v: Any,
    extent: float | Sequence[float],
    *,
    instance: int | None = None,
    most: int = 1_000_000,
    certify: bool = False,
) -> Plane:
    """Cut a window of a two-dimensional slice into the network's linear regions, exactly.

    Args:
        network: From :func:`farfield.capture`, piecewise affine.
        origin: ``(*input,)`` where ``a = b = 0``.
        u: ``(*input,)`` the direction of ``a``.
        v: ``(*input,)`` the direction of ``b``, not parallel to ``u``.
        extent: ``(a low, a high, b low, b high)``, or one number ``r`` for ``[-r, r]^2``.
        instance: Which instance, if the network has several: each has regions of its own.
        most: How many polygons there may be.
        certify: Prove that the network is affine on every polygon, or say on which it is not
            proven: ``plane.proven``. Needs a network without jumps.

    Returns:
        Convex polygons that fill the window, each with its affine map.

    Raises:
        InputError: For shapes that do not fit, NaN, parallel directions, an empty window, or a
            window with more than ``most`` regions.
        UnsupportedOperation: Listing the network's smooth operations, if it has any.
        NumericalOverflow: If a value leaves the range of float64.

    >>> from torch import nn
    >>> import farfield as ff
    >>> layer = nn.Linear(2, 2)
    >>> _ = nn.init.eye_(layer.weight), nn.init.zeros_(layer.bias)
    >>> network = ff.capture(nn.Sequential(layer, nn.ReLU()), torch.zeros(1, 2))
    >>> plane = slice_plane(network, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], (-1, 3, -1, 1))
    >>> len(plane), sorted(plane.areas.tolist())
    (4, [1.0, 1.0, 3.0, 3.0])
    """
    require_piecewise_affine(network, "a slice of the plane")
    program, constants = pick_instance(network, instance)
    frame = [
        one_row(network, values, what) for values, what in ((origin, "origin"), (u, "u"), (v, "v"))
    ]
    require_plane(*frame[1:])
    window = _window(extent)
    with torch.no_grad():
        start = torch.cat([frame[1], frame[2], frame[0]])
        weights = {name: to_double(tensor) for name, tensor in constants.items()}
        found = walk_plane(free_rows(program), start, weights, Polygons.window(window), most)
        logits = output_logits(network, found.out)
        if not bool(torch.isfinite(found.out).all()):
            raise NumericalOverflow("a logit left the range of float64 in this window")
    jumps = any(has_jumps(group) for group in network.groups)
    plane = _plane(found, logits, window, [row[0] for row in frame], jumps)
    if not certify:
        return plane
    if jumps:
        raise InputError("certify=True needs a continuous network; this one jumps, as trees do")
    from farfield.exact.planar.proof import (
        proven_polygons,  # rational arithmetic takes a while to load
    )

    corners = (plane.vertices, plane.centres, plane.offsets.diff())
    with torch.no_grad():
        proven = proven_polygons(
            free_rows(program), weights, (plane.origin, plane.u, plane.v), *corners
        )
    return replace(plane, proven=proven)


def _plane(
    found: Subdivision,
    logits: Tensor,
    window: tuple[float, float, float, float],
    frame: list[Tensor],
    jumps: bool,
) -> Plane:
    """Put together what is known of the polygons."""
    vertices, offsets, sides = _flat(found.polygons)
    return Plane(
        vertices=vertices,
        offsets=offsets,
        slope=torch.stack([logits[0], logits[1]], dim=-1),
        intercept=logits[2],
        pattern=torch.from_numpy(found.pattern.view(np.int64)),
        extent=window,
        origin=frame[0],
        u=frame[1],
        v=frame[2],
        sides=sides,
        jumps=jumps,
    )


def _flat(polygons: Polygons) -> tuple[Tensor, Tensor, Tensor]:
    """Corners without padding, where those of each polygon start, and the lines of the sides."""
    real = np.arange(polygons.corners.shape[1]) < polygons.counts[:, None]
    offsets = np.concatenate([[0], np.cumsum(polygons.counts)])
    parts = (polygons.corners[real], offsets, polygons.edges[real])
    corners, starts, sides = (torch.from_numpy(part) for part in parts)
    return corners, starts, sides


def to_double(tensor: Tensor) -> Tensor:
    """Bring a constant to the type and place of the cutting."""
    return tensor.to("cpu", torch.float64) if tensor.is_floating_point() else tensor.to("cpu")


def one_row(network: Network, values: Any, what: str) -> Tensor:
    """Check a single input, ``(1, *input)``."""
    rows = network.rows(values, what)
    if len(rows) != 1:
        raise InputError(f"{what} has {len(rows)} rows; a slice has a single {what}")
    return to_double(rows)


def require_plane(u: Tensor, v: Tensor) -> None:
    """Refuse directions that span no plane: the sine of their angle is (nearly) zero."""
    for direction, what in ((u, "u"), (v, "v")):
        if bool((direction == 0).all()):
            raise InputError(f"{what} is zero; a slice needs two directions")
    first, second = (row.flatten() / row.abs().max() for row in (u, v))
    first, second = first / first.norm(), second / second.norm()
    sine = (second - (second @ first) * first).norm()
    if float(sine) < PARALLEL:
        raise InputError(
            f"u and v are parallel (the sine of their angle is {float(sine):.1e}); a slice needs "
            "two directions that differ"
        )


def _window(extent: float | Sequence[float]) -> tuple[float, float, float, float]:
    """Check the window and write it as four numbers."""
    if isinstance(extent, (int, float)):
        numbers = [-float(extent), float(extent)] * 2
    else:
        numbers = [float(number) for number in extent]
    if len(numbers) != 4:
        raise InputError(
            f"extent has {len(numbers)} numbers; give (a low, a high, b low, b high) or one radius"
        )
    left, right, low, high = numbers
    if not all(math.isfinite(number) for number in numbers):
        raise InputError(f"extent is {tuple(numbers)}; a window needs finite sides")
    if not (left < right and low < high):
        raise InputError(
            f"the window is empty: extent is {tuple(numbers)}, and it must have "
            "a low < a high and b low < b high"
        )
    return left, right, low, high
