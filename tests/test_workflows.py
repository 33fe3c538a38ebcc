"""Workflows of the code host run what is here: targets, files and versions that exist."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="comes with ray")
ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in FILES}
JOBS = [
    pytest.param(job, id=f"{name}-{title}")
    for name, workflow in WORKFLOWS.items()
    for title, job in workflow["jobs"].items()
]


def commands(job):
    """Its commands, once for each value of the matrix that they name."""
    for step in job["steps"]:
        choices = job.get("strategy", {}).get("matrix", {})
        named = re.findall(r"\$\{\{ matrix\.(\w+) \}\}", step.get("run", ""))
        for value in choices[named[0]] if named else [""]:
            yield re.sub(r"\$\{\{ matrix\.\w+ \}\}", value, step.get("run", ""))


@pytest.mark.parametrize("job", JOBS)
def test_what_a_job_runs_exists(job):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for command in commands(job):
        for target in re.findall(r"\bmake ([a-z-]+)", command):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        for file in re.findall(r"(?<![\w/])\.ci/[\w.]+", command):
            assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_and_takes_actions_of_one_version(job):
    assert job["timeout-minutes"] <= 150
    for step in job["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/own@v1"))


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_workflow_may_only_read(workflow):
    assert workflow["permissions"] == {"contents": "read"}


def test_ci_runs_what_is_run_here_on_every_python_that_is_promised():
    jobs = WORKFLOWS["ci.yml"]["jobs"]
    assert ".ci/run" in commands(jobs["run"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert jobs["core"]["strategy"]["matrix"]["python"] == promised


def test_the_core_of_the_tests_exists():
    listed = (ROOT / ".ci" / "core.txt").read_text("utf-8").split()
    assert listed == [name for name in listed if (ROOT / name).exists()]
