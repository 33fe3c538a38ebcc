"""Data: the papers' synthetic sets, and readers of tables and images.

The readers refuse what they cannot use, and never run anything that a file holds.
"""

from farfield.datasets.arrow import read_csv, read_parquet
from farfield.datasets.cifar import CIFAR10_CLASSES
from farfield.datasets.idx import read_idx
from farfield.datasets.images import Images, read_images, to_gray_28
from farfield.datasets.npy import read_npy
from farfield.datasets.npz import read_npz
from farfield.datasets.synthetic import SyntheticData, cubic, half_moons, nine_clusters, spirals
from farfield.datasets.table import Table
from farfield.datasets.uci import UCI_REGRESSION, RegressionSplits, uci_regression

__all__ = [
    "CIFAR10_CLASSES",
    "UCI_REGRESSION",
    "Images",
    "RegressionSplits",
    "SyntheticData",
    "Table",
    "cubic",
    "half_moons",
    "nine_clusters",
    "read_csv",
    "read_idx",
    "read_images",
    "read_npy",
    "read_npz",
    "read_parquet",
    "spirals",
    "to_gray_28",
    "uci_regression",
]
