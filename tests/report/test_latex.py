"""Tables as LaTeX: balanced, escaped, and accepted where LaTeX is installed."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.audit.judging import judged
from farfield.report.latex import audit_tables, escape
from report import sample_audits as samples

LATEX = shutil.which("pdflatex")


def balanced(text):
    """Whether braces close and nothing special stands alone."""
    depth = 0
    bare = re.sub(r"\\[\\{}$&#%_]", "", text)
    for letter in bare:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            return False
    return depth == 0 and not re.search(r"[#%_~]|(?<!\\)\^", bare) and bare.count("$") % 2 == 0


@given(st.text())
def test_escaped_text_is_balanced(text):
    made = escape(text)
    assert balanced(made)
    assert "&" not in made.replace(r"\&", "")


@pytest.mark.parametrize("name", samples.EVERY)
def test_tables_have_as_many_cells_as_columns(name):
    for table in audit_tables(samples.EVERY[name]()).values():
        columns = len(re.search(r"\{(lr+)\}", table)[1])
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert len(rows) >= 2
        assert all(len(re.findall(r"(?<!\\)&", row)) == columns - 1 for row in rows)
        assert balanced("\n".join(row.removesuffix(r"\\") for row in rows).replace("&", ""))
        assert table.count(r"\begin") == table.count(r"\end{") == 1


def test_every_table_is_there():
    usual = {"families", "features", "health", "detection"}
    assert set(audit_tables(samples.tabular())) == {*usual, "guard"}
    assert set(audit_tables(samples.tabular(guard=False))) == usual
    assert set(audit_tables(samples.regressor())) == {"families", "spread", "health"}
    judged_one = audit_tables(judged(samples.tabular(), None))
    assert set(judged_one) == {*usual, "guard", "findings"}
    assert r"FF101 certain in every direction & error &" in judged_one["findings"]
    assert audit_tables(samples.bare()) == {}
    assert audit_tables(samples.tabular())["features"].count("\\\\\n") == 31


def test_rows_cannot_begin_an_argument():
    assert escape("[3pt] x") == "{[}3pt] x"
    assert escape("*") == "{*}"


@pytest.mark.skipif(LATEX is None, reason="pdflatex is not installed")
def test_latex_accepts_the_tables(tmp_path):
    tables = audit_tables(samples.tabular()) | {"mixed": audit_tables(samples.mixed())["families"]}
    body = "\n\n".join(tables.values())
    source = (
        r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,longtable}"
        rf"\begin{{document}}{body}\end{{document}}"
    )
    (tmp_path / "tables.tex").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [LATEX, "-halt-on-error", "-interaction=nonstopmode", "tables.tex"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
