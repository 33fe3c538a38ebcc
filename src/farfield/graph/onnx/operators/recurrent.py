"""Recurrent layers, written out: LSTM, GRU and plain ones, one moment after another.

Rows stand second in what these operators take, so a file that holds one is read one row at a time.
Each moment is a handful of steps that networks are made of anyway; the states are the values that
go from one moment to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from farfield.graph.onnx.node import Node, as_float, operator
from farfield.graph.onnx.operators.arithmetic import add, multiply, subtract
from farfield.graph.onnx.trace import ROWS, Known, ProgramBuilder, Refusal, Value, known, plain
from farfield.graph.refusals import MOVES

aten = torch.ops.aten
ACTIVATIONS: dict[str, Any] = {
    "relu": aten.relu.default,
    "sigmoid": aten.sigmoid.default,
    "softplus": aten.softplus.default,
    "tanh": aten.tanh.default,
}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
# How many gates each layer has, and the activations that it uses if none are named.
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
State = tuple[Value, ...]


@dataclass(frozen=True)
class _Layer:
    """One direction of a recurrent layer.

    Attributes:
        trace: Where its steps are written.
        inner: ``(gates hidden, inputs)`` the weights of what goes in.
        outer: ``(gates hidden, hidden)`` those of the state.
        biases: The offsets of both, each ``(gates hidden,)``.
        activations: In the order of the operator.
        resets_late: Whether a GRU resets behind the product with its weights.
    """

    trace: ProgramBuilder
    inner: Known
    outer: Known
    biases: tuple[Known, Known]
    activations: Sequence[Any]
    resets_late: bool

    @property
    def size(self) -> int:
        """The width of the state."""
        return self.outer.shape[1]

    def fed(self, moment: Value) -> Value:
        """What goes into the gates from outside."""
        return self._linear(moment, self.inner, self.biases[0])

    def fed_back(self, state: Value, gates: slice = slice(None)) -> Value:
        """What goes into some of the gates from a state."""
        rows = slice(*(None if g is None else g * self.size for g in (gates.start, gates.stop)))
        weight, bias = Known(self.outer.tensor[rows]), Known(self.biases[1].tensor[rows])
        return self._linear(state, weight, bias)

    def _linear(self, value: Value, weight: Known, bias: Known) -> Value:
        return self.trace.apply(aten.linear.default, value, weight, bias)

    def gate(self, value: Value, place: int) -> Value:
        """One of the gates that stand side by side."""
        ends = (place * self.size, (place + 1) * self.size)
        return self.trace.apply(aten.slice.Tensor, value, 1, *ends)

    def active(self, place: int, value: Value) -> Value:
        """Apply one of the activations."""
        return self.trace.apply(self.activations[place], value)

    def mixed(self, share: Value, one: Value, other: Value) -> Value:
        """``share * one + (1 - share) * other``."""
        rest = subtract(self.trace, known(1.0), share)
        return self.sum(self.product(share, one), self.product(rest, other))

    def product(self, one: Value, other: Value) -> Value:
        """Element by element."""
        return multiply(self.trace, one, other)

    def sum(self, one: Value, other: Value) -> Value:
        """Element by element."""
        return add(self.trace, one, other)


def _plain(layer: _Layer, moment: Value, state: State) -> State:
    """``f(W x + R h + b)``."""
    return (layer.active(0, layer.sum(layer.fed(moment), layer.fed_back(state[0]))),)


def _gated(layer: _Layer, moment: Value, state: State) -> State:
    """GRU: ``z h + (1 - z) g(...)``, with the gates in the order z, r, h."""
    (held,) = state
    fed = layer.fed(moment)
    back = layer.fed_back(held) if layer.resets_late else layer.fed_back(held, slice(0, 2))
    update, reset = (
        layer.active(0, layer.sum(layer.gate(fed, place), layer.gate(back, place)))
        for place in (0, 1)
    )
    if layer.resets_late:
        recalled = layer.product(reset, layer.gate(back, 2))
    else:
        recalled = layer.fed_back(layer.product(reset, held), slice(2, 3))
    candidate = layer.active(1, layer.sum(layer.gate(fed, 2), recalled))
    return (layer.mixed(update, held, candidate),)


def _remembering(layer: _Layer, moment: Value, state: State) -> State:
    """LSTM: ``c = f c + i g``, ``h = o tanh(c)``, with the gates in the order i, o, f, c."""
    held, cell = state
    total = layer.sum(layer.fed(moment), layer.fed_back(held))
    enter, leave, forget = (layer.active(0, layer.gate(total, place)) for place in (0, 1, 2))
    candidate = layer.active(1, layer.gate(total, 3))
    cell = layer.sum(layer.product(forget, cell), layer.product(enter, candidate))
    return layer.product(leave, layer.active(2, cell)), cell


CELLS: dict[str, Callable[[_Layer, Value, State], State]] = {
    "RNN": _plain,
    "GRU": _gated,
    "LSTM": _remembering,
}


@operator(*CELLS)
def recurrent(trace: ProgramBuilder, node: Node) -> Any:
    """All moments of a recurrent layer, in one direction or both."""
    _check(node)
    value, layout = node[0], node.whole("layout", 0)
    if len(value.shape) != 3:
        raise Refusal(f"takes {len(value.shape)} dimensions and not three")
    if ROWS in value.shape:
        raise Refusal(f"{MOVES}: time comes first")
    if layout:
        value = trace.apply(aten.transpose.int, value, 0, 1)
    moments = [trace.apply(aten.select.int, value, 0, t) for t in range(value.shape[0])]
    turns = DIRECTIONS.get(node.text("direction", "forward"))
    if turns is None:
        raise Refusal(f"goes {node.text('direction', '')!r} through time")
    ways = [_one_way(trace, node, moments, place, turned) for place, turned in enumerate(turns)]
    whole = [trace.apply(aten.stack.default, [held for held, *_ in way], 0) for way in ways]
    last = [way[0] if turned else way[-1] for way, turned in zip(ways, turns, strict=True)]
    dim = 1 if layout else 0
    ends = [trace.apply(aten.stack.default, list(parts), dim) for parts in zip(*last, strict=True)]
    # Moments, directions, rows and features; or rows first.
    together = trace.apply(aten.stack.default, whole, 1)
    if layout:
        together = trace.apply(aten.permute.default, together, [2, 0, 1, 3])
    return together, *ends


def _one_way(
    trace: ProgramBuilder, node: Node, moments: list[Value], place: int, turned: bool
) -> list[State]:
    """The states at all moments, in the order of time."""
    layer = _layer(trace, node, place)
    kinds = 2 if node.operator == "LSTM" else 1
    state = tuple(_start(trace, node, layer, 5 + k, place, moments[0]) for k in range(kinds))
    states = []
    for moment in moments[::-1] if turned else moments:
        state = CELLS[node.operator](layer, moment, state)
        states.append(state)
    return states[::-1] if turned else states


def _check(node: Node) -> None:
    """Refuse what is not followed."""
    for name in ("clip", "input_forget", "activation_alpha", "activation_beta"):
        if node.attributes.get(name):
            raise Refusal(f"has the attribute {name}")
    if node.optional(7) is not None:
        raise Refusal("has peepholes")
    if node.optional(4) is not None:
        lengths = set(plain(node[4], "lengths"))
        if lengths - {node[0].shape[node.whole("layout", 0)]}:
            raise Refusal(f"takes sequences of the lengths {sorted(lengths)}")


def _layer(trace: ProgramBuilder, node: Node, place: int) -> _Layer:
    """The weights of one direction."""
    inner, outer = (as_float(node.known(each, "weights")) for each in (1, 2))
    gates, hidden = GATES[node.operator], outer.shape[-1]
    if inner.tensor.ndim != 3 or outer.shape[1:] != (gates * hidden, hidden):
        raise Refusal(f"has weights of the shapes {inner.shape} and {outer.shape}")
    biases = torch.zeros(2 * gates * hidden, dtype=outer.tensor.dtype)
    if node.optional(3) is not None:
        biases = as_float(node.known(3, "biases")).tensor[place]
    first, second = (Known(part.clone()) for part in biases.chunk(2))
    late = bool(node.whole("linear_before_reset", 0))
    parts = (Known(inner.tensor[place]), Known(outer.tensor[place]))
    return _Layer(trace, *parts, (first, second), _activations(node, place), late)


def _activations(node: Node, place: int) -> list[Any]:
    """The functions of one direction."""
    usual = USUAL[node.operator]
    named = node.attributes.get("activations")
    chosen = usual if not named else named[place * len(usual) : (place + 1) * len(usual)]
    found = [ACTIVATIONS.get(str(name).lower()) for name in chosen]
    if len(found) != len(usual) or None in found:
        raise Refusal(f"uses the activations {list(chosen)}")
    return found


def _start(
    trace: ProgramBuilder, node: Node, layer: _Layer, at: int, place: int, like: Value
) -> Value:
    """The first state of one direction; zero if none is given."""
    given = node.optional(at)
    if given is None:
        return Known(torch.zeros(like.shape[0], layer.size, dtype=layer.outer.tensor.dtype))
    dim = 1 if node.whole("layout", 0) else 0
    return trace.apply(aten.select.int, given, dim, place)
