"""Scores mixed with the uniform answer, as nodes of an ONNX graph, in double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from farfield.guard.mix import KEPT_APART, LARGEST, LEAST
from farfield.guard.onnx_nodes import DOUBLE, FLOAT, Nodes

EPS = {FLOAT: float(np.finfo(np.float32).eps), DOUBLE: float(np.finfo(np.float64).eps)}


@dataclass(frozen=True)
class Scores:
    """What a model's scores are.

    Attributes:
        kind: ``"probabilities"`` or ``"logits"``.
        single: Whether there is one number for two classes.
        classes: Number of classes.
        element: Their type, float or double.
    """

    kind: str
    single: bool
    classes: int
    element: int

    @property
    def logits(self) -> bool:
        """Whether they are logits."""
        return self.kind == "logits"

    @property
    def apart(self) -> float:
        """By how much classes below the top stay below it, as a share."""
        return KEPT_APART * EPS[self.element]

    @property
    def even(self) -> float:
        """What every class of the uniform answer has."""
        return 0.0 if self.logits else 1.0 / self.classes


def add_mixture(nodes: Nodes, own: str, hot: str, scores: Scores, out: str) -> str:
    """Mix scores with the uniform answer.

    Args:
        nodes: Where to add them.
        own: The model's scores, ``(rows, classes)``, or ``(rows, 1)`` if single.
        hot: The temperature, ``(rows, 1)``.
        scores: What the scores are.
        out: Name of the mixed scores.
    """
    exact = nodes.double(own)
    mixed = (_mix_single if scores.single else _mix)(nodes, exact, hot, scores)
    cold = nodes.add("Not", nodes.add("Greater", hot, nodes.number(1.0)))
    kept = nodes.add("Where", cold, own, nodes.add("Cast", mixed, to=scores.element))
    return _even_where_missing(nodes, exact, kept, scores, out)


def add_guarded(nodes: Nodes, own: str, hot: str, scores: Scores, out: str) -> str:
    """Guarded probabilities of all classes, whatever the scores are.

    Probabilities are the file's own bits where T is 1. Those of logits are computed here; whatever
    is below the top stays below it, so that the most probable class is that of the logits.
    """
    if not scores.logits and not scores.single:
        return add_mixture(nodes, own, hot, scores, out)
    exact = _both_classes(nodes, own, scores) if scores.single else nodes.double(own)
    pair = Scores("probabilities", False, scores.classes, scores.element)
    bounded = nodes.clip(exact, -LARGEST, LARGEST) if scores.logits else exact
    p = nodes.add("Softmax", bounded, axis=1) if scores.logits else exact
    mixed = nodes.add("Cast", _mix_classes(nodes, bounded, p, hot, pair), to=scores.element)
    return _even_where_missing(nodes, exact, mixed, pair, out)


def _both_classes(nodes: Nodes, own: str, scores: Scores) -> str:
    """One number as a pair of logits, ``(0, f)``, or of probabilities, ``(1 - p, p)``."""
    upright = nodes.array("upright", np.array([-1, 1], dtype=np.int64))
    second = nodes.double(nodes.add("Reshape", own, upright))
    if scores.logits:
        second = nodes.clip(second, -LARGEST, LARGEST)
        first = nodes.add("Mul", second, nodes.number(0.0))
    else:
        first = nodes.add("Sub", nodes.number(1.0), second)
    return nodes.add("Concat", first, second, axis=1)


def _even_where_missing(nodes: Nodes, exact: str, mixed: str, scores: Scores, out: str) -> str:
    """The uniform answer for rows whose scores hold NaN."""
    none = nodes.reduce("ReduceMax", nodes.double(nodes.add("IsNaN", exact)))
    missing = nodes.add("Greater", none, nodes.number(0.5))
    filler = nodes.add("Cast", nodes.number(scores.even), to=scores.element)
    return nodes.add("Where", missing, filler, mixed, out=out)


def _mix(nodes: Nodes, exact: str, hot: str, scores: Scores) -> str:
    if not scores.logits:
        return _mix_classes(nodes, exact, exact, hot, scores)
    exact = nodes.clip(exact, -LARGEST, LARGEST)
    below = nodes.add("Less", exact, nodes.reduce("ReduceMax", exact))
    mixed = _mixed(nodes, nodes.add("Softmax", exact, axis=1), hot, scores)
    mixed = nodes.add("Log", nodes.add("Max", mixed, nodes.number(LEAST)))
    mixed = nodes.add("Sub", mixed, nodes.reduce("ReduceMax", mixed))
    lower = nodes.add("Min", mixed, nodes.number(-scores.apart))
    return nodes.add("Where", below, lower, nodes.number(0.0))


def _mixed(nodes: Nodes, p: str, hot: str, scores: Scores) -> str:
    """``1 / K + (p - 1 / K) / T``."""
    share = nodes.number(1.0 / scores.classes)
    return nodes.add("Add", share, nodes.add("Div", nodes.add("Sub", p, share), hot))


def _mix_classes(nodes: Nodes, ranked: str, p: str, hot: str, scores: Scores) -> str:
    """Mix probabilities; whatever is below the top of ``ranked`` stays below it."""
    below = nodes.add("Less", ranked, nodes.reduce("ReduceMax", ranked))
    mixed = _mixed(nodes, p, hot, scores)
    highest = nodes.reduce("ReduceMax", mixed)
    lower = nodes.add("Min", mixed, nodes.add("Mul", highest, nodes.number(1.0 - scores.apart)))
    return nodes.add("Where", below, lower, highest)


def _mix_single(nodes: Nodes, exact: str, hot: str, scores: Scores) -> str:
    half, middle = nodes.number(0.5), nodes.number(scores.even)
    p = nodes.add("Sigmoid", exact) if scores.logits else exact
    mixed = nodes.add("Add", half, nodes.add("Div", nodes.add("Sub", p, half), hot))
    if scores.logits:
        bounded = nodes.clip(mixed, LEAST, 1.0 - EPS[DOUBLE])
        other = nodes.add("Sub", nodes.number(1.0), bounded)
        mixed = nodes.add("Sub", nodes.add("Log", bounded), nodes.add("Log", other))
    high = nodes.add("Max", mixed, nodes.number(scores.even + scores.apart))
    low = nodes.add("Min", mixed, nodes.number(scores.even - scores.apart))
    mixed = nodes.add("Where", nodes.add("Less", exact, middle), low, middle)
    return nodes.add("Where", nodes.add("Greater", exact, middle), high, mixed)
