"""What cannot be followed, and what its refusal names.

Whatever can be read one day fails its test here, and its line goes.
"""

# These have no limit: waves of values that grow, and quotients by what vanishes faster than any
# power.
NO_LIMIT = {
    "siren": r"aten\.sin",
    "PeriodicEmbedding": r"aten\.(sin|cos)",
    "RandomFeatures": r"aten\.cos",
    "GeneralisedOdin": "no limit was found on 2 of 3 rays",
}
# These have one.
NOT_YET = {
    "Capsules": "no limit was found on 1 of 3 rays",
}
UNREAD = NO_LIMIT | NOT_YET
