"""What do the same tasks cost in other packages, beside ours?

``make peers`` makes an environment with all of them and runs this. A peer that cannot be imported
is on the page with the reason.
"""

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_iris, make_moons
from sklearn.neural_network import MLPClassifier
from torch import nn

import farfield as ff
from benchmarks.clipper import regions
from benchmarks.missing import NotHere
from benchmarks.plane import network
from benchmarks.timing import in_turn
from benchmarks.training import _jax, _jax_layers
from farfield.audit.sections.detection import Reference
from farfield.estimators import EnsembleClassifier, ReLUClassifier
from farfield.exact.planar.plane import slice_plane
from farfield.guard.laplace import last_layer_laplace

QUESTION = (
    "The same task here and in other packages, each on one thread: how many CPU seconds, the best "
    "of several in turn, and do both say the same?"
)
# Of everything that both compute by the same definition.
TARGETS = {"disagreements": "<= 0"}
REPEATS = 5
HIDDEN = (25, 25, 25)
SMALL = (12, 12)
EPOCHS, BATCH, RATE = 20, 64, 0.005
# Wide enough for every region of the small network, whose neighbours are nearer than this.
EVERYWHERE = 1e6
CLOSE = 1e-5
# What torchvision asks for when it is loaded, where its compiled operators are for other hardware.
OPERATORS = ("nms", "qnms")
_DECLARED: list[Any] = []


@dataclass(frozen=True)
class Task:
    """A task for both sides.

    Attributes:
        what: What is computed.
        ours, theirs: Compute it.
        compare: Says in words how results are alike, and whether that is as it must be.
    """

    what: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    compare: Callable[[Any, Any], tuple[str, bool]]


def measure(repeats: int | None = None) -> dict[str, Any]:
    """Measure every peer that is here."""
    _declare_operators()
    found = {name: _reason(modules) for name, (modules, _) in PEERS.items()}
    if all(found[name] for name in ("relucent", "laplace-torch", "pytorch-ood")):
        raise NotHere("other packages have an environment of their own: make peers")
    return compare_all(found, REPEATS if repeats is None else repeats)


def compare_all(found: dict[str, str], repeats: int) -> dict[str, Any]:
    """Compare with all peers but those with a reason why not."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = {
            name: {"version": f"did not install: {reason}"} if reason else _row(name, repeats)
            for name, reason in found.items()
        }
    finally:
        torch.set_num_threads(threads)
    wrong = sum(not row.pop("right", True) for row in rows.values())
    return {"disagreements": wrong, **rows}


def _row(name: str, repeats: int) -> dict[str, Any]:
    """Do one task on both sides in turn."""
    modules, make = PEERS[name]
    task = make()
    ours, theirs = task.ours(), task.theirs()
    words, right = task.compare(ours, theirs)
    best = in_turn({"ours": task.ours, "theirs": task.theirs}, repeats, _cpu_seconds)
    return {
        "version": "ours, in numpy" if not modules else _version(name),
        "task": task.what,
        "ours_seconds": round(best["ours"], 5),
        "theirs_seconds": round(best["theirs"], 5),
        "theirs_over_ours": round(best["theirs"] / best["ours"], 3),
        "results": words,
        "right": right,
    }


def _cpu_seconds() -> float:
    """CPU time of this process and of workers that have ended; relucent always has some."""
    workers = getrusage(RUSAGE_CHILDREN)
    return process_time() + workers.ru_utime + workers.ru_stime


def _declare_operators() -> None:
    """Let torchvision load without its compiled operators, which no task here calls.

    Three peers load it for data and networks of images. The page says so beside their versions.
    """
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in OPERATORS:
            library.define(f"{name}(Tensor boxes) -> Tensor")
        # They are gone with it.
        _DECLARED.append(library)


def _reason(modules: tuple[str, ...]) -> str:
    """Why a peer cannot be imported; nothing if it can."""
    for name in modules:
        try:
            importlib.import_module(name)
        except (ImportError, OSError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def _version(name: str) -> str:
    text = metadata.version(name.split()[0])
    if name in ("laplace-torch", "pytorch-ood", "torch-uncertainty"):
        from torchvision.extension import _has_ops

        text += "" if _has_ops() else " (torchvision without its compiled operators)"
    return text


def _counts(ours: int, theirs: int) -> tuple[str, bool]:
    return f"{ours} and {theirs} regions", ours == theirs


def _accuracies(ours: float, theirs: float) -> tuple[str, bool]:
    """Trainings differ by their random numbers, so there is nothing to be equal."""
    return f"accuracy {ours:.3f} and {theirs:.3f}", True


def _plane(hidden: tuple[int, ...], extent: float) -> tuple[nn.Sequential, Callable[[], int]]:
    module = network(hidden=hidden)
    captured = ff.capture(module, torch.zeros(1, 2, dtype=torch.float64))
    frame = ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0], extent)
    return module, lambda: len(slice_plane(captured, *frame))


def clipping() -> Task:
    """Cut a plane polygon by polygon."""
    module, ours = _plane(HIDDEN, 5.0)
    linear = [part for part in module if isinstance(part, nn.Linear)]
    layers = [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in linear]
    what = f"regions of 2-{'-'.join(map(str, HIDDEN))}-1 in a window"
    return Task(what, ours, lambda: len(regions(layers, 5.0)), _counts)


def relucent() -> Task:
    """Search the regions of the whole plane by linear programs."""
    import relucent as peer

    module, ours = _plane(SMALL, EVERYWHERE)

    def theirs() -> int:
        found = peer.Complex(module)
        found.bfs(nworkers=1, verbose=0)
        return len(found)

    return Task(f"regions of 2-{'-'.join(map(str, SMALL))}-1", ours, theirs, _counts)


def _moons() -> tuple[Any, Any]:
    X, y = make_moons(500, noise=0.125, random_state=0)
    return X, y


def _ours(members: int) -> Callable[[], float]:
    X, y = _moons()
    shared: dict[str, Any] = {"hidden": HIDDEN, "epochs": EPOCHS, "batch_size": BATCH}
    shared |= {"learning_rate": RATE, "random_state": 0}
    if members == 1:
        return lambda: float(ReLUClassifier(**shared).fit(X, y).score(X, y))
    return lambda: float(EnsembleClassifier(members=members, **shared).fit(X, y).score(X, y))


def _training(members: int) -> str:
    count = "one network" if members == 1 else f"{members} networks"
    return f"{count} 2-{'-'.join(map(str, HIDDEN))}-2 on half-moons, {EPOCHS} epochs"


def perceptron() -> Task:
    """Train scikit-learn's perceptron."""
    X, y = _moons()

    def theirs() -> float:
        model = MLPClassifier(
            HIDDEN, batch_size=BATCH, learning_rate_init=RATE, alpha=0.0, random_state=0
        )
        # Epoch by epoch: `fit` warns that so few are not enough.
        for _ in range(EPOCHS):
            model.partial_fit(X, y, classes=[0, 1])
        return float(model.score(X, y))

    return Task(_training(1), _ours(1), theirs, _accuracies)


def torch_uncertainty() -> Task:
    """Train its ensemble of its perceptrons in a plain loop."""
    from torch_uncertainty.methods import deep_ensembles
    from torch_uncertainty.models.mlp import mlp

    X, y = _moons()
    inputs, targets = torch.from_numpy((X - X.mean(0)) / X.std(0)).float(), torch.from_numpy(y)

    def theirs() -> float:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = deep_ensembles(mlp(2, 2, list(HIDDEN)), num_estimators=10)
            optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
            for _ in range(EPOCHS):
                for chosen in torch.randperm(len(inputs)).split(BATCH):
                    optimizer.zero_grad()
                    outputs, wanted = model(inputs[chosen]), targets[chosen].repeat(10)
                    nn.functional.cross_entropy(outputs, wanted).backward()
                    optimizer.step()
        with torch.no_grad():
            mean = model(inputs).softmax(1).view(10, len(inputs), 2).mean(0)
        return float((mean.argmax(1) == targets).double().mean())

    return Task(_training(10), _ours(10), theirs, _accuracies)


def jax(*, compiled: bool) -> Task:
    """Train with all members and epochs in one compiled function."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    peer, jnp, optimizers = _jax()
    X, y = _moons()
    inputs, targets = jnp.asarray((X - X.mean(0)) / X.std(0), jnp.float32), jnp.asarray(y)
    steps = EPOCHS * (len(X) // BATCH)
    begin, advance, current = optimizers.adam(RATE)

    def logits(layers: Any, rows: Any) -> Any:
        for weight, bias in layers[:-1]:
            rows = peer.nn.relu(rows @ weight.T + bias)
        return rows @ layers[-1][0].T + layers[-1][1]

    def loss(layers: Any, chosen: Any) -> Any:
        logs = peer.nn.log_softmax(logits(layers, inputs[chosen]))
        return -jnp.take_along_axis(logs, targets[chosen][:, None], 1).mean()

    def step(state: Any, turn: Any) -> Any:
        return advance(turn[0], peer.grad(loss)(current(state), turn[1]), state), None

    def train(seed: Any) -> Any:
        keys = peer.random.split(peer.random.PRNGKey(seed), EPOCHS)
        orders = peer.vmap(lambda key: peer.random.permutation(key, len(X)))(keys)
        chosen = orders[:, : steps // EPOCHS * BATCH].reshape(steps, BATCH)
        # Deviation 0.2 is about that of ours.
        first = peer.tree.map(lambda value: 2 * value, _jax_layers(peer, (2, *HIDDEN, 2), seed))
        return current(peer.lax.scan(step, begin(first), (jnp.arange(steps), chosen))[0])

    fit = peer.jit(peer.vmap(train))

    def theirs() -> float:
        if not compiled:
            peer.clear_caches()
        shares = peer.vmap(lambda layers: peer.nn.softmax(logits(layers, inputs)))
        mean = shares(fit(jnp.arange(10))).mean(0)
        return float((mean.argmax(1) == targets).mean())

    how = "compiled before" if compiled else "compiled each time"
    return Task(f"{_training(10)}; {how}", _ours(10), theirs, _accuracies)


def _distance(ours: Any, theirs: Any) -> tuple[str, bool]:
    apart = float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())
    return f"at most {apart:.1g} apart", apart < CLOSE


def laplace() -> Task:
    """Fit a posterior of the last layer and predict with the probit approximation."""
    from laplace import Laplace
    from torch.utils.data import DataLoader, TensorDataset

    X, y = load_iris(return_X_y=True)
    model = ReLUClassifier(hidden=(20, 20), epochs=20, random_state=0).fit(X, y).module_.double()
    rows = torch.from_numpy(X)
    loader = DataLoader(TensorDataset(rows, torch.from_numpy(y)), batch_size=len(X))

    def theirs() -> Any:
        # The posterior is of weights that can be trained.
        model.requires_grad_(True)
        found = Laplace(model, "classification", "last_layer", "full", prior_precision=1.0)
        found.fit(loader)
        return found(rows, link_approx="probit").detach()

    def ours() -> Any:
        return last_layer_laplace(model, rows, prior_precision=1.0).predict_proba(rows)

    return Task("Laplace's approximation of 4-20-20-3 on iris", ours, theirs, _distance)


def _normal(count: int) -> Any:
    return np.random.default_rng(count).normal(size=(count, 30)) @ np.diag(np.arange(1.0, 31.0))


def distances() -> Task:
    """Distance to the tenth of the nearest rows, and Mahalanobis distance to the mean."""
    from pytorch_ood.detector import KNN, Mahalanobis

    data, asked = _normal(2000), _normal(5000)
    labels = torch.zeros(len(data), dtype=torch.long)

    def ours() -> tuple[Any, Any]:
        found = Reference.fit(data).distances(asked)
        return found["nearest"], found["mahalanobis"]

    def theirs() -> tuple[Any, Any]:
        mean, scale = data.mean(0), data.std(0)
        known, rows = (torch.from_numpy((part - mean) / scale) for part in (data, asked))
        near = KNN(None, k=10, normalize=False).fit_features(known, labels).predict_features(rows)
        ball = Mahalanobis(None).fit_features(known.float(), labels)
        return near, ball.predict_features(rows.float())

    def compare(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> tuple[str, bool]:
        words, right = _distance(ours[0], theirs[0])
        # Ours shrinks the covariance, so only the order of rows is nearly the same.
        rank = spearmanr(ours[1], theirs[1]).statistic
        return f"neighbours {words}; Mahalanobis: rank correlation {rank:.4f}", right

    what = "tenth neighbour and Mahalanobis distance of 5,000 rows, 2,000 known"
    return Task(what, ours, theirs, compare)


# Name of a peer, what it needs, and its task. Names begin with that of the package.
PEERS: dict[str, tuple[tuple[str, ...], Callable[[], Task]]] = {
    "numpy clipper": ((), clipping),
    "relucent": (("relucent",), relucent),
    "scikit-learn": (("sklearn",), perceptron),
    "jax": (("jax",), partial(jax, compiled=False)),
    "jax again": (("jax",), partial(jax, compiled=True)),
    "torch-uncertainty": (("torch_uncertainty",), torch_uncertainty),
    "laplace-torch": (("laplace",), laplace),
    "pytorch-ood": (("pytorch_ood",), distances),
}
