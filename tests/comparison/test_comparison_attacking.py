"""The attack of a comparison on people whose records are known."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.kits.comparison import BLOCKS, areas, geography, people, truth

from confide.lab.comparison.attacking import EXPOSED, attack, listed, published, sample, with_ages
from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.compared_people import ComparedPopulation
from confide.lab.comparison.comparison_spec import AttackPart
from confide.lab.comparison.figures import AreaFigures
from confide.lab.published.marginals import AdditiveLaw
from confide.noise import DiscreteGaussian
from confide.releases.workspace import Silent


def population(folder: Path = Path()) -> ComparedPopulation:
    return ComparedPopulation(
        folder,
        people(),
        pa.table({"geocode": list(BLOCKS)}),
        areas(),
        truth(),
        common_tables(),
        geography(),
        True,
        "0" * 64,
    )


def attacked(figures: AreaFigures, part: AttackPart | None = None, certain=None):
    return attack(population(), figures, part or AttackPart(), certain, seed=1, processes=1, progress=Silent())


def test_true_tables_of_small_blocks_give_the_records_away() -> None:
    """Every block has one solution. All six are matched. In the first block two women share an age group (33 and 34 are
    both 30 to 34) and differ in group: who is who is decided by chance, so that the others are confirmed for sure."""
    found = attacked(truth())
    assert found.numbers["reconstruction"]["share_of_blocks_at_0"] == 1
    assert found.variability == dict.fromkeys(BLOCKS, 0.0)
    perfect = found.numbers["perfect"]
    assert perfect["agreement"] == 1
    assert perfect["universes"]["all"]["putative"] == 6
    assert perfect["universes"]["all"]["confirmed"] in (4, 6)
    assert perfect["universes"]["unique"]["confirmed"] == perfect["universes"]["unique"]["records"] == 4


def test_the_exposed_are_the_same_people_whatever_was_published() -> None:
    """The certain blocks are given: none of them, and nobody is exposed; the block of two, and only they can be, also
    where nobody is said to live there any more."""
    assert EXPOSED not in attacked(truth(), certain={}).numbers["perfect"]["universes"]
    some = attacked(truth(), certain={BLOCKS[2]: 0.0, BLOCKS[0]: 20.0}).numbers["perfect"]["universes"]
    assert 0 < some[EXPOSED]["records"] <= 2
    own = some["unique&nonmodal&own-solvar0"]
    assert own["records"] >= some[EXPOSED]["records"]
    emptied = {key: matrix.copy() for key, matrix in truth().counts.items()}
    for key, matrix in emptied.items():
        matrix[2 if key[0] == "block" else 0] *= key[0] != "block"
    moved = attacked(AreaFigures(emptied), certain={BLOCKS[2]: 0.0}).numbers["perfect"]["universes"][EXPOSED]
    assert moved["records"] == some[EXPOSED]["records"]
    assert moved["putative"] == 0


def test_another_list_stands_beside_the_perfect_one() -> None:
    found = attacked(truth(), AttackPart(attacker="coverage=0")).numbers
    assert found["perfect"]["attacker_records"] == 6
    assert found["given"]["attacker_records"] == 0
    assert found["given"]["universes"]["all"]["precision"] is None


def test_noisy_tables_claim_no_uniqueness() -> None:
    true = truth()
    noisy = AreaFigures(true.counts, variances={key: Fraction(2) for key in true.counts})
    found = attacked(noisy, AttackPart(noisy_blocks=1))
    assert found.numbers["reconstruction"]["blocks_attacked"] == 1
    assert found.numbers["reconstruction"]["exact"] is False
    assert found.numbers["reconstruction"]["share_of_blocks_at_0"] is None
    # The list says how many of each sex and age live in the block: everybody is matched.
    everybody = found.numbers["perfect"]["universes"]["all"]
    assert everybody["putative"] == everybody["records"] == found.numbers["reconstruction"]["true_persons"]
    assert found.numbers["ranking"][-1]["k"] == found.numbers["reconstruction"]["persons"]


def test_noisy_tables_come_with_the_areas_above_and_exact_ones_without() -> None:
    true = truth()
    law = AdditiveLaw(DiscreteGaussian(2))
    laws = dict.fromkeys(true.counts, law)
    noisy = AreaFigures(true.counts, variances=dict.fromkeys(true.counts, Fraction(2)), laws=laws)
    tables = published(noisy, areas(), common_tables(), np.array([0, 2]))
    assert tables.geography.levels == ("block", "tract", "county")
    assert [len(units) for units in tables.geography.units] == [2, 2, 1]
    assert {item.law for item in tables.marginals} == {law}
    county = next(item for item in tables.marginals if item.table == "population" and item.depth == 2)
    assert county.counts(0) == [6]
    assert published(true, areas(), common_tables(), np.array([0, 2])).geography.levels == ("block",)


def test_the_list_counts_sex_and_age_of_the_blocks() -> None:
    table = listed(population(), np.array([0, 2]))
    assert table.exact
    assert [table.counts(unit).sum() for unit in range(2)] == [3, 2]
    women = table.query.shape[1] + common_tables().ages.of(np.array([33]))[0]
    assert table.counts(0)[women] == 2


def test_hidden_cells_are_unknown_and_zeros_are_known() -> None:
    true = truth()
    key = ("block", "population")
    there = np.array([[True], [False], [True]])
    tables = published(AreaFigures(true.counts, {key: there}), areas(), common_tables(), np.arange(3))
    marginal = next(item for item in tables.marginals if item.table == "population")
    assert np.isnan(marginal.counts(1)).all()
    assert marginal.counts(0) == [3]
    whole = next(item for item in tables.marginals if item.table == "race")
    assert whole.counts(1).tolist() == [0, 1, 0, 0, 0, 0, 0]


def test_samples_nest_and_follow_from_the_seed() -> None:
    here = population()
    assert sample(here, None, 1).tolist() == [0, 1, 2]
    assert sample(here, 9, 1).tolist() == [0, 1, 2]
    for seed in range(5):
        one, two = set(sample(here, 1, seed).tolist()), set(sample(here, 2, seed).tolist())
        assert one < two
    assert len({tuple(sample(here, 1, seed)) for seed in range(20)}) > 1


def test_empty_blocks_are_not_attacked() -> None:
    here = population()
    counts = dict(here.truth.counts) | {("block", "population"): np.array([[3], [0], [2]])}
    assert sample(replace(here, truth=AreaFigures(counts)), None, 1).tolist() == [0, 2]


def test_age_groups_become_years() -> None:
    found = with_ages(pa.table({"agebin": [0, 21, 22, 37], "sex": [1, 1, 2, 2]}), common_tables())
    assert found.column("age").to_pylist() == [0, 21, None, None]
    assert found.column("age_low").to_pylist() == [0, 21, 22, 85]
    assert found.column("age_high").to_pylist()[2] == 24
    assert "agebin" not in found.column_names
