"""Files of the project that pages include: their links to what is no page become plain words."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

NO_PAGE = re.compile(r"\[([^\]]+)\]\((?!docs/\S+\.md|https?:|#)[^)\s]+\)")


def without_strange_links(_app: Sphinx, _path: Path, _parent: str, content: list[str]) -> None:
    """Keep the words of a link that leads out of the pages."""
    content[0] = NO_PAGE.sub(r"\1", content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at every included file."""
    app.connect("include-read", without_strange_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
