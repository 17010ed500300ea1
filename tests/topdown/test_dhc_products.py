"""The demographic and housing characteristics as data: strategy, people made up for it, layout of its records."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from confide.documents import load_schema, load_shipped
from confide.lab.population import Population, simulate
from confide.lab.population.official import characteristics, possible_ages
from confide.mechanisms.topdown.output.settings import LayoutFile, MicrodataLayout
from confide.mechanisms.topdown.output.tabulation import TabulationFile, axes_of
from confide.mechanisms.topdown.strategy import account_of
from confide.mechanisms.topdown.strategy_file import load_strategies, load_strategy

SHARED = Path(__file__).parents[3] / "shared" / "spec" / "topdown_plb.json"
SCHEMA = load_schema("dhc-persons", Path())
CELLS = (12, 6, 76, 4, 8, 60, 19, 252_000, 423_360, 1_227_744)
"""The sizes of the ten queries, in the order of the published strategy."""


@pytest.mark.parametrize("root", ["us", "pr"])
def test_the_price_of_persons_is_the_published_one(root: str) -> None:
    strategy = load_strategy("dhc-persons", root=root)
    account = account_of(strategy)
    assert account.total.rho == Fraction(24811, 5000)
    epsilon = account.total.epsilon
    assert round(epsilon["canonne_kamath_steinke"], 2) == 25.42
    assert round(epsilon["bun_steinke"], 2) == 26.34
    assert sum(strategy.shares.values()) == 1
    for level in strategy.levels:
        assert sum(share.share for share in level.queries) == 1
        assert tuple(share.query.cells for share in level.queries) == CELLS


def test_the_price_of_a_state_is_that_of_the_nation_without_the_share_of_the_nation() -> None:
    state, nation = load_strategy("dhc-persons", root="state"), load_strategy("dhc-persons", root="us")
    assert state.budget == nation.budget * (1 - nation.shares["us"])
    for level in state.level_names:
        for share in state.level(level).queries:
            assert state.parts[level, share.name] == nation.parts[level, share.name]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/spec/topdown_plb.json")
@pytest.mark.parametrize(("root", "run"), [("us", "DHC_2020_US_persons"), ("pr", "DHC_2020_PR_persons")])
def test_every_part_of_the_price_is_the_published_one(root: str, run: str) -> None:
    published = json.loads(SHARED.read_text(encoding="utf-8"))["runs"][run]["geolevels"]
    strategy = load_strategy("dhc-persons", root=root)
    assert len(published) == len(strategy.levels)
    for level, stated in zip(strategy.levels, published.values(), strict=True):
        expected = [Fraction(query["rho_fraction"]) for query in stated["queries"].values()]
        sizes = {query.name: query.query.cells for query in level.queries}
        ours = [strategy.parts[level.name, query.name] for query in level.queries]
        assert sorted(ours) == sorted(expected)
        by_size = {CELLS[place]: rho for place, rho in enumerate(_in_our_order(stated["queries"]))}
        assert {sizes[query.name]: strategy.parts[level.name, query.name] for query in level.queries} == by_size


def _in_our_order(queries: dict[str, dict[str, str]]) -> list[Fraction]:
    """The published parts in the order of :data:`CELLS`: their sizes differ, so sizes name them."""
    sizes = json.loads(SHARED.read_text(encoding="utf-8"))["runs"]["DHC_2020_US_persons"]["query_sizes"]
    by_size = {sizes[name]: Fraction(query["rho_fraction"]) for name, query in queries.items()}
    return [by_size[cells] for cells in CELLS]


def test_nobody_is_where_the_rules_of_2020_have_nobody() -> None:
    possible = possible_ages()
    assert possible.shape == (42, 116)
    # A line for each rule: the codes, and the youngest and oldest there.
    rules = {
        (0, 1, 2, 3, 4, 5): (15, 115), (6, 7, 8): (0, 89), (9,): (0, 115), (10, 12): (30, 115), (11,): (0, 74),
        (13,): (15, 89), (14, 15, 17): (0, 115), (16,): (0, 20), (18, 19, 20, 21, 22): (15, 115),
        (23, 31, 34, 35): (17, 65), (24, 25, 26): (0, 25), (27,): (20, 115), (28, 29, 30): (0, 115), (32,): (3, 30),
        (33,): (16, 65), (36,): (0, 115), (37, 38): (16, 115), (39,): (16, 75), (40, 41): (0, 115),
    }  # fmt: skip
    assert sorted(code for codes in rules for code in codes) == list(range(42))
    for codes, (youngest, oldest) in rules.items():
        for code in codes:
            assert np.flatnonzero(possible[code]).tolist() == list(range(youngest, oldest + 1)), code


def test_made_up_people_are_those_of_the_other_layouts_and_possible() -> None:
    population, possible = Population(20_000, 11), possible_ages()
    assert len(population.units) > 1
    quarters = 0
    for (blocks, persons), unit in zip(characteristics(population), population.units, strict=True):
        same_blocks, others = population.unit(unit)
        assert blocks.equals(same_blocks)
        ours, theirs = persons.to_pydict(), others.to_pydict()
        for name in ("geocode", "household_id", "age", "hispanic", "cenrace"):
            assert ours[name] == theirs[name]
        assert [sex + 1 for sex in ours["sex"]] == theirs["sex"]
        relgq, household = np.array(ours["relgq"]), np.array(ours["household_id"])
        major = SCHEMA.variables["relgq:major"].assignment[relgq]
        assert major.tolist() == theirs["hhgq"]
        assert possible[relgq, np.array(ours["age"])].all()
        # One householder in each household, alone or not as it says; one type in each facility.
        at_home = major == 0
        heads = at_home & (relgq <= 1)
        assert sorted(household[heads].tolist()) == sorted({*household[at_home].tolist()})
        sizes = dict(zip(*np.unique(household, return_counts=True), strict=True))
        assert all(
            (sizes[number] == 1) == (code == 0) for number, code in zip(household[heads], relgq[heads], strict=True)
        )
        facilities = {(number, code) for number, code in zip(household[~at_home], relgq[~at_home], strict=True)}
        assert len(facilities) == len({number for number, _ in facilities})
        quarters += len(facilities)
    assert quarters > 10


def test_the_layout_of_made_up_people_is_a_choice_of_import(tmp_path: Path) -> None:
    files = simulate(tmp_path, persons=500, seed=3, layout="us-dhc").files
    table = pq.read_table(files.persons)
    assert table.column_names == ["geocode", "household_id", "relgq", "sex", "age", "hispanic", "cenrace"]
    assert table.num_rows == 500
    assert files.blocks.exists()


def test_records_have_the_columns_and_codes_of_the_microdata_detail_file() -> None:
    strategy = load_strategy("dhc-persons", root="state")
    layout = MicrodataLayout(
        LayoutFile.model_validate(load_shipped("layouts", "mdf-dhc-persons")), axes_of(strategy.schema)
    )
    assert not [*layout.file.problems(axes_of(strategy.schema), strategy.frame_columns)]
    columns = {column.name: column for column in layout.file.columns}
    codes = list(range(42))
    relship, kind, alone = (columns[name].texts(codes) for name in ("RELSHIP", "GQTYPE", "LIVE_ALONE"))
    assert relship == ["20", *map(str, range(20, 37)), *["37"] * 15, *["38"] * 9]
    assert alone == ["1", *["2"] * 17, *["0"] * 24]
    assert kind[:18] == ["000"] * 18
    quarters = (101, 102, 103, 104, 105, 106, 201, 202, 203, 301, 401, 402, 403, 404, 405, 501, 601, 602)
    assert kind[18:] == [*map(str, quarters), "701", "801", "802", "900", "901", "997"]
    assert columns["RTYPE"].texts(codes) == ["3"] * 18 + ["5"] * 24
    assert columns["QAGE"].texts([0, 115]) == ["0", "115"]
    assert columns["CENRACE"].texts([0, 62]) == ["01", "63"]
    assert columns["CENHISP"].texts([0, 1]) == columns["QSEX"].texts([0, 1]) == ["1", "2"]


def test_roots_are_the_nation_puerto_rico_and_one_state() -> None:
    strategies, root = load_strategies("dhc-persons")
    assert (sorted(strategies), root) == (["pr", "state", "us"], "us")
    below = ("county", "prim", "tract_subset_group", "tract_subset", "block_group", "block")
    assert strategies["us"].level_names == ("us", "state", *below)
    assert strategies["pr"].level_names == strategies["state"].level_names == ("state", *below)


def test_tables_count_whom_they_say() -> None:
    rng = np.random.default_rng(5)
    relgq, sex, age, hispanic, race = (rng.integers(0, size, 4_000) for size in (42, 2, 116, 2, 63))
    cells = np.ravel_multi_index((relgq, sex, age, hispanic, race), (42, 2, 116, 2, 63))
    people = sp.csr_array((np.ones(4_000, np.int64), (np.zeros(4_000, np.int64), cells)), shape=(1, 1_227_744))
    file = TabulationFile.model_validate(load_shipped("tabulations", "dhc-persons")).complete()
    assert not [*file.problems(axes_of(SCHEMA))]
    tables = {table.name: table for table in file.build(axes_of(SCHEMA))}

    def counts(name: str) -> dict[str, list[int]]:
        """The counts of the lines with each label, in order."""
        values = (people @ tables[name].matrix()).toarray()[0].tolist()
        by_label: dict[str, list[int]] = {}
        for label, value in zip(tables[name].labels, values, strict=True):
            by_label.setdefault(label, []).append(value)
        return by_label

    adults, home = age >= 18, relgq <= 17
    assert counts("p1") == {"Total": [4_000]}
    assert counts("p3")["Two or more races"] == [int((race > 5).sum())]
    assert counts("p5")["Asian alone"] == [int(((race == 3) & (hispanic == each)).sum()) for each in (0, 1)]
    assert counts("p10")["Total"] == [int(adults.sum())]
    assert counts("p11")["Hispanic or Latino"] == [int((adults & (hispanic == 1)).sum())]
    assert counts("p12")["22 to 24 years"] == [
        int(((age >= 22) & (age <= 24) & (sex == each)).sum()) for each in (0, 1)
    ]
    assert counts("p12")["85 years and over"] == [int(((age >= 85) & (sex == each)).sum()) for each in (0, 1)]
    assert counts("p14")["Total"] == [int((age < 20).sum())]
    assert counts("p18")["Total"] == [int((~home).sum())]
    assert counts("p18")["Military quarters"] == [
        int((np.isin(relgq, (34, 35)) & (sex == each) & (age >= low) & (age <= high)).sum())
        for each in (0, 1)
        for low, high in ((0, 17), (18, 64), (65, 115))
    ]
    assert counts("pct12")["7 years"] == [int(((age == 7) & (sex == each)).sum()) for each in (0, 1)]
    assert counts("pct13")["Total"] == [int(home.sum())]
    assert counts("p12i")["Male"] == [int(((race == 0) & (hispanic == 0) & (sex == 0)).sum())]
    assert counts("relationship")["Child"] == [int(np.isin(relgq, (6, 7, 8)).sum())]
    profile = counts("dp1")
    assert profile["Total population"] == [4_000]
    assert profile["Male population"] == [int((sex == 0).sum())]
    assert profile["62 years and over"] == [
        int(((age >= 62) & chosen).sum()) for chosen in (np.full(4_000, True), sex == 0, sex == 1)
    ]
    asian = np.array([code in codes_with(3) for code in race])
    assert profile["Asian alone or in combination with one or more other races"] == [int(asian.sum())]
    assert profile["Child under 18 years"] == [int((np.isin(relgq, (6, 7, 8)) & (age < 18)).sum())]
    assert sum(profile["Hispanic or Latino"] + profile["Not Hispanic or Latino"]) == 4_000
    # Every single age and every group of ages counts everybody once.
    for name, total in (("p12", 4_000), ("pct12", 4_000), ("p14", int((age < 20).sum()))):
        ages = {label: values for label, values in counts(name).items() if "year" in label}
        assert sum(map(sum, ages.values())) == total


def codes_with(race: int) -> set[int]:
    """The codes of all sets of races that have one, which are listed by size and then in order."""
    sets = [chosen for size in range(1, 7) for chosen in combinations(range(6), size)]
    return {code for code, chosen in enumerate(sets) if race in chosen}


def test_lists_of_another_tabulation_are_refused_where_there_is_none() -> None:
    values = load_shipped("tabulations", "dhc-persons")
    file = TabulationFile.model_validate({**values, "lists_from": "pl94-people"}).complete()
    problems = {(problem.path, problem.code) for problem in file.problems(axes_of(SCHEMA))}
    assert (("lists_from",), "unknown-list") in problems
