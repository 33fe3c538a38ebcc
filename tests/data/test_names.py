"""Two spellings of one name, and two names that are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farfield.data.fit import find, plain, spare
from farfield.errors import InputError

WORDS = st.text("abcxyz019", min_size=1, max_size=6)


@settings(max_examples=40)
@given(st.lists(WORDS, min_size=1, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_columns_are_found_in_any_order_and_spelling(names, random):
    shuffled = random.sample(names, len(names))
    spelled = [random.choice(" _-.")[:1] + name.upper() for name in names]
    places = {name: shuffled.index(name) for name in shuffled}
    assert find(names, places, "t") == [shuffled.index(name) for name in names]
    assert find(spelled, places, "t") == find(names, places, "t")


def test_names_letter_by_letter_come_first():
    assert find(["a b", "A_B"], {"A_B": 0, "a b": 1}, "t") == [1, 0]
    assert find(["ab", "x=-1", "x=1"], {"AB": 0, "x=1": 1, "x=-1": 2}, "t") == [0, 2, 1]
    assert find(["other"], {"a": 0}, "t") == [None]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [(["mean radius"], ["mean_radius", "Mean Radius"]), (["a b", "a_b"], ["ab"])],
)
def test_what_could_be_several_is_refused(wanted, names):
    with pytest.raises(InputError, match=r"could be .* Rename"):
        find(wanted, {name: k for k, name in enumerate(names)}, "t")


def test_spare_columns_are_those_that_no_input_comes_from():
    assert spare(["id", "ward", "age"], ["Age", "ward=a b", "ward=c"]) == ["id"]
    assert spare(["id", "age_group", "age"], ["age_group"]) == ["id", "age"]
    assert spare(["id", "age"], ["age", "bmi"]) == []


def test_marks_alone_are_names():
    assert plain("+") != plain("-")
