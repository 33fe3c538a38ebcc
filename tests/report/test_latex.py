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


def width(table):
    """How many columns a table says that it has."""
    first = table.splitlines()[0]
    plain = re.sub(r">\{[^}]*\}p\{[^}]*\}", "p", re.match(r"\\begin\{\w+\}\{(.*)\}$", first)[1])
    assert re.fullmatch("[lp][rp]+", plain)
    return len(plain)


@given(st.text())
def test_escaped_text_is_balanced(text):
    made = escape(text)
    assert balanced(made)
    assert "&" not in made.replace(r"\&", "")


@pytest.mark.parametrize("name", samples.EVERY)
def test_tables_have_as_many_cells_as_columns(name):
    for table in audit_tables(samples.EVERY[name]()).values():
        columns = width(table)
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


def test_columns_wrap_where_a_line_has_no_room():
    tables = audit_tables(judged(samples.tabular(), None))
    assert tables["findings"].startswith(r"\begin{tabular}{lrr}")
    assert tables["features"].count(r"\arraybackslash}p{") >= 2
    shares = [float(each) for each in re.findall(r"p\{([\d.]+)\\linewidth", tables["features"])]
    assert 0.3 < sum(shares) < 1


DOCUMENT = (
    r"\documentclass{article}\usepackage[T1]{fontenc}"
    r"\usepackage{array,booktabs,longtable,textcomp}\begin{document}\noindent "
)


@pytest.mark.skipif(LATEX is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(
    "name", [each for each in samples.EVERY if each not in ("hostile", "bare")]
)
def test_latex_accepts_the_tables_and_they_fit_the_page(tmp_path, name):
    source = DOCUMENT + judged(samples.EVERY[name](), None).render("latex") + r"\end{document}"
    (tmp_path / "tables.tex").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [LATEX, "-halt-on-error", "-interaction=nonstopmode", "tables.tex"],
        cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-2000:]
    over = [float(each) for each in re.findall(r"Overfull \\hbox \(([\d.]+)pt", said)]
    assert max(over, default=0.0) < 10
