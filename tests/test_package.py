"""The public surface."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import farfield as ff

# A fork for each name: as fresh as a new process where farfield is concerned, and without the
# seconds that PyTorch and others take to load each time.
EACH_ALONE = """
import os, sys
import flint, jinja2, onnx, pydantic, scipy.special, scipy.stats, torch
import pyarrow.compute, pyarrow.csv, pyarrow.parquet
import sklearn.base, sklearn.cluster, sklearn.covariance, sklearn.mixture, sklearn.neighbors
assert not [name for name in sys.modules if name.startswith("farfield")]
failed = []
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        import farfield
        try:
            found = getattr(farfield, name)
            assert callable(found) or name not in ("audit", "guard", "load", "capture")
            os._exit(0)
        except BaseException as error:
            print(name, repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    failed += [name] if os.waitpid(child, 0)[1] else []
sys.exit(bool(failed))
"""


def fresh(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks to begin without farfield")
def test_every_public_name_is_there_before_any_other_was_used():
    """Every package, and one name of each: the others come the same way."""
    names = {"__version__", "load", "capture", *ff._PUBLIC["farfield"]}
    names |= {of_one[0] for of_one in ff._PUBLIC.values()}
    found = fresh(EACH_ALONE, *sorted(names))
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("name", ff.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(ff, name) is not None
    assert name in dir(ff)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(ff.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen | {"__version__"} == set(ff.__all__)


def test_packages_that_are_functions_stay_functions_after_imports_below_them():
    code = (
        "import farfield.guard.protect, farfield.audit.fields, farfield as ff, inspect;"
        "assert {'radii', 'X'} <= set(inspect.signature(ff.guard).parameters);"
        "assert 'ood' in inspect.signature(ff.audit).parameters"
    )
    assert fresh(code).returncode == 0


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ff.nonsense


def test_importing_the_package_is_free():
    code = "import sys, farfield; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    assert fresh(code).returncode == 0
