"""Data: the papers' synthetic sets, and readers of tables that refuse what they cannot use."""

from farfield.datasets.arrow import read_csv, read_parquet
from farfield.datasets.npz import read_npz
from farfield.datasets.synthetic import SyntheticData, cubic, half_moons, nine_clusters, spirals
from farfield.datasets.table import Table
from farfield.datasets.uci import UCI_REGRESSION, RegressionSplits, uci_regression

__all__ = [
    "UCI_REGRESSION",
    "RegressionSplits",
    "SyntheticData",
    "Table",
    "cubic",
    "half_moons",
    "nine_clusters",
    "read_csv",
    "read_npz",
    "read_parquet",
    "spirals",
    "uci_regression",
]
