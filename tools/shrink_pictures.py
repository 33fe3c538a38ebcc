"""Make PNG files smaller: 256 colours are enough for drawings.

Usage: python tools/shrink_pictures.py PICTURE.png ...
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image


def shrink(path: Path) -> None:
    """Write a picture again with at most 256 colours, if that is smaller."""
    with Image.open(path) as picture:
        file = io.BytesIO()
        picture.convert("RGB").quantize(256).save(file, "png", optimize=True)
    if file.tell() < path.stat().st_size:
        path.write_bytes(file.getvalue())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        shrink(Path(name))
