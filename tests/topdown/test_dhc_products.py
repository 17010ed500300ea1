"""The demographic and housing characteristics as data: strategy, people made up for it, layout of its records."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from confide.documents import load_schema, load_shipped
from confide.lab.population import Population, simulate
from confide.lab.population.characteristics import characteristics, possible_ages
from confide.mechanisms.topdown.output.settings import LayoutFile, MicrodataLayout
from confide.mechanisms.topdown.output.tabulation import axes_of
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
