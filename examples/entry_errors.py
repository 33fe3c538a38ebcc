"""What typing errors do to a classifier's answers: every column against every error.

Usage: python examples/entry_errors.py [FOLDER] [COLUMNS]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import farfield as ff
from farfield.report import save_figure

# What farfield calls an error to what the picture calls it.
ERRORS = {
    "times 10": "10 times it", "times 100": "100 times it", "a tenth": "a tenth",
    "a hundredth": "a hundredth", "-1": "-1", "999": "999", "-999": "-999",
}  # fmt: skip
# The darkest colour.
TOP = 0.7


def draw(shares: np.ndarray, columns: list[str], errors: list[str]) -> Figure:
    """A cell for each column and error, darker where more rows get another class."""
    figure = Figure(figsize=(8.2, 0.9 + 0.27 * len(columns)), layout="constrained")
    axis = figure.add_subplot()
    image = axis.imshow(shares, cmap="Purples", vmin=0, vmax=TOP, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        if np.isfinite(share):
            colour = "white" if share > 0.6 * TOP else "black"
            axis.text(
                column, row, f"{share:.0%}", ha="center", va="center", fontsize=8, color=colour
            )
    axis.set_title("What is typed instead of the value", fontsize=11, pad=10)
    axis.set_xticks(range(len(errors)), [ERRORS[error] for error in errors], fontsize=9)
    axis.set_yticks(range(len(columns)), columns, fontsize=9)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axis, pad=0.02, aspect=30, extend="max")
    bar.set_ticks([0, 0.35, TOP], labels=["0%", "35%", f"{TOP:.0%}"])
    bar.set_label("patients whose diagnosis changes", fontsize=9)
    bar.outline.set_visible(False)
    return figure


def main(folder: Path, width: int = 30) -> None:
    data = load_breast_cancer()
    X, names = data.data[:, -width:], [str(name) for name in data.feature_names[-width:]]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, data.target)
    found = ff.entry_errors(model, X, data.target, features=names)

    flips = {(each.column, each.error): float(each.flips) for each in found.mistakes}
    errors = [error for error in ERRORS if any(error == other for _, other in flips)]
    shares = np.array([[flips.get((name, error), np.nan) for error in errors] for name in names])
    worst = np.argsort(-np.nanmean(shares, axis=1))[:16]
    figure = draw(shares[worst], [names[place] for place in worst], errors)
    print(f"{found.sampled} patients, {len(found.mistakes)} errors of data entry; the worst:")
    for line in found.worst[:3]:
        print(f"  {line}")
    print(f"  {save_figure(figure, folder / 'entry-errors.png')}")


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else "farfield-examples"),
        *map(int, sys.argv[2:3]),
    )
