"""Which columns are swapped with which."""

import numpy as np

from farfield.data import TableColumn
from farfield.evaluate.swaps import swaps

RNG = np.random.default_rng(0)


def pairs(found):
    return {
        frozenset((name, other.name)) for name, all_ in found.partners.items() for other in all_
    }


def test_neighbours_and_columns_that_pass_for_each_other():
    columns = [TableColumn(name, (place,)) for place, name in enumerate("abcde")]
    rows = np.column_stack(
        [RNG.uniform(low, high, 200) for low, high in [(0, 1), (50, 60), (0, 1), (9, 99), (0, 5)]]
    )
    found = swaps(columns, rows, columns)
    beside = {frozenset(pair) for pair in ("ab", "bc", "cd", "de")}
    # All of a and c pass for each other; of e only a fifth passes for a; b lies within d.
    assert pairs(found) - beside == {frozenset("ac")}
    assert (found.tried, found.possible) == (5, 10)


def test_one_unit_is_enough_and_goes_first():
    columns = [
        TableColumn("systolic", (0,), "mmHg"),
        TableColumn("pulse", (1,)),
        TableColumn("diastolic", (2,), "mmHg"),
        TableColumn("age", (3,)),
    ]
    ends = [(200, 220), (0, 9), (1, 2), (0, 9)]
    rows = np.column_stack([RNG.uniform(*each, 100) for each in ends])
    assert frozenset(("systolic", "diastolic")) in pairs(swaps(columns, rows, columns))
    # No more of these than columns to make errors in: the unit beats the likeness.
    only = swaps(columns[:1], rows, columns)
    assert [each.name for each in only.partners["systolic"]] == ["pulse", "diastolic"]


def test_no_more_than_there_are_columns_beside_neighbours():
    columns = [TableColumn(f"x{place}", (place,)) for place in range(12)]
    found = swaps(columns, RNG.normal(size=(300, 12)), columns)
    assert found.tried == 11 + 12
    assert len(pairs(found)) == found.tried


def test_one_of_a_pair_is_looked_at_and_gaps_are_no_values():
    columns = [
        TableColumn("a", (0,)),
        TableColumn("city", (1,), values=("x", "y")),
        TableColumn("b", (2,)),
        TableColumn("c", (3,)),
        TableColumn("d", (4,)),
    ]
    rows = RNG.normal(size=(100, 5))
    rows[:50, 0] = np.nan
    rows[:, 2] += 50.0
    rows[:, 3] = np.nan
    found = swaps([columns[4], columns[1]], rows, columns)
    # c is beside d, and what there is of a looks like it.
    assert [each.name for each in found.partners["d"]] == ["c", "a"]
    assert found.tried == 2


def test_nothing_to_swap():
    city = TableColumn("city", (0, 1), values=("x", "y"))
    assert swaps([city], np.eye(2), [city]).partners == {}
    one = TableColumn("a", (0,))
    assert swaps([one], np.ones((3, 1)), [one]).tried == 0
