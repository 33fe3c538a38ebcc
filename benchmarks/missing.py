"""For benchmarks that need something that is not here."""


class NotHere(Exception):  # noqa: N818 - not an error, a reason to skip
    """Data or a package that a benchmark needs is missing."""
