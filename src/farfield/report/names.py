"""The names of report formats, for those who only want to list them."""

from __future__ import annotations

from typing import Literal

ReportFormat = Literal["html", "text", "json", "latex", "sarif", "junit", "card", "github"]
