"""Universal Binary JSON: what XGBoost writes is read as its JSON is; all else is refused."""

import json

import numpy as np
import pytest

from farfield.graph.trees.ubjson import parse_ubjson
from fuzz.booster_files import packed, xgboost_binary, xgboost_json


def plain(value):
    """Arrays as lists."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return np.float32(one) == np.float32(other) or (one != one and other != other)
    return one == other


def test_both_forms_of_a_model_are_the_same():
    for text, binary in zip(xgboost_json(), xgboost_binary(), strict=True):
        assert same(json.loads(text), plain(parse_ubjson(binary)))


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": [1, -2, 3.5, "é", None, True, False, {"b": []}]}, [[1.5, 2.5]], 7, "x", None],
)
def test_every_kind_of_value(value):
    assert plain(parse_ubjson(packed(value))) == value


def test_arrays_and_objects_with_and_without_a_length():
    assert parse_ubjson(b"[i\x01i\xff]") == [1, -1]
    assert parse_ubjson(b"[#i\x02i\x01i\xff") == [1, -1]
    assert parse_ubjson(b"{#i\x01i\x01aT") == {"a": True}
    assert parse_ubjson(b"[$l#U\x02\x00\x00\x00\x01\xff\xff\xff\xff").tolist() == [1, -1]


HUGE = b"L\x7f\xff\xff\xff\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1 bytes are wanted"),
        (b"{", "0 are left|a length should be"),
        (b"S" + HUGE + b"ab", "bytes are wanted"),
        (b"[$d#" + HUGE, "bytes are wanted"),
        (b"[#" + HUGE, "1 bytes are wanted"),
        (b"[$Z#" + HUGE, "an array of type b'Z'"),
        (b"[$[#i\x01", "an array of type"),
        (b"[$d[", "an array of type"),
        (b"Si\xffab", "a length of -1"),
        (b"Sd\x00\x00\x00\x00", "a length should be"),
        (b"{i\x01ai\x01i\x01ai\x01}", "'a' is there twice"),
        (b"i\x01i\x01", "follow the end"),
        (b"Si\x01\xff", "codec can't decode"),
        (b"N", "where a value should be"),
        (b"[" * 100_000, "levels deep"),
        (b"{i\x01a" * 50_000, "levels deep"),
    ],
)
def test_what_is_not(data, message):
    with pytest.raises(ValueError, match=message):
        parse_ubjson(data)
