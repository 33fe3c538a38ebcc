"""What cannot be followed, and what its refusal names.

Whatever can be read one day fails its test here, and its line goes.
"""

# These have no limit in powers of ``t``: waves and logarithms of values that grow, and quotients by
# what vanishes faster than any power.
NO_LIMIT = {
    "siren": r"aten\.sin",
    "PeriodicEmbedding": r"aten\.(sin|cos)",
    "RandomFeatures": r"aten\.cos",
    "LogScaled": "log of a value that grows",
    "Evidential": "log of a value that grows",
    "GeneralisedOdin": "no limit was found on 2 of 3 rays",
}
# These have one.
NOT_YET = {
    "Binned": r"aten\.bucketize",
    "Capsules": r"aten\.full_like",
    "CompressedInteraction": "contracts more than two values",
    "Embeddings": r"aten\.embedding",
    "GeneralisedMean": r"aten\.pow",
    "GraphAttention": r"aten\.where",
    "Isomorphism": r"aten\.full_like",
    "Mahalanobis": "contracts more than two values",
    "MajorityMargin": r"aten\.median",
    "MeanProbabilities": "returns probabilities",
    "OneHotInside": r"converts to torch\.int64",
    "QuasiRecurrent": r"aten\.full_like",
    "SortedGroups": r"aten\.sort",
    "SparseExperts": r"aten\.topk",
    "SwitchExperts": r"aten\.gather",
    "TabNet": r"aten\.sort",
    "TabTransformer": r"aten\.embedding",
    "TopTwoExperts": r"aten\.topk",
    "ZeroedColumn": r"aten\.copy",
    "chebyshev_kan": r"aten\.full_like",
    "circular_padding": r"aten\.copy",
    "cumulative_logits": r"aten\.cumsum",
    "fnet_by_fft": r"aten\._fft_c2c",
    "levit": "rows of the batch are folded",
    "masked_attention": r"aten\.where",
    "missing_filled": "must be a finite number",
    "unet_bilinear": r"aten\.upsample_bilinear2d",
}
UNREAD = NO_LIMIT | NOT_YET
