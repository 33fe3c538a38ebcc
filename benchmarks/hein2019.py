"""What do the networks of Hein et al. 2019 say at infinity?"""

import os
import time
from pathlib import Path
from typing import Any

import torch

import farfield as ff
from benchmarks.missing import NotHere
from farfield.networks.resnet import read_hein2019

QUESTION = (
    "The six published ResNet-20 networks of Hein et al. 2019 (plain, CEDA, ACET): on rays from "
    "the origin along uniform and Gaussian directions, how many saturate, in which class, and at "
    "which distance has the last unit settled?"
)
TARGETS: dict[str, str] = {}
NAMES = ("cifar10-plain", "cifar10-ceda", "cifar10-acet", "svhn-plain", "svhn-ceda", "svhn-acet")
RAYS = 64


def measure() -> dict[str, Any]:
    """Evaluate every network at infinity, with certificates."""
    folder = Path(os.environ.get("FARFIELD_DATA", "")) / "hein2019"
    if not folder.is_dir():
        raise NotHere("set FARFIELD_DATA to a folder that has hein2019/*.npz")
    return {name: _network(folder / f"{name}.npz") for name in NAMES}


def _network(path: Path) -> dict[str, Any]:
    model = read_hein2019(path)
    network = ff.capture(model, torch.zeros(1, 3, 32, 32))
    generator = torch.Generator().manual_seed(0)
    shape = (RAYS, 3, 32, 32)
    families = {
        "uniform": torch.rand(shape, generator=generator),
        "gaussian": torch.randn(shape, generator=generator),
    }
    return {name: _family(network, rays) for name, rays in families.items()}


def _family(network: ff.Network, directions: torch.Tensor) -> dict[str, Any]:
    start = time.perf_counter()
    origin = torch.zeros(3, 32, 32)
    far = ff.at_infinity(network, origin, directions, certify=True, budget=0)
    distance = far.distance(0.999)[0]
    return {
        "rays": len(far),
        "saturate": float(far.saturates.double().mean()),
        "proven": float(far.certified.double().mean()) if far.certified is not None else None,
        "classes": far.label.bincount(minlength=10).tolist(),
        "reach": _quantiles(far.reach[0]),
        "distance_to_0.999": _quantiles(distance),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _quantiles(values: torch.Tensor) -> dict[str, float]:
    return {
        "least": float(values.min()),
        "median": float(values.median()),
        "most": float(values.max()),
    }
