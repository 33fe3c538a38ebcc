"""Every test starts from the same random state, and leaves the global one as it was."""

import atexit
import functools
import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def leave_at_once(worker):
    """End a worker without taking PyTorch down piece by piece, which takes seconds."""
    if os.getpid() == worker:  # what it forked ends as it likes
        os._exit(0)


# The first to be registered is the last to be called: all else has been cleaned up by then.
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(leave_at_once, os.getpid())

# What is imported stays: no collection of garbage looks through it, then or later.
gc.disable()


# Whoever asks for one of these runs a whole program: a command, a browser, a cluster, a build.
WHOLE = {"nursery", "browser", "cluster", "built"}


@pytest.hookimpl(tryfirst=True)  # what is marked is chosen by its mark afterwards
def pytest_collection_modifyitems(items):
    """Whole programs come first: they take longest, and no worker is left alone with one.

    Before them come files that ask the nursery, so that one worker needs one, and no other.
    """
    asked = {item: set(getattr(item, "fixturenames", ())) for item in items}
    for item in items:
        if not WHOLE.isdisjoint(asked[item]):
            item.add_marker("whole")
    forking = {item.path for item in items if "nursery" in asked[item]}
    items.sort(key=lambda item: (item.path not in forking, item.path.parent != HERE))


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    # Programs of PyTorch are many small objects, few of them garbage: looked through less often.
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _seeded():
    import torch  # not needed where xdist only hands out tests

    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(0)
    yield
    generator.set_state(before)


@pytest.fixture(scope="session", autouse=True)
def _coarse_pictures():
    """Pictures have fewer dots: what is on them is looked at, not how fine it is."""
    from farfield.report import figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "DOTS_PER_INCH", 40)
        yield


@pytest.fixture(scope="module")
def short_attack():
    """Audits attack guards from few places, in few steps."""
    from farfield.audit.sections import guard

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "RESTARTS", (2, 4))
        patch.setattr(guard, "STEPS", 10)
        yield


@pytest.fixture(scope="session")
def quick_onnx():
    """Lets PyTorch read the source of what it writes ONNX with once, not for every file."""
    try:
        from torch._export import utils
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # writing is skipped too
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(ONNXRegistry.from_torchlib)
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(once))
        # Once for each of its namespaces, of which skops makes hundreds by looking into torch.ops.
        named = functools.cache(utils._materialize_cpp_cia_ops)
        patch.setattr(utils, "_materialize_cpp_cia_ops", named)
        yield


@pytest.fixture(scope="session")
def nursery():
    """Runs programs in new processes that are quick to begin."""
    if not hasattr(os, "fork"):
        pytest.skip("forks to begin without farfield")
    from nursery import Nursery

    with Nursery() as made:
        yield made
