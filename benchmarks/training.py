"""What does training members together cost, next to one member, plain loops, and JAX?"""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from torch import nn

from farfield.errors import MissingDependency
from farfield.estimators import EnsembleClassifier, EnsembleRegressor, ReLUClassifier

QUESTION = (
    "Ten members of 25-25-25 on half-moons (500 points, 20 epochs, batch 64): how many times one "
    "member's time, and how much faster than ten plain PyTorch loops? The two notebooks of the "
    "deep ensembles practical: how much faster than JAX as they are written?"
)
TARGETS = {
    "moons_ten_over_one": "<= 1.5",
    "moons_loops_over_ten": ">= 5",
    "regression_jax_over_ours": ">= 10",
    "spiral_jax_over_ours": ">= 1.3",
    "spiral_accuracy": ">= 0.96",
    "spiral_nll": "<= 0.106",
}

Measured = dict[str, float]


def measure(repeats: int = 15) -> Measured:
    """Measure all of them; the notebooks each in a fresh process, so that start-up counts."""
    results: Measured = {"threads": float(torch.get_num_threads()), **moons(repeats)}
    for name, ours, jax in (
        ("regression", regression_ours, regression_jax),
        ("spiral", spiral_ours, spiral_jax),
    ):
        mine, theirs = _fresh(ours), _fresh(jax)
        results |= {f"{name}_{key}": value for key, value in mine.items() if key != "seconds"}
        results |= {f"{name}_jax_{key}": v for key, v in theirs.items() if key != "seconds"}
        results[f"{name}_ours_seconds"] = mine["seconds"]
        results[f"{name}_jax_seconds"] = theirs["seconds"]
        results[f"{name}_jax_over_ours"] = theirs["seconds"] / mine["seconds"]
    return results


def moons(repeats: int) -> Measured:
    """Time one member, ten members and ten plain loops in turn; the best of each."""
    X, y = make_moons(500, noise=0.125, random_state=0)
    shared: dict[str, Any] = {"hidden": (25, 25, 25), "epochs": 20, "batch_size": 64}
    calls: dict[str, Callable[[], object]] = {
        "one": lambda: ReLUClassifier(random_state=0, **shared).fit(X, y),
        "ten": lambda: EnsembleClassifier(members=10, random_state=0, **shared).fit(X, y),
        "loops": lambda: [plain_loop(X, y, seed) for seed in range(10)],
    }
    best = dict.fromkeys(calls, float("inf"))
    for repeat in range(repeats):
        for name, call in calls.items():
            if name == "loops" and repeat > 3:
                continue
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return {
        **{f"moons_{name}_seconds": seconds for name, seconds in best.items()},
        "moons_ten_over_one": best["ten"] / best["one"],
        "moons_loops_over_ten": best["loops"] / best["ten"],
    }


def plain_loop(X: NDArray[Any], y: NDArray[Any], seed: int) -> nn.Module:
    """Train one network the straightforward way."""
    torch.manual_seed(seed)
    inputs = torch.from_numpy((X - X.mean(0)) / X.std(0)).float()
    targets = torch.from_numpy(y)
    network = nn.Sequential(
        nn.Linear(2, 25), nn.ReLU(), nn.Linear(25, 25), nn.ReLU(), nn.Linear(25, 25), nn.ReLU(),
        nn.Linear(25, 2),
    )  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    for _ in range(20):
        order = torch.randperm(len(inputs))
        for chosen in order.split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[chosen]), targets[chosen]).backward()
            optimizer.step()
    return network


def cubic() -> tuple[NDArray[Any], NDArray[Any]]:
    """Forty points of ``x^3`` with noise of deviation 3."""
    generator = np.random.default_rng(173)
    X = generator.uniform(-4, 4, (40, 1))
    return X, X[:, 0] ** 3 + generator.normal(0, 3, 40)


def spirals() -> tuple[NDArray[Any], NDArray[Any]]:
    """Three arms of a thousand points."""
    generator = np.random.RandomState(0)
    radius = np.linspace(0, 1, 1000)
    arms = []
    for arm in range(3):
        turn = np.linspace(arm * 8, (arm + 1) * 8, 1000)
        turn = turn + generator.randn(1000) * 0.3 * (radius + 1)
        arms.append(np.column_stack([radius * np.sin(turn), radius * np.cos(turn)]))
    return np.concatenate(arms), np.repeat(np.arange(3), 1000)


def regression_ours() -> Measured:
    """Six members, 600 full-batch steps of Adam, Gaussian likelihood; then a grid of 100."""
    X, y = cubic()
    grid = np.linspace(-6, 6, 100)[:, None]
    model = EnsembleRegressor(
        members=6, hidden=(10, 6, 30), epochs=600, batch_size=None, learning_rate=0.08,
        random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X, y).predict(grid, return_std=True)
    return {"seconds": time.perf_counter() - start}


def spiral_ours() -> Measured:
    """Four members, 2-150-150-3, 300 full-batch steps."""
    X, y = spirals()
    model = EnsembleClassifier(
        members=4, hidden=(150, 150), epochs=300, batch_size=None, learning_rate=0.02,
        random_state=0,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    chosen = model.predict_proba(X)[np.arange(len(y)), y]
    return {
        "seconds": seconds,
        "accuracy": float(model.score(X, y)),
        "nll": float(-np.log(chosen).mean()),
    }


def regression_jax() -> Measured:
    """Run the practical's regression: member after member, a jitted update per step."""
    jax, jnp, optimizers = _jax()
    X, y = cubic()
    inputs, targets = jnp.array(X), jnp.array(y[:, None])
    grid = jnp.linspace(-6, 6, 100)[:, None]
    start = time.perf_counter()

    def predict(layers: Any, row: Any) -> Any:
        for weight, bias in layers[:-1]:
            row = jax.nn.relu(weight @ row + bias)
        weight, bias = layers[-1]
        mean, rho = jnp.split(weight @ row + bias, 2)
        return mean, jax.nn.softplus(rho) + 1e-6

    predict_all = jax.vmap(predict, in_axes=(None, 0))

    def loss(layers: Any, inputs: Any, targets: Any) -> Any:
        mean, scale = predict_all(layers, inputs)
        variance = jnp.square(scale)
        fit = jnp.square(targets - mean) / (2 * variance)
        return jnp.mean(0.5 * jnp.log(2 * jnp.pi * variance) + fit)

    begin, advance, current = optimizers.adam(0.08)

    @jax.jit
    def update(layers: Any, inputs: Any, targets: Any, state: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(layers, inputs, targets)
        state = advance(0, gradient, state)
        return current(state), state, value

    means, losses = [], []
    for member in range(6):
        layers = _jax_layers(jax, (1, 10, 6, 30, 2), member * 10)
        state = begin(layers)
        for _ in range(600):
            layers = current(state)
            layers, state, value = update(layers, inputs, targets, state)
            losses.append(value)
        means.append(np.asarray(predict_all(layers, grid)[0]))
    return {"seconds": time.perf_counter() - start}


def spiral_jax() -> Measured:
    """Run the practical's spiral: members in turn, shuffled, with its log after every epoch."""
    jax, jnp, optimizers = _jax()
    X, y = spirals()
    inputs, codes = jnp.array(X), jnp.array(y)
    onehot = jnp.array(codes[:, None] == jnp.arange(3), jnp.float32)
    start = time.perf_counter()

    @jax.jit
    def predict(layers: Any, row: Any) -> Any:
        for weight, bias in layers[:-1]:
            row = jax.nn.relu(weight @ row + bias)
        weight, bias = layers[-1]
        logits = weight @ row + bias
        return logits, jax.nn.softmax(logits)

    predict_all = jax.vmap(predict, in_axes=(None, 0))

    def loss(layers: Any, inputs: Any, onehot: Any, decay: float) -> Any:
        logits, _ = predict_all(layers, inputs)
        logs = logits - jax.scipy.special.logsumexp(logits, axis=1)[:, None]
        return -jnp.mean(logs * onehot) + decay * optimizers.l2_norm(layers)

    begin, advance, current = optimizers.adam(0.1)

    @jax.jit
    def update(layers: Any, inputs: Any, onehot: Any, state: Any, decay: float) -> Any:
        value, gradient = jax.value_and_grad(loss)(layers, inputs, onehot, decay)
        state = advance(0, gradient, state)
        return current(state), state, value

    members = [_jax_layers(jax, (2, 150, 150, 3), member) for member in range(4)]
    states = [begin(layers) for layers in members]
    key = jax.random.PRNGKey(0)
    log: list[tuple[Any, Any]] = []
    for _ in range(300):
        for member in range(4):
            key, seed = jax.random.split(key)
            order = jax.random.permutation(seed, jnp.arange(len(inputs)))
            rows, labels = jnp.take(inputs, order, axis=0), jnp.take(onehot, order, axis=0)
            members[member] = current(states[member])
            members[member], states[member], _value = update(
                members[member], rows, labels, states[member], 1e-3
            )
        each = jnp.array([predict_all(layers, inputs)[1] for layers in members])
        mean = jnp.mean(each, axis=0)
        accuracy = jnp.mean(jnp.argmax(mean, axis=1) == codes)
        log.append((accuracy, -jnp.mean(jnp.log(mean[np.arange(len(y)), codes]))))
    accuracy, nll = float(log[-1][0]), float(log[-1][1])
    return {"seconds": time.perf_counter() - start, "accuracy": accuracy, "nll": nll}


def _jax_layers(jax: Any, sizes: tuple[int, ...], seed: int) -> list[Any]:
    """Draw normal weights and biases of deviation 0.1."""
    keys = jax.random.split(jax.random.PRNGKey(seed), len(sizes))
    layers = []
    for fan_in, fan_out, key in zip(sizes[:-1], sizes[1:], keys, strict=False):
        first, second = jax.random.split(key)
        weight = 0.1 * jax.random.normal(first, (fan_out, fan_in))
        layers.append((weight, 0.1 * jax.random.normal(second, (fan_out,))))
    return layers


def _jax() -> tuple[Any, Any, Any]:
    """Import JAX; the time of that is not measured."""
    try:
        import jax
        import jax.numpy as jnp
        from jax.example_libraries import optimizers
    except ImportError as error:
        raise MissingDependency(
            "comparing with JAX needs the package jax; install farfield[bench]"
        ) from error
    return jax, jnp, optimizers


def _fresh(function: Callable[[], Measured]) -> Measured:
    """Call a function in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function).result()


if __name__ == "__main__":
    for key, value in measure().items():
        print(f"{key:28} {value:.4g}")
