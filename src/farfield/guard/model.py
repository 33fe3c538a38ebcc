"""A model behind a guard: the same classes, the same numbers near the data, nothing far away."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.errors import InputError
from farfield.exact.far_field import FarField
from farfield.exact.walking import check_rays
from farfield.graph.export import module_dtype
from farfield.graph.network import Network
from farfield.graph.rows import as_rows
from farfield.guard.bounds import BATCH
from farfield.guard.certificate import Certificate
from farfield.guard.cover import Balls, Cover
from farfield.guard.feature_guard import FeatureGuard
from farfield.guard.members import Held, analysed, own_array
from farfield.guard.shortcut import Shortcut
from farfield.guard.whitening import Whiten, Whitening

# Classes below the top keep at least this many units in the last place, so that no rounding,
# however hot the temperature, makes them equal to it.
KEPT_APART = 8


class GuardedModel(nn.Module):
    """Logits divided by ``T(x) = 1 + (relu(d(x)) / h)^2``; made by :func:`farfield.guard`.

    ``d`` is the distance to the covered set. Where ``d <= 0`` the logits are returned untouched.
    Elsewhere they are returned relative to the largest, ``(z - max z) / T``, and every class that
    was below the top is kept below it by a few units in the last place, so that the predicted class
    survives any temperature. A finite input at which the model itself overflows gets equal logits.
    A single logit f becomes ``(0, f)``. Of several instances the logarithm of the mean probability
    is guarded.

    Attributes:
        certificate: The promise, and the constants that prove it.
    """

    def __init__(
        self,
        held: Held,
        metric: Whitening,
        cover: Cover,
        seen: Cover | None,
        columns: tuple[Sequence[int], Sequence[int]],
        certificate: Certificate,
        inner: FeatureGuard | None = None,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(held.modules)
        self.held, self.certificate = held, certificate
        self._dtype = module_dtype(self.members[0], torch.float64)
        self._kind = (metric.kind, metric.shrinkage, metric.constant)
        self.whiten = Whiten(metric, bounded=self._dtype != torch.float64)
        self.near = Balls(cover)
        self.seen = None if seen is None else Balls(seen)
        self.numeric, self.categorical = list(columns[0]), list(columns[1])
        self.unit = certificate.unit
        self.inner = inner
        plain = seen is None and inner is None and self._dtype == torch.float32
        self.shortcut = Shortcut(metric, cover) if plain else None
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Guarded logits, ``(rows, classes)``."""
        rows = x.to(self.dtype)
        logits = self.unguarded(rows)
        if self.shortcut is None or torch.compiler.is_compiling() or rows.requires_grad:
            return temper(logits, self.temperature(rows))
        rest = torch.nonzero(~self.shortcut(rows.flatten(1)))[:, 0]
        if not len(rest):
            return logits
        return logits.index_copy(0, rest, temper(logits[rest], self.temperature(rows[rest])))

    def unguarded(self, x: Tensor) -> Tensor:
        """The model's own logits, ``(rows, classes)``."""
        rows = x.to(self.dtype)
        each = [self._classes(member(rows)) for member in self.members]
        if len(each) == 1:
            return each[0]
        stacked = torch.stack([torch.log_softmax(z, dim=-1) for z in each])
        return torch.logsumexp(stacked, dim=0) - math.log(len(each))

    def temperature(self, x: Tensor) -> Tensor:
        """``T``, ``(rows,)`` float64: exactly 1 in the covered set."""
        factor = 1.0 + (self.distance(x) / self.unit).square()
        if self.inner is not None:
            factor = factor * self.inner(x.to(self.dtype))
        return factor

    def distance(self, x: Tensor) -> Tensor:
        """``relu(d)``, ``(rows,)`` float64, in whitened units; categories add their own."""
        units = self.units(x)
        if self.seen is None:
            distance: Tensor = self.near(units).relu()
        else:
            distance = self.near(units[:, self.numeric]).relu()
            distance = distance + self.seen(units[:, self.categorical]).relu()
        return distance

    def units(self, x: Tensor) -> Tensor:
        """Whitened rows, ``(rows, columns)`` float64."""
        units: Tensor = self.whiten(x.to(self.dtype).flatten(1).double())
        return units

    def probabilities(self, x: Any) -> Tensor:
        """Check rows, and evaluate guarded probabilities in batches, ``(rows, classes)``.

        Where nothing is changed they are the mean of the instances' probabilities, bit by bit.
        """
        rows = self.rows(x)
        with torch.no_grad():
            parts = [self._batch_probabilities(part) for part in rows.split(BATCH)]
        return torch.cat(parts)

    def _batch_probabilities(self, rows: Tensor) -> Tensor:
        own, hot = self.own_probabilities(rows), self.temperature(rows)
        changed = torch.softmax(temper(self.unguarded(rows), hot), dim=-1)
        return torch.where((hot == 1.0)[:, None], own, changed)

    def own_probabilities(self, rows: Tensor) -> Tensor:
        """The model's own probabilities: the mean over its instances, ``(rows, classes)``."""
        rows = rows.to(self.dtype)
        each = [torch.softmax(self._classes(member(rows)), dim=-1) for member in self.members]
        return each[0] if len(each) == 1 else torch.stack(each).mean(dim=0)

    def rows(self, x: Any) -> Tensor:
        """Check inputs and bring them to the model's type."""
        return as_rows(
            own_array(x), self.held.input_shape, self.dtype, self.whiten.mean.device, "x"
        )

    @property
    def dtype(self) -> torch.dtype:
        """The model's floating-point type."""
        return self._dtype

    @property
    def metric(self) -> Whitening:
        """Whitened units, as the guard computes them now."""
        return Whitening(self._kind[0], *self.whiten.numbers(), *self._kind[1:])

    @property
    def cover(self) -> Cover:
        """The covered set of the numeric columns."""
        return self.near.cover

    @property
    def network(self) -> Network:
        """The unguarded model as it is now, in float64, for analyses."""
        return analysed(list(self.members), self.held)

    def at_infinity(self, origin: Any, direction: Any) -> FarField:
        """The far field: ``1 / K`` for every class on every ray, exactly.

        Logits grow at most linearly and T grows quadratically, so all differences tend to zero.
        """
        like = self.held.network
        if like is None:
            raise InputError(
                "the far field of a model that could not be read is known in words only"
            )
        origins, directions = check_rays(like, origin, direction)
        rays = max(len(origins), len(directions))
        zeros = torch.zeros(1, rays, self.held.classes, dtype=torch.float64)
        return FarField(
            slope=zeros,
            intercept=zeros,
            reach=torch.full((1, rays), torch.inf, dtype=torch.float64),
            asymptotic=torch.ones(1, rays, dtype=torch.bool),
            leading=torch.ones_like(zeros, dtype=torch.bool),
            rays=None,
        )

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model with the certificate in its metadata; needs the extra ``onnx``.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        from farfield.guard.export import write_onnx

        write_onnx(self, path)

    def to_pt2(self, path: str | os.PathLike[str]) -> None:
        """Write a ``torch.export`` program with the certificate beside it in the archive.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        from farfield.guard.export import write_pt2

        write_pt2(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file; read it with :func:`farfield.guard.load`.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        from farfield.guard.archive import save

        save(self, path)

    def predict_proba(self, x: Any) -> NDArray[Any]:
        """Guarded probabilities as an array, ``(rows, classes)``."""
        return np.asarray(self.probabilities(x).cpu().numpy())

    def _classes(self, values: Tensor) -> Tensor:
        """Give a single logit its partner: ``(0, f)``."""
        if not self.held.one_logit:
            return values
        logit = values.reshape(-1, 1)
        return torch.cat([torch.zeros_like(logit), logit], dim=1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GuardedModel:
        """Move the guard with the model, but never change its type: the proof counts on it."""
        parts = [
            part for part in (self.whiten, self.near, self.seen, self.shortcut) if part is not None
        ]
        if self.inner is not None:
            parts += [self.inner.whiten, self.inner.near]
        kept = [(part, name, buffer) for part in parts for name, buffer in part.named_buffers()]
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for part, name, buffer in kept:
            setattr(part, name, buffer.to(getattr(part, name).device))
        self._dtype = module_dtype(self.members[0], torch.float64)
        if self._dtype != torch.float32:
            self.shortcut = None
        return self


def temper(logits: Tensor, temperature: Tensor) -> Tensor:
    """Divide differences from the largest logit by a temperature for each row.

    Differences are never made smaller than a few units in the last place of 1.

    >>> logits = torch.tensor([[1.0, 1.5], [1.0, 1.5]])
    >>> temper(logits, torch.tensor([1.0, 1e300], dtype=torch.float64)).argmax(dim=1).tolist()
    [1, 1]
    """
    hot = temperature[:, None].to(logits.dtype)
    below = logits - logits.amax(dim=-1, keepdim=True)
    apart = KEPT_APART * torch.finfo(logits.dtype).eps
    cooled = torch.minimum(below / hot, below.clamp(min=-apart))
    # Only a model that overflows has logits that are not finite at a finite input.
    cooled = cooled.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return torch.where(hot > 1.0, cooled, logits)
