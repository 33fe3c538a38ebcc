"""Rows in order, here and on a real local Ray instance."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

import farfield as ff
from farfield.audit import rows
from farfield.audit.rows import in_order
from farfield.audit.sections.health import mean_probabilities
from farfield.errors import FarfieldError


def twice(shared, item):
    return shared * item


def test_local_results_come_in_order_and_as_they_are_asked_for():
    asked = []

    def items():
        for item in range(5):
            asked.append(item)
            yield item

    results = in_order("local", twice, 10, items())
    assert next(results) == 0
    assert asked == [0]
    assert list(results) == [10, 20, 30, 40]


@pytest.fixture(scope="module")
def cluster():
    """A real cluster of one worker, without what watches over clusters and their logs."""
    ray = pytest.importorskip("ray")
    from ray._private.node import Node

    with pytest.MonkeyPatch.context() as patch:
        for watching in ("start_monitor", "start_log_monitor", "start_api_server"):
            patch.setattr(Node, watching, lambda *_, **__: None, raising=False)
        ray.init(
            num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False,
            _system_config={"worker_niceness": 0},
        )  # fmt: skip
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_a_ray_cluster_gives_the_same_numbers(cluster):
    data = ff.datasets.half_moons(0, points=100)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    network = ff.capture(model, torch.zeros(1, 2))
    chunks = [(data.X[k : k + 20], data.y[k : k + 20]) for k in range(0, 100, 20)]
    here = [p for p, _ in in_order("local", mean_probabilities, network, chunks)]
    there = [p for p, _ in in_order("ray", mean_probabilities, network, chunks)]
    np.testing.assert_allclose(np.concatenate(here), np.concatenate(there), atol=1e-9)
    options = {"ood": {"far": data.X * 9}, "directions": 5}
    local, spread = (
        ff.audit(model, data.X, data.y, engine=engine, **options) for engine in ("local", "ray")
    )
    assert spread.entry_errors == local.entry_errors
    assert spread.entry_errors.exact
    assert spread.health.numbers["nll"].value == pytest.approx(
        local.health.numbers["nll"].value, abs=1e-9
    )
    for one, other in zip(local.detection, spread.detection, strict=True):
        assert other.auroc.value == pytest.approx(one.auroc.value, abs=1e-9)


@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_workers_that_always_die_are_told_in_one_line(cluster, monkeypatch):
    monkeypatch.setattr(rows, "RETRIES", 0)
    with pytest.raises(FarfieldError, match=r"died 1 times over .* engine='local'"):
        list(in_order("ray", lambda _, __: os._exit(1), None, [1]))


def waiting_to_be_killed(folder):
    """Work that tells its process, and stops there until one was killed."""

    def work(shared, item):
        (folder / f"{os.getpid()}.worker").touch()
        ends = time.monotonic() + 60
        while not (folder / "killed").exists() and time.monotonic() < ends:
            time.sleep(0.02)
        return shared * item

    return work


def kill_one(folder, killed):
    """Kill the first worker that tells its process, in the middle of its work."""
    ends = time.monotonic() + 60
    while not (found := sorted(folder.glob("*.worker"))) and time.monotonic() < ends:
        time.sleep(0.02)
    worker = int(found[0].stem)
    os.kill(worker, signal.SIGKILL)
    killed.append(worker)
    (folder / "killed").touch()


@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_a_worker_that_is_killed_changes_nothing(cluster, tmp_path):
    work, killed = waiting_to_be_killed(tmp_path), []
    killer = threading.Thread(target=kill_one, args=(tmp_path, killed))
    killer.start()
    there = list(in_order("ray", work, 10, range(5)))
    killer.join()
    # The work of the one that died was done again by another.
    assert len(killed) == 1
    assert len(list(tmp_path.glob("*.worker"))) > 1
    assert there == list(in_order("local", work, 10, range(5))) == [0, 10, 20, 30, 40]
