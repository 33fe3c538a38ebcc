"""Data in: tables and images from files, arrays and frames, and what is known about them.

The only place that reads data. Readers refuse what they cannot use, and never run anything that a
file holds. On the way a table is a stream of columns as they were read, then a :class:`Source` of
rows as a model takes them: missing values filled, categories spread out, in any number of rows.
"""

from farfield.data.choices import Impute, LabelKind
from farfield.data.encoding import TableColumn
from farfield.data.frames import RawColumns
from farfield.data.image_files import CIFAR10_CLASSES, read_idx
from farfield.data.image_source import ImageSource, open_images
from farfield.data.images import Images, read_images, to_gray_28
from farfield.data.proposal import propose_schema
from farfield.data.schema import FeatureSchema, LabelSchema, Schema, parse_schema, read_schema
from farfield.data.source import Expected, Rows, Source
from farfield.data.sources import open_data
from farfield.data.table import TableSource, open_table

__all__ = [
    "CIFAR10_CLASSES",
    "Expected",
    "FeatureSchema",
    "ImageSource",
    "Images",
    "Impute",
    "LabelKind",
    "LabelSchema",
    "RawColumns",
    "Rows",
    "Schema",
    "Source",
    "TableColumn",
    "TableSource",
    "open_data",
    "open_images",
    "open_table",
    "parse_schema",
    "propose_schema",
    "read_idx",
    "read_images",
    "read_schema",
    "to_gray_28",
]
