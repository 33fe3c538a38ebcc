"""The two levels of confidence that everything here is measured against.

A direction is *blind* if the confidence infinitely far out is at least ``BLIND``; a model is *sure*
of a class at ``SURE``.
"""

BLIND = 0.99
SURE = 0.999
