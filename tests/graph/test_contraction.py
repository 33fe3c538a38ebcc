"""Counts of products against sums of ones, and what proofs make of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from farfield.graph.contraction import products, terms

EQUATIONS = [
    ("ti,hij->thj", [(50, 6), (2, 6, 7)]),
    ("ti, si -> ts", [(5, 6), (1, 6)]),
    ("ti,si->ts", [(5, 6), (4, 1)]),
    ("ij,kl->", [(3, 4), (5, 6)]),
    ("ij,ik,il->jkl", [(9, 2), (9, 3), (9, 4)]),
    ("ti,ij", [(5, 6), (6, 7)]),
    ("...i,...i->...", [(5, 6), (6,)]),
    ("...i,ij", [(2, 5, 6), (6, 7)]),
    ("i...->", [(3, 4, 5)]),
    ("ii->i", [(4, 4)]),
    ("b...i,i...->b", [(2, 3, 4, 5), (5, 1, 4)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_as_many_as_ones_add_up_to(equation, shapes):
    compare(equation, shapes)


@given(data=st.data())
def test_any_equation(data):
    lengths = {letter: data.draw(st.integers(1, 4)) for letter in "abcd"}
    operands, shapes = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        letters = data.draw(st.lists(st.sampled_from("abcd"), max_size=3))
        shape = [data.draw(st.sampled_from([1, lengths[each]])) for each in letters]
        if data.draw(st.booleans()):
            place = data.draw(st.integers(0, len(letters)))
            letters.insert(place, "...")
            shape[place:place] = data.draw(st.sampled_from([[], [3], [2, 3], [1, 3], [2, 1]]))
        operands.append("".join(letters))
        shapes.append(tuple(shape))
    named = sorted({*"".join(operands)} - {"."})
    result = data.draw(st.none() | st.lists(st.sampled_from(named), unique=True)) if named else []
    if any("..." in each for each in operands) and result is not None:
        result = data.draw(st.sampled_from([result, ["...", *result]]))
    equation = ",".join(operands) + ("" if result is None else "->" + "".join(result))
    compare(equation, shapes)


def compare(equation, shapes):
    """A sum of products of ones is the number of products."""
    try:
        found = torch.einsum(equation, *(torch.ones(shape) for shape in shapes))
    except RuntimeError:  # one operand has an index twice, once with length one
        return
    assert (found == terms(equation, shapes)).all()
    assert found.sum() == products(equation, shapes)
