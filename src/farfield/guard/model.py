"""A model behind a guard: the same classes, the same numbers near the data, nothing far away."""

from __future__ import annotations

import math
import os
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from farfield.data.columns import Columns
from farfield.exact.far_field import FarField
from farfield.exact.walking import check_rays
from farfield.graph.export import module_dtype
from farfield.graph.network import Network
from farfield.guard.certificate import Certificate
from farfield.guard.covered import Covered
from farfield.guard.guarded import GuardedProbabilities
from farfield.guard.members import Held, analysed, answer, class_logits, instance_mean, watch
from farfield.guard.mix import KEPT_APART, mix, mix_logits
from farfield.guard.plain_layers import PlainLayers
from farfield.guard.program_module import telling
from farfield.guard.unwritten import recorded

BATCH = 8192
HALVES = (torch.float16, torch.bfloat16)


@final
class GuardedModel(nn.Module, GuardedProbabilities):
    """Probabilities mixed with the uniform answer, as logits; made by :func:`farfield.guard`.

    ``p' = 1 / K + (p - 1 / K) / T`` with ``T = 1 + (relu(d) / h)^2``, ``d`` the distance to the
    covered set. Where ``d <= 0`` logits are returned untouched; elsewhere ``log p'`` relative to
    the largest. The predicted class survives any temperature. An input at which the model itself
    gives NaN gets equal logits. A single logit f becomes ``(0, f)``; of several instances the mean
    probability is guarded. Distances are computed in float64 whatever the model's type, and logits
    are returned in float32 at least.

    Attributes:
        certificate: The promise, and the constants that prove it.
        covered: The covered set.
    """

    members: nn.ModuleList
    covered: Covered
    # The layers of the only member, once they were looked for; none of copies.
    _plain: PlainLayers | None = None

    def __init__(
        self, held: Held, covered: Covered, columns: Columns, certificate: Certificate
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(held.modules)
        self.held, self.columns, self.certificate = held, columns, certificate
        self.covered = covered
        look = watch(held)
        if look is not None:
            covered.watch(look)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Guarded logits, ``(rows, classes)``."""
        # Distances first: an exported program has the guard around the model, see ``pt2_file``.
        # By way of the dictionary: torch's own way to a submodule takes as long as a small product.
        covered: Covered = self._modules["covered"]  # type: ignore[assignment]
        one = covered.one
        # The same as below, for most rows that come one by one.
        if one is not None and one.sure(x):
            logits = self._own(x)
            if math.isfinite(sum(logits.tolist()[0])):
                return _single(logits)
        screen = covered.screen(x)
        if screen is None or screen.inner:
            if covered.inner is not None:
                return self._with_features(x)
            hot = covered(x)
            logits = _single(self.unguarded(x))
            # Nothing to mix? Never while anything is traced, or the guard would be lost in it.
            plain = not recorded() and _one(hot.detach()) and _numbers(logits)
            return logits if plain else mix_logits(logits, hot)
        if self._plain is None:
            self._plain = self._layers()
        rest = covered.doubted(x, screen)
        logits = _single(self._own(x))
        if not _numbers(logits):
            return mix_logits(logits, covered(x))
        if len(rest) == 0:
            return logits
        places = torch.from_numpy(rest)
        hot = covered.temperature(covered.distance(x[places]))
        return logits.index_put((places,), mix_logits(logits[places], hot))

    def _with_features(self, x: Tensor) -> Tensor:
        """Guarded logits, where a view looks at the model's features."""
        covered = self.covered
        found = covered.quickly(x)
        own, features = self.unguarded_both(x)
        hot, logits = covered.temperature(covered.beyond(found, features)), _single(own)
        plain = not recorded() and _one(hot.detach()) and _numbers(logits)
        return logits if plain else mix_logits(logits, hot)

    def unguarded(self, x: Tensor) -> Tensor:
        """The model's own logits, ``(rows, classes)``; of several instances, of their mean."""
        held, members = self.held, self._modules["members"]._modules  # type: ignore[union-attr]
        member = members["0"] if len(members) == 1 else None
        if member is None or held.probabilities:
            return self.unguarded_both(x)[0]
        return class_logits(member(_typed(x, member)), held)

    def _own(self, x: Tensor) -> Tensor:
        """The same as :meth:`unguarded` in less time, where nothing is recorded."""
        plain = self._plain
        if plain is None or plain.holder is not self._modules["members"]:
            return self.unguarded(x)
        own = plain(x)
        return self.unguarded(x) if own is None else own

    def _layers(self) -> PlainLayers | None:
        """The layers of the only member, if it is a stack of them that returns logits."""
        plain = len(self.members) == 1 and not (self.held.probabilities or self.held.one_logit)
        return PlainLayers.of(self.members) if plain else None

    def unguarded_both(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The model's own logits, and its features where a view looks at them."""
        held = self.held
        if len(self.members) == 1 and not held.probabilities:
            output, features = self._run(x)
            return class_logits(output, held), features
        p, features = self._own_both(x)
        p = p.to(torch.promote_types(p.dtype, torch.float32))
        top = p.amax(dim=1, keepdim=True)
        apart = KEPT_APART * float(torch.finfo(p.dtype).eps)
        logits = torch.where(p < top, (p.log() - top.log()).clamp(max=-apart), torch.zeros_like(p))
        return logits, features

    def own_probabilities(self, x: Tensor) -> Tensor:
        """The model's own probabilities: the mean over its instances, ``(rows, classes)``."""
        return self._own_both(x)[0]

    def _own_both(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.covered.inner is None:
            return instance_mean(self.members, self.held, _typed(x, self.members[0])), None
        output, features = self._run(x)
        return answer(output, self.held), features

    def _run(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The output of the only member, and its features where a view looks at them."""
        member = self.members[0]
        if self.covered.inner is None:
            return member(_typed(x, member)), None
        return telling(member).both(_typed(x, member))

    def probabilities(self, X: Any) -> Tensor:
        """Guarded probabilities in batches, ``(rows, classes)``; any rows, numbers or not.

        Where nothing is changed they are the mean of the instances' probabilities, bit by bit.
        """
        rows = self.rows(X)
        with torch.no_grad():
            parts = [self._guarded(part) for part in rows.split(BATCH) if len(part)]
        return torch.cat(parts) if parts else torch.zeros(0, self.held.classes, dtype=self.dtype)

    def _guarded(self, rows: Tensor) -> Tensor:
        p, features = self._own_both(rows)
        return mix(p, self.covered(rows, features))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Guarded probabilities as an array, ``(rows, classes)``."""
        return np.asarray(self.probabilities(X).cpu().numpy())

    def own_proba(self, X: Any) -> NDArray[Any]:
        """The model's own probabilities as an array, ``(rows, classes)``."""
        with torch.no_grad():
            parts = [self.own_probabilities(part) for part in self.rows(X).split(BATCH)]
        return np.asarray(torch.cat(parts).cpu().numpy())

    def rows(self, X: Any) -> Tensor:
        """Read inputs as ``(rows, *input)`` float64."""
        rows = torch.from_numpy(self.columns.read(X))
        return rows.reshape(-1, *self.held.input_shape).to(self.covered.fill.device)

    @property
    def dtype(self) -> torch.dtype:
        """The model's floating-point type."""
        return module_dtype(self.members[0], torch.float64)

    @property
    def network(self) -> Network:
        """The unguarded model as it is now, in float64, for analyses."""
        return analysed(self.held, list(self.members))

    def at_infinity(self, origin: Any, direction: Any) -> FarField:
        """The far field: ``1 / K`` for every class on every ray, exactly, since T has no limit."""
        origins, directions = check_rays(self.network, origin, direction)
        rays = max(len(origins), len(directions))
        zeros = torch.zeros(1, rays, self.held.classes, dtype=torch.float64)
        return FarField(
            slope=zeros,
            intercept=zeros,
            reach=torch.full((1, rays), torch.inf, dtype=torch.float64),
            asymptotic=torch.ones(1, rays, dtype=torch.bool),
            undecided=torch.zeros(1, rays, dtype=torch.bool),
            leading=torch.ones_like(zeros, dtype=torch.bool),
            rays=None,
        )

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model with the certificate in its metadata; needs the extra ``onnx``.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        from farfield.guard.export import write_onnx

        write_onnx(self, path, self.columns, self.certificate)

    def to_pt2(self, path: str | os.PathLike[str]) -> None:
        """Write a ``torch.export`` program with the certificate beside it in the archive.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        from farfield.guard.pt2_file import write_pt2

        write_pt2(self, path, self.columns, self.certificate)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file; read it with :func:`farfield.guard.load`.

        Args:
            path: The file to write; it appears whole or not at all.
        """
        from farfield.guard.archive import save

        save(self, path)

    def get_extra_state(self) -> Tensor:
        """The certificate, so that one guard's state in another brings its own promise."""
        return torch.tensor(list(self.certificate.to_json().encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take up the certificate of the guard whose state is loaded."""
        self.certificate = Certificate.from_json(bytes(state.tolist()).decode())


def _typed(x: Tensor, module: nn.Module) -> Tensor:
    """Rows in a module's own type."""
    own = module_dtype(module, torch.float64)
    return x if x.dtype is own else x.to(own)


def _single(logits: Tensor) -> Tensor:
    """In single precision at least."""
    return logits.to(torch.float32) if logits.dtype in HALVES else logits


def _numbers(logits: Tensor) -> bool:
    """Whether no logit is NaN, for certain: a sum that is finite has none in it."""
    if logits.shape[0] == 1:
        return math.isfinite(sum(logits.tolist()[0]))
    return math.isfinite(logits.detach().sum().item())


def _one(temperatures: Tensor) -> bool:
    """Whether all are exactly 1; none is below."""
    return len(temperatures) == 0 or float(temperatures.amax()) == 1.0
