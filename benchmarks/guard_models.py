"""What does a guard change, next to every other remedy?"""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import farfield as ff
from benchmarks import guard_data
from benchmarks.guard_data import Array, Task
from benchmarks.missing import NotHere
from benchmarks.parts import data_folder, part
from farfield.evaluate import calibration, detection
from farfield.guard import GuardedModel, ccu, falsify, guard, last_layer_laplace
from farfield.guard.views.units import fit_units
from farfield.networks.resnet import read_hein2019
from farfield.objectives import REGISTRY

QUESTION = (
    "Half-moons, ICU, credit default, heart disease, MNIST and the published CIFAR-10 networks, "
    "guarded: what is promised, what changes near the data (accuracy, NLL, rows that stay "
    "bit-identical), and what do AUROC and FPR95 say far away and at natural shifts, next to "
    "temperature scaling, ensembles, anchored ensembles, CEDA, ACET, CCU, last-layer Laplace and "
    "RBF networks?"
)
TARGETS = {
    "largest_blindness_after": "<= 0",
    "largest_accuracy_difference": "<= 0",
    "smallest_identical_training_share": ">= 0.99",
    "smallest_identical_test_share": ">= 0.985",
    "largest_nll_change": "<= 0.002",
    "certificates_broken": "<= 0",
}
TASKS: dict[str, Callable[[], Task]] = {
    "half-moons": guard_data.moons,
    "heart disease": guard_data.heart,
    "icu": guard_data.icu,
    "credit default": guard_data.credit,
    "mnist": guard_data.mnist,
    "cifar-10": guard_data.cifar,
}
SEED, BLIND, RAYS = 0, 0.99, 500
# Models that carry a proof are looked at this many times as far from the mean as the data goes.
FAR = 1e6
Predict = Callable[[Any], Array]
# Confidence at infinity of rows of directions, or None where a proof says it: 1 / K.
Limit = Callable[[Any, Any], NDArray[Any]] | None


def measure() -> dict[str, Any]:
    """Measure every method on every task; each pair is a part that a later run need not repeat."""
    results: dict[str, Any] = {}
    for name, read in TASKS.items():
        try:
            task = read()
        except NotHere as reason:
            print(f"  {name} skipped: {reason}", file=sys.stderr)
            continue
        results[name] = {}
        models: dict[str, Any] = {}
        for method in methods(name):
            key = f"{name}-{method}".replace(" ", "-")
            results[name][method] = part(
                "guard_models", key, lambda t=task, n=name, m=method, k=models: _run(n, m, t, k)
            )
    guards = [each for found in results.values() for each in found.values() if "verified" in each]
    return {
        "largest_blindness_after": max(max(g["blindness"].values()) for g in guards),
        "largest_accuracy_difference": max(abs(g["accuracy_difference"]) for g in guards),
        "smallest_identical_training_share": min(g["identical_training"] for g in guards),
        "smallest_identical_test_share": min(g["identical_test"] for g in guards),
        "largest_nll_change": max(g["nll_change"] for g in guards),
        "certificates_broken": sum(not g["certificate_survives"] for g in guards),
        "seed": SEED,
        "tasks": results,
    }


def methods(task: str) -> list[str]:
    """The methods that a task is measured with."""
    if task == "cifar-10":
        guarded = ["guard", "ceda, guarded", "acet, guarded"]
        return ["plain", *guarded, "ceda", "acet", "ccu", "laplace"]
    trained = [name for name in ("ceda", "acet") if name in REGISTRY]
    others = ["ccu", "laplace", "rbf"]
    return ["plain", "guard", "temperature", "ensemble", "anchored", *trained, *others]


def _run(name: str, method: str, task: Task, models: dict[str, Any]) -> dict[str, Any]:
    """Make one model and measure it near and far."""
    print(f"  {name}: {method}", file=sys.stderr)
    start = time.perf_counter()
    predict, limit, extra = _make(name, method, task, models)
    seconds = time.perf_counter() - start
    known = predict(task.test[0])
    fit = calibration(known, task.test[1])
    found: dict[str, Any] = {"accuracy": fit.accuracy, "nll": fit.nll, "ece": fit.ece}
    inside = 1 - known.max(axis=1)
    for kind, sets in (("near", task.near), ("far", task.far())):
        found[kind] = {}
        for key, rows in sets.items():
            confidence = predict(rows).max(axis=1)
            result = detection(inside, 1 - confidence)
            found[kind][key] = {
                "auroc": result.auroc,
                "fpr95": result.fpr95,
                "mmc": float(confidence.mean()),
            }
    found["blindness"] = _blindness(task, limit or _far_away(task, predict))
    return {**found, **extra, "seconds": round(seconds, 1)}


def _make(
    name: str, method: str, task: Task, models: dict[str, Any]
) -> tuple[Predict, Limit, dict[str, Any]]:
    """Make a model: how it predicts, what it says at infinity, and what else is known of it."""
    if method == "guard":
        return _guarded(_plain(name, task, models), task)
    if method.endswith(", guarded"):
        base = _trained(name, method.removesuffix(", guarded"), task)
        return _guarded(base, task)
    if method == "ccu":
        mixed = ccu(
            _plain(name, task, models), task.train[0], metric=task.metric, random_state=SEED
        )
        radius = mixed.certificate_radius(0.01)
        return mixed.predict_proba, None, {"certified_radius": _finite(radius)}
    if method == "laplace":
        laplace = last_layer_laplace(_plain(name, task, models), task.train[0], prior_precision=1.0)
        return (
            lambda rows: laplace.predict_proba(rows).numpy(),
            lambda origin, rays: laplace.at_infinity(origin, rays).amax(dim=1).numpy(),
            {},
        )
    model = _plain(name, task, models) if method == "plain" else _trained(name, method, task)
    if method == "rbf":
        return model.predict_proba, None, {"certified_radius": model.certificate_radius(0.01)}
    network = ff.capture(model, torch.zeros(1, *task.train[0].shape[1:]))

    def limit(origin: Any, rays: Any) -> NDArray[Any]:
        return ff.at_infinity(network, origin, rays).confidence.numpy()

    return _predictor(model), limit, {}


def _plain(name: str, task: Task, models: dict[str, Any]) -> Any:
    """The plain network, trained once."""
    if "plain" not in models:
        models["plain"] = _trained(name, "plain", task)
    return models["plain"]


def _trained(name: str, method: str, task: Task) -> Any:
    if name == "cifar-10":
        return read_hein2019(data_folder("hein2019") / "hein2019" / f"cifar10-{method}.npz")
    settings = {"random_state": SEED, **task.settings}
    if method == "rbf":
        count = min(200, len(task.train[0]) // 2)
        kept = {key: settings[key] for key in ("standardize",) if key in settings}
        made: Any = ff.RBFClassifier(centres=count, epochs=30, random_state=SEED, **kept)
    elif method == "temperature":
        made = ff.TemperatureScaling(ff.ReLUClassifier(**settings), random_state=SEED)
    elif method in ("ensemble", "anchored"):
        kind = ff.EnsembleClassifier if method == "ensemble" else ff.AnchoredEnsembleClassifier
        if method == "anchored":
            settings.pop("weight_decay", None)
        made = kind(members=5, **settings)
    else:
        objective = "nll" if method == "plain" else method
        made = ff.ReLUClassifier(objective=objective, **settings)
    return made.fit(*task.train)


def _predictor(model: Any) -> Predict:
    if hasattr(model, "predict_proba"):
        probabilities: Predict = model.predict_proba
        return probabilities

    def predict(rows: Any) -> Array:
        parts = torch.from_numpy(np.asarray(rows)).float().split(200)
        with torch.no_grad():
            found: Array = torch.cat([torch.softmax(model(p).double(), dim=1) for p in parts])
        return np.asarray(found)

    return predict


def _guarded(model: Any, task: Task) -> tuple[Predict, Limit, dict[str, Any]]:
    """Guard a model, verify and attack the certificate, and compare with the plain model."""
    X, y = task.train
    start = time.perf_counter()
    safe = guard(model, X, labels=y, metric=task.metric, random_state=SEED)
    seconds = time.perf_counter() - start
    certificate = safe.certificate
    wide = X[0].size > 500
    options = {"restarts": 4, "steps": 5} if wide else {"restarts": 32, "steps": 40}
    broken = falsify(safe, rows=X[: 8 if wide else 64], **options)
    test, labels = task.test
    own, new = safe.own_proba(test), safe.predict_proba(test)
    before, after = (calibration(p, labels) for p in (own, new))
    everything = [test, *task.near.values(), *task.far().values()]
    changed = sum(_changed_classes(safe, rows) for rows in everything)
    return (
        safe.predict_proba,
        None,
        {
            "accuracy_difference": after.accuracy - before.accuracy,
            "changed_classes": changed,
            "identical_training": certificate.training.share,
            "identical_test": float((own == new).all(axis=1).mean()),
            "nll_change": after.nll - before.nll,
            "ece_change": after.ece - before.ece,
            "certificate": certificate.model_dump(),
            "verified": bool(certificate.verify(safe)),
            "certificate_survives": broken.holds,
            "largest_found": broken.largest,
            "allowed": broken.allowed,
            "attacks": broken.starts,
            "seconds_to_guard": round(seconds, 1),
        },
    )


def _changed_classes(safe: GuardedModel, rows: Any) -> int:
    own, new = safe.own_proba(rows).argmax(axis=1), safe.predict_proba(rows).argmax(axis=1)
    return int((own != new).sum())


def _far_away(task: Task, predict: Predict) -> Callable[[Any, Any], NDArray[Any]]:
    """The confidence at the end of rays that are long but finite."""
    X = task.train[0]
    away = FAR * float(np.linalg.norm((X - X.mean(axis=0)).reshape(len(X), -1), axis=1).max())

    def limit(origin: Any, rays: Any) -> NDArray[Any]:
        unit = rays / rays.flatten(1).norm(dim=1).reshape(-1, *[1] * (rays.ndim - 1))
        confidence: NDArray[Any] = predict((origin + away * unit).numpy()).max(axis=1)
        return confidence

    return limit


def _blindness(task: Task, limit: Callable[[Any, Any], NDArray[Any]]) -> dict[str, float]:
    """Share of blind directions: both ends of every axis, and sampled in whitened units."""
    X = task.train[0]
    shape, flat = X.shape[1:], X.reshape(len(X), -1)
    metric = fit_units(flat, "isotropic" if X.ndim > 2 else task.metric)
    origin = metric.mean.reshape(shape)
    columns, generator = flat.shape[1], torch.Generator().manual_seed(SEED)
    axes = torch.eye(columns, dtype=torch.float64)
    if columns > 800:
        axes = axes[torch.randperm(columns, generator=generator)[:100]]
    rays = {
        "axes": torch.cat([axes, -axes]),
        "sphere": metric.inputs(
            torch.randn(RAYS if columns <= 800 else 100, columns, generator=generator).double()
        )
        - metric.mean,
    }
    return {
        name: float((limit(origin, each.reshape(-1, *shape)) >= BLIND).mean())
        for name, each in rays.items()
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
