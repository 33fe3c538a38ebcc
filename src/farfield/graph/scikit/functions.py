"""Functions that a user applies to columns, and transformers that are refused, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.errors import NotFollowed
from farfield.graph.reading import Writer
from farfield.graph.scikit.registry import Table, transformer

aten = torch.ops.aten
FUNCTIONS: dict[Any, Any] = {
    np.abs: aten.abs.default,
    np.negative: aten.neg.default,
    np.tanh: aten.tanh.default,
}
GROWTH = "its values grow by another power than the input, which has no germ here yet"
REFUSED = {
    "PowerTransformer": f"{GROWTH}; use QuantileTransformer, StandardScaler or KBinsDiscretizer.",
    "Normalizer": "it divides by the norm of a row; use StandardScaler or RobustScaler.",
    "KernelPCA": "kernels of it are not followed; use PCA.",
    "Nystroem": "kernels of it are not followed; use SVC or GaussianProcessClassifier.",
    "RBFSampler": "cosines have no limit; use SVC or GaussianProcessClassifier.",
    "CountVectorizer": "text is no table; take a model of columns.",
    "TfidfVectorizer": "text is no table; take a model of columns.",
    "HashingVectorizer": "text is no table; take a model of columns.",
}


@transformer("FunctionTransformer")
def _function(writer: Writer, table: Table, model: Any) -> Table:
    """A known function of single numbers."""
    if model.func is None:
        return Table(table.held, table.columns)
    name = getattr(model.func, "__name__", repr(model.func))
    if model.kw_args or model.func not in FUNCTIONS:
        help_ = (
            f"{GROWTH}; use KBinsDiscretizer or QuantileTransformer"
            if name in ("log1p", "sqrt", "log", "exp", "square", "cbrt", "expm1")
            else "known are None, numpy.abs, numpy.negative and numpy.tanh"
        )
        raise NotFollowed(f"FunctionTransformer applies {name}: {help_}.")
    value = writer.step(FUNCTIONS[model.func], table.value)
    return Table(value, table.columns)


@transformer(*REFUSED)
def _refused(_: Writer, __: Table, model: Any) -> Table:
    name = type(model).__name__
    raise NotFollowed(f"{name} cannot be followed: {REFUSED[name]}")
