"""How commands load what they run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Load modules without looking for garbage among them.

    They leave hardly any, and to look for it again and again takes a fifth of the time that loading
    takes. What was loaded stays, and is not looked at later.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
