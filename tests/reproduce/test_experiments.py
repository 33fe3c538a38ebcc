"""Every experiment runs from end to end in a tiny setting, on made-up data where it needs some."""

import gzip
import json
import re
import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import farfield.reproduce
from farfield.datasets import half_moons
from farfield.report import confidence
from farfield.report.figure import save_figure
from farfield.reproduce import NAMES, RunRequest, demo, find_experiment, findings
from farfield.reproduce import know_your_limits_search as search
from farfield.reproduce import know_your_limits_theorem as theorem
from farfield.reproduce.hein_models import LENETS, RESNETS
from farfield.reproduce.models import SEVERAL, SINGLE, build
from farfield.reproduce.runner import run_experiment
from farfield.reproduce.surfaces import SurfaceGrid, differentiable, score_surfaces

pytestmark = pytest.mark.whole

LENET = {
    "seed": 0, "epochs": {"plain": 1, "ceda": 1, "acet": 1}, "epoch_images": 16, "acet_steps": 1,
    "acet_step": 0.3, "warm_start": True,
}  # fmt: skip
TINY = {
    "demo": {
        # The command's own test has an ensemble and a guarded network.
        "directions": 24, "samples": 8, "models": ["One ReLU network", "RBF network"],
    },
    "know-your-limits-1": {"networks": 2, "epochs": 3, "step": 1.0},
    "know-your-limits-3": {
        "step": 1.0, "directions": 24, "members": 2, "samples": 3,
        "models": ["NN", "ensemble"],
    },
    "know-your-limits-search": {
        "evaluations": 3, "layers": [1, 2], "models": ["NN", "Bayes by backprop"],
    },
    "know-your-limits-theorem": {
        "points": 6, "exponents": [0.0, 6.0, 4], "epochs": 5, "small_networks": 2,
        "models": ["single network", "ensemble"],
    },
    "first-version-1": {
        "step": 1.0, "epochs": 2, "members": 2, "samples": 3, "directions": 24,
        "models": ["single network", "ensemble"],
    },
    "hein-1": {"hidden": [8, 8], "epochs": 1, "pixels": 12, "region_hidden": [4, 4]},
    "hein-table-1": {
        "networks": list(LENETS), "images": 12, "noise": 20, "attacked": 2, "noise_steps": 2,
        "sample_steps": 2, "lenet": LENET,
    },
    "hein-table-2": {
        "networks": [LENETS[0], LENETS[2]], "images": 3, "exact_lenet": 0, "proofs": 1,
        "limit_rays": 2, "ratio": 8.0, "lenet": LENET,
    },
    "hein-lenets": {
        "phases": {
            "plain": [{"objective": "nll", "epochs": 1, "epoch_images": 16}],
            "ceda": [{"objective": "ceda", "epochs": 1, "epoch_images": 16}],
            "acet": [
                {"objective": "acet", "attack": {"steps": 1, "step_size": 0.3}, "after": "ceda",
                 "epochs": 1, "epoch_images": 16},
            ],
        },
        "images": 12, "noise": 20, "attacked": 2, "noise_steps": 2, "sample_steps": 2, "rays": 2,
        "crossings": 1,
    },
    "hein-figures": {"shown": 3, "steps": 2, "samples": 4, "sample_steps": 2, "lenet": LENET},
    "hein-theorem-3-2": {"gammas": ["auto"], "directions": 24, "rings": 60, "epochs": 3},
    "table-objectives": {
        "hidden": [4], "epochs": {"icu": 1, "credit": 1}, "moved_rows": 2, "random_rays": 4,
        "objectives": ["plain", "ceda"],
    },
    "practical-regression": {"members": [1, 2], "repeats": 1, "steps": 5, "test_points": 50},
    "practical-classification": {
        "members": [1, 2], "hidden": [8], "steps": 3, "grid": 12, "epsilons": [0.0, 0.01],
    },
    "every-model": {
        "tables": ["wine"],
        "models": ["logistic regression", "decision tree", "ReLU network"],
        "rows": 100,
        "directions": 10,
        "resamples": 40,
    },
    "guard": {
        "methods": ["plain", "guard", "nearest"], "directions": 20, "kept": [0.95],
        "attack": {"rows": 4, "steps": 2},
    },
    "uci": {"epochs": 1, "splits": {"boston": 2, "yacht": 1}, "rates": [0.01]},
    "trust-issues": {
        "epochs": 1, "members": 2, "samples": 2, "hidden": [8], "features": 2, "patients": 20,
        "models": ["network", "ensemble"], "groups": ["coronary unit", "85 and older"],
    },
}  # fmt: skip


def write_idx(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    path.write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))


def write_csv(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_bytes(gzip.compress("\n".join(rows).encode()))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder with the right names and nothing of interest in it."""
    folder = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    for name in ("mnist/train", "mnist/t10k", "fashion_mnist/t10k"):
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", generator.integers(0, 256, (40, 28, 28)))
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", np.arange(40) % 10)
    (folder / "images").mkdir()
    for name, shape in (
        ("cifar10_test_2000", (20, 32, 32, 3)),
        ("svhn_test_crops_2000", (20, 32, 32, 3)),
        ("emnist_letters_2000", (20, 28, 28)),
    ):
        pixels = generator.integers(0, 256, shape).astype(np.uint8)
        np.savez(folder / "images" / f"{name}.npz", images=pixels, labels=np.arange(20) % 10)
    (folder / "hein2019").mkdir()
    for name in RESNETS:
        (folder / "hein2019" / f"{name}.npz").touch()
    for name in find_experiment("uci").PUBLISHED:
        x = generator.normal(size=(60, 2))
        columns = {"x0": x[:, 0], "x1": x[:, 1], "y": x.sum(axis=1)}
        write_csv(folder / "uci_regression" / f"{name}.csv.gz", columns)
        index = np.array([[0, 1, 2, 3], [4, 5, 6, 7]], dtype=np.int32)
        np.savez(folder / "uci_regression" / f"{name}_test_index.npz", test_index=index)
    n = 200
    patients = {
        "RecordID": np.arange(n), "set": [*("abc" * n)[:n]], "Age": generator.integers(20, 95, n),
        "ICUType": np.arange(n) % 4 + 1, "HR_mean": generator.normal(80, 10, n),
        "GCS_min": generator.integers(3, 16, n), "SAPS_I": [1] * n, "SOFA": [1] * n, "LOS": [1] * n,
        "Survival": [1] * n, "death": generator.integers(0, 2, n),
    }  # fmt: skip
    write_csv(folder / "tabular" / "physionet2012_icu_features.csv.gz", patients)
    clients = {"ID": np.arange(n), "LIMIT_BAL": generator.normal(size=n)}
    clients |= {"AGE": generator.normal(size=n), "default.payment.next.month": np.arange(n) % 2}
    write_csv(folder / "tabular" / "credit_default_uci.csv.gz", clients)
    return folder


def small_lenet():
    """The same layers on the same images, narrow: how wide they are is not what runs here."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(2, 4, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(4 * 7 * 7, 16), torch.nn.ReLU(),
        torch.nn.Linear(16, 10),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def small_networks(monkeypatch):
    """Stand in for LeNets, and for the authors' networks, whose files are not here."""
    from farfield.reproduce import hein_models

    def read(request, name, trained=None):
        if trained is not None:
            return hein_models.network_of(trained)
        generator = torch.Generator().manual_seed(len(name))
        weight = torch.randn(10, 3072, generator=generator)
        return lambda x: x.flatten(1).to(weight) @ weight.T / 50

    monkeypatch.setattr(hein_models, "read_network", read)
    monkeypatch.setattr(hein_models, "lenet", small_lenet)


@pytest.fixture(autouse=True)
def few_points(monkeypatch):
    """Half-moons of fewer points, where several models are trained on them."""
    few = partial(half_moons, points=60, validation=30)
    for name in ("demo", "know-your-limits-3", "know-your-limits-search"):
        monkeypatch.setattr(find_experiment(name), "half_moons", few)


def save_coarsely(figure, path):
    """Draw a picture with few pixels, without ticks and the search for the best places."""
    from matplotlib.ticker import NullLocator

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.set_layout_engine(None)  # "none" would draw everything twice, as layouts do
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        axis.set_major_locator(NullLocator())
        axis.set_minor_locator(NullLocator())
    figure.savefig(path, dpi=20)
    return path


def save_one_format(figure, path):
    """Draw the picture that is on the page, and leave the other one empty."""
    if path.suffix == ".png":
        return save_coarsely(figure, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


# One as users get it. The others that are drawn in both formats draw in every way there is between
# them: contours, discs, points, polygons and images.
SAVING = {"uci": save_figure, "first-version-1": save_coarsely, "hein-1": save_coarsely}


def global_states():
    # The global state of the older generator is what must not move.
    numpy_state = np.random.get_state()  # noqa: NPY002
    return torch.random.get_rng_state().tolist(), numpy_state[1].tolist(), numpy_state[2:]


@pytest.fixture(scope="session")
def out(tmp_path_factory):
    """One folder for all experiments, so that they share the networks that several need."""
    return tmp_path_factory.mktemp("out")


@pytest.mark.parametrize("name", NAMES)
def test_runs_from_end_to_end(name, out, data, monkeypatch):
    if name == "know-your-limits-search":
        pytest.importorskip("optuna")
    for module in (findings, demo, confidence):
        monkeypatch.setattr(module, "save_figure", SAVING.get(name, save_one_format))
    before = global_states()
    experiment = find_experiment(name)
    assert name == experiment.NAME
    request = RunRequest(out / name, quick=True, data_dir=data)
    outcome = run_experiment(experiment, request, changes=TINY[name])
    document = json.loads((out / name / "results.json").read_text())
    assert document["comparisons"], "an experiment compares"
    assert document["summary"]
    assert document["tables"]
    pictures = sorted((out / name / "figures").glob("*.png"))
    assert pictures
    assert all(picture.with_suffix(".svg").is_file() for picture in pictures)
    for each in document["comparisons"]:
        assert each["source"]
        assert each["agrees"] is not False or each["why"], each["quantity"]
    assert outcome.page.stat().st_size < 5e6
    assert global_states() == before


def test_every_experiment_is_registered_once_under_its_name():
    assert len(set(NAMES)) == len(NAMES)
    folder = Path(farfield.reproduce.__file__).parent
    found = {
        re.search('^NAME = "(.*)"', path.read_text(), re.MULTILINE) for path in folder.glob("*.py")
    }
    assert {match[1] for match in found if match} == set(NAMES)


def test_every_name_has_settings_for_both_modes():
    for name in NAMES:
        experiment = find_experiment(name)
        full, quick = experiment.settings(False, 3), experiment.settings(True, 3)
        assert set(full) == set(quick)
        assert full["seed"] == 3
        json.dumps([full, quick])


def test_paper_settings_are_the_papers():
    assert find_experiment("know-your-limits-3").settings(False, 0)["step"] == 0.1
    assert find_experiment("know-your-limits-search").settings(False, 0)["evaluations"] == 200
    assert find_experiment("hein-table-2").settings(False, 0)["images"] == 10_000
    uci = find_experiment("uci").settings(False, 0)
    assert (uci["members"], uci["hidden"], uci["epochs"], uci["batch_size"]) == (5, [50], 40, 100)


# Processes that are handed all they need, as those of the search are, and have loaded PyTorch.
SEARCH = """
import json, multiprocessing, sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from farfield.reproduce import RunRequest, know_your_limits_search as search
from farfield.reproduce.runner import run_stages
fork = multiprocessing.get_context("fork")
search.multiprocessing = SimpleNamespace(get_context=lambda _: fork)
search.half_moons = partial(search.half_moons, points=60, validation=30)
folder, changes = Path(sys.argv[1]), json.loads(sys.argv[2])
one, two = (
    run_stages(search, RunRequest(folder / name, jobs=jobs), changes=changes)
    for name, jobs in (("one", 1), ("two", 2))
)
assert one.results == two.results
"""


def test_a_search_gives_the_same_result_in_any_number_of_processes(tmp_path, nursery):
    optuna = pytest.importorskip("optuna")
    settings = search.settings(True, 0) | {"evaluations": 4, "models": ["NN"]}
    done = nursery.run(SEARCH, tmp_path, json.dumps(settings))
    assert done.returncode == 0, done.stderr.decode()
    for name in ("one", "two"):
        study = search.open_study(optuna, tmp_path / name, "NN", settings)
        assert len(study.trials) == 4


def test_a_search_that_was_stopped_goes_on(tmp_path, monkeypatch):
    optuna = pytest.importorskip("optuna")
    settings = search.settings(True, 0) | {"evaluations": 4, "models": ["NN"]}
    calls = []
    evaluate = search._evaluate

    def stopping(*args):
        calls.append(args[2])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(*args)

    monkeypatch.setattr(search, "_evaluate", stopping)
    with pytest.raises(KeyboardInterrupt):
        search.work(tmp_path, "NN", settings)
    assert len(search.open_study(optuna, tmp_path, "NN", settings).trials) == 2
    search.work(tmp_path, "NN", settings)
    trials = search.open_study(optuna, tmp_path, "NN", settings).trials
    assert sorted(trial.user_attrs["number"] for trial in trials) == [0, 1, 2, 3]
    assert calls == [0, 1, 2, 2, 3]


def test_drawn_configurations_lie_in_the_papers_ranges():
    drawn = search.draw_configurations("MC dropout", search.settings(False, 5))
    assert len(drawn) == 200
    assert {c["layers"] for c in drawn} == {1, 2, 3, 4, 5}
    assert all(1e-4 <= c["learning_rate"] <= 0.1 and 0 <= c["dropout"] <= 0.5 for c in drawn)
    assert {c[f"width {i + 1}"] for c in drawn for i in range(c["layers"])} == {15, 20, 25}


def test_the_counterexample_to_proposition_1():
    found = theorem._counterexamples()
    # p = sigmoid(2 x2) at x2 = 0.25, whose derivative is 2 p (1 - p).
    p = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(found["tie"], 2 * p * (1 - p), rtol=1e-12)
    np.testing.assert_allclose(found["tie_confidence"], p, rtol=1e-12)
    assert found["two_entropy"] == 1.0
    assert found["still"] > 0.1


@pytest.mark.parametrize("name", [*SINGLE, *SEVERAL])
def test_half_moon_models_have_the_papers_constants(name):
    model = build(name, seed=4)
    inner = getattr(model, "estimator", None) or model
    assert inner.random_state == 4
    if "ours" not in name:
        assert (inner.batch_size, inner.epochs, inner.patience) == (64, 20, 5)


def test_surfaces_are_the_models_own_scores_and_differentiable():
    import farfield as ff

    moons = ff.datasets.half_moons()
    model = ff.EnsembleClassifier(members=3, hidden=(4,), epochs=1, random_state=0)
    network = ff.capture(model.fit(moons.X, moons.y))
    grid = SurfaceGrid.of((-1.0, 1.0, 0.0, 1.0), 0.5)
    shown = score_surfaces(network, ["mutual_information"], grid)["mutual_information"]
    direct = ff.scores.mutual_information(model.predict_instances(grid.points), unit="bits")
    np.testing.assert_allclose(shown.ravel(), direct, atol=1e-6)
    x = torch.tensor([[0.3, 0.2]], dtype=torch.float64, requires_grad=True)
    p = differentiable(network)(x)
    assert p.shape == (3, 1, 2)
    assert p.requires_grad
