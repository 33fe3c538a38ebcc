"""Hein et al. 2019, Table 2, on the authors' networks: exact crossings beside bisection.

Every finished image is one line of ``results/table_two.jsonl``; a run that was interrupted goes on
from there, and ``TABLE_TWO_MINUTES`` ends one early. ``TABLE_TWO_NETWORKS`` names those to work on,
so that several processes can share the work. Images are taken in turn from each network, so that
any part of the work is a table. Proofs of row two are for the networks that need them: where every
sampled image has a witness there is nothing to prove.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from scipy.stats import binom

import farfield as ff
from benchmarks.missing import NotHere
from farfield.evaluate import clopper_pearson
from farfield.networks.resnet import read_hein2019
from farfield.reproduce.hein_published import TABLE_2

QUESTION = (
    "Uniform images x in [0, 1] through the authors' networks. Row one: the smallest alpha >= 1 "
    "with 99.9% confidence on alpha * x, exact, and by bisection. Row two: the share of images "
    "for which some alpha >= 1 has more than 95% on alpha * x clipped to [0, 1]."
)
TARGETS: dict[str, str] = {}
NETWORKS = ("cifar10-plain", "cifar10-acet", "svhn-plain", "svhn-acet")
HERE = Path(__file__).parent / "results" / "table_two.jsonl"
EXACT, SAMPLE = 16, 1000
# Images of which a grid shows no witness of row two: is there really none? In plain networks every
# image has one.
PROOFS = {"cifar10-acet": (0, 1, 2, 3), "svhn-acet": (8, 9, 11)}
HIGH, CLIPPED_HIGH = 0.999, 0.95
# Row two: a grid of the first many places over so many decades, then rounds of closer ones.
CLIPPED_PLACES, CLIPPED_DECADES, CLIPPED_CLOSER, CLIPPED_ROUNDS = 128, 4, 24, 2
INF = math.inf
# Bisection ends at this relative width; a larger difference counts as wrong.
TOLERANCE = 1e-3
LARGEST = 2.0**12
BATCH = 100
Key = tuple[str, str, int]


def measure() -> dict[str, Any]:
    """Do what is left to do, then put the table together."""
    folder = Path(os.environ.get("FARFIELD_DATA", "")) / "hein2019"
    if not folder.is_dir():
        raise NotHere("set FARFIELD_DATA to a folder that has hein2019/*.npz")
    done = _read()
    minutes = float(os.environ.get("TABLE_TWO_MINUTES", "inf"))
    if minutes > 0:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            _work(folder, done, time.perf_counter() + 60 * minutes)
        finally:
            torch.set_num_threads(threads)
    return {name: _table(name, done) for name in NETWORKS}


def _work(folder: Path, done: dict[Key, dict[str, Any]], end: float) -> None:
    """Take one task after another until the time is up."""
    wanted = os.environ.get("TABLE_TWO_NETWORKS", ",".join(NETWORKS)).split(",")
    models = {name: read_hein2019(folder / f"{name}.npz") for name in wanted}
    captured = {
        name: ff.capture(model, torch.zeros(1, 3, 32, 32)) for name, model in models.items()
    }
    for key, task in _tasks(models, captured):
        if key in done:
            continue
        if time.perf_counter() > end:
            break
        start, used = time.perf_counter(), time.process_time()
        record = {**dict(zip(("network", "task", "seed"), key, strict=True)), **task()}
        record["seconds"] = round(time.perf_counter() - start, 2)
        record["cpu_seconds"] = round(time.process_time() - used, 2)
        _append(record)
        done[key] = record


def _tasks(
    models: dict[str, torch.nn.Module], captured: dict[str, ff.Network]
) -> Iterator[tuple[Key, Callable[[], dict[str, Any]]]]:
    """Everything there is to do, in order."""
    for name, model in models.items():
        yield (name, "bisection", -1), lambda m=model: _bisections(m)
        yield (name, "clipped", -1), lambda m=model: _clipped(m)
    for seed in range(EXACT):
        for name, network in captured.items():
            yield (name, "exact", seed), lambda n=network, s=seed: _exact(n, s)
    for name, seeds in PROOFS.items():
        for seed in seeds if name in captured else ():
            yield (name, "proof", seed), lambda n=captured[name], s=seed: _proof(n, s)


def image(seed: int) -> torch.Tensor:
    """A uniform image."""
    return torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(seed))


def _sample() -> torch.Tensor:
    return torch.rand(SAMPLE, 3, 32, 32, generator=torch.Generator().manual_seed(2019))


def _exact(network: ff.Network, seed: int) -> dict[str, Any]:
    x = image(seed).double()
    # The ray x + t x is (1 + t) x, so that t = 0 is alpha = 1.
    found = ff.first_reaching(network, x, x, HIGH)
    return {"alpha": _finite_or_none(1 + found.t), **_cost(found)}


def _proof(network: ff.Network, seed: int) -> dict[str, Any]:
    x = image(seed).double()
    found = ff.first_reaching(network, x, x, CLIPPED_HIGH, box=ff.Box(0.0, 1.0), leaving="project")
    return {"alpha": _finite_or_none(1 + found.t), **_cost(found)}


def _cost(found: ff.FirstReaching) -> dict[str, Any]:
    return {
        "forward_passes": round(found.forward_passes, 1),
        "pieces": found.pieces,
        "skipped": found.skipped,
        "walked": found.walked,
    }


def _confidence(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        parts = [torch.softmax(model(part), dim=1).amax(dim=1) for part in rows.split(BATCH)]
    return torch.cat(parts)


def _scaled(rows: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    return alpha.reshape(-1, 1, 1, 1).float() * rows


def bisect(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Double alpha until the confidence is there, then bisect; infinite beyond 4,096."""
    high = torch.ones(len(rows), dtype=torch.float64)
    low = high.clone()
    reached = _confidence(model, rows) >= HIGH
    while bool((~reached & (high < LARGEST)).any()):
        open_ = torch.nonzero(~reached & (high < LARGEST)).flatten()
        low[open_], high[open_] = high[open_], 2 * high[open_]
        reached[open_] = _confidence(model, _scaled(rows[open_], high[open_])) >= HIGH
    while bool(((high - low > TOLERANCE / 4 * low) & reached).any()):
        open_ = torch.nonzero((high - low > TOLERANCE / 4 * low) & reached).flatten()
        middle = (low[open_] + high[open_]) / 2
        there = _confidence(model, _scaled(rows[open_], middle)) >= HIGH
        high[open_] = torch.where(there, middle, high[open_])
        low[open_] = torch.where(there, low[open_], middle)
    return torch.where(reached, high, torch.inf)


def _bisections(model: torch.nn.Module) -> dict[str, Any]:
    """Bisection on a sample and on the images of the exact search; earlier crossings on a grid."""
    own = torch.stack([image(seed) for seed in range(EXACT)])
    rows = _sample()
    alpha = bisect(model, rows)
    earlier = torch.zeros(len(rows), dtype=torch.bool)
    for share in torch.linspace(0.02, 0.98, 25):
        open_ = torch.nonzero(~earlier & torch.isfinite(alpha) & (alpha > 1)).flatten()
        places = alpha[open_] ** float(share)
        early = _confidence(model, _scaled(rows[open_], places)) >= HIGH
        earlier[open_] = early & (places < alpha[open_] * (1 - TOLERANCE))
    return {
        "sample": _finite(alpha),
        "earlier": int(earlier.sum()),
        "own": _finite(bisect(model, own)),
    }


def _clipped(model: torch.nn.Module) -> dict[str, Any]:
    """Look for witnesses of row two: on a grid, then closer to the best place of each path."""
    rows = _sample()
    places = torch.cat([torch.logspace(0, CLIPPED_DECADES, CLIPPED_PLACES), torch.tensor([INF])])
    places = places.repeat(len(rows), 1)
    counts = []
    for _ in range(1 + CLIPPED_ROUNDS):
        values = _path_confidence(model, rows, places)
        kept = values.amax(dim=1) <= CLIPPED_HIGH
        counts.append(SAMPLE - int(kept.sum()))
        rows, places = rows[kept], _closer(places[kept], values[kept].argmax(dim=1))
    return {"witnessed": counts[-1], "after_each_round": counts, "images": SAMPLE}


def _path_confidence(
    model: torch.nn.Module, rows: torch.Tensor, places: torch.Tensor
) -> torch.Tensor:
    """Confidence on clipped paths, ``(rows, places)``; zero behind the first witness."""
    values = torch.zeros(places.shape)
    for column in range(places.shape[1]):
        open_ = torch.nonzero(values.amax(dim=1) <= CLIPPED_HIGH).flatten()
        if not len(open_):
            break
        scaled = _scaled(rows[open_], places[open_, column])
        part = torch.where(rows[open_] > 0, scaled.clamp(0, 1), 0.0)
        values[open_, column] = _confidence(model, part)
    return values


def _closer(places: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """As many places between the neighbours of the best one, in equal ratios."""
    last = places.shape[1] - 1
    end = 10.0 ** (CLIPPED_DECADES + 1)
    low = places.gather(1, (best - 1).clamp(min=0)[:, None]).clamp(max=end)
    high = places.gather(1, (best + 1).clamp(max=last)[:, None]).clamp(max=end)
    return low * (high / low) ** torch.linspace(0, 1, CLIPPED_CLOSER)


def _finite(values: torch.Tensor) -> list[float | None]:
    return [_finite_or_none(round(v, 6)) for v in values.tolist()]


def _finite_or_none(value: float) -> float | None:
    """JSON knows no infinity."""
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def _read() -> dict[Key, dict[str, Any]]:
    """Finished images; a line that was cut off counts as not finished."""
    done: dict[Key, dict[str, Any]] = {}
    if HERE.is_file():
        for line in HERE.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            done[record["network"], record["task"], record["seed"]] = record
    return done


def _append(record: dict[str, Any]) -> None:
    HERE.parent.mkdir(exist_ok=True)
    cut = HERE.is_file() and not HERE.read_bytes().endswith(b"\n")
    with HERE.open("a", encoding="utf-8") as file:
        file.write(("\n" if cut else "") + json.dumps(record) + "\n")


def _table(name: str, done: dict[Key, dict[str, Any]]) -> dict[str, Any]:
    exact = [r for (who, task, _), r in done.items() if (who, task) == (name, "exact")]
    proofs = [r for (who, task, _), r in done.items() if (who, task) == (name, "proof")]
    sampled, clipped = done.get((name, "bisection", -1)), done.get((name, "clipped", -1))
    alpha, percent = TABLE_2[name]
    table: dict[str, Any] = {"paper": {"median_alpha": alpha, "share": round(percent / 100, 3)}}
    if exact:
        table["row_one_exact"] = _row_one(exact, sampled)
    if sampled is not None:
        alphas = [_number(a) for a in sampled["sample"]]
        earlier = clopper_pearson(sampled["earlier"], len(alphas))
        table["row_one_bisection"] = {
            "images": len(alphas),
            **_median(alphas),
            "share_with_a_witness_of_an_earlier_crossing": _interval(earlier),
            "never_reached_up_to_4096": sum(math.isinf(a) for a in alphas),
        }
    if clipped is not None:
        share = clopper_pearson(clipped["witnessed"], clipped["images"])
        table["row_two_witnessed"] = {"images": clipped["images"], **_interval(share)}
    if proofs:
        yes = sum(math.isfinite(_number(r["alpha"])) for r in proofs)
        table["row_two_exact"] = {
            "images": len(proofs),
            "exceed": yes,
            "proven_never_to_exceed": len(proofs) - yes,
            **_costs(proofs),
        }
    records = [r for (who, _, _), r in done.items() if who == name]
    table["cpu_seconds"] = round(sum(r["cpu_seconds"] for r in records), 1)
    return table


def _row_one(exact: list[dict[str, Any]], sampled: dict[str, Any] | None) -> dict[str, Any]:
    alphas = [_number(r["alpha"]) for r in exact]
    row = {"images": len(exact), **_median(alphas), **_costs(exact)}
    if sampled is not None:
        own = {r["seed"]: sampled["own"][r["seed"]] for r in exact}
        pairs = [(_number(r["alpha"]), _number(own[r["seed"]])) for r in exact]
        row["bisection_on_the_same"] = _median([b for _, b in pairs])
        row["bisection_wrong"] = sum(b > a * (1 + TOLERANCE) for a, b in pairs)
        row["largest_ratio"] = max(b / a for a, b in pairs if math.isfinite(b))
    row["alphas"] = {str(r["seed"]): _finite_or_none(_number(r["alpha"])) for r in exact}
    return row


def _median(values: list[float]) -> dict[str, Any]:
    """The median, and an interval for it that two order statistics give."""
    ordered, count = sorted(values), len(values)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    # P(fewer than k of n are below the median) <= 2.5%.
    rank = int(binom.ppf(0.025, count, 0.5))
    while rank > 0 and binom.cdf(rank - 1, count, 0.5) > 0.025:
        rank -= 1
    interval = [ordered[rank - 1], ordered[count - rank]] if rank > 0 else None
    return {"median": middle, "interval_95": interval}


def _costs(records: list[dict[str, Any]]) -> dict[str, Any]:
    def mean(key: str) -> float:
        return round(sum(r[key] for r in records) / len(records), 1)

    return {
        "mean_forward_passes": mean("forward_passes"),
        "mean_pieces_followed": mean("pieces"),
        "mean_windows_skipped": mean("skipped"),
        "mean_cpu_seconds": mean("cpu_seconds"),
    }


def _interval(estimate: Any) -> dict[str, float]:
    return {"share": estimate.value, "low": estimate.low, "high": estimate.high}
