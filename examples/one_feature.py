"""A lost decimal point: one feature of one patient, out to infinity, before and after the guard.

Usage: python examples/one_feature.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff
from farfield.report import save_figure

FEATURE = "worst radius"
LOWEST, HIGHEST = 3.0, 3000.0
# Where infinity is drawn, beyond the end of the axis.
INFINITY = 6000.0
COLOURS = {"malignant": "#d95f02", "benign": "#1b9e77"}


def draw(axis, values, p, limit, column, typed, names) -> None:
    """Confidence by value, in the colour of the class; the dot at the end is the limit."""
    label, sure = p.argmax(axis=1), p.max(axis=1)
    for index, name in enumerate(names):
        axis.plot(values, np.where(label == index, sure, np.nan), color=COLOURS[name], lw=2.2)
    axis.axvspan(column.min(), column.max(), color="0.92", zorder=0)
    axis.text(
        np.sqrt(column.min() * column.max()), 1.075, "training data",
        ha="center", va="center", fontsize=9, color="0.35",
    )  # fmt: skip
    certain = limit.max() > 0.51
    colour = COLOURS[names[limit.argmax()]] if certain else "0.35"
    axis.plot([INFINITY], [limit.max()], "o", color=colour, ms=7, clip_on=False)
    at = np.abs(values - typed).argmin()
    axis.plot([typed, typed], [0.5, sure[at]], color="0.35", lw=1, ls=":")
    axis.plot([typed], [sure[at]], "o", color=COLOURS[names[label[at]]], ms=7)
    axis.annotate(
        f"{typed:g} typed\n{names[label[at]]}, {sure[at]:.0%} sure",
        (typed, sure[at]), (0.58, 0.62) if sure[at] > 0.75 else (0.5, 0.2), fontsize=10,
        textcoords="axes fraction", arrowprops={"arrowstyle": "-", "color": "0.35", "lw": 0.8},
    )  # fmt: skip
    axis.set(xscale="log", xlim=(LOWEST, INFINITY * 1.1), ylim=(0.48, 1.12), xlabel=FEATURE)
    axis.set_xticks(
        [5, 10, 20, 50, 100, 1000, INFINITY], ["5", "10", "20", "50", "100", "1000", "∞"]
    )
    axis.set_yticks(np.linspace(0.5, 1, 6), [f"{share:.0%}" for share in np.linspace(0.5, 1, 6)])
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)


def main(folder: Path) -> None:
    data = load_breast_cancer()
    X, y, names = data.data, data.target, [str(name) for name in data.target_names]
    model = make_pipeline(
        StandardScaler(), MLPClassifier((32, 32), max_iter=500, random_state=0)
    ).fit(X, y)
    safe = ff.guard(model, X, labels=y)

    place = list(data.feature_names).index(FEATURE)
    patient = np.median(X[y == names.index("benign")], axis=0)
    values = np.geomspace(LOWEST, HIGHEST, 2000)
    typed = round(10 * patient[place], 1)
    values = np.sort(np.append(values, typed))
    rows = np.tile(patient, (len(values), 1))
    rows[:, place] = values
    up = np.eye(X.shape[1])[place]
    ends = {
        "As trained": ff.at_infinity(ff.capture(model), patient, up),
        "The same model, guarded": safe.at_infinity(patient, up),
    }
    answers = [model.predict_proba(rows), safe.predict_proba(rows)]

    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (title, far), p in zip(axes, ends.items(), answers, strict=True):
        limit = far.probabilities.mean(dim=0)[0].numpy()
        draw(axis, values, p, limit, X[:, place], typed, names)
        axis.set_title(title, fontsize=12)
        print(f"{title}: {limit.max():.1%} sure of {names[limit.argmax()]} at infinity")
    axes[0].set_ylabel("how sure the model is")
    for name, colour in COLOURS.items():
        axes[1].plot([], [], color=colour, lw=2.2, label=f"says {name}")
    axes[1].legend(loc="upper right", frameon=False, fontsize=9, bbox_to_anchor=(1.0, 0.93))
    print(f"  {save_figure(figure, folder / 'one-feature.png')}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "farfield-examples"))
