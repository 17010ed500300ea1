"""The attacker's intervals: known answers, all tables by brute force, and programmes one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse
from tests.kits.suppression import plain_interval, problem, random_table, shaped, two_way

from confide.errors import InputError
from confide.mechanisms.suppression.attacker import Attacker
from confide.mechanisms.suppression.structure import Structure


def attacker(linked, value, hidden, *, low=0.0, high=np.inf, integer=False) -> Attacker:
    size = len(value)
    return Attacker(linked.structure, value.astype(float), hidden, np.full(size, low), np.full(size, high), integer)


def hide(linked, places):
    flags = np.zeros(linked.tables[0].shape, np.bool_)
    for place in places:
        flags[place] = True
    hidden = np.zeros(linked.structure.cells, np.bool_)
    hidden[linked.numbers[0]] = flags.reshape(-1)
    return hidden


def test_a_square_of_hidden_cells() -> None:
    """Rows 10 and 8 of a square with columns 6 and 12: the corner can be 0 to 6."""
    linked, posed = two_way([[4, 6, 9], [2, 6, 9], [5, 5, 5]])
    hidden = hide(linked, [(1, 1), (1, 2), (2, 1), (2, 2)])
    found = attacker(linked, posed.value, hidden).intervals()
    low, high = shaped(linked, found.low), shaped(linked, found.high)
    assert [low[1, 1], high[1, 1]] == [0, 6]
    assert [low[1, 2], high[1, 2]] == [4, 10]
    assert [low[2, 1], high[2, 1]] == [0, 6]
    assert [low[2, 2], high[2, 2]] == [2, 8]
    assert low[3, 3] == high[3, 3] == 5


def test_a_cell_alone_in_a_line_is_known_and_what_follows_from_it() -> None:
    linked, posed = two_way([[4, 6, 9], [2, 6, 9], [5, 5, 5]])
    hidden = hide(linked, [(1, 1), (2, 1), (2, 2)])
    found = attacker(linked, posed.value, hidden).intervals()
    assert np.allclose(found.width, 0)
    assert np.allclose(found.low, posed.value)


def test_a_table_without_published_totals_has_no_upper_ends() -> None:
    linked, posed = two_way([[4, 6], [2, 6]])
    found = attacker(linked, posed.value, np.ones(9, np.bool_)).intervals()
    assert (found.low == 0).all()
    assert np.isinf(found.high).all()
    bounded = attacker(linked, posed.value, np.ones(9, np.bool_), high=7.0).intervals()
    assert (bounded.high == 7).all()


def test_part_of_a_table_without_upper_ends() -> None:
    linked, posed = two_way([[4, 6], [2, 6]])
    hidden = hide(linked, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 2), (1, 2)])
    found = attacker(linked, posed.value, hidden).intervals()
    low, high = shaped(linked, found.low), shaped(linked, found.high)
    # The row b and the column q are published: 8 and 12. The rest of column p goes up without end.
    assert [low[2, 1], high[2, 1]] == [0, 8]
    assert [low[1, 2], high[1, 2]] == [4, 12]
    assert np.isinf(high[1, 1])
    assert np.isinf(high[0, 0])
    assert low[0, 0] == 12


def test_figures_that_cannot_be_are_refused() -> None:
    linked, posed = two_way([[4, 6, 9], [2, 6, 9], [5, 5, 5]])
    hidden = hide(linked, [(1, 1), (1, 2), (2, 1), (2, 2)])
    value = posed.value.astype(float)
    value[linked.numbers[0].reshape(4, 4)[1, 0]] = 1.0
    with pytest.raises(InputError, match="does not add up"):
        Attacker(linked.structure, value, hidden, np.zeros(16), np.full(16, np.inf)).intervals()


@pytest.mark.parametrize("seed", range(12))
def test_every_table_that_fits_by_brute_force(seed: int) -> None:
    """Two-way tables: bounds of the programme are whole numbers, and some table reaches each."""
    rng = np.random.default_rng(seed)
    inner = rng.integers(0, 5, (2, 3))
    linked, posed = two_way(inner)
    flags = rng.random((3, 4)) < 0.6
    hidden = np.zeros(12, np.bool_)
    hidden[linked.numbers[0]] = flags.reshape(-1)
    largest = int(inner.sum())
    found = attacker(linked, posed.value, hidden, high=float(largest), integer=True).intervals()
    true = shaped(linked, posed.value)
    least, most = np.full((3, 4), 10**6), np.full((3, 4), -1)
    for cells in product(range(largest + 1), repeat=6) if largest <= 6 else _samples(rng, largest, true, flags):
        other = np.zeros((3, 4), np.int64)
        other[1:, 1:] = np.array(cells).reshape(2, 3)
        other[0, 1:], other[1:, 0] = other[1:, 1:].sum(axis=0), other[1:, 1:].sum(axis=1)
        other[0, 0] = other[0, 1:].sum()
        if (other[~flags] == true[~flags]).all() and other.max() <= largest:
            least, most = np.minimum(least, other), np.maximum(most, other)
    low, high = shaped(linked, found.low), shaped(linked, found.high)
    assert (low <= least).all()
    assert (high >= most).all()
    if largest <= 6:
        assert (low[flags] == least[flags]).all()
        assert (high[flags] == most[flags]).all()


def _samples(rng, largest, true, flags):
    yield tuple(true[1:, 1:].reshape(-1))
    for _ in range(3_000):
        yield tuple(rng.integers(0, largest + 1, 6))


@pytest.mark.parametrize("seed", range(15))
def test_shortcuts_change_nothing(seed: int) -> None:
    """Carried bounds, common pushes and parts give what two plain programmes over all cells give for each cell."""
    linked, value = random_table(seed)
    posed = problem(linked, value)
    rng = np.random.default_rng(seed)
    hidden = rng.random(len(value)) < 0.45
    found = attacker(linked, value, hidden).intervals()
    for cell in rng.permutation(np.flatnonzero(hidden))[:12]:
        low, high = plain_interval(posed, hidden, cell)
        assert found.low[cell] == pytest.approx(low, abs=1e-6)
        assert found.high[cell] == pytest.approx(high, abs=1e-6)
    assert (found.low <= value + 1e-6).all()
    assert (found.high >= value - 1e-6).all()


def test_whole_numbers_can_tell_more_than_fractions() -> None:
    """Three cells of which any two are at most one: halves would do, so the sum is at most 3/2, or for two such threes
    together 3. In whole numbers it is at most 1 for each, and 2 together."""
    rows, names = [], {}

    def number(name: str) -> int:
        return names.setdefault(name, len(names))

    for three in "AB":
        for pair, rest in (("12", "x"), ("23", "y"), ("13", "z")):
            rows.append([number(three + pair), number(three + pair[0]), number(three + pair[1]), number(three + rest)])
        rows.append([number(three), *(number(three + one) for one in "123")])
    rows.append([number("both"), number("A"), number("B")])
    matrix = np.zeros((len(rows), len(names)))
    for at, (total, *parts) in enumerate(rows):
        matrix[at, total], matrix[at, parts] = -1.0, 1.0
    structure = Structure(sparse.csr_array(matrix), np.array([row[0] for row in rows]), np.zeros(len(rows), np.int64))
    hidden = np.array([len(name) != 3 for name in names])
    value = np.where(hidden, 0.0, 1.0)
    who = Attacker(structure, value, hidden, np.zeros(len(names)), np.full(len(names), np.inf), integer=True)
    plain = who.intervals()
    assert plain.high[[number("A"), number("both")]].tolist() == [1, 3]
    sharp = who.sharpened(plain)
    assert sharp.high[[number("A"), number("both")]].tolist() == [1, 2]
    assert np.array_equal(sharp.low, plain.low)
