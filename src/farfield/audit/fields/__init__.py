"""The fields of an audit, as plain data: every number that a report shows is in here.

A share that was counted over all directions of a family is a ``float``; one that was sampled is an
:class:`~farfield.evaluate.Estimate` with its interval. Distances are in the feature's own units;
infinity means never. Nothing here grows with the number of rows.
"""
