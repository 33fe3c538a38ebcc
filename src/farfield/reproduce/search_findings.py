"""What the random search found: the best configurations, parallel coordinates, importances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from farfield.reproduce.drawing import panels, tidy
from farfield.reproduce.experiment import Result, Settings
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value

# Table 1 of the paper.
BEST: dict[str, dict[str, Any]] = {
    "NN": {"hidden": [25, 25, 25], "dropout": 0.014552, "learning_rate": 0.000538},
    "MC dropout": {"hidden": [25, 25, 25, 25], "dropout": 0.205046, "learning_rate": 0.000526},
}
# What tables show of a configuration, and what axes do.
SHOWN = {
    "hidden": "hidden",
    "learning_rate": "learning rate",
    "dropout": "dropout",
    "rho_init": "rho init",
    "kl_weight": "KL weight",
    "auc": "AUC",
    "accuracy": "accuracy",
    "nll": "NLL",
}
AXES = {
    "layers": "layers",
    "units": "units",
    "log10_rate": "log10 rate",
    "dropout": "dropout",
    "rho_init": "rho init",
    "kl_weight": "KL weight",
    "accuracy": "accuracy",
    "auc": "AUC",
}


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Collect everything that goes on the page."""
    pictures = [
        Figure("coordinates", _CAPTION, _coordinates(results)),
        Figure("importances", _CAPTION_IMPORTANCE, _importances(results)),
        Figure("rates", _CAPTION_RATES, _rates(results)),
    ]
    comparisons = [each for name, result in results.items() for each in _compare(name, result)]
    tables = [_best(results), *(_all(name, result) for name, result in results.items())]
    return Findings(_summary(settings, results), comparisons, tables, pictures)


_CAPTION = (
    "Parallel coordinates: each line is one configuration, darker for a higher AUC on the "
    "validation points; orange is the paper's choice (Table 1)."
)
_CAPTION_IMPORTANCE = "How much of the spread of the AUC each hyperparameter explains (fANOVA)."
_CAPTION_RATES = "AUC against the learning rate; the orange line is the paper's choice."


def _sorted(trials: list[Any]) -> list[Any]:
    return sorted(trials, key=lambda trial: trial["auc"], reverse=True)


def _compare(name: str, result: Result) -> list[PaperComparison]:
    trials, importance = result["trials"], result["importance"]
    best = _sorted(trials)[0]
    if name not in BEST:
        good = [trial["rho_init"] for trial in trials if trial["accuracy"] >= 0.95]
        wide = f", with rho init from {min(good):.1f} to {max(good):.1f}" if good else ""
        return [
            PaperComparison(
                f"{name}: is there a suitable configuration?",
                "none found after extensive search",
                f"AUC {best['auc']:.4f}, accuracy {best['accuracy']:.3f}",
                "Appendix B",
                f"{len(good)} of {len(trials)} configurations reach an accuracy of 0.95{wide}; the "
                "paper does not say what it asked of a suitable one, or from where it drew.",
                agrees=not good,
            )
        ]
    published = BEST[name]
    near = [t for t in trials if abs(t["log10_rate"] - np.log10(published["learning_rate"])) < 0.25]
    unsaid = "The paper does not say what its search maximised; ours is the validation AUC"
    sentence = (
        f"{unsaid}: within a factor of 1.8 of the paper's rate the best is "
        f"{max((t['auc'] for t in near), default=float('nan')):.4f}, over all rates "
        f"{best['auc']:.4f}."
    )
    share = {key: f"{value:.0%} of the spread of the AUC" for key, value in importance.items()}
    return [
        PaperComparison(
            f"{name}: hidden layers of the best",
            str(published["hidden"]),
            str(best["hidden"]),
            "Table 1",
            f"{unsaid}, and the number of layers explains {share['layers']}.",
            agrees=published["hidden"] == best["hidden"],
        ),
        PaperComparison(
            f"{name}: dropout rate of the best",
            published["dropout"],
            best["dropout"],
            "Table 1",
            f"{unsaid}, and the dropout rate explains {share['dropout']}.",
            tolerance=0.05,
        ),
        PaperComparison(
            f"{name}: learning rate of the best",
            published["learning_rate"],
            best["learning_rate"],
            "Table 1",
            sentence,
            tolerance=0.3 * published["learning_rate"],
        ),
    ]


def _best(results: Mapping[str, Result]) -> ResultTable:
    rows: list[list[Value]] = [
        [name, place, str(trial["hidden"]), *(trial.get(key) for key in list(SHOWN)[1:])]
        for name, result in results.items()
        for place, trial in enumerate(_sorted(result["trials"])[:5], start=1)
    ]
    columns = ["model", "rank", *SHOWN.values()]
    return ResultTable("best", "The five best configurations of each model.", columns, rows)


def _all(name: str, result: Result) -> ResultTable:
    keys = [key for key in SHOWN if key in result["trials"][0]]
    rows: list[list[Value]] = [
        [str(trial[key]) if key == "hidden" else trial[key] for key in keys]
        for trial in result["trials"]
    ]
    slug = name.lower().replace(" ", "-")
    return ResultTable(f"trials-{slug}", f"Every configuration of {name}.", keys, rows)


def _summary(settings: Settings, results: Mapping[str, Result]) -> list[str]:
    sentences = [
        f"{settings['evaluations']} configurations for each model, drawn from the paper's Table 2 "
        "(for Bayes by backprop, which is not in it: rho init from -8 to -2, KL weight from 0.001 "
        "to 1). Each is trained once on 500 points and judged by its AUC on the 250 validation "
        "points."
    ]
    for name, result in results.items():
        best = _sorted(result["trials"])[0]
        top = max(result["importance"], key=result["importance"].__getitem__)
        sentences.append(
            f"{name}: best AUC {best['auc']:.4f} at a learning rate of "
            f"{best['learning_rate']:.2g}; what matters most is {top.replace('_', ' ')} "
            f"({result['importance'][top]:.0%} of the spread)."
        )
    return sentences


def _coordinates(results: Mapping[str, Result]) -> Any:
    from matplotlib import colormaps

    figure, axes = panels(list(results), (8.4, 2.7), 1)
    for axis, (name, result) in zip(axes, results.items(), strict=True):
        trials = sorted(result["trials"], key=lambda trial: trial["auc"])
        keys = [key for key in AXES if key in trials[0]]
        values = np.array([[trial[key] for key in keys] for trial in trials], dtype=float)
        low, high = values.min(axis=0), values.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        rank = np.linspace(0.15, 1.0, len(trials))
        for row, shade in zip((values - low) / span, rank, strict=True):
            axis.plot(range(len(keys)), row, color=colormaps["Purples"](shade), lw=0.8, alpha=0.8)
        _paper(axis, name, keys, low, span)
        labels = [
            f"{AXES[key]}\n{a:.3g} to {b:.3g}" for key, a, b in zip(keys, low, high, strict=True)
        ]
        axis.set_xticks(range(len(keys)), labels, fontsize=8)
        axis.set_yticks([])
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.grid(axis="x", color="0.6", lw=0.7)
    return figure


def _paper(axis: Any, name: str, keys: list[str], low: Any, span: Any) -> None:
    """The paper's choice, where it says one."""
    if name not in BEST:
        return
    best = BEST[name]
    chosen = {
        "layers": len(best["hidden"]),
        "units": sum(best["hidden"]),
        "log10_rate": np.log10(best["learning_rate"]),
        "dropout": best["dropout"],
    }
    places = [index for index, key in enumerate(keys) if key in chosen]
    heights = [(chosen[keys[index]] - low[index]) / span[index] for index in places]
    axis.plot(places, heights, "o-", color="#d95f02", lw=2, ms=4)


def _importances(results: Mapping[str, Result]) -> Any:
    figure, axes = panels(list(results), (8.4 / len(results), 2.5))
    for axis, result in zip(axes, results.values(), strict=True):
        pairs = sorted(result["importance"].items(), key=lambda pair: pair[1])
        axis.barh(
            [key.replace("_", " ") for key, _ in pairs], [v for _, v in pairs], color="#807dba"
        )
        axis.set_xlim(0, 1)
        tidy(axis)
    return figure


def _rates(results: Mapping[str, Result]) -> Any:
    figure, axes = panels(list(results), (8.4 / len(results), 2.7), sharey=True)
    for axis, (name, result) in zip(axes, results.items(), strict=True):
        rates = [trial["learning_rate"] for trial in result["trials"]]
        axis.scatter(rates, [t["auc"] for t in result["trials"]], s=9, color="#54278f", alpha=0.7)
        if name in BEST:
            axis.axvline(BEST[name]["learning_rate"], color="#d95f02", lw=1.3)
        axis.set_xscale("log")
        axis.set_xlabel("learning rate")
        tidy(axis)
    axes[0].set_ylabel("AUC")
    return figure
