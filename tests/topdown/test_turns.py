"""Passes and rounding in turns: what a pass keeps is whole and exact from then on."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from benchmarks import turns
from tests.kits.descent import COLUMNS, ENDLESS, lay_out, released, run, sql

import confide
from confide.errors import SpecError
from confide.estimation import InfeasibleError, MeasuredQuery
from confide.mechanisms.topdown.node import EstimationNode, Limits, NodeRules, estimate
from confide.mechanisms.topdown.strategy import CellGroups, Pass, groups_of, held_together, resolve
from confide.mechanisms.topdown.strategy_file import parse_strategies
from confide.releases.run import RunResult

PERSONS = files("confide").joinpath("data", "strategies", "pl94-persons.toml").read_text(encoding="utf-8")
TURNS = PERSONS.replace('slack = "1/100"\n', "")
"""The strategy of 2020 with totals that are made whole before anything else is estimated."""
LAST = """    "votingage*hispanic", "votingage*hispanic*cenrace", "detailed",
  ] },
]
rounding = [
  ["total"],
  ["hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace", "hhgq*votingage*hispanic*cenrace", "detailed"],
]
"""
THREE = TURNS.replace(
    LAST,
    """    "votingage*hispanic"], constrain = ["hhgq"] },
  { queries = ["votingage*hispanic*cenrace", "detailed"] },
]
rounding = [
  ["total"],
  ["hhgq"],
  ["hhgq*hispanic", "hhgq*hispanic*cenrace", "hhgq*votingage*hispanic*cenrace", "detailed"],
]
""",
)


def run_own(folder: Path, people: Path, text: str, **settings: object) -> RunResult:
    folder.mkdir(exist_ok=True)
    spec = lay_out(folder, people, **settings)  # type: ignore[arg-type]
    (folder / "own.toml").write_text(text, encoding="utf-8")
    spec.write_text(spec.read_text().replace('strategy = "pl94-persons"', 'strategy = "own.toml"'))
    return run(spec)


def outcomes(result: RunResult) -> dict[str, int]:
    manifest = json.loads((result.release / "manifest.json").read_text(encoding="utf-8"))
    return dict(manifest["statistics"]["whole"]["least_squares"])


@pytest.mark.parametrize("text", [TURNS, THREE], ids=["two passes", "three passes"])
def test_with_an_endless_budget_the_output_is_the_input(tmp_path: Path, people: Path, text: str) -> None:
    result = run_own(tmp_path, people, text, budget=ENDLESS)
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    for one, other in ((truth, released(result)), (released(result), truth)):
        assert sql(f"SELECT {COLUMNS} FROM {one} EXCEPT ALL SELECT {COLUMNS} FROM {other}") == []


def test_a_release_of_three_passes_keeps_every_promise(tmp_path: Path, people: Path) -> None:
    assert THREE != TURNS != PERSONS
    result = run_own(tmp_path, people, THREE)
    assert confide.verify(result.release).ok
    # The last pass is full tables, whose limits the types of quarters have kept before.
    assert outcomes(result)["dual newton"] > 0
    assert outcomes(result)["inexact"] == 0


def test_the_method_for_full_tables_is_named_where_it_was_used(tmp_path: Path, people: Path) -> None:
    assert "dual newton" not in outcomes(run_own(tmp_path, people, PERSONS))


# One node, by hand.


CELLS, CHILDREN = 24, 4
AT = np.arange(CELLS)
GROUPS = {"total": AT * 0, "kind": AT // 8, "part": AT % 4, "kind*part": AT // 8 * 4 + AT % 4, "detailed": AT}


def rules(passes: tuple[Pass, ...], rounding: tuple[tuple[str, ...], ...]) -> NodeRules:
    return NodeRules(
        passes, 0.0, rounding, GROUPS, frozenset({"detailed"}), GROUPS, np.zeros(CELLS, np.bool_), interleaved=True
    )


def node_of(seed: int, noise: float, limits: dict[str, Limits] | None = None) -> tuple[EstimationNode, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.poisson(rng.choice([0.3, 3.0, 40.0], (CELLS, 1)), (CELLS, CHILDREN))
    parent = truth.sum(axis=1)
    support = np.flatnonzero(parent)
    measured = []
    for name, groups in GROUPS.items():
        present, local = np.unique(groups[support], return_inverse=True)
        sums = np.zeros((len(present), CHILDREN))
        np.add.at(sums, local, truth[support])
        values = sums + np.rint(rng.normal(0, noise, sums.shape))
        measured.append(MeasuredQuery(name, local.reshape(-1), values, np.full(CHILDREN, 1 / max(noise, 0.1) ** 2)))
    return EstimationNode(support, parent[support], tuple(measured), limits or {}, CHILDREN), truth[support]


TWO = rules(
    (Pass(("total", "kind", "part"), ("kind",)), Pass(("kind*part", "detailed"))), (("total", "kind"), ("detailed",))
)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_pass_keeps_does_not_depend_on_what_is_measured_later(seed: int) -> None:
    """Other measurements of the second pass change cells, and no count that the first pass has made whole."""
    node, _ = node_of(seed, 5.0)
    loud = tuple(
        query
        if query.name in ("total", "kind", "part")
        else MeasuredQuery(query.name, query.groups, query.measured[::-1] * 3 + 7, query.weights)
        for query in node.measured
    )
    other = EstimationNode(node.support, node.parent, loud, {}, CHILDREN)
    one, two = estimate(node, TWO)[0], estimate(other, TWO)[0]
    assert (one != two).any()
    for counts in (one, two):
        assert np.array_equal(counts.sum(axis=1), node.parent)
        assert counts.min() >= 0
    kinds = GROUPS["kind"][node.support]
    for kind in range(3):
        assert np.array_equal(one[kinds == kind].sum(axis=0), two[kinds == kind].sum(axis=0))


def test_crossing_answers_are_kept_together() -> None:
    """Two crossing queries of a pass: what they tell apart together is whole, and so is each of them."""
    crossing = rules(
        (Pass(("total", "kind", "part"), ("kind", "part")), Pass(("detailed",))),
        (("total", "kind*part"), ("detailed",)),
    )
    node, _ = node_of(3, 4.0)
    counts, tally = estimate(node, crossing)
    assert np.array_equal(counts.sum(axis=1), node.parent)
    assert tally.outcomes == {"dual newton": 2}


@pytest.mark.parametrize("seed", range(10))
def test_limits_are_kept_until_what_is_held_refines_them(seed: int) -> None:
    """Totals are made whole first; the limits of kinds hold in the cells all the same, and kinds are not decided by the
    pass that looks at totals alone."""
    first = rules(
        (Pass(("total",), ("total",)), Pass(("kind", "part", "detailed"))), (("total",), ("kind", "detailed"))
    )
    node, truth = node_of(seed, 3.0)
    kinds = GROUPS["kind"][node.support]
    true = np.zeros((3, CHILDREN), np.int64)
    np.add.at(true, kinds, truth)
    limited = EstimationNode(
        node.support, node.parent, node.measured, {"kind": Limits(np.maximum(true - 1, 0), true + 1)}, CHILDREN
    )
    counts, _ = estimate(limited, first)
    sums = np.zeros((3, CHILDREN), np.int64)
    np.add.at(sums, kinds, counts)
    assert (np.abs(sums - true) <= 1).all()
    assert np.array_equal(counts.sum(axis=1), node.parent)


@pytest.mark.parametrize("seed", range(4))
def test_an_estimate_that_breaks_limits_is_not_taken_for_one_that_keeps_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where limits bind, the estimate is that of the methods for any constraints, and the manifest names these."""
    node, truth = node_of(seed, 8.0)
    true = np.zeros((3, CHILDREN), np.int64)
    np.add.at(true, GROUPS["kind"][node.support], truth)
    limited = replace(node, limits={"kind": Limits(true, true)})
    counts, tally = estimate(limited, TWO)
    monkeypatch.setattr("confide.mechanisms.topdown.node._without_limits", lambda *_: None)
    general, named = estimate(limited, TWO)
    assert np.array_equal(counts, general)
    assert tally.outcomes == named.outcomes


@pytest.mark.parametrize("seed", range(6))
def test_limits_that_do_not_bind_are_full_tables_without_what_is_impossible(seed: int) -> None:
    node, truth = node_of(seed, 3.0)
    kinds = GROUPS["kind"][node.support]
    there = np.zeros((3, CHILDREN), np.int64)
    np.add.at(there, kinds, truth)
    there[:, 0] = there[:, 0] > 0
    # The first child has nobody of the first kind, and one of the others may have all of them.
    there[0, 0] = 0
    wide = Limits(np.zeros_like(there), np.where(there > 0, 10**6, 0))
    counts, tally = estimate(replace(node, limits={"kind": wide}), TWO)
    assert set(tally.outcomes) <= {"dual newton", "forced"}
    assert np.array_equal(counts.sum(axis=1), node.parent)
    for kind, child in np.argwhere(there == 0):
        assert not counts[kinds == kind, child].any()


@pytest.mark.parametrize("seed", range(8))
def test_counts_that_another_release_has_given_are_kept_exactly(seed: int) -> None:
    """They are held before the first pass: in every child, and at a root, where they say who there can be."""
    node, truth = node_of(seed, 6.0)
    kinds = GROUPS["kind"][node.support]
    numbers, local = np.unique(kinds, return_inverse=True)
    given = np.zeros((len(numbers), CHILDREN), np.int64)
    np.add.at(given, local.reshape(-1), truth)
    within = replace(TWO, given=GROUPS["kind"])
    counts, tally = estimate(replace(node, given=(numbers, given)), within)
    sums = np.zeros_like(given)
    np.add.at(sums, local.reshape(-1), counts)
    assert np.array_equal(sums, given)
    assert np.array_equal(counts.sum(axis=1), node.parent)
    assert tally.outcomes.get("inexact", 0) == 0
    # A root, with nobody of the first kind.
    first = tuple(replace(query, measured=query.measured[:, :1], weights=query.weights[:1]) for query in node.measured)
    root = EstimationNode(node.support, None, first, {}, 1, given=(numbers[1:], given[1:, :1]))
    counts, _ = estimate(root, within)
    assert not counts[kinds == numbers[0]].any()
    assert [counts[kinds == kind].sum() for kind in numbers[1:]] == given[1:, 0].tolist()


def test_people_whom_no_cell_can_hold_are_named() -> None:
    node, _ = node_of(1, 1.0)
    given = (np.array([0, 1, 2, 7]), np.ones((4, CHILDREN), np.int64))
    with pytest.raises(InfeasibleError, match="given group 3"):
        estimate(replace(node, given=given), replace(TWO, given=GROUPS["kind"]))


@pytest.mark.parametrize("case", turns.CASES, ids=["crossing", "marginals", "wide"])
def test_crossing_answers_and_marginals_take_as_long_as_totals_first(case: turns.Case, tmp_path: Path) -> None:
    """Strategies that took minutes, or never ended, with answers kept within a slack."""
    node, _ = node_of(1, 2.0)
    estimate(node, TWO)  # compiled before the clock runs
    own, slack = (turns.seconds(case, 2_000, tmp_path / str(way), in_turns=way) for way in (True, False))
    assert own <= 3 * slack + 0.5


# Queries as functions of codes.


def test_the_group_of_a_cell_is_a_function_of_its_codes() -> None:
    schema = parse_strategies(PERSONS, "mine.toml")[0]["us"].schema
    shape = tuple(attribute.size for attribute in schema.attributes)
    names = [attribute.name for attribute in schema.attributes]
    codes = dict(zip(names, np.indices(shape).reshape(len(shape), -1), strict=True))
    cells = np.random.default_rng(1).integers(0, np.prod(shape), 500)
    for text in ("cenrace*hhgq:residence", "votingage*hispanic", "hispanic*votingage", "detailed", "total"):
        query = resolve(schema, text)
        expected = np.zeros(len(cells), np.int64)
        for name in names:  # in the order of the schema
            for variable in (v for v in query.variables if v.attribute.name == name):
                expected = expected * variable.size + variable.assignment[codes[name][cells]]
        groups = CellGroups(schema, query)
        assert np.array_equal(groups[cells], expected)
        assert np.array_equal(groups_of(schema, query)[cells], expected)
        # Without a table of the size of the histogram it is the same.
        groups._table = None
        assert np.array_equal(groups[cells], expected)
        assert (groups.max() + 1, len(groups)) == (query.cells, len(codes[names[0]]))


# Strategy files.


def refused(*changes: tuple[str, str]) -> list[tuple[str, str | None]]:
    text = THREE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(SpecError) as error:
        parse_strategies(text, "mine.toml")
    return [(finding.code, finding.where.path) for finding in error.value.findings]


def test_wrong_turns_are_refused_at_their_place() -> None:
    at = "estimation.total-first"
    assert ("bad-turns", f"{at}.rounding") in refused(('  ["total"],\n  ["hhgq"],\n', '  ["total", "hhgq"],\n'))
    assert ("bad-turns", f"{at}.rounding[1][1]") in refused(('  ["hhgq"],\n', '  ["hhgq", "hhgq*hispanic"],\n'))
    assert ("bad-turns", "evidence") in refused(
        ('neighbours = "change-one"', 'neighbours = "change-one"\nevidence = "tree"')
    )
    assert ("not-a-chain", f"{at}.rounding[2][1]") in refused(
        ('  ["hhgq"],\n  ["hhgq*hispanic", "hhgq*hispanic*cenrace"', '  ["hhgq"],\n  ["hhgq*hispanic", "hhgq*cenrace"')
    )
    # A list is compared inside what is held: it need not begin with it.
    parse_strategies(
        THREE.replace('["hhgq*hispanic", "hhgq*hispanic*cenrace"', '["hispanic", "hispanic*cenrace"'), "mine.toml"
    )


def test_crossing_answers_are_told() -> None:
    plain = parse_strategies(THREE, "mine.toml")[0]["us"]
    assert [*held_together(plain)] == []
    text = THREE.replace('constrain = ["hhgq"]', 'constrain = ["hhgq", "hispanic*cenrace"]')
    (finding,) = held_together(parse_strategies(text, "mine.toml")[0]["us"])
    assert (finding.code, finding.severity) == ("held-together", "warning")
    assert "hhgq, hispanic*cenrace" in finding.what
    # With a slack, answers are kept one by one.
    slack = text.replace("[estimation.total-first]", '[estimation.total-first]\nslack = "1/100"')
    assert [*held_together(parse_strategies(slack, "mine.toml")[0]["us"])] == []
