"""Small networks and rays that provoke ties, dead layers and extreme scales."""

import numpy as np
import torch
from torch import nn

from oracles import Absolute, Pool, Residual

ARCHITECTURES = {
    "shallow": lambda: [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)],
    "deep": lambda: [nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)],
    "leaky": lambda: [
        nn.Linear(2, 4),
        nn.LeakyReLU(0.01),
        nn.Linear(4, 3),
        nn.LeakyReLU(-0.25),
        nn.Linear(3, 3),
    ],
    "prelu": lambda: [nn.Linear(3, 4), nn.PReLU(4), nn.Linear(4, 2)],
    "absolute": lambda: [nn.Linear(2, 4), Absolute(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)],
    "clamped": lambda: [
        nn.Linear(2, 5),
        nn.Hardtanh(-1.0, 2.0),
        nn.Linear(5, 4),
        nn.Hardtanh(0.0, 6.0),
        nn.Linear(4, 3),
    ],
    "max-pool": lambda: [nn.Linear(3, 6), nn.ReLU(), Pool("max", 3), nn.Linear(4, 3)],
    "pool-first": lambda: [
        Pool("max", 2),
        nn.Linear(3, 4),
        nn.ReLU(),
        Pool("max", 2),
        nn.Linear(3, 2),
    ],
    "mean-pool": lambda: [nn.Linear(2, 6), nn.ReLU(), Pool("mean", 3), nn.ReLU(), nn.Linear(4, 3)],
    "residual": lambda: [
        nn.Linear(2, 3),
        Residual(nn.Sequential(nn.ReLU(), nn.Linear(3, 3))),
        nn.ReLU(),
        nn.Linear(3, 3),
    ],
    "no-hidden": lambda: [nn.Linear(3, 4)],
}
RAYS = 6


def nasty(architecture: str, rng: np.random.Generator) -> nn.Sequential:
    """A network with weights that provoke ties, dead layers and extreme scales."""
    module = nn.Sequential(*ARCHITECTURES[architecture]()).double()
    for part in module.modules():
        if isinstance(part, nn.PReLU):
            part.weight.data = torch.from_numpy(rng.choice([0.0, 0.25, 1.0, -0.5, 0.1], 4))
        if not isinstance(part, nn.Linear):
            continue
        kind = rng.choice(["small integers", "gaussian", "scales", "mixed"])
        shape = tuple(part.weight.shape)
        if kind == "small integers":
            weight = rng.integers(-2, 3, shape).astype(float)
            bias = rng.integers(-2, 3, shape[0]).astype(float)
        else:
            weight, bias = rng.normal(size=shape), rng.normal(size=shape[0])
        if kind == "scales":
            weight *= 10.0 ** rng.integers(-30, 31, shape)
            bias *= 10.0 ** rng.integers(-30, 31, shape[0])
        if kind == "mixed":
            weight *= rng.integers(0, 2, shape)
        for disease in rng.choice(
            ["zero column", "duplicate row", "opposite row", "dead", "no bias", "none"], 2
        ):
            if disease == "zero column":
                weight[:, rng.integers(shape[1])] = 0
            elif disease == "duplicate row":
                weight[-1], bias[-1] = weight[0], rng.choice([bias[0], bias[-1]])
            elif disease == "opposite row":
                weight[-1], bias[-1] = -weight[0], -bias[0]
            elif disease == "dead":
                weight, bias = -np.abs(weight), -np.abs(bias)
            elif disease == "no bias":
                bias = bias * 0
        part.weight.data, part.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
    return module


def nasty_rays(inputs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    origin = rng.integers(-2, 3, (RAYS, inputs)).astype(float)
    direction = np.concatenate(
        [
            np.eye(inputs)[[0]],
            -np.eye(inputs)[[-1]],
            np.ones((1, inputs)),
            rng.integers(-2, 3, (1, inputs)),
            rng.normal(size=(1, inputs)),
            rng.normal(size=(1, inputs)) * 10.0 ** rng.integers(-30, 31, (1, inputs)),
        ]
    ).astype(float)
    origin[-2:] = rng.normal(size=(2, inputs))
    direction[(direction == 0).all(axis=1)] = 1.0
    return origin, direction
