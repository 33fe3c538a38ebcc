"""Rows in order, here and on a real local Ray instance."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import farfield as ff
from farfield.audit import entry_errors as making
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
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_a_ray_cluster_gives_the_same_numbers(cluster):
    data = ff.datasets.half_moons(0)
    model = ff.ReLUClassifier(hidden=(8,), epochs=5, random_state=0).fit(data.X, data.y)
    network = ff.capture(model)
    chunks = [(data.X[k : k + 100], data.y[k : k + 100]) for k in range(0, 500, 100)]
    here = [p for p, _ in in_order("local", mean_probabilities, network, chunks)]
    there = [p for p, _ in in_order("ray", mean_probabilities, network, chunks)]
    np.testing.assert_allclose(np.concatenate(here), np.concatenate(there), atol=1e-9)
    options = {"ood": {"far": data.X * 9}, "directions": 20}
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
    """A model that, anywhere but here, tells its process and stops there until one was killed."""
    here = os.getpid()

    def model(given):
        if os.getpid() != here:
            (folder / f"{os.getpid()}.worker").touch()
            ends = time.monotonic() + 60
            while not (folder / "killed").exists() and time.monotonic() < ends:
                time.sleep(0.02)
        first = np.asarray(given, dtype=float)[:, 0]
        return np.stack([first > 3, first <= 3], axis=1) * 0.98 + 0.01

    return model


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
def test_a_worker_that_is_killed_changes_nothing(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "rows_together", lambda width: 100)
    X = np.random.default_rng(0).normal(2.0, 1.0, (500, 2))
    model, killed = waiting_to_be_killed(tmp_path), []
    killer = threading.Thread(target=kill_one, args=(tmp_path, killed))
    killer.start()
    there = ff.entry_errors(model, X, engine="ray")
    killer.join()
    # The work of the one that died was done again by another.
    assert len(killed) == 1
    assert len(list(tmp_path.glob("*.worker"))) > 1
    here = ff.entry_errors(model, X)
    assert there == here
    assert there.exact
    assert there.mistakes[0].flips > 0
