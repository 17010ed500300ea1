"""The linear structure: one equation for every sub-total, shared cells once."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kits.suppression import random_table, table

from confide.errors import ParameterError
from confide.mechanisms.suppression.structure import Dimension, TableDimensions, flat, link, simple_tables, tree
from confide.mechanisms.suppression.suppress import joined, suppress_tables, with_totals

REGIONS = tree("region", {"_T": ["N", "S"], "N": ["N1", "N2", "N3"], "S": ["S1", "S2"]})
SEX = flat("sex", ["f", "m"])


def test_a_two_way_table_has_an_equation_for_each_line() -> None:
    linked, value = table([flat("a", ["x", "y"]), flat("b", ["p", "q", "r"])], [[1, 2, 3], [4, 5, 6]])
    assert linked.structure.cells == 12
    assert linked.structure.rows == 3 + 4
    assert not (linked.structure.matrix @ value).any()
    assert value[linked.numbers[0][0]] == 21


def test_a_hierarchy_has_an_equation_for_each_code_with_parts() -> None:
    linked = link([TableDimensions("t", (REGIONS, SEX))])
    # Three codes of regions have parts, in each of 3 columns; one code of sex, in each of 8 rows.
    assert linked.structure.rows == 3 * 3 + 8
    assert sorted(np.diff(linked.structure.matrix.indptr).tolist()) == [3] * 14 + [4] * 3
    assert simple_tables(linked.tables[0]) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_totals_keep_every_equation_and_a_changed_cell_breaks_one(seed: int) -> None:
    linked, value = random_table(seed)
    assert not (linked.structure.matrix @ value).any()
    for cell in range(0, len(value), 7):
        wrong = value.copy()
        wrong[cell] += 1
        assert (linked.structure.matrix @ wrong).any()


def test_the_rank_of_the_structure_leaves_the_inner_cells_free() -> None:
    linked = link([TableDimensions("t", (REGIONS, SEX))])
    rank = np.linalg.matrix_rank(linked.structure.matrix.toarray())
    assert linked.structure.cells - rank == 5 * 2


def test_linked_tables_share_their_margins() -> None:
    linked = link([TableDimensions("one", (REGIONS, SEX)), TableDimensions("two", (SEX, flat("job", ["yes", "no"])))])
    assert linked.structure.cells == 24 + 9 - 3
    shared = np.intersect1d(linked.numbers[0], linked.numbers[1])
    assert len(shared) == 3
    # The sum of both sexes is one equation, not one for each table.
    assert linked.structure.rows == (9 + 8) + (3 + 3) - 1


def test_levels_that_only_another_table_lists_are_part_of_the_structure() -> None:
    listed = np.array([True, False, False, True, True, True, True, True])
    fine = TableDimensions("fine", (REGIONS, SEX), (listed, np.ones(3, np.bool_)))
    linked = link([fine])
    assert int(linked.listed.sum()) == 6 * 3
    assert linked.structure.cells == 24
    coarse = tree("region", {"_T": ["N", "S"]})
    both = link([fine, TableDimensions("coarse", (coarse, flat("job", ["yes", "no"])))])
    # Regions N and S for both sexes together are listed by the other table, and are sums of what the first one lists.
    assert int(both.listed.sum()) == 6 * 3 + 2 + 6


def test_tables_that_divide_a_code_differently_are_refused() -> None:
    other = tree("region", {"_T": ["N", "S"], "N": ["N1", "N2"]})
    with pytest.raises(ParameterError, match="divide a code differently"):
        link([TableDimensions("one", (REGIONS,)), TableDimensions("two", (other,))])


@pytest.mark.parametrize(
    ("codes", "parent"),
    [(("_T", "a"), (-1, 1)), (("a", "_T"), (1, -1)), (("_T", "a", "a"), (-1, 0, 0)), ((), ()), (("_T",), (0,))],
)
def test_what_is_no_tree_is_refused(codes: tuple[str, ...], parent: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="cannot be used"):
        Dimension("x", codes, parent)


def test_codes_that_hang_nowhere_are_refused() -> None:
    with pytest.raises(ParameterError, match="no part of anything"):
        tree("x", {"_T": ["a"], "b": ["c"]})


def test_tables_must_agree_and_fit() -> None:
    ages = flat("age", ["young", "old"])
    one, two = with_totals([SEX, ages], [[5, 6], [7, 8]]), with_totals([SEX], [11, 16])
    linked = link([TableDimensions("one", (SEX, ages)), TableDimensions("two", (SEX,))])
    with pytest.raises(ParameterError, match="another figure"):
        joined(linked, [one, two])
    with pytest.raises(ParameterError, match="do not fit"):
        suppress_tables({"one": ([SEX], np.array([1, 2]))})
    with pytest.raises(ParameterError, match="do not add up"):
        suppress_tables({"one": ([SEX], np.array([20, 5, 6]))})
