"""The architectures of the papers, one member or many at once."""

from farfield.networks.lenet import lenet
from farfield.networks.mlp import mlp
from farfield.networks.rbf import RBFNetwork
from farfield.networks.resnet import PreActResNet20, read_hein2019

__all__ = ["PreActResNet20", "RBFNetwork", "lenet", "mlp", "read_hein2019"]
