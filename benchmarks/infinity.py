"""What does the far field cost, next to one forward pass?"""

import itertools
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from torch import nn

import farfield as ff
from benchmarks.timing import in_turn
from farfield.networks.lenet import lenet

QUESTION = (
    "The far field of 4,000 rays, or of 16 through 10-20-3 (tiny): how many times the time of one "
    "plain forward pass of the same rows in the same type (float64), in batches of the quickest "
    "size? Ten instances against one at ten times the rays? How much memory for a million rays?"
)
TARGETS = {
    "mlp_large": "<= 2.5",
    "mlp_large_certified": "<= 5",
    "lenet": "<= 2.5",
    "lenet_certified": "<= 5",
    "mlp_small": "<= 6",
    "tiny": "<= 6",
    "ten_instances_over_one": "<= 1.5",
    "million_rays_gigabytes": "<= 2",
}
RAYS = 4000
# Rows that are evaluated at once: where a batch is large, some machines take most of the time to
# find memory for it.
SIZES = (16, 64, 500, RAYS)
MILLION = """
import torch, farfield as ff
from benchmarks.infinity import mlp, peak_gigabytes
network = ff.capture(mlp(30, 256, 256, 10), torch.zeros(1, 30))
rays = torch.randn(1_000_000, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
far = ff.at_infinity(network, torch.zeros(30, dtype=torch.float64), rays)
assert far.saturates.shape == (1, 1_000_000)
print(peak_gigabytes())
"""


def mlp(*sizes: int) -> nn.Sequential:
    """Build a ReLU network in float64 with seeded weights."""
    generator = torch.Generator().manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs, dtype=torch.float64)
        for parameter in layer.parameters():
            scale = inputs**-0.5
            parameter.data = torch.randn(parameter.shape, generator=generator).double() * scale
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def over_forward(
    model: nn.Module, shape: tuple[int, ...], repeats: int, rays: int = RAYS
) -> dict[str, float]:
    """Time the far field, certified or not, next to the model itself."""
    generator = torch.Generator().manual_seed(1)
    origin, direction = (
        torch.randn(rays, *shape, dtype=torch.float64, generator=generator) for _ in range(2)
    )
    network = ff.capture(model, origin[:1])

    def forward(size: int) -> None:
        with torch.no_grad():
            for rows in origin.split(size):
                model(rows)

    sizes = [size for size in SIZES if size <= rays]
    best = in_turn(
        {
            **{f"forward {size}": partial(forward, size) for size in sizes},
            "far": lambda: ff.at_infinity(network, origin, direction),
            "certified": lambda: ff.at_infinity(network, origin, direction, certify=True),
        },
        repeats,
    )
    quickest = min(best[f"forward {size}"] for size in sizes)
    return {
        "": best["far"] / quickest,
        "_certified": best["certified"] / quickest,
        "_forward_seconds": quickest,
    }


def measure() -> dict[str, float]:
    """Measure all of it."""
    results: dict[str, float] = {}
    for name, model, shape, repeats in (
        ("mlp_small", mlp(2, 25, 25, 25, 2), (2,), 300),
        ("mlp_large", mlp(784, 1024, 1024, 10), (784,), 7),
        ("lenet", lenet().double().eval(), (1, 28, 28), 4),
    ):
        ratios = over_forward(model, shape, repeats)
        results |= {f"{name}{suffix}": value for suffix, value in ratios.items()}
    tiny = over_forward(mlp(10, 20, 3), (10,), 2000, rays=16)
    results |= {f"tiny{suffix}": value for suffix, value in tiny.items()}
    results |= _instances()
    done = subprocess.run(
        [sys.executable, "-c", MILLION], capture_output=True, text=True, check=True
    )
    results["million_rays_gigabytes"] = float(done.stdout)
    return results


def peak_gigabytes() -> float:
    """The largest resident memory of this process (of Linux; getrusage counts the parent's too)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return float(line.split()[1]) * 1024 / 1e9


def _instances() -> dict[str, float]:
    models = [mlp(2, 25, 25, 25, 2) for _ in range(10)]
    for index, model in enumerate(models):
        for parameter in model.parameters():
            parameter.data += 0.01 * index
    origin = torch.zeros(2, dtype=torch.float64)
    rays = torch.randn(100_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ten, one = ff.capture(models, origin[None]), ff.capture(models[0], origin[None])
    best = in_turn(
        {
            "ten": lambda: ff.at_infinity(ten, origin, rays[:10_000]),
            "one": lambda: ff.at_infinity(one, origin, rays),
        },
        30,
    )
    return {
        "ten_instances_over_one": best["ten"] / best["one"],
        "one_instance_100000_rays_seconds": best["one"],
    }
