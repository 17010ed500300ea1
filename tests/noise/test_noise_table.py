"""The lookup tables: every cell accounted for, and a wrong cell found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.kits.noise import SIX_LAWS, integer_thresholds, named, wrong_cells

from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, fits_table, table_for
from confide.noise.distributions import folded_thresholds
from confide.noise.sample import CELL_BITS, CELLS, UNDECIDED, LookupTable, build_table


@pytest.mark.parametrize("law", [*SIX_LAWS, DiscreteGaussian("1/3")], ids=named)
def test_every_cell_is_right(law: NoiseDistribution) -> None:
    assert wrong_cells(table_for(law)) == []


@pytest.mark.parametrize("law", SIX_LAWS, ids=named)
def test_decided_mass_is_below_the_true_mass_and_boundary_cells_make_up_the_rest(law: NoiseDistribution) -> None:
    bits = 400
    thresholds = integer_thresholds(law, bits)
    cells = table_for(law).signed[:CELLS]
    decided = np.bincount(cells[cells != UNDECIDED].astype(np.int64), minlength=len(thresholds))
    for m, threshold in enumerate(thresholds):
        mass = threshold - (thresholds[m - 1] if m else 0)
        slack = 1
        assert int(decided[m]) << bits - CELL_BITS <= mass + slack
        assert mass <= (int(decided[m]) + 2 << bits - CELL_BITS) + slack


@pytest.mark.parametrize("law", SIX_LAWS, ids=named)
def test_lone_thresholds_hold_the_next_64_bits(law: NoiseDistribution) -> None:
    table = table_for(law)
    bits = CELL_BITS + 64
    by_cell: dict[int, list[tuple[int, int]]] = {}
    for m, threshold in enumerate(integer_thresholds(law, bits)):
        by_cell.setdefault(threshold >> 64, []).append((m, threshold & (1 << 64) - 1))
    lone = 0
    for cell in np.flatnonzero(table.signed[:CELLS] == UNDECIDED).tolist():
        rank = table.rank[cell]
        lower, upper = int(table.lower[rank]), int(table.upper[rank])
        if (lower, upper) == (0, (1 << 64) - 1):
            continue
        lone += 1
        [(m, rest)] = by_cell[cell]
        assert int(table.below[rank]) == m
        assert lower <= rest <= upper <= lower + 1
    assert lone > 0


@pytest.mark.parametrize("law", SIX_LAWS, ids=named)
def test_a_table_that_is_off_by_one_cell_is_caught(law: NoiseDistribution) -> None:
    """Move the border between two magnitudes by one cell, at every kind of place, and decide one cell too many."""
    right = table_for(law)
    cells = right.signed[:CELLS]
    for cell in np.flatnonzero(cells == UNDECIDED)[:-1][:8].tolist():
        for entry in {int(cells[cell - 1]), int(cells[cell - 1]) + 1}:
            assert cell in wrong_cells(_with_cell(right, cell, entry))
        beside = cell - 1
        assert beside in wrong_cells(_with_cell(right, beside, int(cells[beside]) + 1))
        assert beside in wrong_cells(_with_cell(right, beside, UNDECIDED))
    assert CELLS - 1 in wrong_cells(_with_cell(right, CELLS - 1, int(cells.max())))


@pytest.mark.parametrize("law", SIX_LAWS, ids=named)
def test_more_precise_enclosures_give_the_same_table(law: NoiseDistribution) -> None:
    coarse, fine = table_for(law), build_table(law, folded_thresholds(law.decay, 512))
    assert np.array_equal(coarse.signed, fine.signed)
    assert np.array_equal(coarse.below, fine.below)


def test_tables_are_cached_per_exact_law_and_cannot_be_written() -> None:
    assert table_for(DiscreteGaussian(289)) is table_for(DiscreteGaussian("578/2"))
    with pytest.raises(ValueError, match="read-only"):
        table_for(DiscreteGaussian(289)).signed[0] = 1


def test_fingerprints() -> None:
    table = table_for(DiscreteGaussian(289))
    assert table.sha256() == "34ed85c5920f1d522cd79fc4e59ab1abb0427efe5dee1094a7ad728e70b20b51"
    assert table_for(DiscreteGaussian("289.0001")).sha256() != table.sha256()
    assert _with_cell(table, 5, 1).sha256() != table.sha256()
    assert repr(table) == "LookupTable(DiscreteGaussian('289'), undecided_share=0.2106%)"


def test_where_tables_end() -> None:
    assert fits_table(DiscreteGaussian(7000**2))
    assert not fits_table(DiscreteGaussian(7001**2))
    assert fits_table(TwoSidedGeometric("1/1000"))
    assert not fits_table(TwoSidedGeometric("1/1001"))
    assert fits_table(DiscreteGaussian("1/1000000"))


@pytest.mark.slow
@pytest.mark.parametrize("law", [DiscreteGaussian(1000**2), TwoSidedGeometric("1/1000")], ids=named)
def test_every_cell_of_wide_tables_is_right(law: NoiseDistribution) -> None:
    assert wrong_cells(table_for(law)) == []


def _with_cell(table: LookupTable, cell: int, entry: int) -> LookupTable:
    signed = table.signed.copy()
    signed[cell] = entry
    signed[CELLS + cell] = entry if entry == UNDECIDED else -entry
    return dataclasses.replace(table, signed=signed)
