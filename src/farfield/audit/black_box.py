"""Models that can only be asked: probabilities at rows, and what was seen of them far out.

Nothing is known about such a model between the places at which it was asked, nor beyond them. What
is said here is *seen*, out to :data:`OUTMOST` standard deviations, and never exact.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from farfield.distributions import as_distributions
from farfield.errors import FarfieldError, InputError
from farfield.graph.network import Label
from farfield.scores import score_by_name

Floats = NDArray[np.float64]
# Distances that a ray is looked at, in standard deviations: 0, then 1, 2, 5 in every decade.
OUTMOST = 1e6
LOOKS = (0.0, *(digit * 10.0**power for power in range(-1, 6) for digit in (1, 2, 5)), OUTMOST)
# How many numbers the rows of one question may hold.
CHUNK = 1 << 21


@dataclass(frozen=True, eq=False)
class BlackBox:
    """A classifier that can be evaluated but not followed.

    Attributes:
        evaluate: From rows ``(rows, *input)`` to probabilities ``(rows, classes)``.
        input_shape: The shape of one row.
        classes: How many classes.
        labels: Their names, if the model says them.
        features: The names of its inputs, if it says them.
        notes: What the user may want to know.
    """

    evaluate: Callable[[Floats], Any]
    input_shape: tuple[int, ...]
    classes: int
    labels: tuple[Label, ...] | None = None
    features: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    instances: ClassVar[int] = 1
    one_logit: ClassVar[bool] = False

    def probabilities(self, x: Any) -> Tensor:
        """Ask the model, ``(1, points, classes)``; NaN where it answers with NaN."""
        rows = np.asarray(x, dtype=float).reshape(-1, *self.input_shape)
        size = max(1, CHUNK // max(1, int(np.prod(self.input_shape))))
        chunks = (rows[at : at + size] for at in range(0, len(rows), size))
        parts = [as_distributions(ask(self.evaluate, r), len(r), self.classes) for r in chunks]
        found = np.concatenate(parts) if parts else np.empty((0, self.classes))
        return torch.from_numpy(found)[None]


def ask(evaluate: Callable[[Floats], Any], rows: Floats) -> Floats:
    """Evaluate somebody else's model."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow far out is expected
            return np.asarray(evaluate(rows), dtype=float)
    except FarfieldError:
        raise
    except Exception as error:  # somebody else's code may raise anything
        size = float(np.abs(rows).max(initial=0.0))
        raise InputError(
            f"the model failed on {len(rows)} rows with values of up to {size:.3g}: "
            f"{type(error).__name__}: {error}"
        ) from error


@dataclass(frozen=True, eq=False)
class Seen:
    """What a model was seen to say along rays: the part of a far field that evaluation can give.

    Attributes:
        t: ``(rays, looks)`` where each ray was looked at.
        trace: ``(rays, looks)`` probability of the class that the ray was last seen in.
        probabilities: ``(1, rays, classes)`` at the last look that had an answer.
        cut: ``(rays,)`` whether that was before the outermost look.
    """

    t: Tensor
    trace: Tensor
    probabilities: Tensor
    cut: Tensor

    @property
    def confidence(self) -> Tensor:
        """``(rays,)`` largest probability at the last look."""
        return self.probabilities[0].amax(dim=-1)

    @property
    def label(self) -> Tensor:
        """``(rays,)`` most probable class at the last look."""
        return self.probabilities[0].argmax(dim=-1)

    @property
    def winner(self) -> Tensor:
        """``(1, rays)`` the same, by instance."""
        return self.label[None]

    @property
    def votes(self) -> Tensor:
        """``(rays, classes)`` one vote for that class."""
        classes = self.probabilities.shape[-1]
        return torch.nn.functional.one_hot(self.label, classes).to(self.probabilities)

    @property
    def reach(self) -> Tensor:
        """``(1, rays)`` not known: NaN."""
        return torch.full((1, len(self.t)), torch.nan, dtype=self.t.dtype)

    def score(self, name: str) -> Tensor:
        """``(rays,)`` any uncertainty score of :mod:`farfield.scores`, at the last look."""
        found: Tensor = score_by_name(name)(self.probabilities)
        return found

    def distance(self, confidence: float) -> Tensor:
        """``(1, rays)`` the first look from which on the last class was never seen below."""
        above = (self.trace >= confidence) | self.trace.isnan()
        held = above.flip(-1).cummin(dim=-1).values.flip(-1)
        place = held.to(torch.uint8).argmax(dim=-1, keepdim=True)
        t = self.t.gather(-1, place)[:, 0]
        return torch.where(held[:, -1], t, torch.inf)[None]


def look(box: BlackBox, origin: Any, direction: Any, deviations: Tensor) -> Seen:
    """Look at rays, out to :data:`OUTMOST` standard deviations.

    Args:
        box: The model.
        origin: ``(rays, *input)`` or one row.
        direction: ``(rays, *input)`` or one row.
        deviations: ``(rays,)`` how many standard deviations one step of each ray is.
    """
    ways = np.asarray(direction, dtype=float).reshape(-1, *box.input_shape)
    starts = np.asarray(origin, dtype=float).reshape(-1, *box.input_shape)
    count = max(len(ways), len(starts))
    shape = (count, *box.input_shape)
    ways, starts = np.broadcast_to(ways, shape), np.broadcast_to(starts, shape)
    t = np.asarray(LOOKS) / deviations.double().numpy().reshape(-1, 1)
    t = np.broadcast_to(t, (count, len(LOOKS)))
    size = max(1, CHUNK // (len(LOOKS) * max(1, int(np.prod(box.input_shape)))))
    parts = [
        _look(box, starts[part], ways[part], t[part])
        for part in (slice(at, at + size) for at in range(0, count, size))
    ]
    trace, last, cut = (torch.cat(each) for each in zip(*parts, strict=True))
    return Seen(torch.from_numpy(t.copy()), trace, last[None], cut)


def _look(box: BlackBox, starts: Floats, ways: Floats, t: Floats) -> tuple[Tensor, Tensor, Tensor]:
    steps = t.reshape(*t.shape, *[1] * len(box.input_shape))
    rows = starts[:, None] + steps * ways[:, None]
    p = box.probabilities(rows.reshape(-1, *box.input_shape))[0].reshape(*t.shape, box.classes)
    answered = ~p.isnan().any(dim=-1)
    # The last look with an answer; one without any keeps its NaN.
    place = answered.shape[1] - 1 - answered.flip(-1).to(torch.uint8).argmax(dim=-1)
    last = p[torch.arange(len(p)), place]
    label = last.argmax(dim=-1)
    trace = p.gather(-1, label[:, None, None].expand(*t.shape, 1))[..., 0]
    return trace, last, place < t.shape[1] - 1
