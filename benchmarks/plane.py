"""How long do the exact regions of a plane take, next to clipping polygon by polygon?"""

import itertools
import time
from collections.abc import Callable

import torch
from torch import nn

import farfield as ff
from benchmarks.clipper import regions
from farfield.exact.planar.plane import slice_plane

QUESTION = (
    "All polygons of a 2-25-25-25-1 network in [-5, 5]^2, about 2,200, on one thread: how many "
    "seconds, and how many times faster than a straightforward numpy clipper?"
)
TARGETS = {"seconds": "<= 0.05", "area_error": "<= 1e-9", "missing": "<= 0"}
# He-normal weights and standard normal biases; this seed gives a count near that of the question.
SEED = 5


def network(seed: int = SEED, hidden: tuple[int, ...] = (25, 25, 25)) -> nn.Sequential:
    """A random ReLU network of two inputs and one logit, in float64."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise((2, *hidden, 1)):
        layer = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float64)
        layer.weight.data.normal_(0, (2 / inputs) ** 0.5, generator=generator)
        layer.bias.data.normal_(0, 1, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def best(call: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, in seconds."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(repeats: int = 15) -> dict[str, float | int]:
    """Time both on one thread; they must agree on the number of polygons."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        module = network()
        captured = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
        frame = ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0], 5.0)
        plane = slice_plane(captured, *frame)
        layers = [
            (part.weight.detach().numpy(), part.bias.detach().numpy())
            for part in module
            if isinstance(part, nn.Linear)
        ]
        clipped = len(regions(layers, 5.0))
        seconds = best(lambda: slice_plane(captured, *frame), repeats)
        plain = best(lambda: regions(layers, 5.0), 2)
        boundaries = best(plane.boundaries, repeats)
    finally:
        torch.set_num_threads(threads)
    return {
        "polygons": len(plane),
        "polygons_by_clipper": clipped,
        "missing": abs(clipped - len(plane)),
        "area_error": abs(float(plane.areas.sum()) - 100.0) / 100.0,
        "seconds": seconds,
        "clipper_seconds": plain,
        "times_faster": plain / seconds,
        "boundary_seconds": boundaries,
    }


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:20} {value:.4g}")
