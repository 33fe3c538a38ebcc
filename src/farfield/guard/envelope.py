"""An envelope: a model's own outputs, bit for bit, with a guard's view of the rows beside them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.export import ExportedProgram

from farfield.errors import InputError
from farfield.formats import is_named
from farfield.guard.beside import Beside, as_probabilities, beside
from farfield.guard.certificate import Certificate
from farfield.guard.function import GuardedFunction
from farfield.guard.guarded import BATCH, Explanation, Look
from farfield.guard.mix import mix
from farfield.guard.model import GuardedModel
from farfield.guard.onnx_trees import holds_trees
from farfield.guard.protect import guard
from farfield.guard.verify import Verification


@final
class Envelope:
    """Outputs as they are; whether to trust them beside.

    Attributes:
        guard: The guarded model, whose probabilities are shown beside.
        module: The model and what is said beside it, as one module, if the model is one or can be
            read as one.
        file: The model's own ``.onnx`` file, or one of boosted trees, if it came from one.
    """

    def __init__(self, safe: GuardedModel | GuardedFunction, given: Any = None) -> None:
        self.guard = safe
        own = is_named(given, "onnx") or holds_trees(given)
        self.file = Path(given) if own else None
        self.module: Beside | None = None
        if isinstance(safe, GuardedModel):
            self.module = beside(safe.held, safe.covered, _own_module(given))

    @property
    def certificate(self) -> Certificate:
        """The guard's promise."""
        return self.guard.certificate

    def __call__(self, X: Any) -> NDArray[Any]:
        """The model's own probabilities."""
        return self.predict_proba(X)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The model's own probabilities, ``(rows, classes)``, wherever rows are."""
        module = self.module
        if module is None or not isinstance(self.guard, GuardedModel):
            return self.guard.own_proba(X)
        with torch.no_grad():
            parts = [
                as_probabilities(module.own(part.to(module.dtype)), module.returns)
                for part in self.guard.rows(X).split(BATCH)
                if len(part)
            ]
        return np.asarray(torch.cat(parts)) if parts else np.zeros((0, self.certificate.classes))

    def look(self, X: Any) -> Look:
        """Inside or not, distance, worst view and column, and guarded probabilities."""
        found = self.guard.look(X)
        if self.module is None:
            return found
        own = torch.from_numpy(self.predict_proba(X))
        hot = self.guard.covered.temperature(torch.from_numpy(found.distance))
        return replace(found, guarded=mix(own, hot).numpy())

    def distance(self, X: Any) -> NDArray[np.float64]:
        """How far rows are outside, ``(rows,)``: at most 0 inside, 1 where nothing is left."""
        return self.guard.distance(X)

    def is_inside(self, X: Any) -> NDArray[np.bool_]:
        """Whether rows are in the covered set, ``(rows,)``; new rows are with ``keep``."""
        return self.guard.is_inside(X)

    def explain(self, row: Any) -> Explanation:
        """Say in words which view and which column put one row outside, and by how much."""
        return self.guard.explain(row)

    def verify(self) -> Verification:
        """Prove the certificate again, from the guard's own numbers."""
        return self.guard.verify()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the guard to one file."""
        self.guard.save(path)

    def to_onnx(
        self, path: str | os.PathLike[str], source: str | os.PathLike[str] | None = None
    ) -> None:
        """Write the model's ONNX file again, with outputs added.

        The file's own outputs stay as they are. ``inside`` (bool), ``distance``, ``view`` and
        ``column`` (names, empty inside) and ``guarded`` (probabilities) come after them.

        Args:
            path: The file to write; it appears whole or not at all.
            source: The model's own ONNX file, as skl2onnx, onnxmltools or its library wrote it,
                or a file of boosted trees, as XGBoost, LightGBM or CatBoost saves them.
                Modules need none, and a model that was given as a file is its own.

        Raises:
            InputError: If the model is no module and has no file.
        """
        from farfield.guard.export import write_onnx
        from farfield.guard.onnx_file import extend

        safe, own = self.guard, source or self.file
        if own is not None:
            extend(own, path, safe.covered, safe.columns, safe.certificate, envelope=True)
        elif self.module is not None:
            write_onnx(self.module, path, safe.columns, safe.certificate)
        else:
            raise InputError(
                "this model can be evaluated but not written; convert it to ONNX first (skl2onnx, "
                'onnxmltools), and pass that file: to_onnx(path, source="model.onnx")'
            )

    def to_pt2(self, path: str | os.PathLike[str]) -> None:
        """Write a ``torch.export`` program that returns a dictionary.

        Its ``output`` is the model's own. ``view`` and ``column`` are positions, -1 inside, in the
        lists ``views`` and ``names`` of the extra file ``farfield.guard``.

        Args:
            path: The file to write; it appears whole or not at all.

        Raises:
            InputError: If the model is no module and cannot be read as one.
        """
        from farfield.guard.pt2_file import write_pt2

        if self.module is None:
            raise InputError(
                "this model can be evaluated but not followed, so it cannot be written as .pt2; "
                "write .onnx, which extends its file"
            )
        write_pt2(self.module, path, self.guard.columns, self.guard.certificate)


def _own_module(given: Any) -> nn.Module | None:
    """The model itself, if it is one module or one exported program."""
    if is_named(given, "pt2"):
        from farfield.graph.pt2.reader import load_pt2

        given = load_pt2(Path(given))
    if isinstance(given, ExportedProgram):
        return given.module(check_guards=False)
    return given if isinstance(given, nn.Module) else None


def envelope(model: Any, X: Any, **options: Any) -> Envelope:
    """Look at a model's inputs without touching its outputs.

    Args:
        model: As for :func:`farfield.guard`; a classifier.
        X: ``(rows, *input)`` training rows.
        **options: As for :func:`farfield.guard`: ``keep=0.99`` is the share of new rows that are to
            be inside, so one minus the rate of false alarms.

    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = envelope(lambda rows: np.tile([0.9, 0.1], (len(rows), 1)), X)
    >>> look = found.look([[0.0, 0.0], [0.0, 99.0]])
    >>> look.inside.tolist(), look.column.tolist(), found.predict_proba([[0.0, 99.0]]).tolist()
    ([True, False], ['', 'column 1'], [[0.9, 0.1]])
    """
    safe = guard(model, X, **options)
    if not isinstance(safe, GuardedModel | GuardedFunction):
        raise InputError("an envelope is for classifiers; guard a regressor for its spread")
    return Envelope(safe, model)
