"""Exact work for Table 2 of Hein et al.: first crossings, proofs that there is none, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.exact import Box, at_infinity, first_reaching
from farfield.graph import capture
from farfield.levels import SURE
from farfield.reproduce.experiment import Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import ResultTable, Value
from farfield.reproduce.hein_models import LENETS, read_network

OVERCONFIDENT = 0.95


def uniform_images(name: str, start: int, count: int, seed: int) -> Tensor:
    """Uniform images; the i-th is the same however they are cut into chunks."""
    shape = (1, 28, 28) if name in LENETS else (3, 32, 32)
    drawn = [
        np.random.default_rng([seed, index]).random(shape, dtype=np.float32)
        for index in range(start, start + count)
    ]
    return torch.from_numpy(np.stack(drawn))


def exact_stages(
    name: str, settings: Settings, request: RunRequest, fixed: Settings, needs: tuple[str, ...]
) -> list[Stage]:
    """Crossings of some images, proofs for clipped paths without a witness, and limits."""
    own = name in LENETS
    call = (name, settings, request)
    found = [
        Stage(
            f"{name}: exact image {image}",
            {**fixed, "image": image},
            partial(_crossing, image, *call),
            needs=needs,
        )
        for image in range(settings["exact_lenet" if own else "exact_resnet"])
    ]
    if settings["proofs"] and name.endswith("acet"):
        first = f"{name}: images 0 to {min(settings['chunk'], settings['images'])}"
        proving = {**fixed, "proofs": settings["proofs"], "ratio": settings["ratio"]}
        run = partial(_prove, *call)
        found.append(Stage(f"{name}: proofs", proving, run, needs=(first, *needs)))
    if settings["limit_rays"]:
        limits = {**fixed, "rays": settings["limit_rays"]}
        found.append(Stage(f"{name}: limits", limits, partial(_limits, *call), needs=needs))
    return found


def _captured(name: str, request: RunRequest, trained: Any) -> Any:
    example = uniform_images(name, 0, 1, 0)
    return capture(read_network(request, name, trained), example, dtype=torch.float64)


def _crossing(
    image: int, name: str, settings: Settings, request: RunRequest, trained: Any = None
) -> Result:
    """The exact first crossing of one image, and from where on it is never below."""
    x = uniform_images(name, image, 1, settings["seed"])[0].double()
    captured = _captured(name, request, trained)
    # The ray x + t x is (1 + t) x, so that t = 0 is the image itself.
    found = first_reaching(captured, x, x, SURE)
    far = at_infinity(captured, torch.zeros_like(x), x)
    return {
        "factor": 1 + found.t,
        "pieces": found.pieces,
        "never_below": float(far.distance(SURE)[0, 0]),
    }


def _prove(
    name: str, settings: Settings, request: RunRequest, scanned: Result, trained: Any = None
) -> Result:
    """Clipped paths on which the grid saw nothing above 95%: is there really nothing?"""
    quiet = np.flatnonzero(scanned["clipped"] <= OVERCONFIDENT)[: settings["proofs"]]
    captured = _captured(name, request, trained)
    factors = []
    for image in quiet:
        x = uniform_images(name, int(image), 1, settings["seed"])[0].double()
        box = Box(0.0, 1.0)
        found = first_reaching(captured, x, x, OVERCONFIDENT, box=box, leaving="project")
        factors.append(1 + found.t)
    return {"images": quiet, "factors": np.array(factors)}


def _limits(name: str, settings: Settings, request: RunRequest, trained: Any = None) -> Result:
    """Rays from the origin, to infinity: how many saturate, and where all has settled."""
    captured = _captured(name, request, trained)
    uniform = uniform_images(name, 0, settings["limit_rays"], settings["seed"])
    generator = torch.Generator().manual_seed(settings["seed"])
    gaussian = torch.randn(uniform.shape, generator=generator)
    result: Result = {}
    for family, rays in (("uniform", uniform), ("Gaussian", gaussian)):
        far = at_infinity(captured, torch.zeros_like(rays[0]), rays, certify=True, budget=0)
        assert far.certified is not None, "limits were asked for with certificates"
        result[family] = [
            float(far.saturates.double().mean()),
            float(far.certified.double().mean()),
            float(far.reach[0].median()),
            float(far.distance(SURE)[0].median()),
        ]
    return result


def crossing_table(results: Mapping[str, Result]) -> ResultTable:
    """Exact first crossings beside what the grid and a bisection found."""
    rows: list[list[Value]] = []
    for key, each in results.items():
        if ": exact image " not in key:
            continue
        name, image = key.split(": exact image ")
        chunk = results[next(k for k in results if k.startswith(f"{name}: images 0 "))]
        scanned = float(chunk["first"][int(image)])
        bisected = float(chunk["bisected"][int(image)])
        row = [each["factor"], scanned, bisected, each["never_below"], each["pieces"]]
        rows.append([name, int(image), *row])
    columns = [
        "network", "image", "exact first alpha", "alpha on the grid", "alpha by bisection",
        "never below 99.9% from, at most", "pieces until there",
    ]  # fmt: skip
    return ResultTable("exact", "Exact first crossings of some images.", columns, rows)


def proof_table(results: Mapping[str, Result]) -> ResultTable:
    """Clipped paths without a witness: those that never exceed 95%, by proof."""
    rows: list[list[Value]] = [
        [key.removesuffix(": proofs"), len(each["factors"]), int(np.isinf(each["factors"]).sum())]
        for key, each in results.items()
        if key.endswith(": proofs")
    ]
    columns = ["network", "images without a witness", "proven never to exceed 95%"]
    return ResultTable("proofs", "Clipped paths on which a grid saw nothing.", columns, rows)


def limit_table(results: Mapping[str, Result]) -> ResultTable:
    """What becomes of rays from the origin."""
    rows: list[list[Value]] = [
        [key.removesuffix(": limits"), family, *numbers]
        for key, each in results.items()
        if key.endswith(": limits")
        for family, numbers in each.items()
    ]
    columns = [
        "network", "directions", "share that saturates", "share proven", "median reach",
        "median distance from which on 99.9% sure, at most",
    ]  # fmt: skip
    return ResultTable("limits", "Rays from the origin, at infinity.", columns, rows)
