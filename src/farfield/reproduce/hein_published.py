"""Tables 1 and 2 of Hein, Andriushchenko and Bitterwolf 2019, as printed.

Rows for data that are not evaluated here (CIFAR-100, LSUN, ImageNet-) are left out.
"""

from __future__ import annotations

COLUMNS = ("MMC", "AUROC", "FPR@95")

# Network -> data -> MMC, AUROC, FPR@95; MMC alone on its own data; its test error in percent.
TABLE_1: dict[str, dict[str, tuple[float, ...]]] = {
    "mnist-plain": {
        "error": (0.51,),
        "data": (0.991,),
        "FashionMNIST": (0.654, 0.972, 0.121),
        "EMNIST": (0.821, 0.883, 0.374),
        "gray CIFAR-10": (0.492, 0.996, 0.003),
        "noise": (0.463, 0.998, 0.000),
        "adversarial noise": (1.000, 0.031, 1.000),
        "adversarial samples": (0.999, 0.358, 0.992),
    },
    "mnist-ceda": {
        "error": (0.74,),
        "data": (0.987,),
        "FashionMNIST": (0.373, 0.994, 0.027),
        "EMNIST": (0.787, 0.895, 0.358),
        "gray CIFAR-10": (0.105, 1.000, 0.000),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.102, 0.998, 0.002),
        "adversarial samples": (0.987, 0.549, 0.953),
    },
    "mnist-acet": {
        "error": (0.66,),
        "data": (0.986,),
        "FashionMNIST": (0.239, 0.998, 0.003),
        "EMNIST": (0.752, 0.912, 0.313),
        "gray CIFAR-10": (0.101, 1.000, 0.000),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.162, 0.992, 0.042),
        "adversarial samples": (0.854, 0.692, 0.782),
    },
    "svhn-plain": {
        "error": (3.53,),
        "data": (0.980,),
        "CIFAR-10": (0.732, 0.938, 0.348),
        "noise": (0.720, 0.943, 0.325),
        "adversarial noise": (1.000, 0.004, 1.000),
        "adversarial samples": (1.000, 0.004, 1.000),
    },
    "svhn-ceda": {
        "error": (3.50,),
        "data": (0.977,),
        "CIFAR-10": (0.551, 0.960, 0.209),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.946, 0.062, 0.940),
        "adversarial samples": (0.995, 0.009, 0.994),
    },
    "svhn-acet": {
        "error": (3.52,),
        "data": (0.978,),
        "CIFAR-10": (0.435, 0.973, 0.140),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.101, 1.000, 0.000),
        "adversarial samples": (0.369, 0.778, 0.279),
    },
    "cifar10-plain": {
        "error": (8.87,),
        "data": (0.949,),
        "SVHN": (0.800, 0.850, 0.783),
        "noise": (0.825, 0.827, 0.818),
        "adversarial noise": (1.000, 0.035, 1.000),
        "adversarial samples": (1.000, 0.034, 1.000),
    },
    "cifar10-ceda": {
        "error": (8.87,),
        "data": (0.946,),
        "SVHN": (0.327, 0.978, 0.146),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.985, 0.032, 0.983),
        "adversarial samples": (1.000, 0.014, 1.000),
    },
    "cifar10-acet": {
        "error": (8.44,),
        "data": (0.948,),
        "SVHN": (0.263, 0.981, 0.118),
        "noise": (0.100, 1.000, 0.000),
        "adversarial noise": (0.112, 0.999, 0.008),
        "adversarial samples": (0.633, 0.512, 0.590),
    },
}

# Network -> median factor alpha to 99.9%, and percent overconfident after clipping; none for CEDA.
TABLE_2: dict[str, tuple[float, float]] = {
    "mnist-plain": (1.5, 98.7),
    "svhn-plain": (28.1, 99.9),
    "cifar10-plain": (8.1, 99.9),
    "mnist-acet": (1e6, 0.0),
    "svhn-acet": (49.8, 50.2),
    "cifar10-acet": (45.3, 3.4),
}
