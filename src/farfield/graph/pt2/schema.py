"""What the JSON of a ``.pt2`` archive may say: the part of PyTorch's schema that we follow.

Everything is validated before anything is made of it. Fields that PyTorch writes and we have no
use for are accepted and never looked at; fields that nobody knows are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from farfield.errors import CaptureError

# The version of PyTorch's own schema up to which we know the fields.
MAJOR, NEWEST_MINOR = 8, 20
# A name becomes an identifier in code that PyTorch generates: nothing else may get there.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}\z")]
Dotted = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*\z", max_length=500)
]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Float = float | Literal["Infinity", "-Infinity", "NaN"]
M = TypeVar("M", bound=BaseModel)


class SavedRecord(BaseModel):
    """A JSON object with exactly these fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Choice(SavedRecord):
    """A JSON object with exactly one of these fields: a tagged union."""

    @property
    def tag(self) -> str:
        """The name of the field that is there."""
        return next(iter(self.model_fields_set), "")

    @property
    def value(self) -> Any:
        """The content of the field that is there."""
        return getattr(self, self.tag)

    def model_post_init(self, context: Any, /) -> None:
        """Refuse none and several."""
        if len(self.model_fields_set) != 1 or self.value is None:
            raise ValueError("exactly one field with a value is expected")


class Device(SavedRecord):  # noqa: D101
    type: str
    index: int | None = None


class Expression(SavedRecord):
    """A size that depends on the batch; its text is never evaluated."""

    expr_str: str
    hint: Any = None


class SavedSize(Choice):
    """A number of elements: known, or an expression."""

    as_int: Whole | None = None
    as_expr: Expression | None = None


class TensorMeta(SavedRecord):  # noqa: D101
    dtype: int
    sizes: list[SavedSize]
    requires_grad: bool
    device: Device
    strides: list[SavedSize]
    storage_offset: SavedSize
    layout: int


class Named(SavedRecord):  # noqa: D101
    name: Name


class SizeArgument(Choice):  # noqa: D101
    as_name: Name | None = None
    as_int: Whole | None = None


class OptionalTensor(Choice):  # noqa: D101
    as_tensor: Named | None = None
    as_none: bool | None = None


class Argument(Choice):
    """An argument or a result of an operation. Nested graphs, objects and code are no fields."""

    as_none: bool | None = None
    as_tensor: Named | None = None
    as_tensors: list[Named] | None = None
    as_int: Whole | None = None
    as_ints: list[Whole] | None = None
    as_float: Float | None = None
    as_floats: list[Float] | None = None
    as_string: str | None = None
    as_sym_int: SizeArgument | None = None
    as_sym_ints: list[SizeArgument] | None = None
    as_scalar_type: int | None = None
    as_memory_format: int | None = None
    as_layout: int | None = None
    as_device: Device | None = None
    as_bool: bool | None = None
    as_bools: list[bool] | None = None
    as_optional_tensor: OptionalTensor | None = None
    as_optional_tensors: list[OptionalTensor] | None = None


class NamedArgument(SavedRecord):  # noqa: D101
    name: str
    arg: Argument
    kind: Literal[0, 1, 2] | None = None


class SavedNode(SavedRecord):
    """One operation; ``metadata`` says where it came from."""

    target: str
    inputs: list[NamedArgument]
    outputs: list[Argument]
    metadata: dict[str, str]
    is_hop_single_tensor_return: bool | None = None
    name: Name | None = None


class SavedGraph(SavedRecord):  # noqa: D101
    inputs: list[Argument]
    outputs: list[Argument]
    nodes: list[SavedNode]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, Any]
    sym_bool_values: dict[str, Any]
    is_single_tensor_return: bool = False
    custom_obj_values: dict[str, Any] = Field(default_factory=dict, max_length=0)
    sym_float_values: dict[str, Any] = Field(default_factory=dict)


class UserInput(SavedRecord):  # noqa: D101
    arg: Argument


class Parameter(SavedRecord):  # noqa: D101
    arg: Named
    parameter_name: Dotted


class Buffer(SavedRecord):  # noqa: D101
    arg: Named
    buffer_name: Dotted
    persistent: bool


class TensorConstant(SavedRecord):  # noqa: D101
    arg: Named
    tensor_constant_name: Dotted


class InputSpec(Choice):  # noqa: D101
    user_input: UserInput | None = None
    parameter: Parameter | None = None
    buffer: Buffer | None = None
    tensor_constant: TensorConstant | None = None
    constant_input: Any = None


class UserOutput(SavedRecord):  # noqa: D101
    arg: Argument


class OutputSpec(Choice):  # noqa: D101
    user_output: UserOutput | None = None
    buffer_mutation: Any = None


class Signature(SavedRecord):  # noqa: D101
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]


class CallSignature(SavedRecord):  # noqa: D101
    inputs: list[Any]
    outputs: list[Any]
    in_spec: str
    out_spec: str
    forward_arg_names: list[str] | None = None


class CallEntry(SavedRecord):  # noqa: D101
    fqn: str
    signature: CallSignature | None = None


class GraphModule(SavedRecord):  # noqa: D101
    graph: SavedGraph
    signature: Signature
    module_call_graph: list[CallEntry]
    metadata: dict[str, str] = Field(default_factory=dict)
    treespec_namedtuple_fields: dict[str, Any] = Field(default_factory=dict)


class Version(SavedRecord):  # noqa: D101
    major: Literal[8]
    minor: Annotated[int, Field(ge=0, le=NEWEST_MINOR)]


class Model(SavedRecord):
    """``models/model.json``."""

    schema_version: Version
    graph_module: GraphModule
    opset_version: dict[str, int]
    range_constraints: dict[str, Any]
    verifiers: list[str] = Field(default_factory=list)
    torch_version: str = ""
    guards_code: list[str] = Field(default_factory=list)


class Payload(SavedRecord):
    """Where a tensor lies in the archive and what it is; pickled ones are refused."""

    path_name: str
    is_param: bool
    use_pickle: Literal[False]
    tensor_meta: TensorMeta


class PayloadIndex(SavedRecord):
    """``model_weights_config.json`` and ``model_constants_config.json``."""

    config: dict[str, Payload]


def parse(kind: type[M], data: bytes, where: str) -> M:
    """Validate the JSON ``data``.

    Raises:
        CaptureError: In one line, with the place of the first thing that is wrong.
    """
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:200]
        raise CaptureError(
            f"{where} is not what torch.export.save writes, or is of another version than "
            f"{MAJOR}.0 to {MAJOR}.{NEWEST_MINOR} of its format: {place or 'the document'}: "
            f"{first['msg']} ({error.error_count()} problems); nothing of it was loaded"
        ) from error
