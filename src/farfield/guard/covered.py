"""The covered set: where every view is content, and how far everything else is from it.

``d(x) = max over views of d_v(x)`` and ``T(x) = 1 + (relu(d(x)) / h)^2``. Views that see rows near
the data only add to the distance; the promise stands on balls and ranges, which grow in every
direction. A value that is not a number is infinitely far, unless it was missing in training too.

One view may look at what the network makes of rows. Its part comes last, so that in an exported
program the guard stays around the model: views of inputs, then the model, then features.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.guard.one_row import QUICK, OneRow
from farfield.guard.screen import Screen, screen_of
from farfield.guard.unwritten import Unwritten, recorded
from farfield.guard.views.balls import Balls
from farfield.guard.views.features import Features
from farfield.guard.views.ranges import Ranges
from farfield.guard.views.units import Units
from farfield.guard.views.view import Place, Say, View

# What is worst of a row that holds values which are no numbers: no view, but these.
VALUES = "values"


# From rows, flat or not, to what the network makes of them, ``(rows, features)``.
Describe = Callable[[Tensor], Tensor]


class OfInputs(NamedTuple):
    """What the views of inputs say of rows.

    Attributes:
        each: ``(rows, views)`` distances.
        blamed: ``(rows, views)`` the column that each view blames.
        finite: ``(rows,)`` whether all values are numbers.
        missing: ``(rows,)`` the first column that holds none.
    """

    each: Tensor
    blamed: Tensor
    finite: Tensor
    missing: Tensor


class Covered(nn.Module):
    """Distances to a covered set, in float64, whatever the model's own type.

    Args:
        whitened: Units without a kernel, of the numeric columns.
        reduced: Principal components of wide inputs, or ``None``.
        views: Balls and ranges first, one of features last.
        other: Positions of the columns that are not numeric.
        fill: ``(columns,)`` what stands for a missing value; NaN where none may be missing.
        unit: h.
    """

    numeric: Tensor
    other: Tensor
    fill: Tensor
    unit: Tensor
    # What single rows are looked at by first, once the quick look was made.
    one: OneRow | None = None

    def __init__(
        self,
        whitened: Units,
        reduced: Units | None,
        views: Sequence[View],
        other: Sequence[int],
        fill: Tensor,
        unit: float = 1.0,
    ) -> None:
        super().__init__()
        self.whitened, self.reduced = whitened, reduced
        self.views = nn.ModuleList(views)
        taken = set(other)
        numeric = [place for place in range(len(fill)) if place not in taken]
        for name, places in (("numeric", numeric), ("other", list(other))):
            held = torch.tensor(places, dtype=torch.long)
            self.register_buffer(name, held, persistent=False)
        self.register_buffer("fill", fill.double())
        self.register_buffer("unit", torch.tensor(unit, dtype=torch.float64))
        self._quick: tuple[Unwritten, Screen | None] | None = None
        self._describe: Describe | None = None
        for view in views:
            view.attach(whitened, reduced or whitened)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.fill)

    @property
    def names(self) -> tuple[str, ...]:
        """The views' names, in their order."""
        return tuple(view.name for view in self.each_view)

    @property
    def each_view(self) -> list[View]:
        """The views."""
        return [view for view in self.views if isinstance(view, View)]

    @property
    def balls(self) -> Balls:
        """The view that the promise about numeric columns stands on."""
        return next(view for view in self.views if isinstance(view, Balls))

    @property
    def ranges(self) -> Ranges:
        """The view that the promise about all other columns stands on."""
        return next(view for view in self.views if isinstance(view, Ranges))

    @property
    def inner(self) -> Features | None:
        """The view of what the network makes of rows, if there is one."""
        # By way of dictionaries: this is asked for every row.
        last = next(reversed(self._modules["views"]._modules.values()))  # type: ignore[union-attr]
        return last if isinstance(last, Features) else None

    @property
    def of_inputs(self) -> list[View]:
        """The views of inputs."""
        return [view for view in self.each_view if not view.inner]

    def watch(self, describe: Describe) -> None:
        """Learn how to find out what the network makes of rows."""
        self._describe = describe

    def features(self, x: Tensor) -> Tensor | None:
        """What the network makes of rows, ``(rows, features)``; ``None`` if no view looks at it."""
        if self.inner is None:
            return None
        if self._describe is None:
            raise InputError(
                "this guard looks at the features of its network, which is not here; load the "
                "guarded model with it"
            )
        return self._describe(x)

    def place(self, x: Tensor, features: Tensor | None = None) -> tuple[Place, Tensor]:
        """Rows in the views' coordinates, and whether all of their values are numbers."""
        place, finite = self._read(x)
        if self.inner is not None:
            place = place._replace(features=self.features(x) if features is None else features)
        return place, finite.all(dim=1)

    def _read(self, x: Tensor) -> tuple[Place, Tensor]:
        """Rows in the coordinates of views of inputs, and which values are numbers."""
        rows = x.flatten(1).to(torch.float64)
        rows = torch.where(torch.isnan(rows), self.fill, rows)
        finite = torch.isfinite(rows)
        return self._placed(torch.where(finite, rows, 0.0)), finite

    def _placed(self, rows: Tensor) -> Place:
        own = rows if len(self.other) == 0 else rows.index_select(1, self.numeric)
        standard = self.whitened.standard(own)
        whitened = self.whitened.of_standard(standard)
        reduced = whitened if self.reduced is None else self.reduced.of_standard(standard)
        return Place(rows, standard, whitened, reduced)

    def each(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """``d_v``, ``(rows, views)``."""
        _, found, finite = self._measured(x)
        return self._joined(found, finite.all(dim=1), self._given(x, features))

    def _given(self, x: Tensor, features: Tensor | None) -> Tensor | None:
        return self.features(x) if features is None else features

    def distance(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """``d``, ``(rows,)``: at most 0 inside, infinite for values that are no numbers."""
        return self.beyond(self.from_inputs(x), self._given(x, features))

    def from_inputs(self, x: Tensor) -> Tensor:
        """``d`` by the views of inputs alone, ``(rows,)``."""
        rows = x.flatten(1).to(torch.float64)
        place = self._placed(torch.where(torch.isnan(rows), self.fill, rows))
        first, *others = self.of_inputs
        found: Tensor = first(place)
        for view in others:
            found = torch.maximum(found, view(place))
        # NaN goes through all views, and infinity is cut off or stays infinite.
        return torch.where(torch.isnan(found), math.inf, found)

    def beyond(self, found: Tensor, features: Tensor | None) -> Tensor:
        """``d`` by all views, from that by the views of inputs."""
        if self.inner is None or features is None:
            return found
        return torch.maximum(found, self.inner.distance(features))

    def forward(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """``T``, ``(rows,)``: exactly 1 inside."""
        rest = self.uncertain(x)
        if rest is not None and len(rest) == 0 and self.inner is None:
            return torch.ones(len(x), dtype=torch.float64)
        return self.temperature(self.beyond(self._found(x, rest), self._given(x, features)))

    def quickly(self, x: Tensor) -> Tensor:
        """``d`` by the views of inputs, or 0 for rows that are inside of all of them."""
        return self._found(x, self.uncertain(x))

    def _found(self, x: Tensor, rest: NDArray[np.intp] | None) -> Tensor:
        """The same, once it is known which rows are not certain."""
        if rest is None:
            return self.from_inputs(x)
        found = torch.zeros(len(x), dtype=torch.float64)
        if len(rest) == 0:
            return found
        places = torch.from_numpy(rest)
        return found.index_put((places,), self.from_inputs(x[places]))

    def temperature(self, distance: Tensor) -> Tensor:
        """``T = 1 + (relu(d) / h)^2``."""
        return 1.0 + (distance.clamp(min=0.0) / self.unit).square()

    def uncertain(self, x: Tensor) -> NDArray[np.intp] | None:
        """Positions of the rows that a quick look does not find inside; ``None`` without one."""
        screen = self.screen(x)
        return None if screen is None else self.doubted(x, screen)

    def doubted(self, x: Tensor, screen: Screen) -> NDArray[np.intp]:
        """Positions of the rows that a quick look does not find inside."""
        if x.ndim != 2 or x.requires_grad:
            x = x.detach().flatten(1)
        return screen.doubted(x)

    def screen(self, x: Tensor) -> Screen | None:
        """The quick look at rows, where there is one: never while anything is recorded."""
        if type(x) is not Tensor or x.dtype not in QUICK or not x.is_cpu or recorded():
            return None
        if x.requires_grad and torch.is_grad_enabled():
            return None
        quick = self._quick
        if quick is None or not quick[0].unchanged():
            quick = self._quick = Unwritten(self), screen_of(self)
            self.one = None if quick[1] is None or quick[1].inner else quick[1].one
        return quick[1]

    def worst(self, x: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Distance, and the view and the column that put rows outside, each ``(rows,)``.

        View and column are -1 inside, and the column is where the view blames none. The column of
        a row with values that are no numbers is the first of them, and its view one beyond the
        last.
        """
        return self.worst_of(self.look(x), self._given(x, features))

    def look(self, x: Tensor) -> OfInputs:
        """What the views of inputs say of rows."""
        place, found, finite = self._measured(x)
        blames = [self._blame(view, place).argmax(dim=1) for view in self.of_inputs]
        missing = (~finite).double().argmax(dim=1)
        return OfInputs(found, torch.stack(blames, dim=1), finite.all(dim=1), missing)

    def _measured(self, x: Tensor) -> tuple[Place, Tensor, Tensor]:
        """Places, ``d_v`` by the views of inputs, and which values are numbers."""
        place, finite = self._read(x)
        found = torch.stack([view(place) for view in self.of_inputs], dim=1)
        found = torch.where(torch.isnan(found), math.inf, found)
        return place, torch.where(finite.all(dim=1, keepdim=True), found, math.inf), finite

    def _joined(self, found: Tensor, finite: Tensor, features: Tensor | None) -> Tensor:
        """``d_v`` of all views, ``(rows, views)``."""
        if self.inner is None or features is None:
            return found
        own = torch.where(finite, self.inner.distance(features), math.inf)
        return torch.cat([found, own[:, None]], dim=1)

    def worst_of(self, seen: OfInputs, features: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """:meth:`worst`, from what the views of inputs say."""
        each, blamed = self._joined(seen.each, seen.finite, features), seen.blamed
        if self.inner is not None:
            blamed = torch.cat([blamed, torch.full_like(blamed[:, :1], -1)], dim=1)
        distance, view = each.max(dim=1)[0], each.argmax(dim=1)
        column = blamed.gather(1, view[:, None])[:, 0]
        column = torch.where(seen.finite, column, seen.missing)
        view, outside = torch.where(seen.finite, view, len(self.views)), distance > 0.0
        return distance, torch.where(outside, view, -1), torch.where(outside, column, -1)

    def _blame(self, view: View, place: Place) -> Tensor:
        """Of all columns; views of numeric columns blame none of the others."""
        blame = view.blame(place)
        if blame.shape[1] == self.columns:
            return blame
        whole = place.rows.new_zeros(place.rows.shape)
        return whole.index_copy(1, self.numeric, blame)

    def explain(self, row: Tensor, say: Say) -> tuple[float, str, int, str]:
        """Distance, view, column and reason for one row.

        Of several views that put a row outside, the one whose reason says most is heard.
        """
        place, finite = self.place(row[None])
        if not bool(finite[0]):
            where = int(self.worst(row[None])[2])  # never inside
            value = float(row.flatten()[where])
            return math.inf, VALUES, where, f"{say(where, value)}, which no training value was"
        each = self.each(row[None], place.features)[0].tolist()
        found = sorted(zip(self.each_view, each, strict=True), key=lambda pair: -pair[1])
        outside = [pair for pair in found if pair[1] > 0]
        view = max(outside, key=lambda pair: pair[0].plain)[0] if outside else found[0][0]
        blame = torch.zeros(1) if view.inner else self._blame(view, place)[0]
        where = int(blame.argmax()) if float(blame.amax()) > 0 else -1
        return found[0][1], view.name, where, view.explain(place, say, where)

    @property
    def radius(self) -> float:
        """R: ``d >= 1`` for every input at least this far from the mean.

        Distances are whitened for numeric columns and raw for all others. Whoever is further than
        both radii together is further than one of them in its own columns.
        """
        own = self.balls.radius(self.whitened) if len(self.numeric) else 0.0
        rest = self.ranges.radius(self.other, self.centre) if len(self.other) else 0.0
        return math.hypot(own, rest) * (1 + 1e-12)

    @property
    def centre(self) -> Tensor:
        """Of the columns that are not numeric: the middle of their range."""
        low, high = self.ranges.low[self.other], self.ranges.high[self.other]
        return (low + high) / 2

    def length(self, x: Tensor) -> Tensor:
        """How far rows are from the mean, as :attr:`radius` measures it, ``(rows,)``."""
        place, _ = self.place(x)
        rest = place.rows.index_select(1, self.other) - self.centre
        return torch.hypot(place.whitened.norm(dim=1), rest.norm(dim=1))

    def digest(self) -> str:
        """SHA-256 of all numbers, by name."""
        found = hashlib.sha256()
        for name, value in sorted(self.state_dict().items()):
            array = value.detach().cpu().numpy()
            found.update(f"{name} {array.dtype.str} {array.shape}".encode())
            found.update(array.tobytes())
        return found.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles take their own quick look."""
        return {**self.__dict__, "_quick": None, "one": None}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Covered:
        """Move with the model, but never change type: the proof counts on it."""
        before = {name: value for name, value in self.named_buffers() if value is not None}
        self._quick = self.one = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, value in before.items():
            path, _, last = name.rpartition(".")
            owner: Any = self.get_submodule(path)
            setattr(owner, last, value.to(getattr(owner, last).device))
        return self


def least_temperature(classes: int, epsilon: float) -> float:
    """The T from which on no class exceeds ``1 / K + epsilon``, whatever the model says.

    ``1 / K + (1 - 1 / K) / T <= 1 / K + epsilon``, with room for the rounding of T, of the mixture
    and of its logarithm.

    >>> round(least_temperature(2, 0.01), 3)
    50.001
    """
    if not (isinstance(epsilon, float | int) and 0 < epsilon < 1 - 1 / classes):
        raise InputError(
            f"epsilon must lie between 0 and {1 - 1 / classes:.4g} for {classes} classes (no class "
            f"is to exceed 1/{classes} + epsilon), got {epsilon!r}"
        )
    if epsilon < 1e-4 / classes:
        raise InputError(
            f"epsilon={epsilon:g} cannot be kept: probabilities in single precision are not that "
            f"fine and keep their order; ask for epsilon >= {1e-4 / classes:.2g}"
        )
    return (1 - 1 / classes) / epsilon * (1 + 1e-5)
