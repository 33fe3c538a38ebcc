"""What an experiment is: a module with a name, a source, steps that can be resumed, and findings.

An experiment is cut into steps. Each returns numbers and arrays, which are kept; a step is run
again only when its settings change. What is shown is made from the kept results alone, so it may
be made again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from farfield.reproduce.findings import Findings

Settings = dict[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True)
class RunRequest:
    """How an experiment is to be run.

    Attributes:
        folder: Of the experiment; everything is written there.
        quick: Reduced settings, about a minute, in place of the papers'.
        seed: Of data and training.
        data_dir: The folder that holds data sets, or None.
        jobs: How many processes a step may use.
    """

    folder: Path
    quick: bool = False
    seed: int = 0
    data_dir: Path | None = None
    jobs: int = 1


@dataclass(frozen=True)
class Stage:
    """A piece of work whose result is kept.

    Attributes:
        name: Unique within the experiment; part of a file name.
        settings: Everything that the result depends on, as JSON can write it.
        run: Computes the result: JSON values and numpy arrays by name. It is called with the
            results of the steps that it needs.
        needs: Names of earlier steps.
        shared: Keep the result where other experiments that have the same step find it.
    """

    name: str
    settings: Mapping[str, Any]
    run: Callable[..., Result]
    needs: tuple[str, ...] = ()
    shared: bool = False


def step_per_model(
    settings: Settings, run: Callable[[str, Settings], Result], *without: str
) -> list[Stage]:
    """Make one step of each of ``settings["models"]``; it depends on all settings but some."""
    fixed = {key: value for key, value in settings.items() if key not in ("models", *without)}
    return [
        Stage(name, {**fixed, "model": name}, partial(run, name, settings))
        for name in settings["models"]
    ]


class Experiment(Protocol):
    """A module of this package that reproduces one thing.

    Attributes:
        NAME: What the command line calls it.
        TITLE: What it reproduces.
        SOURCE: The document, and where in it.
        NEEDS: Files below the data folder without which it cannot run.
    """

    NAME: str
    TITLE: str
    SOURCE: str
    NEEDS: tuple[str, ...]

    def settings(self, quick: bool, seed: int, /) -> Settings:
        """Return the papers' settings, or reduced ones."""

    def steps(self, settings: Settings, request: RunRequest, /) -> Sequence[Stage]:
        """Cut the work into steps."""

    def present(self, settings: Settings, results: Mapping[str, Result], /) -> Findings:
        """Make tables, pictures and comparisons from the results by step."""
