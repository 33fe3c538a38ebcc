"""What an ONNX file says about its guard, and the nodes that this makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from farfield.guard.covered import Covered
from farfield.guard.onnx_envelope import add_envelope
from farfield.guard.onnx_mixture import Scores, add_mixture
from farfield.guard.onnx_nodes import DOUBLE, FLOAT, PREFIX, Nodes, add_covered, add_rows
from farfield.guard.records import ColumnsRecord, CoveredRecord, Strict

if TYPE_CHECKING:
    from onnx import ModelProto

CERTIFICATE, GUARD = "farfield.certificate", "farfield.guard"
OWN = f"{PREFIX}own"
# For files that use nothing but other operator sets.
DEFAULT_OPSET = 15


class GuardRecord(Strict):
    """What a file says about its guard, beside the numbers.

    Attributes:
        version: Of this record.
        scores: The value that holds the scores of the classes.
        kind: What they are.
        single: Whether there is one number for two classes.
        element: Their type.
        classes: Number of classes.
        inputs: Names of the file's inputs.
        columns: What the columns are.
        covered: The views.
        features: The value that holds the model's features, if a view looks at them.
        outputs: Names of an envelope's outputs, whose scores stay as they are; none of a guard,
            whose scores are mixed.
    """

    version: Literal[2] = 2
    scores: str
    kind: Literal["probabilities", "logits"]
    single: bool
    element: Literal[1, 10, 11]
    classes: int = Field(ge=2)
    inputs: tuple[str, ...] = Field(min_length=1)
    columns: ColumnsRecord
    covered: CoveredRecord
    features: str | None = None
    outputs: tuple[str, ...] = ()


def guard_nodes(record: GuardRecord, covered: Covered, opset: int) -> Nodes:
    """The nodes of a guard, or of an envelope."""
    nodes = Nodes(opset)
    rows = add_rows(nodes, record.inputs, covered.columns)
    seen = add_covered(nodes, covered, rows, record.features)
    if not record.outputs:
        scores = Scores(record.kind, record.single, record.classes, record.element)
        add_mixture(nodes, OWN, seen.temperature, scores, record.scores)
        return nodes
    own, element = record.scores, DOUBLE if record.element == DOUBLE else FLOAT
    if record.element != element:
        # Half precision is too coarse for a promise about hundredths.
        own = nodes.add("Cast", own, to=element)
    scores = Scores(record.kind, record.single, record.classes, element)
    add_envelope(nodes, covered, record.columns.columns(), seen, own, scores, record.outputs)
    return nodes


def opset_of(model: ModelProto) -> int:
    """The version of the standard operator set."""
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            return int(entry.version)
    return DEFAULT_OPSET
