"""What numbers and columns of an audit can be."""

from __future__ import annotations

from typing import Literal

from farfield.estimate import Estimate

Share = float | Estimate
Task = Literal["classification", "regression"]
Kind = Literal["numeric", "bounded", "categorical"]
