"""Detectors that do not look at the logits: how far a row is from the data, told without trust.

Mahalanobis distance to the data's mean (Lee et al. 2018, one Gaussian for all classes) and distance
to the k-th nearest row (Sun et al. 2022), on standardised inputs and on penultimate features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf
from sklearn.neighbors import NearestNeighbors

from farfield.graph.network import Network
from farfield.graph.program import Program, forward
from farfield.graph.rules import RULES

Floats = NDArray[np.float64]
NEIGHBOURS = 10
# A Gaussian in more dimensions than this costs more than it tells; distances to rows remain.
MOST_DIMENSIONS = 2000
FIT_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Reference:
    """Two distances in one space, fitted on rows of the data.

    Attributes:
        mean: ``(dimensions,)``, and
        scale: ``(dimensions,)``, by which rows are standardised.
        precision: Inverse of the shrunk covariance, or ``None`` in too many dimensions.
        rows: ``(rows, dimensions)`` the standardised rows themselves.
    """

    mean: Floats
    scale: Floats
    precision: Floats | None
    rows: Floats

    @classmethod
    def fit(cls, rows: Floats) -> Reference:
        """Fit on rows of the data."""
        flat = np.asarray(rows, dtype=float).reshape(len(rows), -1)[:FIT_ROWS]
        mean, scale = flat.mean(axis=0), flat.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        standard = (flat - mean) / scale
        precision = None
        if len(flat) > 1 and flat.shape[1] <= MOST_DIMENSIONS:
            covariance, _ = ledoit_wolf(standard)
            ridge = 1e-9 * max(1.0, float(np.trace(covariance)))
            precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
        return cls(mean, scale, precision, standard)

    def distances(self, rows: Floats) -> dict[str, Floats]:
        """``mahalanobis`` (where it was fitted) and ``nearest``, ``(rows,)`` each."""
        standard = (np.asarray(rows, dtype=float).reshape(len(rows), -1) - self.mean) / self.scale
        found: dict[str, Floats] = {}
        if self.precision is not None:
            squared = np.einsum("ij,jk,ik->i", standard, self.precision, standard, optimize=True)
            found["mahalanobis"] = np.sqrt(np.maximum(squared, 0.0))
        neighbours = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(self.rows)))
        found["nearest"] = neighbours.fit(self.rows).kneighbors(standard)[0][:, -1]
        return found


def penultimate(network: Network) -> Network | None:
    """The first instance up to what its last affine layer reads; ``None`` if there is nothing."""
    group = network.groups[0]
    program = group.program
    place = _last_features(program)
    if place is None:
        return None
    step = program.steps[place]
    shape = tuple(step.shape[1:]) if step.shape is not None else ()
    short = replace(
        program.with_steps(program.steps[: place + 1], output=step.name), output_shape=shape
    )
    one = replace(group, program=short, shared=group.instance(0), stacked={}, members=(0,))
    return replace(network, groups=(one,), one_logit=False, classes=int(np.prod(shape)))


def features(network: Network, rows: NDArray[np.floating]) -> Floats:
    """Values of a network from :func:`penultimate`, ``(rows, features)``."""
    group = network.groups[0]
    checked = network.rows(rows)
    with torch.no_grad():
        values = [forward(group.program, part, group.shared) for part in checked.split(1024)]
    found: Floats = torch.cat(values).flatten(1).double().numpy()
    return found


def _last_features(program: Program) -> int | None:
    """The narrowest value between the last non-affine step and the output."""
    by_name = {step.name: index for index, step in enumerate(program.steps)}
    outputs = int(np.prod(program.output_shape))
    name, best, width = program.output, None, float("inf")
    while name in by_name:
        index = by_name[name]
        step = program.steps[index]
        size = int(np.prod(step.shape[1:])) if step.shape is not None else 0
        if name != program.output and size > outputs and size <= width:
            best, width = index, size
        rule = RULES.get(step.target)
        before = [
            ref for ref in step.refs() if ref in by_name and not _constant(program, by_name[ref])
        ]
        if rule is None or rule.kind != "affine" or len(before) != 1:
            break
        name = before[0]
    return best


def _constant(program: Program, index: int) -> bool:
    return program.steps[index].constant
