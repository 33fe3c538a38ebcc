"""What does a proof cost on real networks, next to one forward pass?"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

import farfield as ff
from benchmarks.missing import NotHere
from farfield.networks import read_hein2019

QUESTION = (
    "Six published ResNet-20, 64 uniform and 64 Gaussian rays each: what share is proven with "
    "certify=True, in how many forward passes of the same rays in the same type (CPU time, batches "
    "of the quickest size)?"
)
NAMES = ("plain", "ceda", "acet")
TARGETS = {"certified_share": ">= 1", "passes_per_ray": "<= 60"}
RAYS = 64
# Where proofs stop if they do not end by themselves.
BUDGET = ff.Passes(500)


def rays_of(shape: tuple[int, ...], count: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Uniform and Gaussian directions."""
    generator = torch.Generator().manual_seed(0)
    for kind, draw in (("uniform", torch.rand), ("gaussian", torch.randn)):
        yield kind, draw(count, *shape, generator=generator, dtype=torch.float64)


def proof(model: nn.Module, network: ff.Network, rays: torch.Tensor) -> tuple[float, float]:
    """The share of rays that is proven, and how many forward passes that takes."""
    origin = torch.zeros_like(rays[0])
    forward = min(_forward(model, rays, size) for size in (4, 8, 16, len(rays)))
    start = time.process_time()
    far = ff.at_infinity(network, origin, rays, certify=True, budget=BUDGET)
    spent = time.process_time() - start
    assert far.certified is not None
    return float(far.certified.double().mean()), spent / forward


def _forward(model: nn.Module, rays: torch.Tensor, size: int) -> float:
    """What a forward pass takes, so many rays at a time; the quicker of two."""
    best = float("inf")
    with torch.no_grad():
        for _ in range(2):
            start = time.process_time()
            for part in rays.split(size):
                model(part)
            best = min(best, time.process_time() - start)
    return best


def measure() -> dict[str, float]:
    """Prove the rays of all six."""
    folder = Path(os.environ.get("FARFIELD_DATA", "")) / "hein2019"
    if not folder.is_dir():
        raise NotHere("set FARFIELD_DATA to a folder that has hein2019")
    results: dict[str, float] = {}
    for data in ("cifar10", "svhn"):
        for name in NAMES:
            model = read_hein2019(folder / f"{data}-{name}.npz").double().eval()
            network = ff.capture(model, torch.zeros(1, 3, 32, 32, dtype=torch.float64))
            for kind, rays in rays_of((3, 32, 32), RAYS):
                share, passes = proof(model, network, rays)
                results[f"{data}_{name}_{kind}_share"] = share
                results[f"{data}_{name}_{kind}_passes"] = passes
    shares = [value for key, value in results.items() if key.endswith("_share")]
    passes = [value for key, value in results.items() if key.endswith("_passes")]
    return {
        "certified_share": min(shares),
        "passes_per_ray": sum(passes) / len(passes),
        "most_passes_of_a_family": max(passes),
        **results,
    }
