"""Last-layer Laplace approximation, and what it says at infinity, exactly.

Kristiadi, Hein and Hennig 2020 ("Being Bayesian, even just a bit, fixes overconfidence in ReLU
networks"): the last layer's weights get a Gaussian posterior ``N(m, S)``, S the inverse of the
generalised Gauss-Newton matrix plus a prior. Along a ray features end in ``t u + v``, so with
``a = m.u`` and ``s = u' S u`` a binary classifier tends to ``sigmoid(|a| / sqrt(pi / 8 s))`` and
one of several classes, by MacKay's probit approximation, to
``softmax(a_c / sqrt(pi / 8 s_c))``. Where features stop moving (u = 0) the answer at v remains. The
paper's bound replaces u by singular values and is often vacuous; the limit itself is cheap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from farfield.errors import InputError
from farfield.exact.infinity import at_infinity
from farfield.graph.models import capture
from farfield.graph.network import Network
from farfield.guard.penultimate import Penultimate, split_last_layer

# With more weights than this the Gauss-Newton matrix is taken class by class.
MOST_WEIGHTS = 2048
PROBIT = math.pi / 8
BATCH = 1024


@dataclass(frozen=True, eq=False)
class LastLayerLaplace:
    """A model whose last layer is uncertain.

    Attributes:
        network: The model, float64.
        parts: Its features and last layer.
        mean: ``(outputs, features + 1)``: weights of the outputs, the bias last. One output for
            two classes: the difference of their logits.
        covariance: ``(outputs, features + 1, features + 1)`` of each output's weights.
        prior_precision: Of the Gaussian prior.
    """

    network: Network
    parts: Penultimate
    mean: Tensor
    covariance: Tensor
    prior_precision: float

    def predict_proba(self, X: Any) -> Tensor:
        """Probabilities, ``(rows, classes)``."""
        rows = self.network.rows(X)
        return torch.cat([self._answer(self._features(part), 1.0) for part in rows.split(BATCH)])

    def at_infinity(self, origin: Any, direction: Any) -> Tensor:
        """The limits on rays, ``(rays, classes)``, exact up to the probit approximation."""
        far = at_infinity(self.parts.features, origin, direction)
        moving = torch.cat([far.slope[0], torch.zeros(len(far), 1, dtype=torch.float64)], dim=1)
        still = torch.cat([far.intercept[0], torch.ones(len(far), 1, dtype=torch.float64)], dim=1)
        moves = (far.slope[0] != 0).any(dim=1, keepdim=True)
        limit, rest = self._answer(moving, 0.0), self._answer(still, 1.0)
        answer: Tensor = torch.where(moves, limit, rest)
        return answer

    def _features(self, rows: Tensor) -> Tensor:
        values = self.parts.features.logits(rows)[0]
        return torch.cat([values, torch.ones(len(values), 1, dtype=values.dtype)], dim=1)

    def _answer(self, features: Tensor, one: float) -> Tensor:
        """``softmax(mean / sqrt(one + pi / 8 variance))``; ``one`` is 0 in the limit."""
        outputs = features @ self.mean.T
        spread = torch.einsum("ni,kij,nj->nk", features, self.covariance, features).clamp(min=0.0)
        scaled = outputs / (one + PROBIT * spread).sqrt()
        scaled = torch.where(outputs == 0, torch.zeros_like(scaled), scaled)
        if len(self.mean) == 1:
            return torch.cat([torch.sigmoid(-scaled), torch.sigmoid(scaled)], dim=1)
        return torch.softmax(scaled, dim=1)


def last_layer_laplace(
    model: Any, X: Any, *, prior_precision: float = 1.0, example: Any = None
) -> LastLayerLaplace:
    """Give a model's last layer a Gaussian posterior.

    Args:
        model: Anything that :func:`farfield.capture` reads, of one instance that ends in a linear
            layer.
        X: ``(rows, *input)`` training rows; labels are not needed.
        prior_precision: Of the Gaussian prior; the smaller, the more uncertain.
        example: Rows that show the input's shape; ``X`` unless given.

    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> X = torch.linspace(-1, 1, 20)[:, None]
    >>> laplace = last_layer_laplace(net, X)
    >>> limit = laplace.at_infinity([0.0], [[1.0]])
    >>> near = laplace.predict_proba(torch.tensor([[1e9]]))
    >>> bool(torch.allclose(limit, near, atol=1e-6))
    True
    """
    if not 0 < prior_precision < math.inf:
        raise InputError(f"prior_precision must be positive, got {prior_precision!r}")
    network = capture(model, X if example is None else example)
    parts = split_last_layer(network)
    binary = network.classes == 2
    weight, bias = parts.weight.double(), parts.bias.double()
    mean = torch.cat([weight, bias[:, None]], dim=1)
    if binary and not network.one_logit:
        mean = mean[1:] - mean[:1]
    blank = LastLayerLaplace(network, parts, mean, mean.new_zeros(0), prior_precision)
    rows = network.rows(X)
    precision = _precision(blank, rows, prior_precision)
    covariance = _invert(precision, len(mean))
    if binary and not network.one_logit:
        # A difference of two weights, each with the prior, has twice its variance.
        covariance = _invert(_precision(blank, rows, prior_precision / 2), 1)
    return LastLayerLaplace(network, parts, mean, covariance, prior_precision)


def _precision(laplace: LastLayerLaplace, rows: Tensor, prior: float) -> Tensor:
    """The generalised Gauss-Newton matrix plus the prior: of all weights, or class by class."""
    outputs, size = laplace.mean.shape
    joint = outputs > 1 and outputs * size <= MOST_WEIGHTS
    shape = (outputs * size,) * 2 if joint else (outputs, size, size)
    total = laplace.mean.new_zeros(shape)
    for part in rows.split(256 if joint else BATCH):
        features = laplace._features(part)
        logits = features @ laplace.mean.T
        if outputs == 1:
            p = torch.sigmoid(logits)
            total += torch.einsum("nk,ni,nj->kij", p * (1 - p), features, features)
            continue
        p = torch.softmax(logits, dim=1)
        if joint:
            curve = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
            total += torch.einsum("nkl,ni,nj->kilj", curve, features, features).reshape(shape)
        else:
            total += torch.einsum("nk,ni,nj->kij", p * (1 - p), features, features)
    result: Tensor = total + prior * torch.eye(shape[-1], dtype=torch.float64)
    return result


def _invert(precision: Tensor, outputs: int) -> Tensor:
    """Covariances of each output's weights."""
    whole: Tensor = torch.linalg.inv(precision)
    if precision.ndim == 3:
        return whole
    size = len(whole) // outputs
    blocks = whole.reshape(outputs, size, outputs, size)
    return torch.stack([blocks[k, :, k] for k in range(outputs)])
