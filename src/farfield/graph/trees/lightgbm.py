"""LightGBM's models: the text that ``save_model`` writes, and the objects in memory.

What ``predict`` does with a row is: take numbers within 1e-35 of zero for zero; at every split
decide by its own bits whether NaN, or zero, counts as missing, and go the default way then; else go
left where ``x <= threshold``, or where ``x`` without its fraction is in the split's set of
categories; add up the leaves, or average them (random forests); then softmax, or sigmoid for two
classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.budget import Budget, allowance
from farfield.errors import CaptureError, NotFollowed
from farfield.graph.reading import CODED, InputColumn, Reading
from farfield.graph.trees.compare import Ends, truncated_categories
from farfield.graph.trees.ensemble import TreeBuilder
from farfield.graph.trees.fields import MOST_CLASSES, MOST_COLUMNS, Fields, shown
from farfield.graph.trees.traverse import ZERO, as_reading

VERSIONS = ("v3", "v4")
CATEGORICAL, DEFAULT_LEFT, MISSING_ZERO, MISSING_NAN = 1, 2, 4, 8
# How many pairs of columns and lists of categories are compared with one another.
MOST_WAYS = 1_000_000
# What a member of a set of categories may take while it is read.
MEMBER_BYTES = 128
FEWEST_BELOW_ZERO = float(np.nextafter(-ZERO, -np.inf))


def read_lightgbm(data: bytes, where: str, *, labels: tuple[Any, ...] | None = None) -> Reading:
    """Read the text of a model.

    Args:
        data: The text.
        where: What it is, for messages.
        labels: The names of the classes.

    Raises:
        CaptureError: If it is damaged, of an unknown version, or gives no probabilities.
        NotFollowed: If its trees are linear.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CaptureError(f"{where} is not text ({error.reason}); save it again") from error
    body, end, rest = text.replace("\r\n", "\n").partition("\nend of trees\n")
    header, *parts = body.split("\nTree=")
    head = _record(header, where)
    if head.text("version") not in VERSIONS:
        raise CaptureError(
            f"{where} has the format {shown(head.text('version'))}; farfield reads "
            f"{' and '.join(VERSIONS)}, of LightGBM 2.3 to 4"
        )
    sizes = head.text("tree_sizes").split() if "tree_sizes" in head else parts
    if not end or len(sizes) != len(parts):
        raise CaptureError(
            f"{where} is cut short: {len(parts)} of {len(sizes)} trees are there; save it again"
        )
    outputs, factor = _objective(head)
    rounds = len(parts) // outputs
    if len(parts) != rounds * outputs:
        raise CaptureError(f"{where} has {len(parts)} trees, no multiple of {outputs} classes")
    if "average_output" in head and rounds:
        factor /= rounds
    columns = head.whole("max_feature_idx", MOST_COLUMNS) + 1
    builder = TreeBuilder(columns, np.zeros(outputs))
    budget = Budget(allowance(len(data)), error=CaptureError)
    for place, part in enumerate(parts):
        _add(builder, _record(part, f"tree {place} of {where}"), place % outputs, factor, budget)
    known = _columns(head, columns, _pandas(rest, where))
    return as_reading(builder.build(), labels=labels, columns=known[0], notes=known[1])


def _record(text: str, where: str) -> Fields:
    """Lines of ``key=value``; a line without a sign is a key whose value is empty."""
    pairs = (line.partition("=") for line in text.split("\n"))
    return Fields({key: value for key, _, value in pairs if key}, where)


def _objective(head: Fields) -> tuple[int, float]:
    """How many outputs there are, and what leaves are multiplied by."""
    words = head.text("objective").split() if "objective" in head else []
    name, options = (words or ["custom"])[0], Fields(_options(words[1:]), head.where)
    classes = head.whole("num_class", MOST_CLASSES, 1)
    each = head.whole("num_tree_per_iteration", MOST_CLASSES, 1)
    if name in ("binary", "cross_entropy") and (classes, each) == (1, 1):
        sigmoid = options.number("sigmoid") if "sigmoid" in options else 1.0
        if sigmoid <= 0:
            raise options.wrong("sigmoid", "a positive number")
        return 1, sigmoid
    if name == "multiclass" and classes == each > 1:
        return classes, 1.0
    if name == "multiclassova":
        raise CaptureError(
            f"{head.where} has the objective multiclassova, whose probabilities do not add up to "
            "one; train it with objective='multiclass'"
        )
    raise CaptureError(
        f"{head.where} has the objective {shown(name)} with {classes} classes, which gives no "
        "probabilities of classes; farfield reads binary, cross_entropy and multiclass"
    )


def _options(words: list[str]) -> dict[str, Any]:
    return {word.partition(":")[0]: word.partition(":")[2] for word in words}


def _add(builder: TreeBuilder, tree: Fields, output: int, factor: float, budget: Budget) -> None:
    """Put one tree into the common form: inner nodes first, then the leaves."""
    if "is_linear" in tree and tree.whole("is_linear", 1):
        raise NotFollowed(
            f"{tree.where} is a linear tree, whose leaves grow with the row; train it with "
            "linear_tree=False."
        )
    leaves = tree.whole("num_leaves", 2**31, 1)
    heights = _floats(tree, "leaf_value", leaves) * factor
    inner = leaves - 1
    if inner == 0:
        builder.add(feature=[-1], threshold=[0], left=[0], right=[0], values=heights, output=output)
        return
    bits = _integers(tree, "decision_type", inner)
    if ((bits < 0) | (bits >= 16) | ((bits & 12) == 12)).any():
        raise tree.wrong("decision_type", "bits that are known")
    thresholds = _floats(tree, "threshold", inner)
    categorical = (bits & CATEGORICAL) != 0
    zero = ~categorical & ((bits & MISSING_ZERO) != 0)
    numeric = np.where(categorical, 0.0, thresholds)
    # NaN is taken for zero where it does not count as missing, and goes right from sets.
    default = np.where((bits & 12) == 0, numeric >= 0.0, (bits & DEFAULT_LEFT) != 0)
    kept = np.full(leaves, -1)
    builder.add(
        feature=np.append(_places(tree, "split_feature", inner), kept),
        threshold=np.append(_without_small(numeric), np.zeros(leaves)),
        left=np.append(_children(tree, "left_child", inner), kept),
        right=np.append(_children(tree, "right_child", inner), kept),
        values=np.append(np.zeros(inner), heights),
        output=output,
        missing_left=np.append(default & ~categorical, kept > 0),
        zero_missing=np.append(zero, kept > 0),
        sets=_sets(tree, categorical, thresholds, leaves, budget) if categorical.any() else None,
    )


def _without_small(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds for numbers as they are, where LightGBM has zero in place of small ones."""
    low = (thresholds < 0) & (thresholds >= -ZERO)
    high = (thresholds >= 0) & (thresholds < ZERO)
    return np.where(low, FEWEST_BELOW_ZERO, np.where(high, ZERO, thresholds))


def _children(tree: Fields, key: str, inner: int) -> NDArray[np.int64]:
    """Children as places: inner nodes as they are; leaves, negative numbers, after them."""
    found = _integers(tree, key, inner)
    if ((found < -inner - 1) | (found >= inner)).any():
        raise tree.wrong(key, "nodes of the tree")
    return np.where(found < 0, inner + ~found, found)


def _places(tree: Fields, key: str, count: int) -> NDArray[np.int64]:
    found = _integers(tree, key, count)
    if (found < 0).any():
        raise tree.wrong(key, "columns")
    return found


def _sets(
    tree: Fields,
    categorical: NDArray[np.bool_],
    thresholds: NDArray[np.float64],
    leaves: int,
    budget: Budget,
) -> list[Ends | None]:
    """Sets of categories, which are stored as bits; a node's threshold says which is its own."""
    count = tree.whole("num_cat", 2**31, 1)
    bounds = _integers(tree, "cat_boundaries", count + 1)
    words = _integers(tree, "cat_threshold", None)
    if bounds[0] != 0 or bounds[-1] != len(words) or (np.diff(bounds) < 0).any():
        raise tree.wrong("cat_boundaries", f"increasing places among {len(words)}")
    if words.size and not 0 <= words.min() <= words.max() < 2**32:
        raise tree.wrong("cat_threshold", "words of 32 bits")
    chosen = thresholds[categorical]
    if not ((chosen >= 0) & (chosen < count) & (chosen == np.floor(chosen))).all():
        raise tree.wrong("threshold", "the numbers of sets of categories")
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    sets: list[Ends | None] = [None] * (len(categorical) + leaves)
    for node in np.flatnonzero(categorical):
        first = int(thresholds[node])
        members = np.flatnonzero(bits[32 * bounds[first] : 32 * bounds[first + 1]])
        budget.spend(MEMBER_BYTES * len(members), tree.where)
        sets[node] = truncated_categories(members)
    return sets


def _pandas(rest: str, where: str) -> list[Any]:
    """The categories of the data frame that it was trained on: a line of JSON at the end."""
    _, found, line = rest.rpartition("\npandas_categorical:")
    try:
        parsed = json.loads(line) if found else None
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"{where} has categories that are no JSON; it is damaged") from error
    if parsed is not None and not (
        isinstance(parsed, list) and all(isinstance(each, list) for each in parsed)
    ):
        raise CaptureError(f"{where} has {shown(parsed)} for categories; it is damaged")
    return parsed or []


def _columns(
    head: Fields, columns: int, pandas: list[Any]
) -> tuple[tuple[InputColumn, ...], tuple[str, ...]]:
    """Names of columns, and their categories where these can be told."""
    names = head.text("feature_names").split(" ")
    kinds = head.text("feature_infos").split(" ") if "feature_infos" in head else [""] * columns
    if len(names) != columns or len(kinds) != columns:
        raise CaptureError(f"{head.where} names {len(names)} columns, but has {columns}")
    unnamed = all(name == f"Column_{place}" for place, name in enumerate(names))
    # Bounds of numbers are written in brackets, categories are not.
    listed = [place for place, kind in enumerate(kinds) if kind and kind[0] in "-0123456789"]
    held = {place: tuple(each) for place, each in _held(kinds, listed, pandas).items() if each}
    lost = [names[place] for place in listed if place not in held]
    note = f"categories of {', '.join(lost[:8])} {CODED}"
    found = tuple(
        InputColumn(
            None if unnamed else name,
            held.get(place),
            missing=True,
            # Code -1 goes right from sets as NaN does; from thresholds it does not.
            unseen=place in held and place in listed,
        )
        for place, name in enumerate(names)
    )
    return found, (note,) if lost else ()


def _held(kinds: list[str], listed: list[int], pandas: list[Any]) -> dict[int, Any]:
    """The columns that the categories of a frame belong to; none if several ways are possible.

    Those of ordered categories are split as numbers, and only their bounds tell them.
    """
    if len(listed) == len(pandas):
        return dict(zip(listed, pandas, strict=True))
    if not pandas or len(kinds) * len(pandas) > MOST_WAYS:
        return {}
    # In how many ways columns from a place on can hold the last categories; 2 stands for more.
    ways = [[0] * (len(pandas) + 1) for _ in range(len(kinds) + 1)]
    ways[-1][0] = 1
    fits = [[False, *(_may_hold(kind, len(each)) for each in pandas[::-1])] for kind in kinds]
    for place in reversed(range(len(kinds))):
        for rest in range(len(pandas) + 1):
            without = ways[place + 1][rest] if place not in listed else 0
            held = ways[place + 1][rest - 1] if fits[place][rest] else 0
            ways[place][rest] = min(2, without + held)
    rest, found = len(pandas), {}
    for place in range(len(kinds)) if ways[0][rest] == 1 else ():
        if fits[place][rest] and ways[place + 1][rest - 1]:
            found[place] = pandas[-rest]
            rest -= 1
    return found


def _may_hold(kind: str, count: int) -> bool:
    """Whether what is written of a column fits so many categories."""
    ends = kind.strip("[]").split(":")
    if kind in ("", "none"):
        return True
    return all(each == "-1" or (each.isdecimal() and int(each) < count) for each in ends)


def _floats(record: Fields, key: str, count: int) -> NDArray[np.float64]:
    words = list(_words(record, key, count))
    try:
        return np.array(words, dtype=np.float64)
    except ValueError as error:
        raise record.wrong(key, f"{count} numbers") from error


def _integers(record: Fields, key: str, count: int | None) -> NDArray[np.int64]:
    words = list(_words(record, key, count))
    try:
        return np.array(words, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise record.wrong(key, "whole numbers") from error


def _words(record: Fields, key: str, count: int | None) -> Iterator[str]:
    words = record.text(key).split(" ")
    if count is not None and len(words) != count:
        raise CaptureError(
            f"field {key!r} of {record.where} has {len(words)} values where {count} are needed; it "
            "is damaged or cut short"
        )
    yield from words


def from_lightgbm(model: Any) -> Reading:
    """Read a ``Booster`` or an ``LGBMClassifier`` in memory.

    Raises:
        CaptureError: If it is not fitted, or not a classifier.
    """
    name = type(model).__name__
    if name == "Booster":
        return read_lightgbm(model.model_to_string().encode(), "the Booster")
    if name != "LGBMClassifier":
        raise CaptureError(
            f"{name} of LightGBM is no classifier that farfield reads; pass an LGBMClassifier, or "
            "a Booster with an objective that gives probabilities"
        )
    if not model.__sklearn_is_fitted__():
        raise CaptureError(f"{name} is not fitted; call fit first")
    text = model.booster_.model_to_string().encode()
    return read_lightgbm(text, f"the {name}", labels=tuple(np.asarray(model.classes_).tolist()))
