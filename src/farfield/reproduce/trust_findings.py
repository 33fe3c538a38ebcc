"""What the experiment on ICU patients found: tables and pictures of AUROCs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from farfield.reproduce.drawing import TITLES, legend_outside, panels, tidy
from farfield.reproduce.experiment import Result, Settings
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable, Value

SCORES = (
    "one_minus_max_probability",
    "predictive_entropy",
    "class_variance",
    "mutual_information",
)
FACTORS = (10.0, 100.0, 1000.0, 10000.0)
COLOURS = dict(zip(SCORES, ("#54278f", "#d95f02", "#1b9e77", "#0072b2"), strict=True))


def present(settings: Settings, results: Mapping[str, Result]) -> Findings:
    """Collect everything that goes on the page."""
    pictures = [
        Figure("groups", _CAPTION, _draw_groups(settings, results)),
        Figure("scaled", _CAPTION_SCALED, _draw_scaled(settings, results)),
    ]
    tables = [_groups(settings, results), _scaled(settings, results), _features(settings, results)]
    return Findings(_summary(settings, results), _compare(settings, results), tables, pictures)


_CAPTION = (
    "Groups of patients held out from training: AUROC of each score for telling them from the "
    "other test patients. 0.5 is chance; below it, strangers look more certain than the known."
)
_CAPTION_SCALED = (
    "One feature scaled: AUROC for telling scaled from original patients, median over features "
    "(line) and quartiles (dotted), and at infinity, exact. For two classes predictive entropy and "
    "1 - max. probability rank alike, so one covers the other."
)


def _groups(settings: Settings, results: Mapping[str, Result]) -> ResultTable:
    rows: list[list[Value]] = []
    for model in settings["models"]:
        for group in settings["groups"]:
            each = results[f"{model}: without {group}"]
            scores = [each[score] for score in SCORES]
            outcome = [each["auc"], each["auc_outside"]]
            rows.append([model, group, each["patients"], *outcome, *scores])
    columns = ["model", "group", "patients", "AUC, test", "AUC, group"]
    columns += [f"AUROC, {TITLES[score]}" for score in SCORES]
    caption = "AUC: of predicting death. AUROC: of telling the group from other test patients."
    return ResultTable("groups", caption, columns, rows)


def _scaled(settings: Settings, results: Mapping[str, Result]) -> ResultTable:
    rows: list[list[Value]] = []
    for model in settings["models"]:
        each = results[f"{model}: scaled features"]
        for number, score in enumerate(SCORES):
            if np.isnan(each["aurocs"][number]).all():
                continue
            medians = np.median(each["aurocs"][number], axis=1)
            limit = float(np.median(each["limit_aurocs"][number]))
            missed = float((each["limit_aurocs"][number] < 0.5).mean())
            rows.append([model, TITLES[score], *map(float, medians), limit, missed])
    columns = ["model", "score", *(f"factor {factor:g}" for factor in FACTORS)]
    columns += ["factor ∞ (exact)", "features worse than chance at ∞"]
    caption = (
        "AUROC for telling patients with one scaled feature from the rest; median of features."
    )
    return ResultTable("scaled", caption, columns, rows)


def _features(settings: Settings, results: Mapping[str, Result]) -> ResultTable:
    """The far field of each feature."""
    models = settings["models"]
    first = results[f"{models[0]}: scaled features"]
    rows: list[list[Value]] = []
    for place, name in enumerate(first["names"]):
        row: list[Value] = [name]
        for model in models:
            each = results[f"{model}: scaled features"]
            row += [float(each["blind"][place]), float(each["settled"][place])]
        rows.append(row)
    columns = ["feature"]
    for model in models:
        columns += [f"{model}: blind patients", f"{model}: median factor to 99.9%"]
    caption = (
        "Each feature scaled to infinity, exact: share of patients for whom the model ends up at "
        "least 99% sure, and the factor beyond which the members stay above 99.9% (∞: never)."
    )
    return ResultTable("features", caption, columns, rows)


def _compare(settings: Settings, results: Mapping[str, Result]) -> list[PaperComparison]:
    groups = [
        each[score]
        for name, each in results.items()
        if ": without " in name
        for score in SCORES
        if each[score] is not None
    ]
    best = max(groups)
    return [
        PaperComparison(
            "can uncertainty tell clinically relevant groups? best AUROC over all of them",
            "they fail in practice",
            round(float(best), 4),
            "Section 2, citing Ulmer et al. 2020",
            "Some group is told apart well here.",
            agrees=bool(best < 0.8),
        ),
        *(
            PaperComparison(
                f"{model}: largest share of patients blind at infinity, over features",
                1.0 if model in ("network", "temperature") else "a fixed level",
                float(results[f"{model}: scaled features"]["blind"].max()),
                "Proposition 2" if model in ("network", "temperature") else "Theorem 1",
                "For some patients and features the logits tie or members disagree.",
                tolerance=0.001,
            )
            for model in settings["models"]
        ),
    ]


def _summary(settings: Settings, results: Mapping[str, Result]) -> list[str]:
    sentences = [
        "12,000 stays of the PhysioNet challenge 2012, mean, least and largest value of each "
        "measurement over 48 hours; missing ones are the median. The paper cites an earlier study "
        "for this story and prints no number, so its claims alone stand beside ours."
    ]
    for model in settings["models"]:
        each = results[f"{model}: scaled features"]
        entropy = SCORES.index("predictive_entropy")
        medians = np.median(each["aurocs"][entropy], axis=1)
        sentences.append(
            f"{model}: AUC of death {each['auc']:.3f}; predictive entropy tells a feature times 10 "
            f"with an AUROC of {medians[0]:.2f}, times 10,000 with {medians[-1]:.2f}, and in the "
            f"limit with {np.median(each['limit_aurocs'][entropy]):.2f} (medians over features); "
            f"at infinity it is at least 99% sure of {np.mean(each['blind']):.0%} of the patients."
        )
    return sentences


def _draw_groups(settings: Settings, results: Mapping[str, Result]) -> Any:
    models, groups = settings["models"], settings["groups"]
    size = (2.6, 0.42 * len(groups) + 1.9)
    figure, axes = panels(models, size, more=(1.6, 0.0), fontsize=9, sharey=True, sharex=True)
    for axis, model in zip(axes, models, strict=True):
        for shift, score in zip((-0.24, -0.08, 0.08, 0.24), SCORES, strict=True):
            values = [results[f"{model}: without {group}"][score] for group in groups]
            if values[0] is None:
                continue
            places = np.arange(len(groups)) + shift
            axis.plot(values, places, "o", ms=4.5, color=COLOURS[score], label=TITLES[score])
        axis.axvline(0.5, color="0.5", lw=0.8)
        axis.set_xlabel("AUROC", fontsize=9)
        axis.set_xlim(0.2, 1.0)
        tidy(axis)
    axes[0].set_yticks(range(len(groups)), groups, fontsize=9)
    axes[0].invert_yaxis()
    legend_outside(figure, axes[-1], columns=4)
    return figure


def _draw_scaled(settings: Settings, results: Mapping[str, Result]) -> Any:
    models = settings["models"]
    figure, axes = panels(models, (2.6, 3.3), more=(0.6, 0.0), fontsize=9, sharey=True)
    places = np.arange(len(FACTORS))
    for axis, model in zip(axes, models, strict=True):
        each = results[f"{model}: scaled features"]
        for number, score in enumerate(SCORES):
            values = each["aurocs"][number]
            if np.isnan(values).all():
                continue
            low, middle, high = np.percentile(values, (25, 50, 75), axis=1)
            for edge in (low, high):
                axis.plot(places, edge, color=COLOURS[score], lw=0.7, ls=":")
            axis.plot(places, middle, color=COLOURS[score], lw=1.4, label=TITLES[score])
            end = len(FACTORS) + 0.12 * (number - 1.5)
            span = np.percentile(each["limit_aurocs"][number], (25, 50, 75))
            axis.errorbar(end, span[1], [[span[1] - span[0]], [span[2] - span[1]]], fmt="o", ms=4,
                          color=COLOURS[score], capsize=2, lw=1)  # fmt: skip
        axis.axhline(0.5, color="0.5", lw=0.8)
        ticks = [f"$10^{int(np.log10(factor))}$" for factor in FACTORS]
        axis.set_xticks(range(len(FACTORS) + 1), [*ticks, "∞"])
        axis.set_xlabel("factor", fontsize=9)
        axis.set_ylim(0, 1.02)
        tidy(axis)
    axes[0].set_ylabel("AUROC")
    legend_outside(figure, axes[-1], columns=4)
    return figure
