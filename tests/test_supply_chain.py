"""Pinned versions have hashes, and every dependency's licence is known."""

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

packaging = pytest.importorskip("packaging.requirements", reason="comes with pytest")
ROOT = Path(__file__).parents[1]
# As packages that have no licence expression of their own write it.
WRITTEN = {
    "BSD": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "BSD License": "BSD-3-Clause",
}
WRITTEN |= {"Apache Software License": "Apache-2.0"}


def slug(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_pin_has_hashes():
    pins = re.findall(r"^([^#=\s]+==\S+)", (ROOT / "constraints.txt").read_text(), re.M)
    lock = (ROOT / ".ci" / "requirements.txt").read_text()
    blocks = dict(re.findall(r"^(\S+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", lock, re.M))
    assert set(blocks) == {pin for pin in pins if not pin.startswith("torch==")}, "run .ci/lock"


def test_the_lowest_versions_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)$", (ROOT / ".ci" / "lowest.txt").read_text(), re.M)
    lowest = dict(pins)
    # PyTorch's own bound cannot be had without CUDA: tested is the version of the other tests.
    assert f"torch=={lowest.pop('torch')}" in (ROOT / "constraints.txt").read_text()
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    for text in (*project["dependencies"], *extras):
        wanted = packaging.Requirement(text)
        if text in project["dependencies"] or wanted.name in lowest:
            assert wanted.name == "torch" or str(wanted.specifier) == f">={lowest[wanted.name]}"


def needed():
    """Every distribution that farfield's own requirements bring, without extras."""
    found, waiting = {}, ["farfield"]
    while waiting:
        name = slug(waiting.pop())
        if name in found:
            continue
        found[name] = distribution(name)
        for text in found[name].requires or []:
            requirement = packaging.Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    del found["farfield"]
    return found


def licence(metadata):
    stated = metadata.get("License-Expression")
    if stated:
        return stated
    classifiers = [each for each in metadata.get_all("Classifier", []) if "License ::" in each]
    names = [each.rsplit("::", 1)[-1].strip() for each in classifiers]
    written = names[0] if names else metadata.get("License", "")
    return WRITTEN.get(written, written)


def test_licences_are_listed_as_installed():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \|", page, re.M))
    listed.pop("package")
    installed = {name: licence(each.metadata) for name, each in needed().items()}
    nvidia = {name for name in installed if name.startswith(("nvidia-", "cuda-", "triton"))}
    assert {name: installed[name] for name in installed.keys() - nvidia} == listed


def test_what_is_not_permissive_is_named():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    copyleft = re.compile("GPL|MPL|EPL|CDDL|SSPL|Proprietary", re.I)
    strict = {name for name, each in needed().items() if copyleft.search(licence(each.metadata))}
    assert {name for name in strict if not name.startswith("nvidia-")} == {"python-flint"}
    assert "LGPL, version 3 or later" in page
