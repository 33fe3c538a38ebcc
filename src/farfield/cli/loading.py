"""How commands load what they run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Load PyTorch, unless it is loaded, and all else without looking for garbage among it.

    Modules leave hardly any, and to look for it again and again takes a seventh of the time that
    loading takes. What was loaded stays, and is not looked at later.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
