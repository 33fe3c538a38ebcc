"""Lemmas, propositions and the theorem of Know Your Limits as experiments on trained networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from farfield.datasets import nine_clusters
from farfield.estimators import ReLUClassifier
from farfield.exact import at_infinity, linearize
from farfield.graph import capture
from farfield.graph.network import Network
from farfield.networks import mlp
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage, step_per_model
from farfield.reproduce.models import make_model
from farfield.reproduce.surfaces import differentiable, score_in_bits
from farfield.reproduce.theorem_findings import METRICS, present
from farfield.scores import gradient_magnitude

__all__ = ["NAME", "NEEDS", "SOURCE", "TITLE", "present", "settings", "steps"]
NAME = "know-your-limits-theorem"
TITLE = "Lemmas 1-10, Propositions 1 and 2, and Theorem 1, measured against the exact limits"
SOURCE = "Ulmer and Cinà, Know Your Limits, Sections 4 and 5, Appendix A; first version, Theorem 1"
NEEDS: tuple[str, ...] = ()
MODELS = ("single network", "MC dropout", "ensemble", "anchored ensemble")


def settings(quick: bool, seed: int) -> Settings:
    """Scaled axes of some training points; the factors run up to a million."""
    return {
        "seed": seed,
        "points": 60 if quick else 450,
        "exponents": [0.0, 6.0, 13 if quick else 25],
        "epochs": 40 if quick else 100,
        "small_networks": 20 if quick else 100,
        "models": list(MODELS),
    }


def steps(settings: Settings, _request: RunRequest) -> Sequence[Stage]:
    """One step for each model, one for small networks, one for the counterexamples."""
    count = settings["small_networks"]
    small = {"seed": settings["seed"], "networks": count}
    return [
        *step_per_model(settings, _follow, "small_networks"),
        Stage("small networks", small, partial(_small_networks, settings["seed"], count)),
        Stage("counterexamples", {"version": 1}, _counterexamples),
    ]


def _follow(name: str, settings: Settings) -> Result:
    """Scale each feature of each point; gradients and scores on the way, and the exact ends."""
    clusters = nine_clusters(settings["seed"])
    constants = {"hidden": (25, 25), "batch_size": 32, "epochs": settings["epochs"]}
    model = make_model(name, {**constants, "random_state": settings["seed"]}, samples=20)
    network = capture(model.fit(clusters.X, clusters.y))
    order = np.random.default_rng(settings["seed"]).permutation(len(clusters.X))
    points = torch.from_numpy(clusters.X[order[: settings["points"]]])
    start, direction = scaled_axes(points)
    low, high, count = settings["exponents"]
    factors = torch.logspace(low, high, count, dtype=torch.float64)
    places = start + (factors[:, None, None] - 1) * direction
    far = at_infinity(network, start, direction)
    held = far.assumptions()
    shape = (count, len(start))
    flat = places.reshape(-1, 2)
    function = differentiable(network)
    limits = {metric: score_in_bits(metric, far.probabilities) for metric in METRICS}
    result: Result = {
        "factors": factors.numpy(),
        "fulfilled": held.theorem_1.numpy(),
        "unique": held.proposition_2.all(dim=0).numpy(),
        "confidence": far.confidence.numpy(),
        "split": (far.votes.amax(dim=-1) < 1).numpy(),
        "reach": far.reach.amax(dim=0).numpy(),
        "gradient p": _largest_gradient(network, flat).reshape(shape).numpy(),
        "settled": _stays(network, start, direction, far.reach),
        "derivative": _softmax_derivative(network, flat).reshape(shape).numpy(),
    }
    for metric in METRICS:
        score = partial(score_in_bits, metric)
        slopes = gradient_magnitude(function, flat, score).reshape(shape)
        gap = (score(network.probabilities(flat)).reshape(shape) - limits[metric]).abs()
        result[f"gap {metric}"] = gap.numpy()
        result[f"limit {metric}"] = limits[metric].numpy()
        result[f"gradient {metric}"] = slopes.numpy()
    return result


def scaled_axes(points: Tensor) -> tuple[Tensor, Tensor]:
    """Rays on which one feature of a point is scaled: ``x' + (alpha - 1) x'_d e_d``.

    Returns:
        Origins and directions, ``(features * points, features)``.

    >>> scaled_axes(torch.tensor([[2.0, 3.0]]))[1].tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    features = points.shape[1]
    direction = torch.eye(features, dtype=points.dtype)[:, None] * points
    return points.repeat(features, 1), direction.reshape(-1, features)


def _largest_gradient(network: Network, points: Tensor) -> Tensor:
    """The norm of the gradient of the mean probability, largest over classes (Lemma 4)."""
    function = differentiable(network)
    norms = [
        gradient_magnitude(function, points, partial(_mean_of_class, c))
        for c in range(network.classes)
    ]
    return torch.stack(norms).amax(dim=0)


def _mean_of_class(c: int, p: Tensor) -> Tensor:
    return p.mean(dim=0)[:, c]


def _softmax_derivative(network: Network, points: Tensor) -> Tensor:
    """The largest derivative of a probability in a logit, ``max_c p_c (1 - p_c)`` (Lemma 9)."""
    p = network.probabilities(points)
    return (p * (1 - p)).amax(dim=-1).amax(dim=0)


def _stays(network: Network, start: Tensor, direction: Tensor, reach: Tensor) -> float:
    """Lemma 2: the share of rays that stay in one region beyond ``reach``."""
    inside = []
    for instance in range(network.instances):
        beyond = reach[instance][:, None] * 1.000001 + 1e-6
        region = linearize(network, start + beyond * direction, instance=instance)
        further = [start + (beyond * factor + 1) * direction for factor in (1, 10, 1e4)]
        inside.append(torch.stack([region.contains(each) for each in further]).all(dim=0))
    return float(torch.stack(inside).double().mean())


def _small_networks(seed: int, count: int) -> Result:
    """Networks of 2-5-5-9 units, as in the paper's Figure 1: where assumptions fail."""
    zero, dead, sure, gradient, rays = 0, 0, [], 0.0, 0
    for each in range(seed, seed + count):
        clusters = nine_clusters(each)
        model = ReLUClassifier(
            hidden=(5, 5), learning_rate=1e-2, batch_size=32, epochs=60, random_state=each
        ).fit(clusters.X, clusters.y)
        network = capture(model)
        start, direction = scaled_axes(torch.from_numpy(clusters.X))
        far = at_infinity(network, start, direction)
        broken = ~far.assumptions().theorem_1
        rays += len(broken)
        if not bool(broken.any()):
            continue
        flat = (far.jacobian()[0, broken] == 0).all(dim=-1).all(dim=-1)
        zero, dead = zero + int(broken.sum()), dead + int(flat.sum())
        sure += far.confidence[broken].tolist()
        away = start[broken] + (far.reach[0, broken, None] + 1) * direction[broken]
        gradient = max(gradient, float(_largest_gradient(network, away).max()))
    return {
        "rays": rays,
        "broken": zero,
        "all_zero": dead,
        "confidence": [min(sure, default=1.0), max(sure, default=1.0)],
        "gradient": gradient,
    }


def _counterexamples() -> Result:
    """Two affine networks whose V has no zero entry and whose gradient does not vanish."""
    example = torch.zeros(1, 2)
    tie = capture(_affine([[1.0, 1.0], [1.0, -1.0]]), example)
    factors = torch.logspace(0, 6, 7, dtype=torch.float64)
    along = torch.stack([factors, torch.full_like(factors, 0.25)], dim=1)
    plain = capture(_affine([[1.0, 2.0], [2.0, -1.0]]), example)
    still = torch.tensor([[0.0, 0.25]], dtype=torch.float64)
    members = [_affine([[1.0, 1.0], [-1.0, 2.0]]), _affine([[-1.0, 1.0], [1.0, 2.0]])]
    both = capture(members, example)
    far = at_infinity(both, [[1.0, 1.0]], [[1.0, 0.0]])
    return {
        "factors": factors.numpy(),
        "tie": _largest_gradient(tie, along).numpy(),
        "tie_confidence": tie.probabilities(along)[0, :, 0].numpy(),
        "tie_derivative": _softmax_derivative(tie, along).numpy(),
        "still": float(_largest_gradient(plain, still)[0]),
        "two_entropy": float(score_in_bits("predictive_entropy", far.probabilities)[0]),
        "two_information": float(score_in_bits("mutual_information", far.probabilities)[0]),
    }


def _affine(weight: list[list[float]]) -> nn.Module:
    """One layer without a bias."""
    matrix = torch.tensor(weight, dtype=torch.float64)
    return mlp([nn.functional.pad(matrix, (0, 1))]).requires_grad_(False)
