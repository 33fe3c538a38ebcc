"""What a model does to a batch, operation by operation, without computing anything.

The model runs on a batch that has a shape and no numbers (PyTorch's ``meta`` device). Whatever it
calls is written down before PyTorch takes it apart; what has no rule is taken apart here. Weights
and tables are never read, so that a tensor with numbers in it is one of the model's own constants.
What cannot be followed this way ends in :class:`RecordingError`, and ``torch.export`` has the
word: it takes ten times as long and knows the rest.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, _ops
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from farfield.graph.export import rounded
from farfield.graph.plain_layers import apart
from farfield.graph.program import CodePlace, Ref, Step
from farfield.graph.shaped import shaped

aten = torch.ops.aten
INPUT = "x"
How = Callable[[OpOverload], Callable[..., Any] | None]
PROXY = torch._C._TorchDispatchModeKey.PROXY
META = torch.device("meta")
# What an operation may be given besides tensors.
PLAIN = (int, float, bool, complex, str, torch.dtype, torch.layout, torch.memory_format, type(None))
# Answers that shapes alone decide.
ABOUT_SHAPES = frozenset(
    (aten.sym_size.int, aten.sym_numel.default, aten.sym_stride.int, aten.is_same_size.default)
)
# What puts a part back, by what looks into it.
SCATTERS = {
    aten.slice.Tensor: aten.slice_scatter.default,
    aten.select.int: aten.select_scatter.default,
    aten.diagonal.default: aten.diagonal_scatter.default,
}
# Parts of a value that nobody looks at again.
UNSAFE_SPLITS = {
    aten.unsafe_split.Tensor: aten.split.Tensor,
    aten.unsafe_split_with_sizes.default: aten.split_with_sizes.default,
}
# Nothing comes of these.
ASSERTIONS = frozenset(
    (aten._assert_async.msg, aten._assert_async.default, aten._assert_tensor_metadata.default)
)


class RecordingError(Exception):
    """A model does something that is not followed here."""


@dataclass(frozen=True, eq=False)
class Recording:
    """What a model did to a batch.

    Attributes:
        steps: Its operations, in order, with the shapes they had.
        output: The name of what it returned.
        constants: Its tensors, by the names that steps give them.
        names: What the model calls these; nothing where they are not registered.
        written: How many operations there were, with those that nothing comes of.
    """

    steps: tuple[Step, ...]
    output: str
    constants: Mapping[str, Tensor]
    names: Mapping[str, str]
    written: int


class Watchable(Protocol):
    """What is watched.

    Attributes:
        tensors: Its own, with their names, by their addresses.
    """

    tensors: Mapping[int, tuple[str, Tensor]]

    def run(self, batch: Tensor) -> Any:
        """Apply it."""

    def place(self) -> CodePlace:
        """Where it is at this moment."""


def record(
    subject: Watchable,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    how: How,
    most: float = math.inf,
) -> Recording:
    """Run something on a batch of the given shape, and write down what it does.

    Args:
        subject: What to run.
        shape: The shape of the batch.
        dtype: The type of its numbers.
        how: What an operation becomes, ``None`` where it stays whole.
        most: Of how many operations.

    Raises:
        RecordingError: If that cannot be followed.
    """
    batch = torch.empty(shape, dtype=dtype, device=META)
    recorder = _Recorder(subject, batch, how, most)
    try:
        with warnings.catch_warnings(), _looked_at(recorder.device), recorder:
            warnings.simplefilter("ignore")
            result = subject.run(batch)
    except RecordingError:
        raise
    except Exception as error:  # whatever is raised, torch.export says it
        raise RecordingError(str(error)) from error
    if type(result) is not Tensor or not result.is_meta:
        raise RecordingError("the result is not one tensor that was computed")
    if id(result) in recorder.stale:
        raise RecordingError("the result was changed by what others look into")
    return recorder.recording(recorder._known_as(result))


class _View(NamedTuple):
    """What a tensor looks into, and how."""

    parent: Tensor
    func: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class _Recorder(ProxyTorchDispatchMode):
    """Sees every operation before PyTorch takes it apart, where torch.export's own tracer sits."""

    def __init__(self, subject: Watchable, batch: Tensor, how: How, most: float) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self._mode_key = PROXY
        self.enter_stack = []
        self.how, self.most = how, most
        self.known = {id(batch): INPUT}
        self.alive = [batch]  # what is known goes by its address
        self.steps: list[Step] = []
        self.counts = {INPUT: 0}
        self.subject, self.owned = subject, subject.tensors
        self.device = next((each.device for _, each in self.owned.values()), torch.device("cpu"))
        self.constants: dict[str, Tensor] = {}
        self.names: dict[str, str] = {}
        self.shells: dict[int, Tensor] = {}
        self.views: dict[int, _View] = {}
        self.stale: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here; to be told so takes PyTorch seconds of loading."""
        return False

    def recording(self, output: str) -> Recording:
        """What was recorded and leads to the output."""
        needed = {output}
        steps: list[Step] = []
        for step in reversed(self.steps):
            if step.name in needed:
                steps.append(step)
                needed.update(step.refs())
        kept = {name: tensor for name, tensor in self.constants.items() if name in needed}
        names = {name: self.names[name] for name in kept}
        return Recording(tuple(reversed(steps)), output, kept, names, len(self.steps))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Follow one operation, as it is: what models see of tensors is not true."""
        with torch._C.DisableTorchFunction():
            return self._follow(func, args, dict(kwargs or {}))

    def _follow(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not isinstance(func, OpOverload) or func.namespace not in ("aten", "prims"):
            raise RecordingError(f"{func} is not an ATen operation")
        if torch.is_autocast_enabled(self.device.type):
            raise RecordingError("the model chooses precisions by itself")
        if func in ABOUT_SHAPES:
            return func(*args, **kwargs)
        args = self._bare(args)
        given = {key: self._bare(each) for key, each in kwargs.items()}
        if func is aten.lift_fresh.default:
            func = aten.clone.default
        if func._schema.is_mutable:
            return self._in_place(func, args, given)
        if func in UNSAFE_SPLITS:
            return self._apart(UNSAFE_SPLITS[func], args, given)
        become = self.how(func)
        if become is not None:
            with self._again():
                made = become(*args, **given)
            if made is not NotImplemented:
                return made
        return self._write(func, args, given)

    @contextmanager
    def _again(self) -> Iterator[None]:
        """Follow what an operation is made of."""
        _ops._set_mode_pre_dispatch(self)
        try:
            yield
        finally:
            _ops.unset_mode_pre_dispatch(PROXY)

    def _in_place(self, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Tensor:
        """Follow an operation that changes its first argument, and what that looks into."""
        name, changed = func._schema.name.split("::")[1], args[0] if args else None
        packet = getattr(aten, name[:-1], None) if name.endswith("_") else None
        pure = getattr(packet, func._overloadname, None)
        if not isinstance(changed, Tensor) or pure is None or pure._schema.is_mutable:
            raise RecordingError(f"{func} changes a value")
        before = self._known_as(changed)
        own = before != INPUT and before not in self.constants
        if not own:
            raise RecordingError(f"{func} changes a value that is not the model's to change")
        with self._again():
            made = pure(*args, **kwargs)
        if made.shape != changed.shape or made.dtype != changed.dtype:
            raise RecordingError(f"{func} changes a value to another kind")
        self._put_back(func, changed, made)
        return changed

    def _put_back(self, func: OpOverload, changed: Tensor, made: Tensor) -> None:
        """Let a changed part be seen in the whole; whatever else looks there is out of date."""
        sharing = self._sharing(changed)
        seen = self._replaced(changed, made, sharing)
        while len(seen) < len(sharing) and id(changed) in self.views:
            changed, view, args, kwargs = self.views[id(changed)]
            if view not in SCATTERS or self._known_as(changed) in (INPUT, *self.constants):
                raise RecordingError(f"{func} changes a value that others look into")
            with self._again():
                made = SCATTERS[view](changed, made, *args, **kwargs)
            seen |= self._replaced(changed, made, sharing)
        left = {id(each) for each in sharing} - seen
        if not left <= self.views.keys():
            raise RecordingError(f"{func} changes a value that others look into")
        self.stale |= left

    def _replaced(self, changed: Tensor, made: Tensor, sharing: list[Tensor]) -> set[int]:
        """Call a value by the name of another from now on, wherever it is looked at as it is."""
        alike = {id(each) for each in sharing if _are_alike(changed, each)}
        self.known.update(dict.fromkeys(alike, self._known_as(made)))
        self.stale -= alike
        return alike

    def _apart(self, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
        """Follow an operation that takes a value to pieces, each in memory of its own."""
        with self._again():
            pieces = func(*args, **kwargs)
        made = [_shell(each) for each in pieces]
        pairs = zip(made, pieces, strict=True)
        self.known.update((id(new), self._known_as(piece)) for new, piece in pairs)
        self.alive += made
        return made

    def _write(self, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        """Write an operation down, and find the shape of what it gives."""
        step = Step(
            self._name(func._schema.name.split("::")[1]),
            func,
            tuple(self._mention(each) for each in rounded(func, args)),
            {key: self._mention(each) for key, each in kwargs.items()},
            self.subject.place(),
        )
        with torch._C._DisablePythonDispatcher():
            made = shaped(func, args)
            if made is None:
                where = {"device": META} if _is_made_somewhere(func) else {}
                made = func(*args, **{**kwargs, **where})
        if type(made) is Tensor:
            self._keep(step, made)
            if func.is_view and _memory(made) == _memory(args[0]):
                self.views[id(made)] = _View(args[0], func, args[1:], kwargs)
        elif isinstance(made, (tuple, list)) and all(type(each) is Tensor for each in made):
            self.steps.append(replace(step, shape=tuple(made[0].shape)))
            for place, part in enumerate(made):
                name = self._name("getitem")
                parts = (Ref(step.name), place)
                self._keep(Step(name, operator.getitem, parts, source=step.source), part)
        elif func not in ASSERTIONS:
            raise RecordingError(f"{func} gives {type(made).__name__}")
        return made

    def _keep(self, step: Step, made: Tensor) -> None:
        """Write down where a tensor comes from, unless it was there before."""
        if id(made) in self.known:
            return
        if len(self.steps) >= self.most:
            raise RecordingError("there are more operations than before")
        self.known[id(made)] = step.name
        self.alive.append(made)
        self.steps.extend(apart(replace(step, shape=tuple(made.shape))))

    def _mention(self, given: Any) -> Any:
        """What a step says of an argument: names for tensors."""
        if isinstance(given, Tensor):
            return Ref(self._known_as(given))
        if isinstance(given, (list, tuple)):
            return type(given)(map(self._mention, given))
        if isinstance(given, torch.device):
            return self.device if given == META else given
        if not isinstance(given, PLAIN):
            raise RecordingError(f"an operation is given a {type(given).__name__}")
        return given

    def _bare(self, given: Any) -> Any:
        """The same argument without numbers in its tensors, on no real device."""
        if isinstance(given, Tensor) and not given.is_meta:
            if id(given) not in self.shells:
                self._take_up(given)
            return self.shells[id(given)]
        if isinstance(given, (list, tuple)):
            return type(given)(map(self._bare, given))
        return META if isinstance(given, torch.device) else given

    def _known_as(self, tensor: Tensor) -> str:
        """The name of a tensor. What makes tensors may hand out a copy that is no other tensor."""
        if id(tensor) not in self.known:
            alike = [each for each in self._sharing(tensor) if _are_alike(tensor, each)]
            if not alike:
                raise RecordingError("an operation is given a tensor from elsewhere")
            self.known[id(tensor)] = self._known_as(alike[0])
            self.alive.append(tensor)
        if id(tensor) in self.stale:
            parent, func, args, kwargs = self.views[id(tensor)]
            with self._again():
                again = func(parent, *args, **kwargs)
            self.known[id(tensor)] = self.known[id(again)]
            self.stale.remove(id(tensor))
        return self.known[id(tensor)]

    def _sharing(self, tensor: Tensor) -> list[Tensor]:
        """Every tensor that looks into the same memory."""
        memory = _memory(tensor)
        return [each for each in self.alive if _memory(each) == memory]

    def _take_up(self, tensor: Tensor) -> None:
        """Name a tensor of the model's own. Numbers that it holds cannot come from the input."""
        special = tensor.is_quantized or tensor.is_conj() or tensor.is_neg()
        if special or tensor.layout != torch.strided:
            raise RecordingError("an operation is given a tensor of a kind of its own")
        path = self.owned[id(tensor)][0] if id(tensor) in self.owned else ""
        name = self._name("p_" + path.replace(".", "_") if path else "lifted_tensor")
        self.constants[name], self.names[name] = tensor.detach(), path
        shell = _shell(tensor)
        self.shells[id(tensor)] = shell
        self.known[id(shell)] = name
        self.alive += [tensor, shell]

    def _name(self, like: str) -> str:
        """A name of its own."""
        name = like
        while name in self.counts:
            self.counts[like] += 1
            name = f"{like}_{self.counts[like]}"
        self.counts[name] = 0
        return name


class _Shown(TorchFunctionMode):
    """Shows tensors to a model as if they were where the model is."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.seen = {
            Tensor.device.__get__: device,
            Tensor.is_meta.__get__: False,  # type: ignore[attr-defined]
            Tensor.is_cpu.__get__: device.type == "cpu",  # type: ignore[attr-defined]
            Tensor.is_cuda.__get__: device.type == "cuda",  # type: ignore[attr-defined]
        }

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Answer some questions, and let everything else be done."""
        if func in self.seen:
            return self.seen[func]
        return func(*args, **(kwargs or {}))


def _shell(tensor: Tensor) -> Tensor:
    """A tensor of the same kind without numbers, in memory of its own."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)


def _memory(tensor: Tensor) -> int:
    """Where a tensor's numbers would be."""
    return int(tensor.untyped_storage()._cdata)


def _are_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors in the same memory are the same."""

    def read(tensor: Tensor) -> tuple[Any, ...]:
        marks = tensor.is_conj(), tensor.is_neg()
        return tensor.shape, tensor.dtype, tensor.stride(), tensor.storage_offset(), marks

    return read(one) == read(other)


@cache
def _is_made_somewhere(func: OpOverload) -> bool:
    """Whether an operation is told on which device to make its result."""
    return any(each.name == "device" and each.kwarg_only for each in func._schema.arguments)


@contextmanager
def _looked_at(device: torch.device) -> Iterator[None]:
    """Show models that ask that they are looked at, as torch.export does: no fused operations."""
    flags = torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag
    torch.compiler._is_compiling_flag = torch.compiler._is_exporting_flag = True
    try:
        with enable_python_dispatcher(), torch.no_grad(), _Shown(device):
            yield
    finally:
        torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag = flags
