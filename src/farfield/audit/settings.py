"""How much an audit looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from farfield.errors import InputError
from farfield.levels import BLIND

# Whether to make a guard: of all rows, or, for tables, of a sample of them.
WantsGuard = bool | Literal["sample"]
EngineName = Literal["local", "ray"]
# A number of rows, all of them, or as many as there is time for.
EntryRows = int | Literal["all"] | None


@dataclass(frozen=True)
class Settings:
    """How much an audit looks at; all of it is written down in the result.

    Attributes:
        threshold: The confidence at infinity from which on a direction is blind.
        max_blind: The blind share that is allowed, or ``None`` for no limit.
        samples: Rows of the data that distances, curves and detection are computed from.
        directions: Sampled directions per family.
        pairs: Pairs of features to draw; chosen by their effect if empty.
        engine: Where the row-parallel parts run.
        seed: Of everything that is sampled.
        show_rows: Whether surfaces show rows of the data, and not only where many of them are.
        expected_accuracy: What the model's makers report; the audit warns if it is far from that.
        entry_rows: Rows that errors of data entry are made in; by what they cost if ``None``.
    """

    threshold: float = BLIND
    max_blind: float | None = None
    samples: int = 2000
    directions: int = 1000
    pairs: tuple[tuple[str, str], ...] = ()
    engine: EngineName = "local"
    seed: int = 0
    show_rows: bool = False
    expected_accuracy: float | None = None
    entry_rows: EntryRows = None

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise InputError(f"threshold must lie in (0, 1], got {self.threshold}; try {BLIND}")
        if self.max_blind is not None and not 0 <= self.max_blind <= 1:
            raise InputError(f"max_blind is a share from 0 to 1, got {self.max_blind}")
        expected = self.expected_accuracy
        if expected is not None and not 0 <= expected <= 1:
            raise InputError(f"expected_accuracy is a share from 0 to 1, got {expected}")
        rows = self.entry_rows
        if not (rows is None or rows == "all" or (isinstance(rows, int) and rows > 0)):
            raise InputError(f"entry_rows is a number of rows from 1 on, or 'all', got {rows!r}")
        if self.engine not in get_args(EngineName):
            raise InputError(f"engine must be 'local' or 'ray', got {self.engine!r}")
        if self.samples < 2 or self.directions < 1:
            raise InputError(
                f"samples must be at least 2 and directions at least 1, got {self.samples} and "
                f"{self.directions}"
            )

    def changed(self) -> dict[str, Any]:
        """Those that are not the usual, as options of the command line."""
        names = ("threshold", "max_blind", "samples", "directions", "engine", "expected_accuracy",
                 "entry_rows")  # fmt: skip
        own = {name: getattr(self, name) for name in names}
        found = {name: value for name, value in own.items() if value != getattr(Settings, name)}
        return found | ({"seed": self.seed} if self.seed != Settings.seed else {})
