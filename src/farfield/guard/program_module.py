"""A captured program as a module: to run, to export and to save a model without its own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from farfield.graph.export import Read, evaluation_mode, module_device, module_dtype
from farfield.graph.network import Network
from farfield.graph.program import SIZE, Program
from farfield.graph.recorded import exported_steps, read_steps
from farfield.guard.penultimate import last_layer


class ProgramModule(nn.Module):
    """Runs the steps of a program; its weights are buffers.

    Args:
        program: What to run.
        weights: The program's constants, by name.
        feature: A step whose value :meth:`both` returns beside the output.

    >>> import farfield as ff
    >>> layer = nn.Linear(2, 3)
    >>> network = ff.capture(layer, torch.zeros(1, 2), dtype=torch.float32)
    >>> module = ProgramModule(network.groups[0].program, network.groups[0].instance(0))
    >>> x = torch.ones(4, 2)
    >>> bool((module(x) == layer(x)).all())
    True
    """

    def __init__(
        self, program: Program, weights: Mapping[str, Tensor], feature: str | None = None
    ) -> None:
        super().__init__()
        self.program, self.feature = program, feature
        # Names of constants may hold dots, which those of buffers may not.
        self.places = {name: f"weight_{place}" for place, name in enumerate(weights)}
        for name, place in self.places.items():
            self.register_buffer(place, weights[name].detach().clone())

    def weights(self) -> dict[str, Tensor]:
        """The program's constants, by name."""
        return {name: getattr(self, place) for name, place in self.places.items()}

    def forward(self, rows: Tensor) -> Tensor:
        """Evaluate the program's output."""
        return self._run(rows)[0]

    def both(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate the output and the feature."""
        output, feature = self._run(rows)
        if feature is None:
            raise AssertionError("this program was made without a feature")
        return output, feature

    def _run(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        if not self.program.per_row:
            return self._steps(rows)
        if self.feature is None:
            return torch.vmap(lambda row: self._steps(row)[0])(rows), None
        return torch.vmap(self._steps)(rows)

    def _steps(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        environment: dict[str, Any] = {**self.weights(), self.program.input: rows}
        feature: Tensor | None = None
        for step, freed in zip(self.program.steps, self.program.last_uses, strict=True):
            args, kwargs = step.bind(environment)
            if step.target is SIZE:
                environment[step.name] = args[0].shape[args[1]]
            else:
                environment[step.name] = self.program.function(step)(*args, **kwargs)
            if step.name == self.feature:
                feature = environment[step.name]
            for name in freed:
                del environment[name]
        output: Tensor = environment[self.program.output]
        return output, feature


def traced(module: nn.Module, example: Tensor) -> ProgramModule:
    """A module's own operations, one by one, with its own weights: the same bits.

    Raises:
        CaptureError: If it cannot be traced.
    """
    if isinstance(module, ProgramModule):
        return module
    found = _made(read_steps(module, example))
    example = example.to(module_device(module), module_dtype(module, example.dtype))
    with torch.no_grad(), evaluation_mode(module):
        # A module may do something else while it is watched; torch.export has the last word.
        if torch.allclose(found(example), module(example), equal_nan=True):
            return found
    return _made(exported_steps(module, example))


def _made(read: Read) -> ProgramModule:
    return ProgramModule(read.program, read.constants).eval()


def with_feature(module: ProgramModule) -> ProgramModule | None:
    """The same program, with what its last layer reads beside its output; ``None`` without one."""
    weights = module.weights()
    found = last_layer(module.program, weights)
    shapes = {step.name: step.shape for step in module.program.steps}
    shape = None if found is None else shapes.get(found.reads)
    if found is None or shape is None or len(shape) != 2:
        return None
    return ProgramModule(module.program, weights, found.reads).eval()


def telling(module: nn.Module) -> ProgramModule:
    """A module that is known to tell its features."""
    if not isinstance(module, ProgramModule):
        raise TypeError("a guard that looks at features holds a program that tells them")
    return module


def instance_modules(network: Network) -> list[ProgramModule]:
    """One module for each instance, in the model's own floating-point type.

    If all matrices hold float32 numbers, they came from a float32 model, which is run as such.
    """
    modules: dict[int, ProgramModule] = {}
    for group in network.groups:
        for index, member in enumerate(group.members):
            modules[member] = ProgramModule(group.program, _own_type(group.instance(index)))
    return [modules[member] for member in sorted(modules)]


def _own_type(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # Vectors do not count: batch norm was folded into them, in double precision.
    floats = [
        value
        for value in weights.values()
        if value.is_floating_point() and sum(length > 1 for length in value.shape) > 1
    ]
    single = bool(floats) and all(torch.equal(v, v.float().to(v.dtype)) for v in floats)
    return {
        name: value.float() if single and value.is_floating_point() else value
        for name, value in weights.items()
    }
