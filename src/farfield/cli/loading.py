"""How commands load what they run."""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# What takes a while to load, and needs no PyTorch.
BESIDE = ("scipy.special", "pydantic.main", "pydantic.types")


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
        _load_beside_the_library()
        yield
    finally:
        gc.freeze()
        gc.enable()


def _load_beside_the_library() -> None:
    """Load what needs no PyTorch, while its compiled part is put into memory by a thread.

    The system does that, without the interpreter, and PyTorch finds it there. Where the file has
    another name or does not load, PyTorch itself will say so.
    """
    found = find_spec("torch")
    file = Path(found.origin or "").parent / "lib" / "libtorch_python.so" if found else None
    thread = Thread(target=_open_library, args=(file,), daemon=True)
    if file is not None and file.is_file():
        thread.start()
    for name in BESIDE:
        with suppress(ImportError):
            import_module(name)
    if thread.ident is not None:
        thread.join()


def _open_library(file: Path) -> None:
    # A call of a C function, unlike Python's own ways of loading, lets other threads run meanwhile.
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).dlopen(os.fsencode(file), os.RTLD_LAZY)


@contextmanager
def page_compiled() -> Iterator[Callable[[], None]]:
    """Compile the templates of the page on another core, while this one loads PyTorch.

    Yields:
        What waits for them, to be called before a page is made; without them it compiles its own.
    """
    if os.cpu_count() == 1:
        yield lambda: None
        return
    from farfield.forks import forked

    with forked(_compile) as pipe:

        def fetch() -> None:
            from farfield.report.html.compiled import COMPILED

            if pipe is not None:
                with suppress(EOFError, OSError):
                    COMPILED.known.update(pickle.loads(pipe.recv_bytes()))

        yield fetch


def _compile(pipe: Connection) -> None:
    from farfield.report.html.page import compile_templates

    with suppress(OSError):
        pipe.send_bytes(pickle.dumps(compile_templates()))
