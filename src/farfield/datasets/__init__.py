"""The sets of data that the papers use: made here, or read from a folder that the user has."""

from farfield.data import CIFAR10_CLASSES, Images, read_images, to_gray_28
from farfield.datasets.synthetic import SyntheticData, cubic, half_moons, nine_clusters, spirals
from farfield.datasets.uci import UCI_REGRESSION, RegressionSplits, uci_regression

__all__ = [
    "CIFAR10_CLASSES",
    "UCI_REGRESSION",
    "Images",
    "RegressionSplits",
    "SyntheticData",
    "cubic",
    "half_moons",
    "nine_clusters",
    "read_images",
    "spirals",
    "to_gray_28",
    "uci_regression",
]
