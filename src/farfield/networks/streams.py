"""Randomness as an argument: one stream of numbers per member and purpose.

Member ``k`` draws from ``SeedSequence(seed, spawn_key=(k, purpose))``, so what it draws depends
neither on how many members train beside it nor on any global random state.
"""

from enum import IntEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Purpose(IntEnum):
    """What a stream is for; two purposes never share numbers."""

    INITIAL = 0
    SHUFFLE = 1
    NOISE = 2
    PRIOR = 3
    INSTANCES = 4
    SPLIT = 5
    AUGMENT = 6


class Streams:
    """One independent random stream per member.

    Args:
        seed: The seed of the whole ensemble.
        members: How many members draw.
        purpose: What the numbers are for.

    Example:
        >>> few, many = Streams(7, 2, Purpose.NOISE), Streams(7, 5, Purpose.NOISE)
        >>> bool((few.normal(3) == many.normal(3)[:2]).all())
        True
    """

    def __init__(self, seed: int, members: int, purpose: Purpose) -> None:
        self._generators = [
            np.random.Generator(
                np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(member, int(purpose))))
            )
            for member in range(members)
        ]

    def __len__(self) -> int:
        return len(self._generators)

    def uniform(self, *shape: int) -> Tensor:
        """Draw uniform numbers in [0, 1), shape ``(members, *shape)``."""
        out = np.empty((len(self), *shape), dtype=np.float32)
        for generator, row in zip(self._generators, out, strict=True):
            generator.random(dtype=np.float32, out=row)
        return torch.from_numpy(out)

    def normal(self, *shape: int) -> Tensor:
        """Draw standard normal numbers, shape ``(members, *shape)``."""
        out = np.empty((len(self), *shape), dtype=np.float32)
        for generator, row in zip(self._generators, out, strict=True):
            generator.standard_normal(dtype=np.float32, out=row)
        return torch.from_numpy(out)

    def permutations(self, count: int) -> Tensor:
        """Draw one order of ``count`` rows per member, shape ``(members, count)``."""
        return torch.from_numpy(
            np.stack([generator.permutation(count) for generator in self._generators])
        )

    def seeds(self) -> list[int]:
        """Draw one seed per member, for code that brings its own generator."""
        return [int(generator.integers(2**63)) for generator in self._generators]

    def generator(self, member: int) -> np.random.Generator:
        """Return the stream of one member."""
        return self._generators[member]

    def states(self) -> list[dict[str, Any]]:
        """Return where every stream is, as plain data that JSON can hold."""
        return [dict(generator.bit_generator.state) for generator in self._generators]

    def restore(self, states: list[dict[str, Any]]) -> None:
        """Go on from where ``states`` was taken."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.bit_generator.state = state
