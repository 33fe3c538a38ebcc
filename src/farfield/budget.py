"""How much a file may make us compute and allocate: in proportion to its size, above a floor.

A few hundred bytes can ask for terabytes: a compressed archive of zeros, a tensor whose shape is
only claimed, a graph that repeats one number a million times. Every reader of files therefore
spends from one :class:`Budget`, and refuses in one line what goes beyond it.

Real files stay far below. An archive of images or one-hot columns unpacks to less than
``BYTES_PER_BYTE`` times its size; an image classifier multiplies each of its weights once for
every place of the image, some thousand times.
"""

from __future__ import annotations

from dataclasses import dataclass

from farfield.errors import FarfieldError, InputError

# Whatever its size, a file may unpack to 256 MiB, and 64 bytes for each byte that it has.
BYTES_FLOOR, BYTES_PER_BYTE = 2**28, 64
# Whatever its size, a model may take 2**23 operations for each row, and 2**12 for each byte of its
# weights: every weight may be used at some thousand places of an image.
OPERATIONS_FLOOR, OPERATIONS_PER_BYTE = 2**23, 2**12


def allowance(size: int) -> int:
    """How many bytes a file of ``size`` bytes may unpack to.

    >>> allowance(0), allowance(1_000_000)
    (268435456, 332435456)
    """
    return BYTES_FLOOR + BYTES_PER_BYTE * size


def operations(size: int) -> int:
    """How many operations for each row a model with ``size`` bytes of weights may ask for.

    >>> operations(0), operations(1_000_000)
    (8388608, 4104388608)
    """
    return OPERATIONS_FLOOR + OPERATIONS_PER_BYTE * size


@dataclass(slots=True)
class Budget:
    """What is left of an allowance.

    Attributes:
        left: How much may still be spent.
        unit: What is counted: ``"bytes"`` or ``"operations"``.
        error: What is raised when it is spent.
    """

    left: int
    unit: str = "bytes"
    error: type[FarfieldError] = InputError

    def spend(self, amount: int, what: str) -> None:
        """Take ``amount`` off, before it is computed or allocated.

        Raises:
            FarfieldError: Of the budget's kind, if there is less left; ``what`` begins the line.

        >>> Budget(100).spend(101, "image 0 of a.idx")
        Traceback (most recent call last):
        farfield.errors.InputError: image 0 of a.idx asks for 101 bytes, and 100 are left of ...
        """
        if amount > self.left:
            raise self.error(
                f"{what} asks for {amount} {self.unit}, and {self.left} are left of what a file "
                "of its size may ask for; it is damaged, or was made to exhaust memory and time"
            )
        self.left -= amount

    def grow(self, amount: int) -> None:
        """Allow more, as more of the file is seen to be there."""
        self.left += amount
