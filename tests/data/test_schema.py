"""Schemas: what is understood, and what is refused with its place."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farfield.data import FeatureSchema, LabelSchema, read_schema
from farfield.errors import FarfieldError, InputError


@pytest.fixture
def schema(tmp_path):
    def write(text):
        path = tmp_path / "schema.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_everything_at_once(schema):
    read = read_schema(
        schema(
            """
            order = ["age", "ward", "code"]
            [features.age]
            min = 0
            max = 120
            unit = "years"
            [features.ward]
            values = ["b", "a"]
            [features.code]
            kind = "categorical"
            values = [1, 2.0, true]
            [features.id]
            kind = "ignore"
            [features."blood pressure"]
            min = 0.5
            [blocks]
            unit = ["u1", "u2"]
            [label]
            column = "died"
            classes = [0, 1]
            """
        )
    )
    assert read["age"] == FeatureSchema(0.0, 120.0, "years")
    assert read["ward"] == FeatureSchema(kind="categorical", values=("b", "a"))
    assert read["code"].values == ("1", "2", "True")
    assert read["blood pressure"] == FeatureSchema(low=0.5, high=math.inf)
    assert read["unheard of"] == FeatureSchema()
    assert read.ignored() == {"id"}
    assert read.blocks == {"unit": ("u1", "u2")}
    assert (read.order, read.label) == (("age", "ward", "code"), LabelSchema("died", ("0", "1")))
    assert read_schema(schema("")).features == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "colour: no such key; the keys are features, order, blocks, label"),
        ("[features.a]\nmni = 1", r"\[features.a\] mni: no such key; the keys are min, max"),
        ("[label]\nname = 'y'", r"\[label\] name: no such key; the keys are column, classes"),
        ("[features.a]\nmin = 2\nmax = 2", "min must be below max, got min = 2 and max = 2"),
        ("[features.a]\nmin = 'low'", r"\[features.a\] min: should be a valid number, got 'low'"),
        ("[features.a]\nmin = nan", "min must be below max, got min = nan"),
        ("[features.a]\nmin = true", "min: should be a valid number, got True"),
        (f"[features.a]\nmin = 1{'0' * 400}", "min: should be a valid number, got 1000"),
        (
            "[features.a]\nkind = 'text'",
            "kind: should be 'categorical', 'numeric' or 'ignore', got 'text'",
        ),
        ("[features.a]\nunit = 3", "unit: should be a valid string, got 3"),
        ("[features.a]\nvalues = 3", "a list with at least one entry"),
        ("[features.a]\nvalues = []", "a list with at least one entry"),
        ("[features.a]\nvalues = ['x', 'x']", r"names \['x'\] twice"),
        ("[features.a]\nvalues = [1, 1.0]", r"names \['1'\] twice"),
        ("[features.a]\nvalues = [[1]]", "text, numbers or booleans"),
        ("[features.a]\nkind = 'numeric'\nvalues = ['x']", "only a categorical feature"),
        ("[features.a]\nkind = 'categorical'\nmin = 1", "gives bounds"),
        ("features = 3", "features: should be a table of keys, got 3"),
        ("[features]\na = 3", r"\[features\] a: should be a table of keys, got 3"),
        ("label = 'y'", "label: should be a table of keys, got 'y'"),
        ("[label]\ncolumn = 3", r"\[label\] column: should be a valid string, got 3"),
        ("order = ['a']\n[features.a]\nkind = 'ignore'", "order names columns that are ignored"),
        ("[label]\ncolumn = 'a'\n[features.a]\nmin = 0", "the label, and also"),
        ("[blocks]\nw = ['a']", "at least two columns"),
        ("[blocks]\nw = ['a', 'b']\nv = ['c', 'a']", "at most one of"),
        ("[blocks]\nw = ['a', 'b']\n[features.a]\nmin = 0", r"\['a'\] of \[blocks\] are desc"),
        ("not toml", "not a TOML file"),
        ("[features.a", "not a TOML file"),
        (b"a = '\xe9'", "save it as UTF-8"),
    ],
)
def test_what_makes_no_sense_is_refused(schema, text, message):
    with pytest.raises(InputError, match=message) as caught:
        read_schema(schema(text))
    assert "schema.toml" in str(caught.value)


def test_every_trouble_is_said_at_once(schema):
    with pytest.raises(InputError, match=r"min: should be.*; \[label\] colum: no such key"):
        read_schema(schema("[features.a]\nmin = 'low'\n[label]\ncolum = 'y'"))


def test_files_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(InputError, match="cannot read"):
            read_schema(path)


pieces = st.sampled_from(
    ["[features", ".a]", "\n", "min = ", "max = ", "1", "nan", "'x'", "[", "]", "kind", "= ", "{"]
)


@given(st.lists(pieces, max_size=12).map("".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_text(text, "utf-8", errors="replace")
    with contextlib.suppress(FarfieldError):
        read_schema(path)
