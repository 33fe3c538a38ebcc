"""How much of an audit goes into a page, so that no audit makes a page that is slow to open."""

from __future__ import annotations

from dataclasses import dataclass, fields

# The largest page, in bytes.
LARGEST = 5_000_000


@dataclass(frozen=True)
class Limits:
    """The most of each thing that a page shows; the rest stays in the JSON file.

    Attributes:
        features: Rows of the table of features.
        values: Values of one categorical feature.
        rays: Rays to choose from.
        samples: Places along one ray, or one curve.
        surfaces: Pairs of features to choose from.
        edges: Edges of regions in one surface; the longest are kept.
        points: Data points on one surface.
        pictures: Example images.
        rows: Rows of any other table.
    """

    features: int = 1000
    values: int = 40
    rays: int = 48
    samples: int = 240
    surfaces: int = 16
    edges: int = 5000
    points: int = 800
    pictures: int = 24
    rows: int = 200

    def halved(self) -> Limits:
        """Half as much of everything, but always something.

        >>> Limits(features=1000, values=1).halved().features
        500
        """
        return Limits(**{each.name: max(1, getattr(self, each.name) // 2) for each in fields(self)})
