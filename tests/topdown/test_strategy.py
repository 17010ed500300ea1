"""Strategy files: what ships, what they mean, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from confide.documents import FOLDER, load_schema, shipped
from confide.errors import ParameterError, SpecError
from confide.mechanisms.topdown.constraints import NO_LIMIT
from confide.mechanisms.topdown.strategy import check_levels, cut, groups_of, refines, resolve
from confide.mechanisms.topdown.strategy_file import KIND, load_strategies, load_strategy, parse_strategies

PERSONS = (FOLDER / KIND / "pl94-persons.toml").read_text(encoding="utf-8")
UNITS = (FOLDER / KIND / "pl94-units.toml").read_text(encoding="utf-8")
PRODUCTS = ("pl94-persons", "pl94-units", "dhc-persons")
EVERY = [(name, root) for name in PRODUCTS for root in ("us", "pr", "state")]


def refused(*changes: tuple[str, str], text: str = PERSONS) -> list[tuple[str, str | None]]:
    """The codes and paths of the findings about the shipped file with some text replaced."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(SpecError) as error:
        parse_strategies(text, "mine.toml")
    for finding in error.value.findings:
        assert finding.where.file == "mine.toml"
        assert finding.where.path
        assert finding.found
        assert finding.expected
        assert finding.remedy
    return [(finding.code, finding.where.path) for finding in error.value.findings]


def test_every_product_ships_with_three_roots() -> None:
    assert shipped(KIND) == ["dhc-persons", "pl94-persons", "pl94-persons-2026", "pl94-units"]
    for name in ("dhc-persons", "pl94-persons", "pl94-units"):
        strategies, default = load_strategies(name)
        assert (list(strategies), default) == (["us", "pr", "state"], "us")
        assert all(strategy.provenance.endswith(".") for strategy in strategies.values())


@pytest.mark.parametrize(("name", "root"), EVERY)
def test_shares_sum_to_one_exactly_and_passes_cover_what_is_measured(name: str, root: str) -> None:
    strategy = load_strategy(name, root=root)
    assert sum(strategy.shares.values()) == 1
    assert strategy.level_names[-1] == "block"
    for level in strategy.levels:
        assert sum(asked.share for asked in level.queries) == 1
        fitted = [query for step in level.estimation.least_squares for query in step.queries]
        assert sorted(fitted) == sorted(asked.name for asked in level.queries)
        chain = [strategy.query(query) for query in level.estimation.chain]
        assert all(refines(fine, coarse) for coarse, fine in itertools.pairwise(chain))


def test_numbers_of_a_unit_are_those_of_production() -> None:
    persons = load_strategy("pl94-persons")
    assert [level.cells for level in persons.levels] == [2602, 2603, 2603, 2603, 2603, 2603]
    assert [level.cells for level in load_strategy("pl94-units").levels] == [2] * 6
    assert persons.levels[0].estimation.slack == 0
    assert [len(level.estimation.least_squares) for level in persons.levels] == [1, 2, 2, 2, 2, 1]
    two = persons.level("tract").estimation
    assert (two.least_squares[0].queries, two.least_squares[0].constrain) == (("total",), ("total",))
    assert (two.slack, two.rounding[0], two.chain[1:3]) == (Fraction(1, 100), ("total",), ("hhgq", "hhgq*hispanic"))


@pytest.mark.parametrize(
    ("name", "kept"), [("pl94-persons", Fraction(10934395, 16793603)), ("pl94-units", Fraction(204, 205))]
)
def test_a_state_of_its_own_keeps_the_noise_of_the_nation(name: str, kept: Fraction) -> None:
    nation, state = load_strategy(name), load_strategy(name, root="state")
    assert state.level_names == nation.level_names[1:]
    assert state.budget == nation.budget * kept
    for level in state.levels:
        for asked in level.queries:
            theirs = nation.level(level.name)
            expected = nation.budget * theirs.share * theirs.query(asked.name).share
            assert state.budget * level.share * asked.share == expected
    names = {asked.name for asked in nation.level("state").queries} - {a.name for a in state.levels[0].queries}
    assert names == ({"total"} if name == "pl94-persons" else set())
    assert state.levels[0].estimation == nation.levels[0].estimation


def test_a_state_of_its_own_can_spend_the_whole_budget() -> None:
    kept, whole = (load_strategy("pl94-persons", root="state", renormalise=choice) for choice in (False, True))
    assert whole.budget == load_strategy("pl94-persons").budget
    assert whole.levels == kept.levels
    assert load_strategy("pl94-persons", root="state", budget=whole.budget) == whole


def test_a_cut_below_the_level_of_an_invariant_loses_it_and_measures_the_total() -> None:
    text = PERSONS.replace('top = "state"\nestimation = "root"', 'top = "county"\nestimation = "total-first"')
    county = parse_strategies(text, "mine.toml")[0]["state"]
    assert [invariant.name for invariant in county.constraints.invariants] == ["units-and-facilities"]
    assert county.levels[0].queries[0].name == "total"


def test_another_budget_leaves_the_shares_and_changes_the_fingerprint() -> None:
    strategy = load_strategy("pl94-units")
    other = load_strategy("pl94-units", budget="1/2")
    assert (other.budget, other.levels) == (Fraction(1, 2), strategy.levels)
    assert other.fingerprint != strategy.fingerprint
    assert strategy.fingerprint == load_strategy("pl94-units").fingerprint
    with pytest.raises(ParameterError, match="floating-point"):
        load_strategy("pl94-units", budget=0.5)  # type: ignore[arg-type]


def test_one_file_of_ones_own_with_its_schema(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(UNITS.replace('id = "pl94-units"', 'id = "mine"'))
    strategy = load_strategy("mine.toml", tmp_path, root="pr")
    assert (strategy.id, strategy.schema.id, strategy.query("detailed").cells) == ("mine", "mine", 2)
    with pytest.raises(SpecError, match="no strategy of this name"):
        load_strategy("other.toml", tmp_path)
    (tmp_path / "bad.toml").write_text("id = \n")
    with pytest.raises(SpecError, match="the file is not TOML"):
        load_strategy("bad.toml", tmp_path)
    with pytest.raises(ParameterError, match="one of us, pr, state"):
        load_strategy("pl94-units", root="moon")


def test_refinement_is_nesting_of_cells() -> None:
    schema = load_schema("pl94-persons", Path())
    texts = ["total", "hhgq", "hhgq:residence", "cenrace:major", "hispanic", "hispanic*cenrace", "hhgq*cenrace:major"]
    for fine, coarse in itertools.product([*texts, "detailed"], repeat=2):
        one, other = resolve(schema, fine), resolve(schema, coarse)
        pairs = {(int(a), int(b)) for a, b in zip(groups_of(schema, one), groups_of(schema, other), strict=True)}
        assert refines(one, other) == (len(pairs) == one.cells), (fine, coarse)


def test_groups_of_a_query_add_up_as_the_marginal_does() -> None:
    schema = load_schema("pl94-persons", Path())
    histogram = np.arange(8 * 2 * 2 * 63).reshape(8, 2, 2, 63)
    for text, expected in {
        "total": histogram.sum(keepdims=True),
        "hispanic*cenrace": histogram.sum(axis=(0, 1)),
        "cenrace*hispanic": histogram.sum(axis=(0, 1)),
        "detailed": histogram,
        "hhgq:residence": np.array([histogram[:1].sum(), histogram[1:5].sum(), histogram[5:].sum()]),
    }.items():
        groups = groups_of(schema, resolve(schema, text))
        assert np.array_equal(np.bincount(groups, histogram.ravel()), expected.ravel()), text


def test_limits_and_zeros_of_the_persons() -> None:
    strategy = load_strategy("pl94-persons")
    constraints = strategy.constraints
    assert constraints.limited == ("hhgq",)
    assert constraints.frame_columns == ("housing_units", *(f"gq{kind}" for kind in range(1, 8)))
    frame = {name: np.array([0, 0]) for name in constraints.frame_columns}
    frame |= {"housing_units": np.array([10, 0]), "gq3": np.array([0, 2])}
    least, largest = constraints.limits("hhgq", 8, frame)
    assert least.tolist() == [[0] * 8, [0, 0, 0, 2, 0, 0, 0, 0]]
    assert largest.tolist() == [[999_990, *[0] * 7], [0, 0, 0, 199_998, 0, 0, 0, 0]]
    zero = constraints.zero_cells(strategy.schema).reshape(8, 2, 2, 63)
    assert zero[3, 0].all()
    assert zero.sum() == 126
    units = load_strategy("pl94-units").constraints
    assert [invariant.query for invariant in units.invariants] == ["total", None]
    assert not units.zero_cells(load_strategy("pl94-units").schema).any()


def test_a_group_without_an_upper_bound_has_none() -> None:
    text = PERSONS.replace('{ 0 = "housing_units", 1', "{ 1")
    constraints = parse_strategies(text, "mine.toml")[0]["us"].constraints
    frame = {name: np.array([1]) for name in constraints.frame_columns}
    assert constraints.limits("hhgq", 8, frame)[1][0, 0] == NO_LIMIT


def test_a_strategy_is_for_the_spine_it_names() -> None:
    strategy = load_strategy("pl94-persons", root="state")
    assert check_levels(strategy, ["state", "county", "tract", "block_group", "block"]) == []
    (finding,) = check_levels(strategy, ["state", "county", "block"])
    assert finding.found == "state > county > block"


def test_every_problem_of_form_is_found_at_once() -> None:
    found = refused(
        ('"104/4099"', "0.5"), ('id = "pl94-persons"', 'id = "PL 94"'), ('root = "us"', ""), ("title", "titel")
    )
    assert found == [
        ("bad-value", "id"),
        ("missing-key", "title"),
        ("missing-key", "root"),
        ("float-refused", "roots.us.shares[0]"),
        ("unknown-key", "titel"),
    ]


def test_every_problem_of_meaning_is_found_at_once() -> None:
    found = refused(('"104/4099"', '"105/4099"'), ('"52/4097"', '"53/4097"'), ('"689/4099"', '"688/4099"'))
    assert found == [
        ("share-sum", "roots.us.shares"),
        ("share-sum", "roots.us.queries"),
        ("share-sum", "roots.pr.shares"),
    ]


CHAIN = '"hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace"'
CASES = {
    "zero share": ('"52/4097"', '"0"', "not-positive", "roots.us.queries.cenrace[0]"),
    "unknown query": ('"hhgq:residence" ', '"hhgq:kind" ', "unknown-variable", "roots.us.queries.hhgq:kind"),
    "same query twice": (
        '"cenrace"   ',
        '"hhgq*votingage*hispanic*cenrace"',
        "repeated-query",
        "roots.us.queries.detailed",
    ),
    "not a chain": (CHAIN, f'"votingage", {CHAIN}', "not-a-chain", "estimation.root.rounding[0][2]"),
    "chain without cells": (
        ', "hhgq*votingage*hispanic*cenrace", "detailed"]',
        "]",
        "not-a-chain",
        "estimation.root.rounding",
    ),
    "chain across a bound": (
        '"hhgq", "hhgq*hispanic"',
        '"hispanic", "hhgq*hispanic"',
        "not-a-chain",
        "bounds[0].variable",
    ),
    "unknown in chain": ('"hhgq*hispanic",', '"hhgq*latino",', "unknown-variable", "estimation.root.rounding[0][2]"),
    "query in no pass": ('"cenrace", "hispanic",', '"cenrace",', "unused-measurement", "roots.us.estimation[0]"),
    "pass without query": (
        '"cenrace", "hispanic",',
        '"total", "cenrace", "hispanic",',
        "not-measured",
        "roots.us.estimation[0]",
    ),
    "kept too early": (
        'constrain = ["total"]',
        'constrain = ["hhgq"]',
        "not-estimated",
        "estimation.total-first.least_squares[0].constrain",
    ),
    "nothing kept": (
        '{ queries = ["total"], constrain = ["total"] }',
        '{ queries = ["total"] }',
        "unused-measurement",
        "estimation.total-first.least_squares[0].constrain",
    ),
    "unknown estimation": (
        '["root", "total-first"',
        '["roof", "total-first"',
        "unknown-estimation",
        "roots.us.estimation[0]",
    ),
    "short row": ('estimation = ["root", "total-first"', 'estimation = ["root"', "row-length", "roots.us.estimation"),
    "level twice": ('"county", "tract"', '"county", "county"', "repeated-level", "roots.us.levels"),
    "blocks not last": ('"block"]', '"blocks"]', "no-blocks", "roots.us.levels"),
    "invariant measured": (
        '["-",        "3773',
        '["1/2",        "3773',
        "invariant-measured",
        "roots.us.queries.total",
    ),
    "invariant level": ('level = "state"', 'level = "nation"', "unknown-level", "invariants[0].level"),
    "add-remove": ('"change-one"', '"add-remove"', "invariant-neighbours", "neighbours"),
    "pure": ('"zcdp"', '"pure"', "bad-value", "definition"),
    "unknown root": ('root = "us"', 'root = "eu"', "unknown-root", "root"),
    "unknown source": ('from = "us"', 'from = "eu"', "unknown-root", "derived.state.from"),
    "unknown top": ('top = "state"', 'top = "planet"', "unknown-level", "derived.state.top"),
    "cut with the wrong passes": (
        'estimation = "root"',
        'estimation = "at-once"',
        "not-measured",
        "derived.state.estimation",
    ),
    "two roots of a name": ("[derived.state]", "[derived.pr]", "repeated-root", "derived.pr"),
    "unknown schema": ('schema = "pl94-persons"', 'schema = "no"', "no-schema", "schema"),
    "bound on nothing": ('variable = "hhgq"', 'variable = "hh"', "unknown-variable", "bounds[0].variable"),
    "bound on no group": ('{ 1 = "gq1"', '{ 9 = "gq1"', "unknown-group", "bounds[0].frame.9"),
    "bounds that clash": ("per_unit = 1\n", "per_unit = 100000\n", "constraints-clash", "bounds"),
    "bound against zeros": ("hhgq = [3], votingage = [0]", "hhgq = [3]", "constraints-clash", "bounds"),
    "zeros of everybody": ("hhgq = [3], votingage = [0]", "votingage = [0, 1]", "constraints-clash", "zeros"),
    "zero of no attribute": ("votingage = [0]", "age = [0]", "unknown-attribute", "zeros[0].where.age"),
    "zero of no code": ("votingage = [0]", "votingage = [7]", "unknown-code", "zeros[0].where.votingage"),
    "two of a name": ('name = "hhgq-upper"', 'name = "hhgq-lower"', "repeated-name", "bounds"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_file_is_refused_at_its_place(case: str) -> None:
    old, new, code, path = CASES[case]
    assert (code, path) in refused((old, new))


def test_an_invariant_says_something_and_has_a_column_for_each_cell() -> None:
    assert refused(('query = "total"\nframe = ["housing_units"]\n', ""), text=UNITS) == [
        ("empty-invariant", "invariants[0]")
    ]
    assert refused(('frame = ["housing_units"]', 'frame = ["housing_units", "gq1"]'), text=UNITS) == [
        ("row-length", "invariants[0].frame")
    ]


def test_a_cut_that_leaves_nothing_to_measure_is_refused() -> None:
    nation = load_strategy("pl94-persons")
    us, state, *below = nation.levels
    only_total = replace(state, queries=(replace(state.query("total"), share=Fraction(1)),))
    with pytest.raises(ParameterError, match="cannot be the root"):
        cut(replace(nation, levels=(us, only_total, *below)), "state", "state", us.estimation)


def test_a_wrong_schema_in_the_file_is_found_inside_it() -> None:
    found = refused(('levels = [[0, "vacant"], [1, "occupied"]]', "levels = []"), text=UNITS)
    assert found[0][1] == "schema.attributes.h1"


def test_the_strategy_shown_on_its_page_can_be_used() -> None:
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "strategy.md").read_text(encoding="utf-8")
    strategies, default = parse_strategies(page.split("```toml\n")[1].split("```")[0], "farm-workers.toml")
    assert (list(strategies), default) == (["country", "district"], "country")
    assert strategies["district"].budget == Fraction(4, 5)
    assert strategies["district"].shares == {"district": Fraction(1, 2), "block": Fraction(1, 2)}
    assert str(load_strategy("pl94-persons", root="state").budget) in page
    assert str(load_strategy("pl94-units", root="state").budget) in page


def test_the_office_has_its_word_for_the_smallest_places() -> None:
    """The last level and the invariants of it are renamed, and nothing else."""
    strategy = load_strategy("pl94-persons", root="state")
    own = strategy.with_smallest("grid_cell")
    assert own.level_names == (*strategy.level_names[:-1], "grid_cell")
    assert [invariant.level for invariant in own.constraints.invariants] == ["state", "grid_cell"]
    assert own.with_smallest("block") == strategy
