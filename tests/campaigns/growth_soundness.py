"""Certified series against arithmetic of many digits, for as long as one likes.

``make growth-soundness NETWORKS=20000 SEED=1`` draws small networks that mix all kinds of
operations that change growth with kinks, maxima, choices and smooth functions, with ordinary,
whole, sparse and tied weights, follows rays with ``certify=True``, and evaluates the same networks
with many digits far out, at as many points as there are orders. Whatever is certified must be what
these values say: the coefficients, which classes lead, and which of those is largest.

A wrong ray is printed with the seed of its network, which repeats it, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention
from flint import arb, arb_mat, ctx
from torch import Tensor, nn

import farfield as ff
from campaigns.drawing import HARMLESS, _rays, _weights
from campaigns.exact_numbers import Array, Numbers
from campaigns.exact_operations import evaluate
from farfield.errors import NumericalOverflow, UnsupportedOperation
from farfield.graph.network import InstanceGroup, Network

WIDTH, CLASSES, RAYS = 4, 3, 2
# How far out the referee goes, with how many bits, what it takes for equal, and for known.
FAR, BITS, SMALL, KNOWN = 150, 2400, arb(2) ** -60, arb(2) ** -70
# How many networks are made of one architecture: reading a model takes longest.
EACH = 50


def tokens(x: Tensor) -> Tensor:
    return x.view(-1, 2, 2)


def length(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=1, keepdim=True)


def normed(x: Tensor) -> Tensor:
    return F.layer_norm(x, (WIDTH,))


def recurrent(layer: Any, rows: int, states: int, width: int) -> Any:
    """A layer of PyTorch's own, both ways over two steps, with the weights of two affine maps."""

    def block(x: Tensor, f: nn.Linear, g: nn.Linear) -> Tensor:
        into, back = f.weight[:rows], g.weight[:rows]
        offsets = [f.bias[:rows], g.bias[:rows]]
        forth = [into[:, :2], back[:, :width], *offsets]
        forth += [into[:, 2:], back[:, 2 : 2 + width], *offsets]
        rest = x.new_zeros(2, x.shape[0], width)
        start = rest if states == 1 else (rest, rest)
        return layer(tokens(x), start, forth, True, 1, 0.0, False, True, True)[0].flatten(1)

    return block


# What each does with a value and two affine maps.
BLOCKS: dict[str, Any] = {
    "affine": lambda x, f, g: f(x),
    "relu": lambda x, f, g: f(x).relu(),
    "leaky": lambda x, f, g: F.leaky_relu(f(x), 0.1),
    "abs": lambda x, f, g: f(x).abs(),
    "clamp": lambda x, f, g: f(x).clamp(-1.0, 2.0),
    "largest": lambda x, f, g: torch.maximum(f(x), g(x)),
    "pool": lambda x, f, g: f(x) + g(x).amax(1, keepdim=True),
    "where": lambda x, f, g: torch.where(f(x) > 0.0, g(x), x),
    "sigmoid": lambda x, f, g: torch.sigmoid(f(x)),
    "tanh": lambda x, f, g: torch.tanh(f(x)) + g(x),
    "gelu": lambda x, f, g: F.gelu(f(x)),
    "silu": lambda x, f, g: F.silu(f(x)),
    "softplus": lambda x, f, g: F.softplus(f(x)),
    "layer norm": lambda x, f, g: normed(f(x)),
    "rms norm": lambda x, f, g: F.rms_norm(f(x), (WIDTH,), eps=1e-6),
    "post norm": lambda x, f, g: normed(x + f(x).relu()),
    "pre norm": lambda x, f, g: x + g(F.gelu(f(normed(x)))),
    "softmax": lambda x, f, g: torch.softmax(f(x), 1),
    "mixture": lambda x, f, g: torch.softmax(f(x), 1) * g(x),
    "product": lambda x, f, g: f(x) * g(x),
    "square": lambda x, f, g: f(x) ** 2,
    "gate": lambda x, f, g: f(x) * torch.sigmoid(g(x)),
    "quotient": lambda x, f, g: f(x) / (1.0 + g(x) ** 2),
    "root": lambda x, f, g: (1.0 + f(x) ** 2).sqrt(),
    "inverse root": lambda x, f, g: f(x) * (1.0 + g(x) ** 2).rsqrt(),
    "direction": lambda x, f, g: f(x) / length(g(x)),
    "bump": lambda x, f, g: (-(f(x) ** 2)).exp() + g(x),
    "logarithm": lambda x, f, g: normed(f(x)).square().log1p(),
    "log softmax": lambda x, f, g: torch.log_softmax(f(x), 1),
    "cube root": lambda x, f, g: (1.0 + f(x).abs() ** 3) ** (1 / 3),
    "three": lambda x, f, g: torch.einsum("bi,bj,bj->bi", f(x), g(x), x),
    "best": lambda x, f, g: g(x) + x.gather(1, f(x).argmax(1, keepdim=True)),
    "in order": lambda x, f, g: g(x).gather(1, f(x).topk(WIDTH, 1).indices),
    "attention": lambda x, f, g: F.scaled_dot_product_attention(
        tokens(f(x)), tokens(g(x)), tokens(x)
    ).flatten(1),
    "lstm": recurrent(torch.lstm, 4, 2, 1),
    "gru": recurrent(torch.gru, 3, 1, 1),
    "rnn": recurrent(torch.rnn_relu, 1, 1, 1),
}
# These double orders: not too many of them in a row.
DOUBLES = {"product", "square", "three"}
# These change no growth.
PLAIN = {"affine", "relu", "leaky", "abs", "clamp", "largest", "pool", "where"} | {
    "sigmoid",
    "tanh",
    "gelu",
    "silu",
    "softplus",
    "best",
}


class Mixed(nn.Module):
    """A row of blocks, and a last layer."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names
        self.maps = nn.ModuleList(
            nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(2 * len(names))
        )
        self.last = nn.Linear(WIDTH, CLASSES, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        for place, name in enumerate(self.names):
            x = BLOCKS[name](x, self.maps[2 * place], self.maps[2 * place + 1])
        return self.last(x)


def architecture(seed: str) -> tuple[str, ...]:
    """Two to four blocks, of which one changes growth: others have a campaign of their own."""
    rng = random.Random(seed)
    while True:
        names = tuple(rng.choices(sorted(BLOCKS), k=rng.randint(2, 4)))
        if sum(name in DOUBLES for name in names) <= 2 and not PLAIN.issuperset(names):
            return names


@functools.lru_cache(maxsize=16)
def read(names: tuple[str, ...]) -> Network:
    """Capture an architecture; its weights are drawn later."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ff.capture(Mixed(names), torch.zeros(1, WIDTH, dtype=torch.float64))


@dataclasses.dataclass
class Tally:
    """What a campaign has seen."""

    networks: int = 0
    rays: int = 0
    certified: int = 0
    refused: int = 0
    unjudged: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)
    blocks: Counter[str] = dataclasses.field(default_factory=Counter)


def drawn(seed: str, names: tuple[str, ...]) -> tuple[Network, Array, Array]:
    """An architecture with weights and rays."""
    rng = np.random.default_rng(list(seed.encode()))
    network = read(names)
    (group,) = network.groups
    kind = str(rng.choice(HARMLESS))
    weights = _weights(group.shared, kind, rng)
    made = dataclasses.replace(network, groups=(InstanceGroup.of(group.program, [weights]),))
    return made, *_rays(kind, RAYS, rng)


def run_network(seed: str, tally: Tally, names: tuple[str, ...] | None = None) -> None:
    """Follow the rays of one network, and hold what is certified against the referee."""
    names = names or architecture(seed.rpartition("/")[0])
    try:
        network, origins, directions = drawn(seed, names)
        far = ff.at_infinity(network, origins, directions, certify=True, undecided="mark")
    except (UnsupportedOperation, NumericalOverflow):
        tally.refused += 1
        return
    certified = far.certified[0].numpy()
    tally.networks += 1
    tally.rays += len(origins)
    tally.certified += int(certified.sum())
    if certified.any():
        tally.blocks.update(names)
        judge(far, network, origins, directions, certified, f"{names} seed={seed!r}", tally)


def judge(
    far: Any,
    network: Network,
    origins: Array,
    directions: Array,
    certified: Array,
    said: str,
    tally: Tally,
) -> None:
    """Compare coefficients, leaders and winners."""
    order = max(int(far.order.max()), 0)
    old, ctx.prec = ctx.prec, BITS
    try:
        exact = coefficients(network, origins, directions, order)
        found = dict(zip(far.powers, [] if far.growth is None else far.growth, strict=True))
        found |= {1.0: far.slope, 0.0: far.intercept}
        for ray in np.flatnonzero(certified):
            rows = [[exact[k][ray][i] for i in range(CLASSES)] for k in range(order + 1)]
            if not all(value.rad() < KNOWN * (1 + abs(value)) for row in rows for value in row):
                tally.unjudged += 1
                continue
            mine = [
                found.get(float(power), torch.zeros_like(far.slope))[0, ray].tolist()
                for power in range(order, -1, -1)
            ]
            for what in disagreements(rows, mine, far.leading[0, ray], int(far.winner[0, ray])):
                tally.wrong.append(f"{said} ray {ray}: {what}")
    finally:
        ctx.prec = old


def coefficients(network: Network, origins: Array, directions: Array, order: int) -> Any:
    """Those of all orders down to 0, ``[order][ray][class]``, but for what falls like ``1 / t``."""
    numbers = Numbers("balls")
    start, way = (numbers.array(torch.from_numpy(each)) for each in (origins, directions))
    points = [arb(2) ** (FAR + place) for place in range(order + 1)]
    rows = np.concatenate([start + way * t for t in points])
    (group,) = network.groups
    values = evaluate(group.program, group.instance(0), rows, numbers).reshape(len(points), -1)
    powers = arb_mat([[t**power for power in range(order, -1, -1)] for t in points])
    solved = powers.solve(arb_mat(values.tolist()))
    return [
        [[solved[k, ray * CLASSES + i] for i in range(CLASSES)] for ray in range(len(origins))]
        for k in range(order + 1)
    ]


def disagreements(rows: Any, mine: Any, leading: Tensor, winner: int) -> list[str]:
    """In what a ray differs from the referee."""
    wrong, leads = [], [True] * CLASSES
    for place, (exact, found) in enumerate(zip(rows, mine, strict=True)):
        room = 1e-6 * (1 + max(abs(float(value)) for value in exact))
        if any(abs(float(e) - f) > room for e, f in zip(exact, found, strict=True)):
            wrong.append(f"order {len(rows) - 1 - place} is {[float(e) for e in exact]}")
        if place < len(rows) - 1:
            top = max((e for e, lead in zip(exact, leads, strict=True) if lead), key=float)
            leads = [
                lead and bool(top - e < SMALL * (1 + abs(top)))
                for e, lead in zip(exact, leads, strict=True)
            ]
    if leads != leading.tolist():
        wrong.append(f"leading classes are {leads}")
    last = rows[-1]
    if any(lead and last[i] - last[winner] > SMALL for i, lead in enumerate(leads)):
        wrong.append(f"{winner} does not win")
    return wrong


def summary(tally: Tally) -> str:
    return (
        f"{tally.networks:,} networks, {tally.certified:,} certified of {tally.rays:,} rays, "
        f"{tally.refused:,} networks refused, {tally.unjudged:,} rays not judged, "
        f"{len(tally.blocks)} of {len(BLOCKS)} blocks, {len(tally.wrong)} wrong"
    )


def campaign(base: str, networks: int, tally: Tally, first: int = 0) -> None:
    """Run until there were so many networks, or a ray is wrong."""
    told = time.monotonic()
    for number in range(first, first + 10 * networks):
        run_network(f"{base}/{number // EACH}/{number}", tally)
        if tally.wrong or tally.networks >= networks:
            return
        if time.monotonic() > told + 60:
            told = time.monotonic()
            print(summary(tally), flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--networks", type=int, default=1000, help="how many")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)))
    parser.add_argument("--first", type=int, default=0, help="begin at this one")
    parser.add_argument("--case", metavar="SEED", help="repeat one network")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tally = Tally()
    if options.case:
        run_network(options.case, tally)
    else:
        print(f"seed {options.seed}", flush=True)
        campaign(options.seed, options.networks, tally, options.first)
    for line in tally.wrong[:20]:
        print("WRONG", line)
    print(summary(tally))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
