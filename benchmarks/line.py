"""How long does the exact restriction of a network to a line take?"""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import farfield as ff
from farfield.exact.ray.line import along
from farfield.exact.ray.lines import Lines
from farfield.networks.lenet import lenet

QUESTION = (
    "All pieces of a 2-25-25-25-1 network on one ray to infinity (about 70), of 1,000 such rays "
    "together, and of a LeNet on the segment between two uniform images: how long, on one thread? "
    "And a straightforward numpy walk along the same rays, one by one?"
)
TARGETS = {
    "one_ray_milliseconds": "<= 3",
    "batch_milliseconds_per_ray": "<= 0.3",
    "lenet_seconds": "<= 8",
}
Floats = NDArray[np.float64]


def network(seed: int = 0, hidden: tuple[int, ...] = (25, 25, 25)) -> nn.Sequential:
    """A random ReLU network of two inputs and one logit, in float64."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((2, *hidden, 1)):
        layer = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float64)
        layer.weight.data.normal_(0, (2 / inputs) ** 0.5, generator=generator)
        layer.bias.data.normal_(0, 0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def plain_walk(module: nn.Sequential, origin: Floats, direction: Floats, stop: float) -> Floats:
    """The straightforward way for one segment: knots so far, layer by layer, in numpy."""
    t = np.array([0.0, stop])
    rows = origin + t[:, None] * direction
    for layer in module:
        if isinstance(layer, nn.Linear):
            rows = rows @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
            continue
        piece, unit = np.nonzero(rows[:-1] * rows[1:] < 0)
        low, high = rows[piece, unit], rows[piece + 1, unit]
        share = low / (low - high)
        new = rows[piece] + share[:, None] * (rows[piece + 1] - rows[piece])
        new[np.arange(len(piece)), unit] = 0.0
        t = np.concatenate([t, t[piece] + share * (t[piece + 1] - t[piece])])
        order = np.argsort(t)
        t, rows = t[order], np.maximum(np.concatenate([rows, new])[order], 0.0)
    return t


def timed(call: Callable[[], object], repeats: int) -> float:
    """The median time of a call, in seconds."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(repeats: int = 15) -> dict[str, float | int]:
    """Measure on one thread; the number of threads is put back afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {**small(repeats), **large()}
    finally:
        torch.set_num_threads(threads)


def small(repeats: int) -> dict[str, float | int]:
    """One ray and a thousand through a small network, to infinity and in numpy to the last knot."""
    module = network()
    captured = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    generator = torch.Generator().manual_seed(1)
    origin, direction = torch.randn(2, 1000, 2, generator=generator, dtype=torch.float64)
    lines = along(captured, origin, direction)
    counts = lines.counts[0]
    ray = int((counts - 70).abs().argmin())
    one = (origin[ray].numpy(), direction[ray].numpy(), 2 * float(lines[ray].breakpoints[-1]))
    if len(plain_walk(module, *one)) - 1 != int(counts[ray]):
        raise AssertionError("the plain walk finds another number of pieces")
    batch: Callable[[], Lines] = lambda: along(captured, origin, direction)  # noqa: E731
    # Seconds for a thousand rays are milliseconds for one.
    return {
        "one_ray_pieces": int(counts[ray]),
        "one_ray_milliseconds": 1e3 * timed(lambda: along(captured, *one[:2]), repeats),
        "one_ray_numpy_milliseconds": 1e3 * timed(lambda: plain_walk(module, *one), repeats),
        "batch_mean_pieces": float(counts.double().mean()),
        "batch_milliseconds_per_ray": timed(batch, 3),
        "batch_first_reaching_milliseconds_per_ray": timed(
            lambda: batch().first_reaching(0.999), 3
        ),
    }


def large() -> dict[str, float | int]:
    """A LeNet between two uniform images; one forward pass of a single image for scale."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        captured = ff.capture(lenet(), torch.zeros(1, 1, 28, 28))
    first, second = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0)).double()
    start = time.perf_counter()
    pieces = int(along(captured, first, second - first, 1.0).counts)
    seconds = time.perf_counter() - start
    batch = torch.rand(64, 1, 28, 28, generator=torch.Generator().manual_seed(1)).double()
    forward = timed(lambda: captured.logits(batch), 3) / 64
    return {
        "lenet_pieces": pieces,
        "lenet_seconds": seconds,
        "lenet_forward_milliseconds": 1e3 * forward,
        "lenet_forward_passes_per_piece": seconds / pieces / forward,
    }


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:42} {value:.4g}")
