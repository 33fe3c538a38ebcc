"""Functions of single columns: bins, quantiles, splines, known functions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from farfield.errors import NotFollowed
from farfield.graph.reading import InputColumn, Writer
from farfield.graph.rules import Steps
from farfield.graph.scikit.foreign import FlatCurves, unnamed
from farfield.graph.scikit.registry import Table, transformer
from farfield.graph.trees.compare import below, rounded_below

aten = torch.ops.aten


@transformer("QuantileTransformer")
def _quantiles(writer: Writer, table: Table, model: Any) -> Table:
    """The quantile of a value, or the normal number that has it; flat beyond the data."""
    curves = FlatCurves(model, model.quantiles_[0], model.quantiles_[-1])
    value = writer.apply(table.value, curves, table.width)
    return Table(value, table.columns)


@transformer("SplineTransformer")
def _splines(writer: Writer, table: Table, model: Any) -> Table:
    """Spline bases; beyond the outer knots flat, or straight lines."""
    if model.extrapolation not in ("constant", "linear"):
        raise NotFollowed(
            f"SplineTransformer extrapolates by {model.extrapolation!r}; use 'constant' or "
            "'linear'."
        )
    if model.extrapolation == "linear" and model.degree <= 1:
        # scikit-learn 1.9 takes other knots for the ends of every column but the first.
        raise NotFollowed(
            f"SplineTransformer(degree={model.degree}, extrapolation='linear') is not followed; "
            "use a degree of 2 or more, or extrapolation='constant'."
        )
    low = np.array([spline.t[model.degree] for spline in model.bsplines_])
    high = np.array([spline.t[-model.degree - 1] for spline in model.bsplines_])
    flat = unnamed(model)
    flat.extrapolation = "constant"
    width = int(model.n_features_out_)
    value = writer.apply(table.value, FlatCurves(flat, low, high), width)
    if model.extrapolation == "linear":
        inner = table.value
        if getattr(model, "handle_missing", "error") == "zeros":
            inner = writer.fill(inner, low)
        identity = np.eye(table.width)
        for sign, ends in ((-1.0, low), (1.0, high)):
            ramp = writer.linear(inner, sign * identity, -sign * ends)
            ramp = writer.step(aten.relu.default, ramp)
            value = writer.add(value, writer.linear(ramp, sign * _slopes(model, ends, sign)))
    return Table(value, tuple(InputColumn(f"spline {place}") for place in range(width)))


def _slopes(model: Any, ends: Any, sign: float) -> Any:
    """``(outputs, columns)`` how fast each basis function goes on beyond one end."""
    found = []
    for place, (spline, end) in enumerate(zip(model.bsplines_, ends, strict=True)):
        slope = np.asarray(spline(end, nu=1), dtype=np.float64)
        slope[slice(model.degree, None) if sign < 0 else slice(None, -model.degree)] = 0.0
        block = np.zeros((len(slope), len(ends)))
        block[:, place] = slope
        found.append(block if model.include_bias else block[:-1])
    return np.concatenate(found)


@transformer("KBinsDiscretizer")
def _bins(writer: Writer, table: Table, model: Any) -> Table:
    """The bin that a value lies in; a bin holds its lower edge."""
    outputs: list[tuple[int, Any, Any, float]] = []
    for place, edges in enumerate(model.bin_edges_):
        inner, first = np.unique(edges[1:-1], return_index=True)
        count = len(edges) - 1
        # Equal edges hold nothing between them: the last of them decides.
        above = [*(np.append(first[1:], count - 1)).tolist()] if len(inner) else []
        bins = np.array([0, *above])
        breaks = rounded_below(inner) if model.dtype == np.float32 else below(inner)
        if model.encode == "ordinal":
            outputs.append((place, breaks, bins.astype(np.float64), np.nan))
        else:
            codes = np.eye(count)[bins]
            outputs += [(place, breaks, codes[:, each], np.nan) for each in range(count)]
    value = writer.take_steps(table.value, Steps.of(outputs))
    names = [f"bin of {table.columns[output[0]].name}" for output in outputs]
    return Table(value, tuple(InputColumn(name) for name in names))


@transformer("Binarizer")
def _binary(writer: Writer, table: Table, model: Any) -> Table:
    """1 above the threshold."""
    steps = [(place, [float(model.threshold)], [0.0, 1.0], np.nan) for place in range(table.width)]
    value = writer.take_steps(table.value, Steps.of(steps))
    return Table(value, tuple(InputColumn(name) for name in table.names))


REFUSED = {
    "KernelPCA": "kernels of it are not followed; use PCA.",
    "Nystroem": "kernels of it are not followed; use SVC or GaussianProcessClassifier.",
    "RBFSampler": "cosines have no limit; use SVC or GaussianProcessClassifier.",
    "CountVectorizer": "text is no table; take a model of columns.",
    "TfidfVectorizer": "text is no table; take a model of columns.",
    "HashingVectorizer": "text is no table; take a model of columns.",
}


@transformer(*REFUSED)
def _refused(_: Writer, __: Table, model: Any) -> Table:
    name = type(model).__name__
    raise NotFollowed(f"{name} cannot be followed: {REFUSED[name]}")
