"""What reports for machines need to know about kinds of findings, whoever defines them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Explained(Protocol):
    """One kind of finding, with the text of its page."""

    @property
    def code(self) -> str:
        """Its code, such as ``FF101``."""

    @property
    def title(self) -> str:
        """What is wrong, in a few words."""

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``note``."""

    @property
    def why(self) -> str:
        """Why it matters."""

    @property
    def how(self) -> str:
        """How it is computed."""

    @property
    def todo(self) -> str:
        """What to do about it."""

    @property
    def ignore(self) -> str:
        """When it may be ignored."""


Kinds = Mapping[str, Explained]
