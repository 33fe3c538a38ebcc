"""Examples of an image model: what it says as they are scaled, as pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np

from farfield.audit.case import Case
from farfield.audit.fields.drawings import Picture
from farfield.audit.sections.rays import rays
from farfield.audit.subject import Floats, Subject
from farfield.levels import SURE

EXAMPLES = 4


def compute(case: Case) -> dict[str, Any]:
    """A few images and noise images."""
    case.stage("pictures")
    return {"pictures": pictures(case.subject, case.rng)}


def pictures(subject: Subject, rng: np.random.Generator) -> tuple[Picture, ...]:
    """A few images and noise images: the confidence as they are scaled, and where it is sure."""
    rows = subject.spread(EXAMPLES)
    chosen = [(f"Image {index + 1} of the data", row) for index, row in enumerate(rows)]
    chosen += [
        (f"Noise image {index + 1}", rng.random(subject.rows.shape[1:])) for index in range(2)
    ]
    return tuple(_picture(subject, title, row) for title, row in chosen if row.any())


def _picture(subject: Subject, title: str, row: Floats) -> Picture:
    """One image ``x`` and its ray ``(1 + t) x``."""
    (found,) = rays(subject, [title], [row], [row], unit="times the image, beyond once")
    sure = [t for t, p in zip(found.t, found.scores["confidence"], strict=True) if p >= SURE]
    images, captions = [png(row)], [_caption(subject, "As it is", row)]
    if sure:
        factor = 1.0 + (found.first if found.first is not None else sure[0])
        how = "first exactly at" if found.first is not None else "seen first at"
        images.append(png(factor * row))
        captions.append(_caption(subject, f"99.9% {how} {factor:.4g} times", factor * row))
    return Picture(title=title, images=tuple(images), captions=tuple(captions), ray=found)


def _caption(subject: Subject, text: str, row: Floats) -> str:
    p = subject.model.probabilities(row[None]).mean(dim=0)[0]
    return f"{text}: {subject.classes[int(p.argmax())]}, {float(p.max()):.1%}"


def png(image: Floats) -> str:
    """Encode an image of shape ``(1 or 3, height, width)`` as a data URI, cut off at [0, 1].

    >>> png(np.zeros((1, 2, 2)))[:22]
    'data:image/png;base64,'
    """
    channels = image if len(image) in (1, 3) else image.mean(axis=0, keepdims=True)
    pixels = np.round(255 * np.clip(channels, 0.0, 1.0)).astype(np.uint8).transpose(1, 2, 0)
    height, width, depth = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if depth == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()
