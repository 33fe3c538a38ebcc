"""What ``pip install farfield`` gives: the wheel, its version, and all that its commands need."""

import ast
import csv
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import numpy as np
import pytest

import farfield
from module_sources import read

requirements = pytest.importorskip("packaging.requirements", reason="comes with pytest")
onnx = pytest.importorskip("onnx")
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Asked for objects that users hand over, and never imported unless those are there.
OF_USERS = {"pandas", "mlflow"}  # the extra brings mlflow-skinny, which is imported as mlflow


def slug(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def named(texts):
    return {slug(requirements.Requirement(text).name) for text in texts}


CORE = named(PROJECT["dependencies"])
EXTRA = {
    name for key, texts in PROJECT["optional-dependencies"].items() if key not in ("dev", "bench")
    for name in named(texts)
}  # fmt: skip


def test_the_version_has_one_source():
    assert PROJECT["dynamic"] == ["version"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (.+)$", citation, re.M)[1] == farfield.__version__


owners = cache(packages_distributions)


def distributions(nodes):
    """The distributions that imports need."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for top in {name.partition(".")[0] for name in names} - {"farfield"}:
            if top not in sys.stdlib_module_names:
                yield slug(owners().get(top, [top])[0])


@pytest.mark.parametrize("path", [Path(farfield.__file__).parent], ids=["farfield"])
def test_what_is_imported_is_a_dependency(path):
    optional, undeclared = set(), set()
    for file in path.rglob("*.py"):
        found = read(file).imports
        at_once = [each.node for each in found if not each.types and not each.waits]
        optional |= {(file.name, name) for name in set(distributions(at_once)) - CORE}
        every = set(distributions(each.node for each in found))
        undeclared |= {(file.name, name) for name in every - CORE - EXTRA - OF_USERS}
    assert not optional, "imported at once, but only an extra brings it"
    assert not undeclared


def build(source, folder):
    """Wheel and source archive of a tree, by name."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=source, check=True, capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
    )  # fmt: skip
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with wheel and source archive of this tree."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    return next(built.glob("*.whl"))


def test_two_builds_are_the_same_to_the_byte(built, tmp_path):
    """Whoever builds it, wherever and whenever, gets the archives that were published."""
    here = {path.name: path.read_bytes() for path in built.iterdir()}
    source = next(name for name in here if name.endswith(".tar.gz"))
    with tarfile.open(built / source) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (elsewhere,) = (tmp_path / "elsewhere").iterdir()
    for path in elsewhere.rglob("*.py"):
        os.utime(path, (0, 0))
    assert build(elsewhere, tmp_path / "there") == here


def test_the_source_archive_has_what_the_tests_read(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"README.md", "Makefile", ".ci/run", ".github/workflows/ci.yml", "SECURITY.md"}
    assert wanted | {"tests/test_wheel.py", "tools/check_certificate.py"} <= names


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def needed(texts):
    """Every distribution that some requirements bring, without extras."""
    found, waiting = {}, list(texts)
    while waiting:
        requirement = requirements.Requirement(waiting.pop())
        name = slug(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if name in found or not applies:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            # PyTorch for other machines asks for more than this one has.
            assert name.startswith(("nvidia-", "cuda-", "triton")), name
            continue
        waiting += found[name].requires or []
    return found


def install(wheel, site):
    """A folder of packages with the wheel and the distributions that it asks for; nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for each in needed(metadata(wheel).get_all("Requires-Dist", [])).values():
        for top in {file.parts[0] for file in each.files or [] if file.parts[0] not in ("..", "")}:
            source = Path(each.locate_file(top))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)


def write_example(folder):
    """A small network as an ONNX file, and rows to audit it on."""
    rng = np.random.default_rng(0)
    numbers = {
        "W": rng.normal(size=(2, 8)), "b": rng.normal(size=8),
        "V": rng.normal(size=(8, 2)), "c": rng.normal(size=2),
    }  # fmt: skip
    make, real = onnx.helper, onnx.TensorProto.FLOAT
    graph = make.make_graph(
        [
            make.make_node("Gemm", ["x", "W", "b"], ["h"]),
            make.make_node("Relu", ["h"], ["r"]),
            make.make_node("Gemm", ["r", "V", "c"], ["z"]),
            make.make_node("Softmax", ["z"], ["p"], axis=1),
        ],
        "net",
        [make.make_tensor_value_info("x", real, ["rows", 2])],
        [make.make_tensor_value_info("p", real, ["rows", 2])],
        [onnx.numpy_helper.from_array(value.astype("f4"), key) for key, value in numbers.items()],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    with (folder / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["age", "dose"], *rng.normal(size=(60, 2)).round(4).tolist()])


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_newer_pythons_read_every_module_without_a_warning(version):
    python = shutil.which(f"python{version}")
    asked = python and subprocess.run([python, "--version"], capture_output=True, check=False)
    if not asked or asked.returncode:
        pytest.skip(f"there is no Python {version}")
    code = "import sys, pathlib\nfor p in pathlib.Path(sys.argv[1]).rglob('*.py'): " \
        "compile(p.read_bytes(), p, 'exec')"  # fmt: skip
    package = Path(farfield.__file__).parent
    done = subprocess.run(
        [python, "-I", "-W", "error", "-c", code, package],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_wheel_audits_with_its_own_dependencies_alone(wheel, tmp_path):
    assert metadata(wheel)["Version"] == farfield.__version__
    site = tmp_path / "site"
    install(wheel, site)
    write_example(tmp_path)
    code = (
        f"import sys; sys.path.append({str(site)!r}); from farfield.cli import main;"
        "assert not any(name.endswith('site-packages') for name in sys.path); main()"
    )
    arguments = ["audit", "model.onnx", "--data", "train.csv", "--directions", "20"]
    # Without the site module: nothing but the standard library is found.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "of directions" in done.stdout
    made = {path.name for path in (tmp_path / "farfield-audit").iterdir()}
    assert made == {"audit.json", "report.html"}


def test_types_are_for_users_too(wheel):
    """The wheel says that it has types; whether they are right, the type checker is asked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["mypy"]["strict"]
    assert "tests/strict_sample.py" in project["tool"]["mypy"]["files"]
    own = Path(farfield.__file__).parent
    modules = {str(path.relative_to(own.parent)) for path in own.rglob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        assert modules | {"farfield/py.typed"} <= set(archive.namelist())
