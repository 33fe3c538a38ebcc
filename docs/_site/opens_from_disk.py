"""The site opens from disk without a network: no page asks another machine for anything."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ASKED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|search))[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)


def look(app: Sphinx, failure: Exception | None) -> None:
    """Fail if a page or a style loads something by its address on a network."""
    if failure is not None or app.builder.format != "html":
        return
    pages = [path for kind in ("*.html", "*.css") for path in Path(app.outdir).rglob(kind)]
    asking = [str(path) for path in pages if ASKED.search(path.read_text("utf-8"))]
    if asking:
        raise ExtensionError(f"these ask for something on a network: {', '.join(asking)}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Look when everything is written."""
    app.connect("build-finished", look)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
