"""Templates that are compiled already: that takes ten times as long as to fill them in."""

from __future__ import annotations

from typing import final

from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


@final
class Compiled(BytecodeCache):
    """Compiled templates in memory, as bytes, so that another process can have them."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill in what is known, if it was made from the same source."""
        if bucket.key in self.known:
            bucket.bytecode_from_string(self.known[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        self.known[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()
