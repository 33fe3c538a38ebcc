"""The report: one self-contained page, made from an audit's data alone."""
