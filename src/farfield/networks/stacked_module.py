"""Any ``torch.nn.Module`` as a stack of members.

The members' parameters are stacked and the module is mapped over them with ``torch.func``.
Modules that draw random numbers (dropout) run member by member instead, each with its own seed,
because a shared draw would make a member depend on the others.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.dropout import _DropoutNd

from farfield.errors import InputError
from farfield.networks.stack import Parameters
from farfield.networks.streams import Streams

ModuleFactory = Callable[[], nn.Module]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator for a while, and put its state back."""
    generator = torch.default_generator
    before = generator.get_state()
    # The generator's own method: torch.manual_seed notes a stack trace for every other device.
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(before)


class StackedModule:
    """Members made by a factory, trained side by side.

    Args:
        factory: Called once per member without arguments; returns a new module that maps
            ``(rows, *features)`` to ``(rows, outputs)``.
        initial: Streams that seed the factory, one per member.
        noise: Streams for the modules' own randomness.
    """

    def __init__(self, factory: ModuleFactory, initial: Streams, noise: Streams) -> None:
        modules = []
        for seed in initial.seeds():
            with seeded(seed):
                module = factory()
            if not isinstance(module, nn.Module):
                raise InputError(
                    f"module must return a torch.nn.Module, got {type(module).__name__}; "
                    "pass a function that builds a new network each time it is called"
                )
            modules.append(module.float())
        self.members = len(modules)
        self.noise = noise
        self._skeleton = modules[0]
        named = [dict(module.named_parameters()) for module in modules]
        self._names = list(named[0])
        self.parameters = Parameters(
            [(self.members, *named[0][name].shape) for name in self._names]
        )
        for view, name in zip(self.parameters.views, self._names, strict=True):
            view.copy_(torch.stack([tensors[name].detach() for tensors in named]))
        buffers = [dict(module.named_buffers()) for module in modules]
        self._buffer_names = list(buffers[0])
        self.buffers = [
            torch.stack([tensors[name] for tensors in buffers]) for name in self._buffer_names
        ]
        self._alone = any(
            isinstance(layer, _DropoutNd) and layer.p > 0 for layer in self._skeleton.modules()
        )

    def apply(self, tensors: Sequence[Tensor], inputs: Tensor, *, training: bool) -> Tensor:
        """Map ``(members, rows, *features)`` to ``(members, rows, outputs)``; differentiable.

        Tensors may hold several weight samples of each member, one after the other.
        """
        self._skeleton.train(training)
        draws = inputs.shape[0] // self.members
        # Samples of one member share its running statistics; the last one leaves them behind.
        buffers = [buffer.repeat_interleave(draws, 0) for buffer in self.buffers]
        outputs = self._together(tensors, buffers, inputs)
        if outputs is None:
            outputs = self._one_by_one(tensors, buffers, inputs, draws, training=training)
        if training:
            for buffer, used in zip(self.buffers, buffers, strict=True):
                buffer.copy_(used[draws - 1 :: draws])
        return outputs

    def _named(self, tensors: Sequence[Tensor], buffers: Sequence[Tensor]) -> dict[str, Tensor]:
        """Name the tensors of one member."""
        named = dict(zip(self._names, tensors, strict=True))
        named.update(zip(self._buffer_names, buffers, strict=True))
        return named

    def _together(
        self, tensors: Sequence[Tensor], buffers: Sequence[Tensor], inputs: Tensor
    ) -> Tensor | None:
        """Map the module over members; ``None`` where that is not possible."""
        if self._alone or inputs.shape[0] == 1:
            return None

        def one(state: tuple[Tensor, ...], memory: tuple[Tensor, ...], rows: Tensor) -> Tensor:
            outputs: Tensor = functional_call(self._skeleton, self._named(state, memory), (rows,))
            return outputs

        try:
            outputs: Tensor = vmap(one)(tuple(tensors), tuple(buffers), inputs)
        except RuntimeError:
            # Hidden randomness or control flow on values; the module's own errors come back
            # when it runs alone.
            self._alone = True
            return None
        return outputs

    def _one_by_one(
        self,
        tensors: Sequence[Tensor],
        buffers: Sequence[Tensor],
        inputs: Tensor,
        draws: int,
        *,
        training: bool,
    ) -> Tensor:
        """Run each member with its own seed."""
        seeds = [self.noise.seeds() if training else [0] * self.members for _ in range(draws)]
        outputs = []
        for index, rows in enumerate(inputs):
            member, draw = divmod(index, draws)
            named = self._named([t[index] for t in tensors], [b[index] for b in buffers])
            with seeded(seeds[draw][member]):
                outputs.append(functional_call(self._skeleton, named, (rows,)))
        return torch.stack(outputs)

    def penalty(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """Return nothing: a plain network adds no loss of its own."""
        return None

    def begin(self, progress: float) -> None:
        """Ignore the progress of the training."""

    def module(self, member: int) -> nn.Module:
        """Return a copy of the module with one member's parameters, in evaluation mode."""
        module = copy.deepcopy(self._skeleton)
        state = dict(zip(self._names, self.parameters.views, strict=True))
        state.update(zip(self._buffer_names, self.buffers, strict=True))
        module.load_state_dict({name: t[member].clone() for name, t in state.items()}, strict=False)
        return module.eval()
