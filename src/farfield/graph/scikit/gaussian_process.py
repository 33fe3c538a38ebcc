"""Gaussian process classifiers with kernels that vanish: far away they say the prior."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farfield.errors import NotFollowed
from farfield.graph.reading import Wire, Writer
from farfield.graph.rules import RowFunction
from farfield.graph.scikit.registry import ClassScores, Table, classifier
from farfield.graph.scikit.softmax import NORMALISED

Kernel = Callable[[Tensor, Tensor], Tensor]


def _distance(rows: Tensor, others: Tensor, scale: Any) -> Tensor:
    unit = torch.as_tensor(np.array(scale, dtype=np.float64))
    apart: Tensor = torch.cdist(
        rows / unit, others / unit, compute_mode="donot_use_mm_for_euclid_dist"
    )
    return apart


def evaluate(kernel: Any, rows: Tensor, others: Tensor) -> Tensor:
    """A kernel of scikit-learn between rows and others, ``(rows, others)``."""
    kind = type(kernel).__name__
    if kind in ("Sum", "Product"):
        first, second = (evaluate(each, rows, others) for each in (kernel.k1, kernel.k2))
        return first + second if kind == "Sum" else first * second
    if kind == "Exponentiation":
        return torch.pow(evaluate(kernel.kernel, rows, others), float(kernel.exponent))
    if kind == "ConstantKernel":
        return rows.new_full((len(rows), len(others)), float(kernel.constant_value))
    if kind == "WhiteKernel":
        return rows.new_zeros(len(rows), len(others))
    apart = _distance(rows, others, kernel.length_scale)
    if kind == "RationalQuadratic":
        return torch.pow(1 + apart.square() / (2 * kernel.alpha), -float(kernel.alpha))
    if kind == "RBF" or kernel.nu == math.inf:
        return torch.exp(-0.5 * apart.square())
    root = apart * math.sqrt(2 * kernel.nu)
    factor = torch.ones_like(root)
    if kernel.nu > 0.5:
        factor = factor + root
    if kernel.nu > 1.5:
        factor = factor + root.square() / 3
    # Where the exponential is zero its factor may have left the floats.
    decay = torch.exp(-root)
    return torch.where(decay == 0, 0.0, factor * decay)


def at_infinity(kernel: Any) -> float:
    """What a kernel tends to as its arguments part.

    Raises:
        NotFollowed: For kernels that do not depend on the distance alone, or have no limit.
    """
    kind = type(kernel).__name__
    if kind in ("Sum", "Product"):
        first, second = at_infinity(kernel.k1), at_infinity(kernel.k2)
        return first + second if kind == "Sum" else first * second
    if kind == "Exponentiation" and kernel.exponent > 0:
        return float(at_infinity(kernel.kernel) ** kernel.exponent)
    if kind == "ConstantKernel":
        return float(kernel.constant_value)
    known = ("WhiteKernel", "RBF", "RationalQuadratic", "Matern")
    foreign = type(kernel).__module__ != "sklearn.gaussian_process.kernels"
    if (
        foreign
        or kind not in known
        or (kind == "Matern" and kernel.nu not in (0.5, 1.5, 2.5, math.inf))
    ):
        raise NotFollowed(
            f"the kernel {kernel} of a GaussianProcessClassifier is not followed; known are RBF, "
            "RationalQuadratic, Matern with nu 0.5, 1.5, 2.5 or inf, WhiteKernel, constants, and "
            "sums, products and powers of these."
        )
    return 0.0


class LaplaceProcess(RowFunction):
    """The probability of the second of two classes by Laplace's approximation.

    Args:
        model: The fitted binary classifier within scikit-learn's.
    """

    continuous = True
    by_order = True

    def __init__(self, model: Any) -> None:
        from sklearn.gaussian_process._gpc import COEFS, LAMBDAS

        def tensor(values: Any) -> Tensor:
            return torch.from_numpy(np.array(values, dtype=np.float64))

        self.kernel = model.kernel_
        self.far = at_infinity(model.kernel_)
        self.rows = tensor(model.X_train_)
        self.residual = tensor(model.y_train_ - model.pi_)
        self.root = tensor(model.W_sr_)
        self.factor = tensor(model.L_)
        self.variance = float(model.kernel_.diag(np.asarray(model.X_train_)[:1])[0])
        self.lambdas, self.weights = tensor(LAMBDAS).flatten(), tensor(COEFS).flatten()

    def __call__(self, rows: Tensor) -> Tensor:
        """Evaluate, ``(rows, 1)``."""
        return self._of_kernel(evaluate(self.kernel, rows.double(), self.rows)).to(rows)

    def limit(self, slope: Tensor, intercept: Tensor) -> Tensor:
        """Every kernel is at its limit as soon as one column moves."""
        kernel = self.rows.new_full((1, len(self.rows)), self.far)
        return self._of_kernel(kernel).to(slope).expand(len(slope), -1)

    @property
    def parameters(self) -> int:
        """The rows, and a weight of each; all else follows from these."""
        return self.rows.numel() + self.residual.numel()

    def _of_kernel(self, kernel: Tensor) -> Tensor:
        """Mean and variance of the latent function, then the integral by five error functions."""
        mean = kernel @ self.residual
        shape = torch.linalg.solve_triangular(self.factor, (self.root * kernel).T, upper=False)
        variance = self.variance - shape.square().sum(dim=0)
        alpha = (1 / (2 * variance))[:, None]
        inner = self.lambdas * mean[:, None] * (alpha / (alpha + self.lambdas**2)).sqrt()
        integral = (math.pi / alpha).sqrt() * torch.erf(inner)
        integral = integral / (2 * (variance * 2 * math.pi).sqrt())[:, None]
        found: Tensor = (self.weights * integral).sum(dim=1) + 0.5 * self.weights.sum()
        return found[:, None]


@classifier("GaussianProcessClassifier")
def _process(writer: Writer, table: Table, model: Any) -> ClassScores:
    """One process for two classes, else one for each class against the rest."""
    if len(model.classes_) == 2:
        second = writer.apply(table.value, LaplaceProcess(model.base_estimator_), 1)
        return ClassScores(writer.linear(second, [[-1.0], [1.0]], [1.0, 0.0]), "identity")
    if model.multi_class != "one_vs_rest":
        raise NotFollowed(
            "GaussianProcessClassifier(multi_class='one_vs_one') has no probabilities; use "
            "'one_vs_rest'.",
            advice="",
        )
    own: list[Wire] = [
        writer.apply(table.value, LaplaceProcess(each), 1)
        for each in model.base_estimator_.estimators_
    ]
    together = writer.concatenate(*own)
    return ClassScores(writer.apply(together, NORMALISED, together.width), "identity")
