"""The levels that everything here is measured against, each written once.

A direction is *blind* if the confidence infinitely far out is at least ``BLIND``; a model is *sure*
of a class at ``SURE``. A guard leaves a share of ``KEEP`` of new rows as they are, and promises
that beyond ``RADII`` data radii no class exceeds ``1 / K + EPSILON``.
"""

BLIND = 0.99
SURE = 0.999
KEEP = 0.99
RADII = 3.0
EPSILON = 0.01
