"""What each ONNX operator is in ATen; importing the package registers all of them."""

from farfield.graph.onnx.operators import (
    arithmetic,
    convolution,
    curves,
    learned,
    norms,
    pooling,
    positions,
    recurrent,
    resizing,
    selecting,
    shapes,
    trees,
)

__all__ = [
    "arithmetic",
    "convolution",
    "curves",
    "learned",
    "norms",
    "pooling",
    "positions",
    "recurrent",
    "resizing",
    "selecting",
    "shapes",
    "trees",
]
