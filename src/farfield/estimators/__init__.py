"""Every model of the papers behind scikit-learn's life cycle."""

from farfield.estimators.anchored import AnchoredEnsembleClassifier
from farfield.estimators.archive import load, save
from farfield.estimators.bayes_by_backprop import BayesByBackpropClassifier
from farfield.estimators.ensemble import EnsembleClassifier, ReLUClassifier
from farfield.estimators.history import CalibrationReport
from farfield.estimators.mc_dropout import MCDropoutClassifier
from farfield.estimators.rbf import RBFClassifier
from farfield.estimators.regressor import EnsembleRegressor
from farfield.estimators.temperature import (
    CalibrationWarning,
    TemperatureScaling,
)

__all__ = [
    "AnchoredEnsembleClassifier",
    "BayesByBackpropClassifier",
    "CalibrationReport",
    "CalibrationWarning",
    "EnsembleClassifier",
    "EnsembleRegressor",
    "MCDropoutClassifier",
    "RBFClassifier",
    "ReLUClassifier",
    "TemperatureScaling",
    "load",
    "save",
]
