"""Packages that are also functions: ``farfield.audit(...)`` beside ``farfield.audit.fields``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A package whose main function has the package's own name, in one of its modules."""

    home: str

    @property
    def function(self) -> Any:
        """The function itself, imported when it is first needed."""
        return getattr(importlib.import_module(self.home), self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    @property
    def __wrapped__(self) -> Any:
        """What ``help`` and ``inspect.signature`` look at."""
        return self.function


def make_callable(package: str, home: str) -> None:
    """Let a package be called as the function of its name that lives in module ``home``."""
    module = sys.modules[package]
    module.__class__ = CallableModule
    module.__dict__["home"] = home
