"""Data in: tables and images from files, arrays and frames, and what is known about them.

Readers refuse what they cannot use, and never run anything that a file holds.
"""

from farfield.data.image_source import ImageSource, open_images
from farfield.data.schema import FeatureSchema, Schema, read_schema
from farfield.data.source import Source
from farfield.data.sources import open_data
from farfield.data.table import TableSource, from_arrays, open_table

__all__ = [
    "FeatureSchema",
    "ImageSource",
    "Schema",
    "Source",
    "TableSource",
    "from_arrays",
    "open_data",
    "open_images",
    "open_table",
    "read_schema",
]
