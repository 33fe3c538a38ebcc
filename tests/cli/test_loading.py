"""How commands load what they run."""

import gc
import os
import subprocess
import sys

import pytest

from farfield import forks
from farfield.cli import loading as module
from farfield.cli.loading import loading, page_compiled


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("fresh")
def test_garbage_is_looked_for_again_however_loading_ends():
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()


def test_a_process_that_has_loaded_everything_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", gc)
    before = gc.get_freeze_count()
    with loading():
        assert gc.isenabled()
    assert gc.get_freeze_count() == before


BESIDE = """
import os, sys
from pathlib import Path
from farfield.cli.loading import loading, page_compiled
with page_compiled() as templates:
    with loading():
        assert "torch" not in sys.modules
        print("libtorch_python" in Path("/proc/self/maps").read_text())
        import torch
    print(len(os.listdir("/proc/self/task")))
    templates()
from farfield.report.html import page
page.Environment._generate = None  # nothing is left to be compiled
print(page.environment().get_template("page.html").name, torch.ones(2).sum().item())
"""


@pytest.mark.whole
@pytest.mark.skipif(not forks.TASKS.exists() or os.cpu_count() == 1, reason="needs Linux, 2 cores")
def test_the_other_core_compiles_templates_and_opens_the_library():
    done = subprocess.run(
        [sys.executable, "-c", BESIDE], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "1", "page.html", "2.0"], done.stderr


@pytest.mark.usefixtures("fresh")
def test_a_library_that_is_elsewhere_is_left_to_pytorch(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with loading():
        pass
    module._open_library(tmp_path / "no.so")


def test_without_another_process_a_page_compiles_its_own(monkeypatch):
    monkeypatch.setattr(forks, "TASKS", forks.TASKS / "nowhere")
    with page_compiled() as templates:
        templates()
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    with page_compiled() as templates:
        templates()
