"""Table 2 of Hein et al.: how far uniform images must be scaled to 99.9% confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from farfield.levels import SURE
from farfield.report.figure import new_figure
from farfield.reproduce import hein_models as hein
from farfield.reproduce.drawing import tidy
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value
from farfield.reproduce.hein_exact import (
    OVERCONFIDENT,
    crossing_table,
    exact_stages,
    limit_table,
    proof_table,
    uniform_images,
)

NAME = "hein-table-2"
TITLE = "Scaling uniform images: the smallest factor with 99.9% confidence"
SOURCE = "Hein, Andriushchenko and Bitterwolf 2019, Table 2"
NEEDS = hein.NEEDS
LARGEST = 1e6
# Images in a step, and rows that go through a network at once.
CHUNK, BATCH = 250, 128


def settings(quick: bool, seed: int) -> Settings:
    """10,000 images per network; exact first crossings for some of them."""
    return {
        "seed": seed,
        "networks": [*hein.RESNETS, *hein.LENETS],
        "images": 10 if quick else 10_000,
        "exact_lenet": 1 if quick else 20,
        "exact_resnet": 0 if quick else 16,
        "proofs": 0 if quick else 4,
        "limit_rays": 8 if quick else 64,
        "chunk": CHUNK,
        "ratio": 1.35 if quick else 1.1,
        "lenet": hein.lenet_settings(quick, seed),
    }


def steps(settings: Settings, request: RunRequest) -> Sequence[Stage]:
    """Chunks of images for each network, then exact crossings and limits."""
    networks = settings["networks"]
    lenets = [name for name in networks if name in hein.LENETS]
    found = hein.lenet_steps(settings["lenet"], request) if lenets else []
    for name in networks:
        fixed = {"network": name, "seed": settings["seed"]}
        fixed |= {"lenet": settings["lenet"]} if name in hein.LENETS else {}
        needs = hein.needs_of(name)
        for start in range(0, settings["images"], CHUNK):
            count = min(CHUNK, settings["images"] - start)
            found.append(
                Stage(
                    f"{name}: images {start} to {start + count}",
                    {**fixed, "ratio": settings["ratio"]},
                    partial(_scan, name, start, count, settings, request),
                    needs=needs,
                )
            )
        found += exact_stages(name, settings, request, fixed, needs)
    return found


def _scan(
    name: str, start: int, count: int, settings: Settings, request: RunRequest, trained: Any = None
) -> Result:
    """First crossing of a grid of factors, refined; what bisection finds; clipped confidence."""
    model = hein.read_network(request, name, trained)
    images = uniform_images(name, start, count, settings["seed"])
    ratio = settings["ratio"]
    factors = ratio ** np.arange(int(np.ceil(np.log(LARGEST) / np.log(ratio))) + 1)
    grid = np.empty((len(factors), count))
    clipped = np.zeros(count)
    for row, factor in enumerate(factors):
        scaled = float(factor) * images
        grid[row] = confidence_of(model, scaled)
        # Beyond 1000 nearly all pixels are 1, and nothing changes any more.
        if factor <= 1000:
            clipped = np.maximum(clipped, confidence_of(model, scaled.clamp(0, 1)))
    reached = grid >= SURE
    first = np.where(reached.any(axis=0), reached.argmax(axis=0), len(factors))
    low = np.where(first == 0, 1.0, factors[np.maximum(first - 1, 0).clip(max=len(factors) - 1)])
    high = np.where(first < len(factors), factors[np.minimum(first, len(factors) - 1)], np.inf)
    return {
        "first": _bisect(model, images, low, high),
        "bisected": _bisect(model, images, np.ones(count), np.full(count, LARGEST)),
        "falls_back": (np.maximum.accumulate(reached, axis=0) & ~reached).any(axis=0),
        "clipped": clipped,
    }


def confidence_of(model: nn.Module, images: Tensor) -> Any:
    """Largest probability of each image, softmax in double precision."""
    with torch.inference_mode():
        parts = [
            torch.softmax(model(part).double(), dim=-1).amax(dim=-1)
            for part in torch.split(images, BATCH)
        ]
    return torch.cat(parts).numpy()


def _bisect(model: nn.Module, images: Tensor, low: Any, high: Any) -> Any:
    """Halve intervals of factors that end confident; infinite where they do not."""
    low, high = np.array(low, dtype=float), np.array(high, dtype=float)
    finite = np.isfinite(high)
    ends = np.where(finite, high, 1.0)
    shape = (-1, *[1] * (images.ndim - 1))
    scale = torch.from_numpy(ends.astype(np.float32)).reshape(shape)
    finite &= confidence_of(model, scale * images) >= SURE
    # Done at once where the first factor is enough already.
    start = torch.from_numpy(low.astype(np.float32)).reshape(shape)
    ends = np.where(confidence_of(model, start * images) >= SURE, low, ends)
    while bool((ends[finite] > 1.001 * low[finite]).any()):
        middle = np.sqrt(low * ends)
        scale = torch.from_numpy(middle.astype(np.float32)).reshape(shape)
        sure = confidence_of(model, scale * images) >= SURE
        low, ends = np.where(sure, low, middle), np.where(sure, middle, ends)
    return np.where(finite, ends, np.inf)


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Medians beside the published ones, and exact crossings beside both."""
    rows: list[list[Value]] = []
    comparisons = []
    found: dict[str, Any] = {}
    for name in settings["networks"]:
        chunks = [each for key, each in results.items() if key.startswith(f"{name}: images")]
        joined = {key: np.concatenate([each[key] for each in chunks]) for key in chunks[0]}
        found[name] = joined["first"]
        median, over = (
            float(np.median(joined["first"])),
            float(np.mean(joined["clipped"] > OVERCONFIDENT)),
        )
        row = [median, float(np.median(joined["bisected"])), float(joined["falls_back"].mean())]
        rows.append([name, *row, hein.TABLE_2.get(name, (None,))[0], 100 * over, _published(name)])
        comparisons += _compare(name, median, 100 * over, settings)
    columns = [
        "network", "median alpha", "median alpha by bisection from 1 to 1e6",
        "share that falls back below 99.9%", "published median alpha", "% overconfident",
        "published %",
    ]  # fmt: skip
    caption = (
        "Uniform images times alpha; overconfident: some alpha gives more than 95% when clipped."
    )
    tables = [ResultTable("table-2", caption, columns, rows)]
    exact = crossing_table(results)
    others = (exact, proof_table(results), limit_table(results))
    tables += [table for table in others if table.rows]
    picture = Figure("factors", _CAPTION, _figure(found))
    return Findings(_summary(settings, exact), comparisons, tables, [picture])


_CAPTION = "Share of uniform images at 99.9% when scaled by alpha; orange: the published median."


def _published(name: str) -> float | None:
    return hein.TABLE_2[name][1] if name in hein.TABLE_2 else None


def _compare(name: str, median: float, over: float, settings: Settings) -> list[PaperComparison]:
    if name not in hein.TABLE_2:
        return []
    why = f"{settings['images']} images in place of 10,000"
    why += "; our own training of the network." if name in hein.LENETS else "."
    factor, share = hein.TABLE_2[name]
    beyond = factor >= LARGEST
    return [
        PaperComparison(
            f"{name}: median alpha",
            "> 1e6" if beyond else factor,
            ("> 1e6" if median > LARGEST else median),
            "Table 2",
            why,
            tolerance=0.15 * factor,
            agrees=(median > LARGEST) if beyond else None,
        ),
        PaperComparison(
            f"{name}: % overconfident after clipping",
            share,
            over,
            "Table 2",
            f"{why} The text does not say which alpha is clipped; any alpha from 1 on counts here.",
            tolerance=5.0,
        ),
    ]


def _summary(settings: Settings, exact: ResultTable) -> list[str]:
    sentences = [
        "The smallest factor is searched on a grid from 1 on and then refined, because confidence "
        "is not monotone along a ray; a bisection from 1 to 1e6, the obvious way, may find a later "
        "crossing."
    ]
    if exact.rows:
        gaps = [abs(float(row[3] or 0) / float(row[2] or 1) - 1) for row in exact.rows]
        sentences.append(
            f"On {len(gaps)} images the exact first crossing was computed as well: the grid's is "
            f"within {max(gaps):.1%} of it."
        )
    if not settings["exact_resnet"]:
        sentences.append("An exact crossing in a ResNet takes minutes; quick mode has none.")
    return sentences


def _figure(found: Mapping[str, Any]) -> Any:
    groups = list(dict.fromkeys(name.split("-")[0] for name in found))
    figure = new_figure(2.8 * len(groups), 3.3)
    axes = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    colours = {"plain": "#54278f", "ceda": "#1b9e77", "acet": "#0072b2"}
    for axis, group in zip(axes, groups, strict=True):
        for name, values in found.items():
            if not name.startswith(group):
                continue
            method = name.split("-")[1]
            ordered = np.sort(np.minimum(values, 10 * LARGEST))
            share = np.arange(1, len(ordered) + 1) / len(ordered)
            inside = ordered <= LARGEST
            places = np.append(ordered[inside], LARGEST)
            heights = np.append(share[inside], inside.mean())
            label = method.upper() if method != "plain" else method
            axis.step(places, heights, where="post", color=colours[method], lw=1.4, label=label)
            if name in hein.TABLE_2 and hein.TABLE_2[name][0] < LARGEST:
                axis.plot(hein.TABLE_2[name][0], 0.5, "o", color="#d95f02", ms=5, zorder=3)
        axis.set(xscale="log", xlim=(1, LARGEST), ylim=(0, 1.03))
        axis.set_title(group, fontsize=10)
        axis.set_xlabel("alpha")
        tidy(axis)
    axes[0].set_ylabel("share of images")
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    return figure
