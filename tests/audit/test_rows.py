"""Rows in order, here and on a real local Ray instance."""

import numpy as np
import pytest

import farfield as ff
from farfield.audit.rows import in_order
from farfield.audit.sections.health import mean_probabilities


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
