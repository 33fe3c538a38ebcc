"""All views by name: adding one is a file and a line here."""

from __future__ import annotations

from farfield.guard.views.balls import Balls
from farfield.guard.views.categories import Categories
from farfield.guard.views.density import Density
from farfield.guard.views.features import Features
from farfield.guard.views.neighbours import Neighbours
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.view import View

VIEWS: dict[str, type[View]] = {
    view.name: view for view in (Balls, Ranges, Neighbours, Density, Categories, Features)
}
