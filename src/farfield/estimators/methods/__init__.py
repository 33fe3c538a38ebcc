"""How several networks come out of one training: one method per file.

A method builds the stack that is trained, may pull its weights somewhere, and turns the trained
stack into instances.
"""

from farfield.estimators.methods.anchored import Anchored
from farfield.estimators.methods.mc_dropout import MCDropout
from farfield.estimators.methods.method import Architecture, Method
from farfield.estimators.methods.plain import Plain
from farfield.estimators.methods.variational import Variational

__all__ = ["Anchored", "Architecture", "MCDropout", "Method", "Plain", "Variational"]
