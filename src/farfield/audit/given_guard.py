"""Guards around models that are audited: taken off, put back, or made.

Whatever is claimed from a guard is proven from its own numbers first, or it is not claimed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from farfield.archive import header_of
from farfield.audit.black_box import BlackBox
from farfield.audit.models import LoadedModel
from farfield.data import TableColumn
from farfield.errors import InputError
from farfield.formats import is_named
from farfield.graph.network import Network

if TYPE_CHECKING:
    # Loaded when there is a guard, or one is to be made.
    from farfield.guard.function import GuardedFunction
    from farfield.guard.members import Predict
    from farfield.guard.model import GuardedModel
    from farfield.guard.onnx_read import GuardedFile

    AnyGuard = GuardedModel | GuardedFunction
# What every file of a guarded model has somewhere.
MARK = b"farfield.guard"
# Rows that a guard is fitted on at most; more are taken as a sample.
MOST_ROWS = 200_000


@dataclass(frozen=True, eq=False)
class Given:
    """What the user gave, without its guard.

    Attributes:
        model: What is to be audited.
        where: What the user called it, if there is a guard.
        guard: The guard, if it is known without loading the model.
        file: The guarded file, if the guard has to be put around what is loaded from it.
    """

    model: Any
    where: str = ""
    guard: AnyGuard | None = None
    file: GuardedFile | None = None

    @property
    def guarded(self) -> bool:
        """Whether there is a guard."""
        return self.guard is not None or self.file is not None

    def renamed(self, loaded: LoadedModel) -> LoadedModel:
        """Call what was loaded as the user does."""
        return replace(loaded, where=self.where) if self.guarded else loaded

    def around(self, loaded: LoadedModel) -> AnyGuard | None:
        """The guard around a model that was loaded."""
        if self.file is None:
            return self.guard
        from farfield.guard.function import GuardedFunction
        from farfield.guard.members import hold
        from farfield.guard.model import GuardedModel

        file, network = self.file, loaded.network
        answers = _answers(network)
        if answers is not None:
            return GuardedFunction(
                answers, network.classes, file.covered, file.columns, file.certificate
            )
        assert isinstance(network, Network)
        held = hold(network, torch.zeros(2, *network.input_shape))
        return GuardedModel(held, file.covered, file.columns, file.certificate)


def _answers(model: Network | BlackBox) -> Predict | None:
    """The function of what can be evaluated but holds no layers."""
    if isinstance(model, BlackBox):
        return lambda X: model.probabilities(X)[0]
    from farfield.guard.members import predictor

    return predictor(model)


def guarded(
    model: Network | BlackBox,
    columns: Sequence[TableColumn],
    rows: Any,
    labels: Any,
    **promise: Any,
) -> AnyGuard:
    """Guard a model on rows of its data; one-hot blocks are categories, and what is 0 or 1."""
    from farfield.guard.function import GuardedFunction
    from farfield.guard.model import GuardedModel
    from farfield.guard.protect import guard

    blocks = [list(column.places) for column in columns if column.categorical]
    numbers = [column.places[0] for column in columns if not column.discrete]
    safe = guard(
        _answers(model) or model,
        rows,
        labels=labels,
        categorical=blocks or None,
        numeric=numbers,
        **promise,
    )
    assert isinstance(safe, GuardedModel | GuardedFunction)
    return safe


@contextmanager
def unguarded(model: Any) -> Iterator[Given]:
    """Take the guard off a model, and prove it."""
    if not _may_have_guard(model):
        yield Given(model)
        return
    from farfield.guard.archive import is_guard, load
    from farfield.guard.model import GuardedModel
    from farfield.guard.onnx_read import is_guarded, read_guarded

    path = model if isinstance(model, (str, os.PathLike)) else None
    if isinstance(model, GuardedModel):
        _check(model)
        yield _of(model, type(model).__name__)
    elif path is not None and is_guard(path):
        yield _of(load(path), os.fspath(path))
    elif path is not None and is_named(path, "onnx") and is_guarded(path):
        file = read_guarded(path)
        _check(file)
        with tempfile.TemporaryDirectory() as folder:
            inner = Path(folder) / Path(path).name
            inner.write_bytes(file.inside.SerializeToString())
            yield Given(inner, os.fspath(path), file=file)
    else:
        yield Given(model)


def _may_have_guard(model: Any) -> bool:
    """Whether it is worth looking for a guard."""
    if not isinstance(model, (str, os.PathLike)):
        return any(kind.__module__ == "farfield.guard.model" for kind in type(model).__mro__)
    if not is_named(model, "onnx"):
        return header_of(model) is not None
    try:
        with (
            Path(model).open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data.find(MARK) >= 0
    except (OSError, ValueError):  # missing or empty: for the reader to say
        return False


def _of(safe: GuardedModel, where: str) -> Given:
    return Given(LoadedModel(safe.network, "object", where), where, guard=safe)


def _check(guard: GuardedModel | GuardedFile) -> None:
    found = guard.verify()
    if not found:
        raise InputError(f"the guard does not keep its promise: {found.problems[0]}")
