"""What separates the columns of a text file, told from its first rows."""

import csv
from pathlib import Path

from farfield.datasets.content import opened

DELIMITERS = (",", ";", "\t", "|")
_START, _ROWS = 1 << 16, 50


def sniff(path: Path) -> str:
    """Return the delimiter that gives the first rows the same number of columns, more than one.

    A comma if none does, or if several do so equally well.

    Raises:
        InputError: The file cannot be read.
    """
    with opened(path) as file:
        start = file.read(_START).decode("utf-8", "replace").removeprefix("\ufeff")
    lines = start.splitlines()[: _ROWS + 1]
    # The last line may be cut off.
    lines = lines[:-1] if len(start) >= _START and len(lines) > 1 else lines
    best, chosen = (0.0, 1), ","
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not widths or widths[0] < 2:
            continue
        found = (widths.count(widths[0]) / len(widths), widths[0])
        if found > best:
            best, chosen = found, delimiter
    return chosen
