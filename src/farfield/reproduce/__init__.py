"""Reproduce the papers: one module per table or figure, resumable, beside the published numbers."""

from __future__ import annotations

import importlib
from typing import cast

from farfield.errors import InputError
from farfield.reproduce.experiment import Experiment, Result, RunRequest, Settings, Stage
from farfield.reproduce.findings import Figure, Findings, PaperComparison, ResultTable

NAMES = (
    "demo",
    "know-your-limits-1",
    "know-your-limits-3",
    "know-your-limits-search",
    "know-your-limits-theorem",
    "first-version-1",
    "hein-1",
    "hein-table-1",
    "hein-table-2",
    "hein-figures",
    "hein-lenets",
    "hein-theorem-3-2",
    "table-objectives",
    "practical-regression",
    "practical-classification",
    "uci",
    "trust-issues",
    "every-model",
    "guard",
)

__all__ = [
    "NAMES",
    "Experiment",
    "Figure",
    "Findings",
    "PaperComparison",
    "Result",
    "ResultTable",
    "RunRequest",
    "Settings",
    "Stage",
    "find_experiment",
]


def find_experiment(name: str) -> Experiment:
    """Import the experiment of that name.

    >>> find_experiment("uci").NAME
    'uci'
    """
    if name not in NAMES:
        raise InputError(f"no experiment is called {name!r}; the names are all, {', '.join(NAMES)}")
    module = importlib.import_module(f"farfield.reproduce.{name.replace('-', '_')}")
    return cast("Experiment", module)
