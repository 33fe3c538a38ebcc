"""The share of orthants in which a model of trees is blind: a count, not a sample.

Far away in all features a split sees only on which side its feature went. So a model of steps is
a boolean function of the signs of a direction, wherever the ray starts: all ``2^n`` sign vectors
of the ``n`` features that it looks at are tried, or, if these are too many, random ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from farfield.errors import InputError, UnsupportedOperation
from farfield.estimate import Estimate, clopper_pearson
from farfield.exact.infinity import at_infinity
from farfield.exact.jets import Jet, PointDomain
from farfield.exact.piecewise import free_rows, require_piecewise_affine
from farfield.graph.network import Network
from farfield.graph.program import walk
from farfield.graph.rules import Pieces, Places, Steps
from farfield.levels import BLIND

# With at most this many features every orthant is looked at.
MOST_FEATURES = 20
# How many orthants are evaluated together.
BLOCK = 1 << 15


@dataclass(frozen=True, eq=False)
class BlindOrthants:
    """What a model says far away in all features, orthant by orthant.

    Attributes:
        threshold: The confidence from which an orthant counts as blind.
        share: The share of blind orthants: exact if all were looked at, else an estimate.
        features: The positions of the features that the model looks at, in a flattened input.
        signs: ``(orthants, features)`` the orthants that were looked at: 1 up, -1 down.
        confidence: ``(orthants,)`` largest probability of the mean over instances.
        label: ``(orthants,)`` its class.
    """

    threshold: float
    share: float | Estimate
    features: tuple[int, ...]
    signs: Tensor
    confidence: Tensor
    label: Tensor

    @property
    def exact(self) -> bool:
        """Whether all orthants were looked at."""
        return not isinstance(self.share, Estimate)

    @property
    def blind(self) -> Tensor:
        """``(orthants,)`` whether the confidence is at least the threshold."""
        return self.confidence >= self.threshold

    def __len__(self) -> int:
        return len(self.confidence)

    def __repr__(self) -> str:
        return (
            f"BlindOrthants(share {self.share} of {len(self)} orthants of {len(self.features)} "
            f"features, confidence {float(self.confidence.min()):.3g} to "
            f"{float(self.confidence.max()):.3g})"
        )


def blind_orthants(
    network: Network,
    threshold: float = BLIND,
    *,
    samples: int = 100_000,
    level: float = 0.95,
    random_state: int | None = 0,
) -> BlindOrthants:
    """Find the share of orthants in which a model of steps is blind at infinity.

    Directions without a zero entry whose signs agree have the same limit, from every origin: if
    features are scaled one by one, and then only compared with constants.

    Args:
        network: From :func:`farfield.capture`: trees, on features or behind scalers of single
            features.
        threshold: The confidence from which an orthant counts as blind.
        samples: How many random orthants to look at if the model looks at more than 20 features.
        level: The level of the Clopper-Pearson interval then.
        random_state: Seed of their signs.

    Returns:
        The share, exact up to 20 features, and the limit in each orthant that was looked at.

    Raises:
        InputError: For a threshold outside (0, 1], or no samples.
        UnsupportedOperation: For models of other kinds, with what stands in the way.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import farfield as ff
    >>> tree = DecisionTreeClassifier().fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 1])
    >>> found = blind_orthants(ff.capture(tree))
    >>> found.share, found.features, found.label[(found.signs == 1).all(dim=1)].tolist()
    (1.0, (0, 1), [1])
    """
    if not 0 < threshold <= 1:
        raise InputError(f"threshold must lie in (0, 1], got {threshold}")
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
    features = used_features(network)
    signs, confidence, label = [], [], []
    for some in _orthants(len(features), samples, random_state):
        directions = torch.ones(len(some), math.prod(network.input_shape), dtype=network.dtype)
        directions[:, list(features)] = some.to(directions)
        rows = directions.reshape(-1, *network.input_shape)
        far = at_infinity(network, torch.zeros_like(rows[:1]), rows)
        signs.append(some)
        confidence.append(far.confidence)
        label.append(far.label)
    found = torch.cat(confidence)
    blind = int((found >= threshold).sum())
    share: float | Estimate = blind / len(found)
    if len(features) > MOST_FEATURES:
        share = clopper_pearson(blind, len(found), level)
    return BlindOrthants(threshold, share, features, torch.cat(signs), found, torch.cat(label))


def _orthants(features: int, samples: int, random_state: int | None) -> Iterator[Tensor]:
    """Sign vectors ``(n, features)``: all there are, or random ones."""
    if features <= MOST_FEATURES:
        for first in range(0, 1 << features, BLOCK):
            index = torch.arange(first, min(first + BLOCK, 1 << features))
            bits = index[:, None] >> torch.arange(features) & 1
            yield (2 * bits - 1).to(torch.int8)
        return
    random = np.random.default_rng(random_state)
    for first in range(0, samples, BLOCK):
        size = (min(BLOCK, samples - first), features)
        yield torch.from_numpy(2 * random.integers(0, 2, size=size, dtype=np.int8) - 1)


class _FeatureDomain(PointDomain):
    """A walk around the origin that sees which features steps look at.

    The first numbers of a jet say which features a value keeps changing with, far away: they are
    gradients up to factors, and never vanish because of where one stands.

    Attributes:
        features: Those seen so far.
    """

    def __init__(self, inputs: int, like: Tensor) -> None:
        super().__init__(inputs + 1, 1, like)
        self.features: set[int] = set()

    def piecewise(self, value: Jet, pieces: Pieces) -> Jet:
        """What is flat at both ends hangs on signs, as steps do; all else keeps changing."""
        parts = self.current(value)
        if any(bool(torch.as_tensor(pieces.slopes[end] != 0).any()) for end in (0, -1)):
            return self.jet(parts)
        if pieces.thresholds:
            self._look(parts[:-1, 0].flatten(1) != 0)
        return self.at_rest(super().piecewise(value, pieces).parts[-1:])

    def largest(
        self, candidates: Sequence[Jet], sign: int = 1, places: Places | None = None
    ) -> Jet:
        """Any of the candidates may win."""
        return self._any(candidates)

    def choice(self, mask: Jet, yes: Jet, no: Jet) -> Jet:
        """Either may be chosen."""
        return self._any([yes, no])

    def _any(self, values: Sequence[Jet]) -> Jet:
        parts = [self.current(each) for each in values]
        changes = sum(each[:-1].abs() for each in parts)
        return self.jet(torch.cat([torch.as_tensor(changes), parts[0][-1:]]))

    def note_steps(self, parts: Tensor, steps: Steps, places: Tensor) -> None:
        """See which single feature each column with breaks moves with."""
        self._look((parts[:-1, 0] != 0)[:, steps.offsets.diff() > 0])

    def _look(self, moving: Tensor) -> None:
        """Note the features ``(features, units)`` that units are compared by, one for each."""
        several = int((moving.sum(dim=0) > 1).sum())
        if several:
            raise UnsupportedOperation(
                f"the model compares {several} mixtures of several features with constants, whose "
                "signs those of a direction do not tell; orthants need trees on single features. "
                "Use at_infinity, or blind_arcs for a plane of directions"
            )
        self.features |= set(torch.nonzero(moving.any(dim=1)).flatten().tolist())


def used_features(network: Network, moving: Tensor | None = None) -> tuple[int, ...]:
    """The features that the steps of a network look at.

    Args:
        network: Whose features.
        moving: ``(inputs,)`` which of them move, all if ``None``; others stay, and do not count.

    Raises:
        UnsupportedOperation: If it is more than steps of single features, or looks at categories.
    """
    require_piecewise_affine(network, "a count of orthants")
    inputs = math.prod(network.input_shape)
    features: set[int] = set()
    for group in network.groups:
        for index in range(len(group.members)):
            constants = {
                name: tensor.double() if tensor.is_floating_point() else tensor
                for name, tensor in group.instance(index).items()
            }
            own = torch.eye(inputs) if moving is None else torch.diag(moving.float())
            start = torch.cat([own, torch.zeros(1, inputs)]).double()
            domain = _FeatureDomain(inputs, start)
            with torch.no_grad():
                value = Jet(start.reshape(-1, *network.input_shape))
                out = domain.current(walk(free_rows(group.program), domain, value, constants))
            if bool((out[:-1] != 0).any()):
                raise UnsupportedOperation(
                    "the model's outputs keep changing far away, so that they hang on more than "
                    "signs; orthants need trees. Use at_infinity"
                )
            features |= domain.features
    _require_numbers(network, features)
    return tuple(sorted(features))


def _require_numbers(network: Network, features: set[int]) -> None:
    """Refuse columns of categories: these do not go to infinity."""
    columns = network.columns or ()
    named = [
        str(columns[place].name or place)
        for place in sorted(features)
        if place < len(columns) and columns[place].categories is not None
    ]
    if named:
        raise UnsupportedOperation(
            f"the model looks at categories, which have no far away: {', '.join(named[:5])}; use "
            "at_infinity with directions that leave them alone"
        )
