"""Walk rows through shallow trees as if all were complete: a place says where its children are.

On level ``l`` of a complete tree nodes are numbered from 0 to ``2**l - 1``, and those below node
``i`` are ``2 i`` and ``2 i + 1``: nothing has to be looked up. A leaf that comes early stands for
all that would be below it. Which code a node looks at, and the largest that goes left, are the two
halves of one number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# How many more places there may be than nodes.
ROOM = 2
# Halves of 32 bits. Codes are places in a block of rows, below the sign.
HALF, MOST_CODE, MOST_LIMIT = 16, 2**15, 2**16 - 1


@dataclass(frozen=True, eq=False)
class TreeLevels:
    """The levels of trees.

    Attributes:
        code: For each level ``(trees * 2**level,)`` which code a node looks at.
        most: The largest code that goes left; at leaves all do.
        ends: ``(trees * 2**depth,)`` the nodes that rows end in.
        codes: How many codes there are.
    """

    code: tuple[Tensor, ...]
    most: tuple[Tensor, ...]
    ends: Tensor
    codes: int

    @classmethod
    def of(
        cls, code: Tensor, most: Tensor, left: Tensor, roots: Tensor, depth: int
    ) -> TreeLevels | None:
        """Complete trees whose children stand side by side; ``None`` if they are too deep for it.

        Args:
            code: ``(nodes,)`` which code a node looks at.
            most: ``(nodes,)`` the largest code that goes left.
            left: ``(nodes,)`` the left child, the right one beside it; a leaf's is itself.
            roots: ``(trees,)``.
            depth: How many levels the deepest tree has below its root.
        """
        if depth < 2 or depth > 30 or len(roots) << depth > ROOM * len(left):
            return None
        leaf = left == torch.arange(len(left), dtype=left.dtype)
        inner = most[~leaf]
        if int(inner.max()) >= MOST_LIMIT or int(code.max()) >= MOST_CODE:
            return None
        limit, codes, limits, nodes = most.clamp(max=MOST_LIMIT), [], [], roots
        for _ in range(depth):
            codes.append(code[nodes])
            limits.append(limit[nodes])
            nodes = torch.stack([left[nodes], left[nodes] + (~leaf[nodes])], dim=1).reshape(-1)
        return cls(tuple(codes), tuple(limits), nodes, 1 + int(code.max()))

    def __call__(self, columns: Tensor) -> Tensor | None:
        """``(trees * rows,)`` which of ``ends`` rows end in, tree by tree.

        Args:
            columns: ``(codes, rows)``, 32 bits each. ``None`` if these are too many for one half.
        """
        rows, trees = columns.shape[1], len(self.code[0])
        if self.codes * rows > MOST_CODE:
            return None
        flat = columns.reshape(-1)
        row = torch.arange(rows, dtype=torch.int32)
        place = self._second(columns).reshape(-1)
        for code, most in zip(self.code[2:], self.most[2:], strict=True):
            both = ((code * rows) << HALF).bitwise_or_(most).index_select(0, place)
            where = (both >> HALF).view(trees, rows).add_(row).view(-1)
            seen = flat.index_select(0, where)
            right = past(both.bitwise_and_(MOST_LIMIT), seen)
            place = place.mul_(2).sub_(right)
        return place

    def _second(self, columns: Tensor) -> Tensor:
        """``(trees, rows)`` places two levels down: whole columns are compared."""
        first = past(self.most[0][:, None], columns.index_select(0, self.code[0]))
        left, right = (
            past(self.most[1][side::2, None], columns.index_select(0, self.code[1][side::2]))
            for side in (0, 1)
        )
        second = left.add_(right.sub_(left).bitwise_and_(first))
        start = torch.arange(0, 4 * len(first), 4, dtype=torch.int32)[:, None]
        return start - second.add_(first.mul_(2))


def past(most: Tensor, codes: Tensor) -> Tensor:
    """-1 where codes are above ``most``, else 0: faster than a comparison and its conversion."""
    return torch.sub(most, codes).bitwise_right_shift_(31)
