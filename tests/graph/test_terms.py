"""Rules say how many products they add up, which proofs rest on: against the sums themselves."""

import pytest
import torch
from torch.autograd.functional import jacobian

import farfield as ff
from campaigns.drawing import name_of, template
from farfield.exact.germ import GermDomain
from rule_cases import CASES, EXTRA


@pytest.fixture
def taken(monkeypatch):
    """The affine operations that walks take, with the shapes of their values; each kind once."""
    found = {}
    affine = GermDomain.affine

    def note(domain, operation, *values):
        shapes = tuple(value.parts.shape for value in values)
        kind = getattr(operation.function, "__code__", operation.function), operation.terms, shapes
        found.setdefault(kind, (operation, shapes))
        return affine(domain, operation, *values)

    monkeypatch.setattr(GermDomain, "affine", note)
    return found


def test_no_operation_adds_more_than_it_says(taken):
    for target in (*CASES, *EXTRA):
        ff.at_infinity(template(name_of(target))[1], torch.zeros(1, 4), torch.ones(1, 4))
    assert len(taken) > 100
    for operation, shapes in taken.values():
        ones = [torch.ones(shape, dtype=torch.float64) for shape in shapes]
        assert most_added(operation, ones) <= max(operation.terms, 1), operation


def most_added(operation, ones):
    """How many products with weights, and how many values, make one number of the result."""
    counted = operation.function(*ones, *(weight.ne(0).double() for weight in operation.weights))

    def flat(*values):
        return operation.function(*values, *operation.weights).flatten()

    slopes = jacobian(flat, tuple(ones), vectorize=True)
    return max(counted.abs().max(), sum(each.flatten(1).ne(0).sum(1) for each in slopes).max())
