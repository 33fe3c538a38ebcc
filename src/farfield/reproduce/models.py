"""The models that experiments compare, and those of Know Your Limits with its authors' constants.

NN and MC dropout have those of the supplement's Table 1; the ensembles and the calibrated networks
take the NN's, as the paper says. Bayes by backprop appears twice: with the constants of the
authors' code, and with ours, which work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.estimators import (
    AnchoredEnsembleClassifier,
    BayesByBackpropClassifier,
    EnsembleClassifier,
    MCDropoutClassifier,
    RBFClassifier,
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

PAPERS, OURS = "Bayes by backprop, the paper's constants", "Bayes by backprop, ours"
SINGLE = ("NN", "Platt scaling", "temperature scaling")
SEVERAL = ("MC dropout", "ensemble", "anchored ensemble", PAPERS, OURS)


def make_model(
    name: str, constants: Mapping[str, Any], members: int = 10, samples: int = 50
) -> Any:
    """Make a model, not trained yet; a word of its name says which, else it is one network.

    Args:
        name: What the experiment calls it.
        constants: Of network and training, ``random_state`` among them.
        members: Of ensembles.
        samples: Dropout masks and weight draws.

    >>> make_model("Anchored ensemble", {"random_state": 0}, members=3).members
    3
    """
    word = name.lower()
    if "dropout" in word:
        return MCDropoutClassifier(**constants, samples=samples)
    if "backprop" in word:
        return BayesByBackpropClassifier(**constants, samples=samples)
    if "anchored" in word:
        return AnchoredEnsembleClassifier(**constants, members=members)
    if "ensemble" in word:
        return EnsembleClassifier(**constants, members=members)
    if "rbf" in word:
        return RBFClassifier(**constants)
    network = ReLUClassifier(**constants)
    if "temperature" in word or "platt" in word:
        return TemperatureScaling(
            network,
            method="platt" if "platt" in word else "temperature",
            random_state=constants["random_state"],
        )
    return network


def build(name: str, seed: int, members: int = 10, samples: int = 50) -> Any:
    """Make one of ``SINGLE`` or ``SEVERAL``, not trained yet.

    >>> build("ensemble", 0).members
    10
    """
    own = {"MC dropout": DROPOUT, PAPERS: BAYES}.get(name, NETWORK)
    constants = {"logits": "one"} if name == OURS else {**SHARED, **own}
    return make_model(name, {**constants, "random_state": seed}, members, samples)
