"""The models of Know Your Limits with the constants that the authors' code has.

NN and MC dropout have those of the supplement's Table 1; the ensembles and the calibrated networks
take the NN's, as the paper says. Bayes by backprop appears twice: with the constants of the
authors' code, and with ours, which work.
"""

from __future__ import annotations

from typing import Any

from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    MCDropoutClassifier,
    ReLUClassifier,
    TemperatureScaling,
)

# All models of the paper: at most 20 epochs, batches of 64, patience 5, one logit.
SHARED: dict[str, Any] = {
    "logits": "one",
    "batch_size": 64,
    "epochs": 20,
    "patience": 5,
    "class_weight": "batch",
}
NETWORK: dict[str, Any] = {"hidden": (25,) * 3, "dropout": 0.014552, "learning_rate": 5.38e-4}
DROPOUT: dict[str, Any] = {"hidden": (25,) * 4, "dropout": 0.205046, "learning_rate": 5.26e-4}
BAYES: dict[str, Any] = {
    "hidden": (25,),
    "learning_rate": 0.00689,
    "prior_pi": 0.196422,
    "prior_sigma1": 0.606531,
    "prior_sigma2": 0.904837,
    "rho_init": -7.649,
    "kl_weight": 0.102995,
}

SINGLE = ("NN", "Platt scaling", "temperature scaling")
SEVERAL = (
    "MC dropout",
    "ensemble",
    "anchored ensemble",
    "Bayes by backprop, the paper's constants",
    "Bayes by backprop, ours",
)


def build(name: str, seed: int, members: int = 10, samples: int = 50) -> Any:
    """Make the model of that name, not trained yet.

    Args:
        name: One of ``SINGLE`` or ``SEVERAL``.
        seed: Of its training.
        members: Of the ensembles.
        samples: Dropout masks and weight draws.

    >>> build("ensemble", 0).members
    10
    """
    shared = {**SHARED, "random_state": seed}
    network = {**shared, **NETWORK}
    makers: dict[str, Any] = {
        "NN": lambda: ReLUClassifier(**network),
        "Platt scaling": lambda: TemperatureScaling(ReLUClassifier(**network), method="platt"),
        "temperature scaling": lambda: TemperatureScaling(ReLUClassifier(**network)),
        "MC dropout": lambda: MCDropoutClassifier(**shared, **DROPOUT, samples=samples),
        "ensemble": lambda: EnsembleClassifier(members=members, **network),
        "anchored ensemble": lambda: AnchoredEnsembleClassifier(members=members, **network),
        "Bayes by backprop, the paper's constants": lambda: BayesByBackpropClassifier(
            **shared, **BAYES, samples=samples
        ),
        "Bayes by backprop, ours": lambda: BayesByBackpropClassifier(
            logits="one", random_state=seed, samples=samples
        ),
    }
    return makers[name]()
