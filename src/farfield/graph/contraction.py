"""How much is multiplied and added up by ``einsum``: a sum of products over named indices.

An index of length one is broadcast to its length elsewhere, and so are the dimensions that an
ellipsis stands for, which are counted from the last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

ELLIPSIS = "..."


def products(equation: str, shapes: Sequence[Sequence[int]]) -> int:
    """Count the products of one number from each operand.

    >>> products("ti,ij->tj", [(5, 6), (6, 7)])
    210
    """
    return math.prod(_lengths(equation, shapes).values())


def terms(equation: str, shapes: Sequence[Sequence[int]]) -> int:
    """Count the products that are added up for one number of the result.

    >>> terms("ti,ij->tj", [(5, 6), (6, 7)]), terms("...i,...i->...", [(5, 6), (6,)])
    (6, 6)
    """
    result = _result(equation)
    return math.prod(
        length
        for index, length in _lengths(equation, shapes).items()
        if (ELLIPSIS if isinstance(index, int) else index) not in result
    )


def _operands(equation: str) -> list[str]:
    """The letters of every operand."""
    return equation.replace(" ", "").partition("->")[0].split(",")


def _lengths(equation: str, shapes: Sequence[Sequence[int]]) -> dict[str | int, int]:
    """The length of every index: letters, and below zero the dimensions of an ellipsis."""
    lengths: dict[str | int, int] = {}
    for letters, shape in zip(_operands(equation), shapes, strict=True):
        before, _, after = letters.partition(ELLIPSIS)
        hidden = range(len(before) + len(after) - len(shape), 0)
        for index, length in zip([*before, *hidden, *after], shape, strict=True):
            lengths[index] = max(lengths.get(index, 1), length)
    return lengths


def _result(equation: str) -> str:
    """The letters of the result: without an arrow, an ellipsis and those that are named once."""
    if "->" in equation:
        return equation.replace(" ", "").partition("->")[2]
    counts = Counter("".join(_operands(equation)).replace(".", ""))
    return ELLIPSIS + "".join(letter for letter, count in counts.items() if count == 1)
