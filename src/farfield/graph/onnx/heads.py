"""Where the logits of an ONNX classifier are, and what its classes are called.

A classifier's file may give logits, probabilities, a label, or several of them; scikit-learn's
converter writes probabilities behind a ``ZipMap`` and the label as ``ArgMax`` and a look-up among
the classes. All of them lead back to one value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from farfield.errors import CaptureError
from farfield.graph.network import Label
from farfield.graph.onnx.files import EXTERNAL, STRING, ModelFile, decode_text

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto, TensorProto, ValueInfoProto

FLOATS = (1, 10, 11, 16)
# Whatever is behind these is the same scores, under another name or as a dictionary.
SAME_SCORES = ("Identity", "ZipMap", "Dropout")
SQUASHED = ("Softmax", "LogSoftmax", "Sigmoid")
# Operators that give a label and the scores of the classes.
WITH_SCORES = ("LinearClassifier", "TreeEnsembleClassifier")
# Between a label and the position it was looked up by.
LABEL_STEPS = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten")


@dataclass(frozen=True)
class Graph:
    """The nodes of a file by what they make."""

    file: ModelFile

    @cached_property
    def makers(self) -> dict[str, NodeProto]:
        """Which node makes each value."""
        return {name: node for node in self.file.model.graph.node for name in node.output if name}

    @cached_property
    def initializers(self) -> dict[str, TensorProto]:
        """The weights by name."""
        return {tensor.name: tensor for tensor in self.file.model.graph.initializer}

    def below(self, name: str, operators: tuple[str, ...]) -> str:
        """Follow first inputs down through some operators."""
        for _ in range(len(self.makers) + 1):
            maker = self.makers.get(name)
            if maker is None or maker.op_type not in operators or not maker.input:
                break
            name = maker.input[0]
        return name

    def needed(self, name: str) -> Iterator[NodeProto]:
        """The nodes that a value depends on, in the order of the file."""
        wanted, pending = {name}, [name]
        while pending:
            maker = self.makers.get(pending.pop())
            for item in maker.input if maker is not None else ():
                if item and item not in wanted:
                    wanted.add(item)
                    pending.append(item)
        return (n for n in self.file.model.graph.node if any(o in wanted for o in n.output if o))


def find_scores(graph: Graph) -> str:
    """Name the value that holds the scores of the classes.

    Raises:
        CaptureError: If there is none, or more than one.
    """
    outputs = list(graph.file.model.graph.output)
    names = [output.name for output in outputs]
    scores = dict.fromkeys(
        graph.below(output.name, (*SAME_SCORES, "Cast")) for output in outputs if _is_scores(output)
    )
    if not scores:
        scores = dict.fromkeys(filter(None, (_position_of(graph, name) for name in names)))
    if len(scores) > 1:
        behind = {graph.below(name, SQUASHED) for name in scores}
        squashed = [name for name in scores if graph.below(name, SQUASHED) != name]
        scores = dict.fromkeys(squashed[:1] if len(behind) == 1 else scores)
    if len(scores) != 1:
        raise CaptureError(
            f"{graph.file.path} has the outputs {', '.join(map(repr, names))}, of which "
            f"{len(scores)} could be the scores of the classes; export the model with one output"
        )
    return next(iter(scores))


def _is_scores(output: ValueInfoProto) -> bool:
    kind = output.type.WhichOneof("value")
    return kind == "sequence_type" or (
        kind == "tensor_type" and output.type.tensor_type.elem_type in FLOATS
    )


def _position_of(graph: Graph, name: str) -> str | None:
    """The scores whose largest a label is."""
    for _ in range(len(graph.makers) + 1):
        maker = graph.makers.get(name)
        if maker is None:
            return None
        if maker.op_type == "ArgMax" and maker.input:
            return str(maker.input[0])
        if maker.op_type in WITH_SCORES and len(maker.output) > 1:
            return str(maker.output[1])
        place = 1 if maker.op_type == "ArrayFeatureExtractor" else 0
        if maker.op_type not in (*LABEL_STEPS, "ArrayFeatureExtractor"):
            return None
        if len(maker.input) <= place:
            return None
        name = maker.input[place]
    return None


def find_labels(graph: Graph) -> tuple[Label, ...] | None:
    """The names of the classes, if the file says them."""
    named = _named_by(graph, ("ZipMap", "LinearClassifier"))
    if named is not None:
        return named
    for output in graph.file.model.graph.output:
        maker = graph.makers.get(graph.below(output.name, LABEL_STEPS))
        if maker is not None and maker.op_type == "ArrayFeatureExtractor" and len(maker.input) == 2:
            table = graph.initializers.get(graph.below(maker.input[0], ("Identity", "Cast")))
            found = () if table is None else _table(graph.file, table)
            if found:
                return found
    # The classes of these may be indices into a table that comes after them.
    return _named_by(graph, ("TreeEnsembleClassifier", "SVMClassifier"))


def _named_by(graph: Graph, operators: tuple[str, ...]) -> tuple[Label, ...] | None:
    """The classes that a node of one of these types lists."""
    for node in graph.file.model.graph.node:
        if node.op_type in operators:
            for attribute in node.attribute:
                labels = _listed(attribute)
                if attribute.name.startswith("classlabels_") and labels:
                    return labels
    return None


def _listed(attribute: AttributeProto) -> tuple[Label, ...]:
    return decode_text(attribute.strings) or tuple(int(label) for label in attribute.ints)


def _table(file: ModelFile, tensor: TensorProto) -> tuple[Label, ...]:
    if tensor.data_type == STRING and tensor.data_location != EXTERNAL:
        return decode_text(tensor.string_data)
    try:
        return tuple(int(label) for label in file.tensor(tensor).flatten().tolist())
    except CaptureError:
        return ()
