"""A saved audit is rendered from its words and numbers alone."""

import subprocess
import sys

import pytest

from farfield.audit.judging import judged
from report import sample_audits as samples

RENDER = """
import sys
from farfield.cli import farfield
farfield(sys.argv[1:], standalone_mode=False)
heavy = {"torch", "scipy", "sklearn", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
exact = [name for name in sys.modules if name.startswith(("farfield.exact", "farfield.graph"))]
assert not exact, exact
from farfield.audit import Audit
from farfield.report.formats import ReportFormat
audit = Audit.from_json(sys.argv[2])
for kind in ReportFormat.__args__:
    audit.render(kind)
assert "torch" not in sys.modules
"""


@pytest.mark.whole
def test_rendering_a_saved_audit_in_any_format_loads_neither_pytorch_nor_the_exact_core(tmp_path):
    audit = judged(samples.tabular(), None)
    audit.to_json(tmp_path / "audit.json")
    command = ["report", str(tmp_path / "audit.json"), "-o", str(tmp_path / "report.html")]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RENDER, *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "100% of directions" in done.stdout
    page = (tmp_path / "report.html").read_bytes()
    assert page == audit.to_html(tmp_path / "again.html").read_bytes()
