"""Renderers of a confidence table: they read it, and escape every name."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import InputError
from farfield.evaluate import ConfidenceRow, ConfidenceTable, ModelConfidence
from farfield.report.confidence import (
    confidence_html,
    confidence_latex,
    format_confidence_table,
    save_confidence_histograms,
    save_image_grid,
)


def model(name: str, shift: float) -> ModelConfidence:
    histogram = tuple(range(50))
    return ModelConfidence(
        name,
        0.0051,
        (
            ConfidenceRow("digits & co", 100, 0.991, None, None, histogram),
            ConfidenceRow("<noise>", 50, 0.4 + shift, 0.9985, 0.0, histogram),
        ),
    )


TABLE = ConfidenceTable("digits & co", (model("plain_1", 0.0), model("ceda", 0.1)))


def test_console_has_a_row_per_set_and_a_block_per_model() -> None:
    lines = format_confidence_table(TABLE).splitlines()
    assert len(lines) == 4
    assert "plain_1 (TE: 0.51%)" in lines[0]
    assert lines[1].split() == ["MMC", "AUROC", "FPR@95"] * 2
    assert lines[2].split("co")[1].split() == ["0.991", "—", "—"] * 2
    assert lines[3].split() == ["<noise>", "0.400", "0.999", "0.000", "0.500", "0.999", "0.000"]
    # Numbers stand below their titles.
    assert lines[3].index("0.400") + 5 == lines[1].index("MMC") + 3


def test_latex_escapes_and_has_as_many_cells_as_columns() -> None:
    text = confidence_latex(TABLE)
    assert r"\begin{tabular}{lrrrrrr}" in text
    assert r"digits \& co & 0.991 & --- & --- & 0.991 & --- & --- \\" in text
    assert r"plain\_1 (TE: 0.51\%)" in text
    assert r"\textless{}noise\textgreater{} & 0.400" in text
    for line in text.splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.replace(r"\&", "").count("&") == 6


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


def test_html_escapes_names() -> None:
    parser = Cells()
    parser.feed(confidence_html(TABLE))
    assert "noise" not in parser.tags
    assert "<noise>" in parser.texts
    assert parser.texts.count("0.991") == 2
    assert parser.tags.count("tr") == 4


def test_histograms_are_drawn(tmp_path: Path) -> None:
    path = save_confidence_histograms(TABLE, tmp_path / "bars.png", data=["digits & co", "<noise>"])
    assert path.read_bytes().startswith(b"\x89PNG")
    save_confidence_histograms(TABLE, tmp_path / "last.svg")
    assert "noise" in (tmp_path / "last.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="no row 'fog'"):
        save_confidence_histograms(TABLE, tmp_path / "bars.png", data=["fog"])


def test_grids_are_drawn_for_gray_and_colour(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = {"noise": generator.random((4, 3, 8, 8)), "plain": generator.random((4, 3, 8, 8))}
    path = save_image_grid(rows, tmp_path / "grid.png", captions={"plain": ["1.000"] * 4})
    assert path.read_bytes().startswith(b"\x89PNG")
    save_image_grid({"gray": generator.random((2, 1, 5, 5))}, tmp_path / "gray.png", title="noise")


@pytest.mark.parametrize(
    ("rows", "captions", "match"),
    [
        ({"a": np.zeros((2, 1, 4, 4)), "b": np.zeros((3, 1, 4, 4))}, None, "same number"),
        ({"a": np.zeros((2, 2, 4, 4))}, None, "1 or 3 channels"),
        ({}, None, "same number"),
        ({"a": np.zeros((2, 1, 4, 4))}, {"a": ["x"]}, "one text per image"),
        ({"a": np.zeros((2, 1, 4, 4))}, {"b": ["x", "y"]}, "one text per image"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    rows: Any, captions: Any, match: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=match):
        save_image_grid(rows, tmp_path / "grid.png", captions=captions)
