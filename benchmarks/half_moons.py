"""What do the models of Know Your Limits score near the half-moons, and far from them?"""

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import farfield as ff
from farfield.datasets import half_moons

QUESTION = (
    "Half-moons with the hyperparameters of Know Your Limits, Table 1: accuracy and AUC on the "
    "validation points, and the mean of every score near the data, far away, and at infinity "
    "(entropies in bits)?"
)
TARGETS: dict[str, str] = {}
SEED = 0
FAR = 100.0
DIRECTIONS = 360
ENTROPIES = {"predictive_entropy", "expected_entropy", "mutual_information"}


def models() -> dict[str, Any]:
    """Build the models with the constants that the authors' code has."""
    shared: dict[str, Any] = {
        "logits": "one",
        "batch_size": 64,
        "epochs": 20,
        "patience": 5,
        "class_weight": "batch",
        "random_state": SEED,
    }
    network = shared | {"hidden": (25,) * 3, "dropout": 0.014552, "learning_rate": 5.38e-4}
    dropout = shared | {"hidden": (25,) * 4, "dropout": 0.205046, "learning_rate": 5.26e-4}
    return {
        "network": ff.ReLUClassifier(**network),
        "temperature": ff.TemperatureScaling(ff.ReLUClassifier(**network)),
        "platt": ff.TemperatureScaling(ff.ReLUClassifier(**network), method="platt"),
        "mc-dropout": ff.MCDropoutClassifier(samples=50, **dropout),
        "ensemble": ff.EnsembleClassifier(members=10, **network),
        "anchored ensemble": ff.AnchoredEnsembleClassifier(members=10, **network),
        "bayes by backprop, the paper's constants": ff.BayesByBackpropClassifier(
            **shared | {"hidden": (25,), "learning_rate": 0.00689},
            prior_pi=0.196422,
            prior_sigma1=0.606531,
            prior_sigma2=0.904837,
            rho_init=-7.649,
            kl_weight=0.102995,
        ),
        "bayes by backprop, ours": ff.BayesByBackpropClassifier(logits="one", random_state=SEED),
    }


def measure() -> dict[str, Any]:
    """Train every model and evaluate every score near, far and at infinity."""
    return {"seed": SEED, "far": FAR, **{name: _model(m) for name, m in models().items()}}


def _model(model: Any) -> dict[str, Any]:
    moons = half_moons(SEED)
    held = (moons.X_validation, moons.y_validation)
    model.fit(moons.X, moons.y, validation=held)
    angles = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centre = moons.X.mean(axis=0)
    network = ff.capture(model)
    far = ff.at_infinity(network, centre, rays)
    near = model.predict_instances(moons.X_validation)
    away = model.predict_instances(centre + FAR * rays)
    return {
        "accuracy": float(model.score(*held)),
        "auc": float(roc_auc_score(held[1], model.predict_proba(held[0])[:, 1])),
        "blind_share_of_directions": float((far.confidence >= 0.99).double().mean()),
        "scores": {
            name: {
                "near": _mean(name, near),
                "far": _mean(name, away),
                "infinity": _mean(name, far.probabilities),
            }
            for name in ff.scores.PROBABILITY_SCORES
        },
    }


def _mean(name: str, probabilities: Any) -> float:
    options = {"unit": "bits"} if name in ENTROPIES else {}
    return float(ff.scores.score_by_name(name)(probabilities, **options).mean())
