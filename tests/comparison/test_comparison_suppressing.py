"""Suppression of the tables of one area: the structure, and what an attacker can still work out, by programmes of our
own that know nothing of how the pattern was found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.kits.comparison import truth

from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.suppressed_areas import area_structure

MAXIMUM = 3


def random_area(seed: int, persons: int) -> list[np.ndarray]:
    """The tables of one area with people drawn at random."""
    draws = np.random.default_rng(seed)
    made = common_tables()
    index = {
        attribute.name: draws.integers(0, min(attribute.size, 9 if attribute.name == "cenrace" else 40), persons)
        for attribute in made.schema.attributes
    }
    tables = []
    for table in made.tables:
        cell = np.zeros(persons, np.int64)
        for variable in table.query.variables:
            cell = cell * variable.size + variable.assignment[index[variable.attribute.name]]
        tables.append(np.bincount(cell, minlength=table.query.cells).astype(np.int64))
    return tables


def test_every_cell_of_every_table_is_a_distinct_cell_and_adds_up() -> None:
    made, structure = common_tables(), area_structure(common_tables())
    sizes = [len(numbers) for numbers in structure.numbers]
    assert sizes == [table.query.cells for table in made.tables]
    # What tables share is one cell: the alone races of the race table are sums, shared by nothing else listed.
    counts = [truth().counts["block", table.name][0] for table in made.tables]
    value = structure.sums @ np.concatenate(counts)
    for numbers, of_table in zip(structure.numbers, counts, strict=True):
        assert np.array_equal(value[numbers], of_table)
    assert not (structure.linked.structure.matrix @ value).any()


@pytest.mark.parametrize(("seed", "persons"), [(1, 6), (2, 15)])
def test_what_is_hidden_stays_open(seed: int, persons: int) -> None:
    """Published cells are known, hidden ones are not below zero, and everything adds up. Then a count of 1 to 3 can be
    at least 4, and its interval is at least 3 wide."""
    structure, counts = area_structure(common_tables()), random_area(seed, persons)
    hidden = structure.suppressed(counts, MAXIMUM)
    known = np.zeros(structure.linked.structure.cells, np.bool_)
    value = structure.sums @ np.concatenate(counts)
    primary = []
    for numbers, flags, of_table in zip(structure.numbers, hidden, counts, strict=True):
        small = (of_table > 0) & (of_table <= MAXIMUM)
        assert flags[small].all()
        known[numbers[~flags]] = True
        primary += numbers[small].tolist()
    assert known.any()
    bounds = [(v, v) if k else (0, None) for v, k in zip(value, known, strict=True)]
    matrix = structure.linked.structure.matrix
    for cell in np.random.default_rng(seed).permutation(np.unique(primary))[:4]:
        cost = np.zeros(len(value))
        cost[cell] = 1
        low = linprog(cost, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=bounds)
        high = linprog(-cost, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=bounds)
        assert low.status == 0
        top = np.inf if high.status == 3 else -high.fun
        assert top >= MAXIMUM + 1 - 1e-6
        assert top - low.fun >= MAXIMUM - 1e-6


def test_an_area_without_small_counts_is_published_whole() -> None:
    counts = [np.zeros(table.query.cells, np.int64) for table in common_tables().tables]
    assert not any(flags.any() for flags in area_structure(common_tables()).suppressed(counts, MAXIMUM))
