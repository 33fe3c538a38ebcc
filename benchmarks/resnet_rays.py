"""What does an exact first crossing cost on a network with 188,416 units?

Windows that provably hold no crossing are skipped. The images are the 16 of ``docs/results/
table_two.jsonl``. Following every piece instead, ``skip=False``, gives the same answers; what that
cost on two of them is kept in :data:`EVERY_PIECE`.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch

import farfield as ff
from benchmarks.missing import NotHere
from farfield.networks.resnet import read_hein2019

QUESTION = (
    "Uniform images scaled by alpha >= 1 through the authors' CIFAR-10 ResNet-20 (plain): the "
    "exact smallest alpha with 99.9% confidence (Hein et al. 2019, Table 2: median 8.1), at the "
    "price of how many forward passes? One thread. What following every piece took is not "
    "measured again: it was on the first two images, once, on another day."
)
TARGETS = {"mean_forward_passes": "<= 5000"}
# Those of Table 2; RESNET_RAYS_IMAGES says how many of them, if not all.
SEEDS = range(16)
CONFIDENCE = 0.999
# Measured once with skip=False: alpha, pieces, forward passes, seconds.
EVERY_PIECE = {
    0: (5.845220181266721, 46715, 26279.462860967018, 384.9),
    1: (10.319262092668428, 53097, 29785.67880494035, 384.3),
}


def measure() -> dict[str, Any]:
    """Follow each image until the confidence is reached; check with a grid."""
    path = Path(os.environ.get("FARFIELD_DATA", "")) / "hein2019" / "cifar10-plain.npz"
    if not path.is_file():
        raise NotHere("set FARFIELD_DATA to a folder that has hein2019/cifar10-plain.npz")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = ff.capture(read_hein2019(path), torch.zeros(1, 3, 32, 32))
        count = int(os.environ.get("RESNET_RAYS_IMAGES", len(SEEDS)))
        images = [_image(network, seed) for seed in SEEDS[:count]]
    finally:
        torch.set_num_threads(threads)
    plain = [EVERY_PIECE[seed][2] for seed in EVERY_PIECE]
    return {
        "mean_forward_passes": _mean([image["forward_passes"] for image in images]),
        "mean_cpu_seconds": _mean([image["cpu_seconds"] for image in images]),
        "mean_forward_passes_for_every_piece": _mean(plain),
        "images": images,
    }


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _image(network: ff.Network, seed: int) -> dict[str, Any]:
    x = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(seed)).double()
    start, used = time.perf_counter(), time.process_time()
    # The ray x + t x is (1 + t) x, so that t = 0 is alpha = 1.
    found = ff.first_reaching(network, x, x, CONFIDENCE)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    measured = {
        "seed": seed,
        "alpha": 1 + found.t,
        "first_of_a_grid_of_step_0.05": _on_a_grid(network, x, 1 + found.t),
        "windows_skipped": found.skipped,
        "pieces_followed": found.pieces,
        "forward_passes": found.forward_passes,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used, 1),
    }
    if seed in EVERY_PIECE:
        names = ("alpha", "pieces", "forward_passes", "seconds")
        measured["every_piece"] = dict(zip(names, EVERY_PIECE[seed], strict=True))
    return measured


def _on_a_grid(network: ff.Network, x: torch.Tensor, alpha: float) -> float:
    """The first grid point with the confidence: never before the exact answer."""
    grid = torch.arange(1.0, alpha + 0.1, 0.05, dtype=torch.float64)
    rows = grid[:, None, None, None] * x
    confidence = network.probabilities(rows)[0].amax(dim=-1)
    return float(grid[confidence >= CONFIDENCE][:1].sum())
