"""What is drawn: rays, surfaces of two features, pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ray:
    """One ray through to infinity.

    Attributes:
        name: What it is.
        unit: What ``t`` counts.
        t: Distances, growing; the first is 0.
        scores: Name of a score (``confidence`` among them) to its values at ``t``.
        limits: Name of a score to its value at infinity.
        reach: Where the last unit settles; beyond it logits are straight lines, which may cross.
        first: Smallest ``t`` with a confidence of 99.9%, exact; ``None`` if it was not computed.
        pieces: How many affine pieces the ray has, if they were counted.
        settled: From where on every instance is 99.9% sure of one class for good; infinite if that
            never is, ``None`` if it is not known.
        final: From where on every instance predicts one class for good.
        exact: Whether ``settled`` and ``final`` are exact; if not, they are at most that, or seen.
    """

    name: str
    unit: str
    t: tuple[float, ...]
    scores: Mapping[str, tuple[float, ...]]
    limits: Mapping[str, float]
    reach: float
    first: float | None = None
    pieces: int | None = None
    settled: float | None = None
    final: float | None = None
    exact: bool = True


@dataclass(frozen=True)
class Surface:
    """Two features on a grid, all others at the median row.

    Attributes:
        x: Name of the feature along the columns.
        y: Name of the feature along the rows.
        extent: Left, right, bottom and top.
        shape: Rows and columns of the grids; rows run from bottom to top.
        grids: Name of a layer (a score, ``gradient``) to its values, row by row, each a byte, in
            base64. The outermost rows and columns lie on the edges of the window.
        ranges: Name of a layer to the values that bytes 0 and 255 stand for.
        edges: Borders of the exact linear regions: segments ``(x0, y0, x1, y1)``.
        boundaries: Decision boundaries inside of the regions, as segments.
        regions: How many regions there are in the window; ``None`` if they were not computed.
        points: Where the data is, ``(x, y, class)``, class -1 without labels: centres of the cells
            of a grid with at least five rows; if that was asked for, a sample of the rows.
    """

    x: str
    y: str
    extent: tuple[float, float, float, float]
    shape: tuple[int, int]
    grids: Mapping[str, str]
    ranges: Mapping[str, tuple[float, float]]
    edges: tuple[tuple[float, float, float, float], ...] = ()
    boundaries: tuple[tuple[float, float, float, float], ...] = ()
    regions: int | None = None
    points: tuple[tuple[float, float, int], ...] = ()


@dataclass(frozen=True)
class Picture:
    """One example image and what happens along its ray.

    Attributes:
        title: What it is.
        images: PNG files as data URIs: the image, and where its ray first reaches 99.9%.
        captions: One caption for each.
        ray: The confidence along the ray.
    """

    title: str
    images: tuple[str, ...]
    captions: tuple[str, ...]
    ray: Ray
