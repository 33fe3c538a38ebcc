"""What the experiment on lemmas and theorem found: figures and comparisons with the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from farfield.levels import BLIND
from farfield.report.figure import new_figure
from farfield.reproduce.drawing import TITLES, legend_outside, panels, tidy
from farfield.reproduce.experiment import Result, Settings
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value

METRICS = (
    "one_minus_max_probability",
    "class_variance",
    "predictive_entropy",
    "mutual_information",
)
# Below this a gradient counts as gone, in float64 and in the pictures.
FLOOR = 1e-12
COLOURS = {
    "p": "#1b1b1b",
    "one_minus_max_probability": "#54278f",
    "class_variance": "#1b9e77",
    "predictive_entropy": "#d95f02",
    "mutual_information": "#0072b2",
}


def present(_settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Collect everything that goes on the page."""
    models = {
        name: each
        for name, each in results.items()
        if name not in ("small networks", "counterexamples")
    }
    pictures = [
        Figure("gradients", _CAPTION, _curves(models, "gradient", with_p=True)),
        Figure("gaps", _CAPTION_GAPS, _curves(models, "gap", with_p=False)),
        Figure("counterexample", _CAPTION_TIE, _tie(results["counterexamples"], models)),
    ]
    return Findings(_summary(results), _compare(models, results), [_table(models)], pictures)


_CAPTION = (
    "Norms of gradients along scaled axes, over the points: median (line), largest (dashed), for "
    "the mean probability (Proposition 1, Lemma 4) and each metric (Lemmas 3, 5, 6 and 7). Values "
    f"below {FLOOR:g} are drawn there."
)
_CAPTION_GAPS = (
    "Distance of each metric to its exact limit along the same rays: median (line) and largest "
    "(dashed). This is Theorem 1: a fixed level, computed in advance."
)
_CAPTION_TIE = (
    "Where Proposition 1 fails as it is stated. Black: the norm of the gradient of p for the "
    "logits (x1 + x2, x1 - x2) while x1 is scaled; V has no zero entry. Purple: the same for the "
    "trained single network (largest over points)."
)


def _curves(models: Mapping[str, Result], kind: str, with_p: bool) -> Any:
    figure, axes = panels(list(models), (3.0, 3.3), more=(0.4, 0.0), sharey=True)
    for axis, (name, result) in zip(axes, models.items(), strict=True):
        chosen = result["fulfilled"].astype(bool)
        for metric in (*(["p"] if with_p else []), *METRICS):
            values = np.maximum(result[f"{kind} {metric}"][:, chosen], FLOOR)
            single = name == "single network" and metric in ("class_variance", "mutual_information")
            if not values.size or single:
                continue
            # The probability lies under the metric that follows it, so it is drawn wide.
            wide = {"lw": 4.0, "alpha": 0.25} if metric == "p" else {"lw": 1.4}
            label = "mean probability" if metric == "p" else TITLES[metric]
            middle = np.median(values, axis=1)
            axis.plot(result["factors"], middle, color=COLOURS[metric], label=label, **wide)
            axis.plot(result["factors"], values.max(axis=1), color=COLOURS[metric], lw=1, ls="--")
        axis.set(xscale="log", yscale="log", ylim=(FLOOR / 2, 30), xlabel="scaling factor")
        tidy(axis)
    axes[0].set_ylabel("norm of the gradient" if kind == "gradient" else "distance to the limit")
    legend_outside(figure, axes[-1], columns=5)
    return figure


def _tie(tie: Result, models: Mapping[str, Result]) -> Any:
    figure = new_figure(5.6, 3.2)
    axis = figure.subplots()
    axis.plot(tie["factors"], tie["tie"], "o-", color="black", ms=4, label="two logits that tie")
    if "single network" in models:
        single = models["single network"]
        worst = np.maximum(single["gradient p"][:, single["fulfilled"].astype(bool)], FLOOR)
        if worst.size:
            axis.plot(
                single["factors"], worst.max(axis=1), color="#807dba", label="trained network"
            )
    axis.set(xscale="log", yscale="log", ylim=(FLOOR / 2, 30))
    axis.set_xlabel("scaling factor")
    axis.set_ylabel("norm of the gradient of p")
    axis.legend(frameon=False, fontsize=9, loc="center right")
    tidy(axis)
    return figure


def _table(models: Mapping[str, Result]) -> ResultTable:
    columns: dict[str, Any] = {
        "rays": lambda each: len(each["fulfilled"]),
        "assumption of Theorem 1 holds": _mean("fulfilled"),
        "assumptions of Proposition 2 hold": _mean("unique"),
        "stay in one region beyond reach": lambda each: float(each["settled"]),
        "largest reach": lambda each: float(each["reach"].max()),
        f"limit confidence at least {BLIND}": lambda each: float(
            (each["confidence"] >= BLIND).mean()
        ),
        "votes split at infinity": _mean("split"),
        "largest entropy at infinity, bits": _entropy,
        "largest gradient of p at the last factor": _last("gradient p"),
        "largest gap to the limit there": _last(*(f"gap {metric}" for metric in METRICS)),
    }
    caption = "Each feature of each point scaled up to the last factor, and the exact limits."
    return ResultTable.of("rays", caption, models, columns)


def _mean(key: str) -> Callable[[Result], float]:
    return lambda each: float(each[key].mean())


def _last(*keys: str) -> Callable[[Result], float]:
    """The largest value at the last factor."""
    return lambda each: max(float(each[key][-1].max(initial=0.0)) for key in keys)


def _entropy(each: Result) -> float:
    return float(each["limit predictive_entropy"].max())


def _compare(models: Mapping[str, Result], results: Mapping[str, Result]) -> list[PaperComparison]:
    return [
        *_lemmas(models),
        *_where_it_fails(results["counterexamples"]),
        *_certainty(models),
    ]


def _lemmas(models: Mapping[str, Result]) -> list[PaperComparison]:
    """What is claimed and holds on trained networks."""
    settled = min(float(each["settled"]) for each in models.values())
    decay = {
        "norm of the gradient of the mean probability at the last factor, largest": (
            "Proposition 1, Lemma 4",
            _last("gradient p"),
        ),
        "norm of the gradient of any metric at the last factor, largest": (
            "Lemmas 3, 5, 6 and 7",
            _last(*(f"gradient {metric}" for metric in METRICS)),
        ),
        "distance of any metric to its exact limit at the last factor, largest": (
            "Theorem 1",
            _last(*(f"gap {metric}" for metric in METRICS)),
        ),
    }
    quantity = "share of rays that stay in one region beyond the exact reach"
    why = "Beyond reach no unit changes any more."
    comparisons = [PaperComparison(quantity, 1.0, settled, "Lemma 2", why)]
    why = "The limit is approached, not reached."
    for quantity, (source, largest) in decay.items():
        worst = max(map(largest, models.values()))
        comparisons.append(PaperComparison(quantity, 0.0, worst, source, why, tolerance=1e-6))
    if "single network" in models:
        single = models["single network"]
        lowest = float(single["confidence"][single["unique"].astype(bool)].min(initial=1.0))
        quantity = "confidence in the limit where its assumptions hold, least"
        comparisons.append(PaperComparison(quantity, 1.0, lowest, "Proposition 2"))
    return comparisons


def _where_it_fails(tie: Result) -> list[PaperComparison]:
    """Statements that are wrong as they stand."""
    norm, share = float(tie["tie"][-1]), float(tie["tie_derivative"][-1])
    return [
        PaperComparison(
            "gradient of p in the limit for logits (x1 + x2, x1 - x2), x1 scaled",
            0.0,
            norm,
            "Proposition 1",
            "V has no zero entry, so the proposition applies; but both logits grow alike and p "
            "keeps depending on x2. It needs the assumption of Proposition 2: no duplicates "
            "(for the largest slope) in the scaled column.",
            tolerance=1e-6,
        ),
        PaperComparison(
            "derivative of the softmax in a logit in the limit, same network",
            0.0,
            share,
            "Lemma 9",
            "The proof lets one logit grow while the others stay; here both go to infinity "
            "together. Lemma 10 falls with it.",
            tolerance=1e-6,
        ),
        PaperComparison(
            "gradient of p when the scaled feature is zero",
            0.0,
            float(tie["still"]),
            "Proposition 1",
            "A factor moves a feature only if it is not zero; the statement does not ask for it.",
            tolerance=1e-6,
        ),
    ]


def _certainty(models: Mapping[str, Result]) -> list[PaperComparison]:
    """The first version's claim, and what ensembles say."""
    limits: dict[str, Value] = {
        f"predictive entropy in the limit, {name}: largest over rays, bits": _entropy(each)
        for name, each in models.items()
    }
    claim = "first version, Theorem 1: perfect certainty for every metric"
    why = "Members are certain of different classes: the entropy of their vote is the limit."
    return PaperComparison.each(limits, 0.0, claim, why, tolerance=1e-9)


def _summary(results: Mapping[str, Result]) -> list[str]:
    small, tie = results["small networks"], results["counterexamples"]
    share = small["broken"] / small["rays"]
    sentences = [
        "On trained networks everything that the theorem says is seen, and the level at which each "
        "metric stays is computed in advance: the vote of the instances.",
        "Proposition 1 and Lemmas 9 and 10 are wrong as they are stated: a network whose V has no "
        f"zero entry keeps a gradient of {float(tie['tie'][-1]):.3f} for ever if two logits tie "
        "for the largest slope. Training does not produce exact ties, so nothing is seen of it "
        "in experiments.",
        f"The smallest counterexample to the first version's claim: two members that end up with "
        f"different classes leave {tie['two_entropy']:g} bit of predictive entropy and "
        f"{tie['two_information']:g} bit of mutual information at infinity.",
    ]
    low, high = small["confidence"]
    sentences.append(
        f"In networks of 2-5-5-9 units the assumption fails on {share:.2%} of the rays"
        + (
            f"; on {small['all_zero'] / small['broken']:.0%} of those V = 0 altogether. There the "
            f"largest gradient of p is {small['gradient']:.2g} and the confidence stays between "
            f"{low:.2f} and {high:.2f}."
            if small["broken"]
            else "."
        )
    )
    return sentences
