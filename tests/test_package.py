"""The public surface."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import farfield as ff

ALONE = """
import sys, warnings
warnings.simplefilter("error")
import farfield
for name in sys.argv[1:]:
    found = getattr(farfield, name)
    assert callable(found) or name not in ("audit", "guard", "load", "capture")
"""


def fresh(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_every_public_name_is_there_before_any_other_was_used(nursery):
    """Every package, then the names of one of its modules, which Python imports after it."""
    below = [(home.split(".")[1], *names) for home, names in list(ff._PUBLIC.items())[1:]]
    alone = {*ff._PUBLIC["farfield"], "__version__"} - {package for package, *_ in below}
    failed = [
        done.stderr.decode()
        for names in (*below, *((name,) for name in sorted(alone)))
        if (done := nursery.run(ALONE, *names, new=True)).returncode
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", ff.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(ff, name) is not None
    assert name in dir(ff)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(ff.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen | {"__version__"} == set(ff.__all__)


def test_packages_that_are_functions_stay_functions_after_imports_below_them(nursery):
    code = (
        "import farfield.guard.protect, farfield.audit.fields, farfield as ff, inspect;"
        "assert {'radii', 'X'} <= set(inspect.signature(ff.guard).parameters);"
        "assert 'ood' in inspect.signature(ff.audit).parameters"
    )
    assert nursery.run(code, new=True).returncode == 0


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ff.nonsense


def test_importing_the_package_is_free():
    code = "import sys, farfield; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    assert fresh(code).returncode == 0
