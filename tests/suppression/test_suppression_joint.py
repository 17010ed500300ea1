"""Linked tables count the same people: an attacker who knows that, by programmes that share no code with ours."""

from __future__ import annotations

import json
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from scipy.optimize import linprog
from tests.kits.joint_people import JointAttacker, Population, demonstration, narrow_cells, random_population
from tests.kits.times import mostly_slow
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import ParameterError
from confide.lab.attacks import audit_suppression
from confide.mechanisms import suppression
from confide.mechanisms.suppression import suppress_tables
from confide.mechanisms.suppression.attacker import Attacker
from confide.mechanisms.suppression.flows import NOTHING, FeasibleFlow, Search, whole_change
from confide.mechanisms.suppression.heuristic import Protection, protect
from confide.mechanisms.suppression.joint import joint_facts, joint_in_words, linked_people, people_behind, with_joint
from confide.mechanisms.suppression.output import _open
from confide.mechanisms.suppression.problem import threshold
from confide.mechanisms.suppression.structure import TableDimensions, flat, link, tree
from confide.mechanisms.suppression.suppress import joined, pose, solve, with_totals

HEURISTIC = import_module("confide.mechanisms.suppression.heuristic")
SETS, PARTS = 300, 30
AREAS = tree("area", {"_T": ["t1", "t2"], "t1": ["b1", "b2"], "t2": ["b3", "b4", "b5"]})
TRACTS = tree("area", {"_T": ["t1", "t2"]})
SIZES = {"a": 3, "b": 4, "c": 2, "d": 5, "e": 3}
FLAT = {name: flat(name, [f"{name}{code}" for code in range(size)]) for name, size in SIZES.items()}


def tables(*names: str, area=None):
    """Tables of variables with one letter each, with areas or without."""
    more = () if area is None else (area,)
    return [TableDimensions(name, (*more, *(FLAT[letter] for letter in name))) for name in names]


# --- which tables need a joint table ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "shapes"),
    [
        (["ab"], []),
        (["ab", "bc"], []),
        (["ab", "bc", "cd"], []),
        (["ab", "bc", "ac", "abc"], []),
        (["ab", "bc", "ac"], [(3, 4, 2)]),
        (["ab", "bc", "ac", "ad"], [(3, 4, 2)]),
        (["ab", "bc", "cd", "ad"], [(3, 4, 2, 5)]),
        (["ab", "bc", "ac", "cd", "de", "ce"], [(3, 4, 2), (2, 5, 3)]),
        (["abc", "abd", "acd"], [(3, 4, 2, 5)]),
    ],
)
def test_tables_that_meet_in_a_circle_have_a_joint_table_and_no_others(names, shapes) -> None:
    linked = linked_people(tables(*names))
    assert [table.shape for table in linked.joint] == shapes
    assert linked.beyond == ()
    assert not linked.listed[linked.own_cells :].any()


def test_areas_have_joint_tables_of_the_smallest_alone_and_as_far_down_as_tables_meet() -> None:
    everywhere = linked_people(tables("ab", "bc", "ac", area=AREAS))
    assert [table.shape for table in everywhere.joint] == [(5, 3, 4, 2)]
    # One table goes further down than the two that it makes a circle with: what is below tracts says nothing more.
    tracts = linked_people([*tables("ab", area=AREAS), *tables("bc", "ac", area=TRACTS)])
    assert [table.shape for table in tracts.joint] == [(2, 3, 4, 2)]


@pytest.mark.parametrize(
    "names", [("ab", "bc", "cd"), ("abc", "bd"), ("ab", "ac", "ae"), ("ab", "bc", "ac"), ("ab", "bc", "ce", "ae")]
)
def test_margins_that_agree_are_those_of_people_unless_tables_meet_in_a_circle(names) -> None:
    """At random corners of all figures that fit the sums: is there a table of people behind them? By programmes."""
    linked = link(tables(*names))
    letters = sorted(set("".join(names)))
    population = Population(
        {x: FLAT[x] for x in letters}, np.zeros([SIZES[x] for x in letters]), dict(zip(names, names, strict=True))
    )
    rng = np.random.default_rng(5)
    matrix, impossible = linked.structure.matrix, 0
    # Every code has its share of 120 people; all else is open.
    bounds: list = [(0, None)] * linked.structure.cells
    for layout, numbers in zip(linked.tables, linked.numbers, strict=True):
        for place, cell in zip(layout.places, numbers, strict=True):
            if (place > 0).sum() < 2:
                share = 120 / max([d.size - 1 for d, at in zip(layout.dimensions, place, strict=True) if at] or [1])
                bounds[cell] = (share, share)
    masks = {name: population.masks(name) for name in names}
    for _ in range(12):
        corner = linprog(
            rng.normal(size=linked.structure.cells), A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=bounds
        )
        rows = [masks[name].toarray() for name in names]
        sides = [corner.x[numbers] for numbers in linked.numbers]
        behind = linprog(np.zeros(rows[0].shape[1]), A_eq=np.vstack(rows), b_eq=np.concatenate(sides), bounds=(0, None))
        impossible += behind.status == 2
    assert bool(impossible) == bool(linked_people(tables(*names)).joint)


def test_what_is_too_large_is_named_and_looked_at_in_part() -> None:
    linked = link(tables("ab", "bc", "ac", area=AREAS))
    smaller = with_joint(linked, most=100)
    assert [table.shape for table in smaller.joint] == [(2, 3, 4, 2)]  # tracts in place of blocks
    assert smaller.beyond == (("ab", "bc", "ac"),)
    nothing = with_joint(link(tables("ab", "bc", "ac")), most=10)
    assert not nothing.joint
    assert nothing.structure.cells == nothing.own_cells
    (words,) = joint_in_words(joint_facts(nothing))
    assert words.startswith("Not taken into account in full: that the tables ab, bc, ac count the same people")
    assert with_joint(linked, together=24).joint[0].shape == (5, 3, 4, 2)
    assert with_joint(linked, together=23).joint == ()
    # Four tables of which three meet in a small circle.
    triples = with_joint(link(tables("abc", "abd", "acd", "bcd")), most=119)
    assert triples.beyond == (("abc", "abd", "acd", "bcd"),)


def test_tables_of_other_people_are_refused() -> None:
    people = np.zeros((3, 3, 3), np.int64)
    people[0, 0, 0] = people[1, 1, 1] = 4
    good = Population(
        {x: flat(x, ["0", "1", "2"]) for x in "abc"}, people, {"ab": ("a", "b"), "ac": ("a", "c"), "bc": ("b", "c")}
    )
    counted = good.counted
    bc = counted["bc"][1].copy()
    bc[1:3, 1:3] = [[0, 4], [4, 0]]
    linked = linked_people([TableDimensions(name, tuple(of)) for name, (of, _) in counted.items()])
    value = joined(linked, [counts if name != "bc" else bc for name, (_, counts) in counted.items()])
    with pytest.raises(ParameterError, match="count the same people"):
        people_behind(linked, value)


# --- patterns -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", mostly_slow(range(PARTS), 1))
def test_no_primary_cell_of_300_linked_sets_is_narrower_than_required(part: int) -> None:
    primary = 0
    for seed in range(part, SETS, PARTS):
        population = random_population(seed)
        zeros = ("secondary", "published", "primary")[seed % 3]
        method = ("heuristic", "modular", "heuristic", "optimal")[seed % 4]
        maximum = 2 + seed % 3
        done = suppress_tables(
            population.counted, maximum=maximum, zeros=zeros, method=method, singletons=seed % 2 == 0
        )
        assert narrow_cells(population, done.published, maximum, int(zeros == "published")) == []
        primary += int(done.problem.reveal("to test it").levels.primary.sum())
    assert primary


def test_the_tests_own_attacker_finds_what_sums_alone_do_not_protect() -> None:
    """The same sets, protected as if tables had nothing but sums in common: the bar above can be missed."""
    found = 0
    for seed in (21, 27):
        population = random_population(seed)
        linked = link([TableDimensions(name, tuple(of)) for name, (of, _) in population.counted.items()])
        value = joined(linked, [counts for _, counts in population.counted.values()])
        levels = threshold(value, 2 + seed % 3)
        posed = pose(linked, value, levels, zeros="secondary", weight="log", single=np.zeros(len(value), np.bool_))
        hidden = solve(posed, linked, method="heuristic").pattern.suppressed
        published = {t.name: ~hidden[n].reshape(t.shape) for t, n in zip(linked.tables, linked.numbers, strict=True)}
        found += len(narrow_cells(population, published, 2 + seed % 3))
    assert found


@pytest.mark.parametrize("seed", [8, 16])
def test_whoever_is_alone_in_a_cell_knows_no_other_one_by_the_people_behind_the_tables(seed: int) -> None:
    """A person knows the cells that they are alone in, and so that all other kinds of people in these are nobody."""
    population = random_population(seed)
    kinds = population.people.reshape(-1)
    layouts = [TableDimensions(name, tuple(of)) for name, (of, _) in population.counted.items()]
    linked = linked_people(layouts)
    value = joined(linked, [counts for _, counts in population.counted.values()], kinds)
    numbers = kinds * np.arange(len(kinds))
    who = joined(linked, [population.masks(layout.name).astype(np.int64) @ numbers for layout in layouts], numbers)
    posed = pose(linked, value, threshold(value, 2), zeros="secondary", weight="log", single=value == 1, who=who)
    hidden = protect(posed).suppressed
    published = {t.name: ~hidden[n].reshape(t.shape) for t, n in zip(layouts, linked.numbers, strict=True)}
    masks = {layout.name: population.masks(layout.name).toarray() for layout in layouts}
    persons = {int(np.flatnonzero(mask * kinds)[0]) for of in masks.values() for mask in of if mask @ kinds == 1}
    assert persons
    for person in sorted(persons):
        attacker = JointAttacker(population, published)
        own = [mask for of in masks.values() for mask in of if mask @ kinds == 1 and mask[person]]
        empty = np.logical_or.reduce([mask > 0 for mask in own])
        empty[person] = False
        known = np.vstack([*own, *np.eye(len(kinds))[empty]])
        attacker.equal = np.vstack([attacker.equal.toarray(), known])
        attacker.equal_to = np.append(attacker.equal_to, known @ kinds)
        for mask in (mask for of in masks.values() for mask in of if 0 < mask @ kinds <= 2):
            if not (mask @ kinds == 1 and mask[person]):
                low, high = attacker.interval(mask)
                assert high - low >= 1 - 1e-6


# --- 36 people ----------------------------------------------------------------------------------------------------


def write_tables(folder: Path, population: Population, published) -> None:
    for name, (dimensions, counts) in population.counted.items():
        lines = [",".join([*(d.name for d in dimensions), "count"])]
        for place in product(*(range(d.size) for d in dimensions)):
            codes = [d.codes[at] for d, at in zip(dimensions, place, strict=True)]
            lines.append(",".join([*codes, str(counts[place]) if published[name][place] else "x"]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    described = "".join(f"[variables.{name}]\n" for name in population.dimensions)
    described += "".join(f'[[tables]]\nfile = "{name}.csv"\n' for name in population.tables)
    (folder / "table.toml").write_text(described)


def test_the_audit_finds_a_cell_that_follows_because_tables_count_the_same_people(tmp_path: Path) -> None:
    population, pattern = demonstration()
    write_tables(tmp_path, population, pattern)
    found = audit_suppression(tmp_path)
    assert not found.ok
    known = [row for row in found.rows() if row["exact"]]
    assert {"a": "a1", "b": "b0"} in [row["cell"] for row in known]
    assert next(row["lower"] for row in known if row["cell"] == {"a": "a1", "b": "b0"}) == 1
    answer = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path), "--json"])
    assert answer.exit_code == 1
    said = json.loads(answer.stdout)
    assert said["joint"]["considered"][0]["tables"] == ["ab", "ac", "bc"]
    assert said["unlisted"] == 0
    # Figures that may be negative are not those of people: then sums are all there is.
    description = (tmp_path / "table.toml").read_text()
    (tmp_path / "table.toml").write_text(description + "[attacker]\nlow = -100\n")
    assert audit_suppression(tmp_path).ok


@pytest.mark.parametrize("method", ["optimal", "modular", "heuristic"])
def test_the_36_people_are_safe_in_every_way(method: str) -> None:
    population, pattern = demonstration()
    assert int(population.people.sum()) == 36
    assert [line.partition(":")[0] for line in narrow_cells(population, pattern, 3)] == ["ab 9"]
    done = suppress_tables(population.counted, method=method)
    assert narrow_cells(population, done.published, 3) == []


def test_the_36_people_from_records_to_a_verified_release(tmp_path: Path) -> None:
    population, pattern = demonstration()
    kinds = [
        codes
        for codes in product(*(range(size) for size in population.people.shape))
        for _ in range(population.people[codes])
    ]
    columns = {name: [f"{name}{codes[at]}" for codes in kinds] for at, name in enumerate("abc")}
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    schema = 'id = "three"\nprovenance = "made up for tests"\n'
    for name, size in zip("abc", population.people.shape, strict=True):
        levels = ", ".join(f'["{name}{code}", "{name}{code}"]' for code in range(size))
        schema += f'[attributes.{name}]\ntitle = "{name}"\nlevels = [{levels}]\n'
    (tmp_path / "schema.toml").write_text(schema)
    spec = '[release]\nname = "out"\nmechanism = "suppression"\ntitle = "t"\n[suppression]\nthreshold = 3\n'
    spec += '[data]\nrecords = "people.parquet"\nschema = "schema.toml"\n'
    spec += "".join(f'[[tables]]\nname = "{n}"\nvariables = ["{n[0]}", "{n[1]}"]\n' for n in population.tables)
    (tmp_path / "spec.toml").write_text(spec)
    api.run(tmp_path / "spec.toml")
    release = tmp_path / "out/release"
    published = {
        name: np.array(
            [row["status"] == "published" for row in pq.read_table(release / f"tables/{name}.parquet").to_pylist()]
        )
        for name in population.tables
    }
    assert narrow_cells(population, published, 3) == []
    assert api.verify(release).ok
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["plan"]["question"]["joint"]["considered"][0]["cells"] == 18
    assert "count the same people" in (release / "statement.html").read_text()
    assert audit_suppression(release).ok
    assert pattern


def test_what_is_enough_to_know_that_a_cell_is_open() -> None:
    low, high = np.array([1.0, 1.0, 0.3, 1.0, 0.0]), np.array([1.0, 3.0, 0.9, 4.0, 1.0])
    assert _open(low, high, threshold=3).tolist() == [False, False, False, True, True]
    assert _open(low, high, threshold=None).tolist() == [False, True, False, True, True]


def test_parts_of_a_published_zero_are_zero_only_where_nothing_can_be_negative() -> None:
    row = link([TableDimensions("row", (flat("sex", ["f", "m"]),))]).structure
    hidden, high = np.array([False, True, True]), np.full(3, np.inf)
    empty = Attacker(row, np.zeros(3), hidden, np.zeros(3), high).intervals()
    assert empty.high.tolist() == [0, 0, 0]
    assert empty.programmes == 0
    open_ = Attacker(row, np.zeros(3), hidden, np.full(3, -5.0), high).intervals()
    assert open_.low.tolist() == [0, -5, -5]
    assert open_.high.tolist() == [0, 5, 5]


# --- a pattern is always found ------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", ["secondary", "published", "primary"])
@pytest.mark.parametrize("seed", [0, 9, 14])
def test_where_no_movement_in_whole_numbers_is_found_people_of_one_kind_are_added(seed, zeros, monkeypatch) -> None:
    """As if every programme had fractions alone: patterns are dear then, and safe."""
    population = random_population(seed)
    monkeypatch.setattr(HEURISTIC, "cheapest", lambda *_, **__: Search(None, possible=True))
    done = suppress_tables(population.counted, maximum=3, zeros=zeros, method="heuristic", lower=0)
    assert narrow_cells(population, done.published, 3, int(zeros == "published")) == []


def test_people_are_taken_away_where_a_cell_must_be_able_to_fall(monkeypatch) -> None:
    population = random_population(2)
    monkeypatch.setattr(HEURISTIC, "cheapest", lambda *_, **__: Search(None, possible=True))
    done = suppress_tables(population.counted, maximum=3, method="heuristic", lower=2)
    attacker = JointAttacker(population, done.published)
    for name in population.tables:
        masks = population.masks(name).toarray()
        for mask in masks[(masks @ population.people.reshape(-1) > 0) & (masks @ population.people.reshape(-1) <= 3)]:
            count = mask @ population.people.reshape(-1)
            assert attacker.interval(mask)[0] <= max(0, count - 2) + 1e-6


def test_of_each_kind_no_more_people_are_taken_away_than_there_are() -> None:
    layout = TableDimensions("ab", (flat("a", ["a1", "a2"]), flat("b", ["b1", "b2"])))
    linked = link([layout])
    value = joined(linked, [with_totals(layout.dimensions, [[1, 1], [5, 6]])])
    none = np.zeros(len(value), np.bool_)
    posed = pose(linked, value, threshold(value, 3), zeros="secondary", weight="log", single=none)
    cell = int(linked.numbers[0].reshape(layout.shape)[1, 0])
    assert value[cell] == 2
    assert posed.kinds is not None
    flow = posed.kinds.movement(posed, cell, -2, none)
    assert flow is not None
    moved = np.zeros(len(value), np.int64)
    moved[flow.cells] = flow.by
    assert moved[cell] == -2
    assert (value + moved >= 0).all()
    assert not (linked.structure.matrix @ moved).any()
    assert posed.kinds.movement(posed, cell, -3, none) is None


def test_only_an_infeasible_programme_says_that_nothing_will_do(monkeypatch) -> None:
    population = random_population(0)
    layouts = [TableDimensions(name, tuple(of)) for name, (of, _) in population.counted.items()]
    linked = linked_people(layouts)
    value = joined(linked, [counts for _, counts in population.counted.values()], population.people.reshape(-1))
    none, every = np.zeros(len(value), np.bool_), np.ones(len(value), np.bool_)
    posed = pose(linked, value, threshold(value, 3), zeros="secondary", weight="log", single=none, keep=every)
    with pytest.raises(ParameterError) as caught:
        protect(posed)
    assert caught.value.findings[0].code == "cannot-protect"
    total = none.copy()
    total[linked.numbers[0][0]] = True
    posed = pose(linked, value, threshold(value, 3), zeros="secondary", weight="log", single=none, keep=total)
    monkeypatch.setattr(HEURISTIC, "cheapest", lambda *_, **__: Search(None, possible=True))
    with pytest.raises(ParameterError) as caught:
        protect(posed)
    assert caught.value.findings[0].code == "no-whole-pattern"
    monkeypatch.setattr(HEURISTIC, "cheapest", lambda *_, **__: NOTHING)
    with pytest.raises(ParameterError) as caught:
        protect(posed)
    assert caught.value.findings[0].code == "cannot-protect"


def test_a_movement_that_is_none_proves_nothing() -> None:
    population = random_population(0)
    done = suppress_tables(population.counted, maximum=3, method="heuristic")
    problem, hidden = done.problem.reveal("to test it"), done.pattern.suppressed
    kind = problem.kinds.movement(problem, int(np.flatnonzero(problem.levels.primary)[0]), 2, hidden)
    everything = np.ones_like(hidden)
    for cells, by, where, proved in (
        (kind.cells, kind.by, everything, True),
        (kind.cells[:-1], kind.by[:-1], everything, False),  # does not add up
        (kind.cells, -1_000 * kind.by, everything, False),  # fewer people than none
        (kind.cells, kind.by, problem.begun, False),  # a published cell moves
    ):
        protection = Protection(problem, where)
        protection.flows._found[0] = FeasibleFlow(cells, by)
        assert protection.flows.prove(where) is proved


def test_no_limit_is_one_of_time() -> None:
    for file in Path(suppression.__file__).parent.glob("*.py"):
        assert not {"time_limit", "monotonic", "perf_counter", "seconds="} & set(
            file.read_text().replace("(", " ").split()
        ), file


def test_fractions_alone_are_not_called_impossible() -> None:
    """An odd circle: the only solution is a half of each, and no whole number."""
    matrix = sparse.csc_array(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]]))
    change, possible = whole_change(matrix, np.ones(3), np.zeros(3, np.int64), np.ones(3))
    assert change is None
    assert possible
    assert whole_change(matrix, -np.ones(3), np.zeros(3, np.int64), np.ones(3)) == (None, False)


def test_whoever_is_alone_is_known_to_be_by_the_kinds_of_people() -> None:
    """Who is alone in a listed cell knows their own kind; who is merely the only one of a kind does not."""
    people = np.full((2, 2, 2), 3)
    people[0, 0] = [1, 0]
    people[1, 1, 1] = 1
    population = Population(
        {x: flat(x, ["0", "1"]) for x in "abc"}, people, {"ab": ("a", "b"), "ac": ("a", "c"), "bc": ("b", "c")}
    )
    linked = linked_people([TableDimensions(name, tuple(of)) for name, (of, _) in population.counted.items()])
    kinds = people.reshape(-1)
    value = joined(linked, [counts for _, counts in population.counted.values()], kinds)
    numbers = kinds * np.arange(8)
    who = joined(linked, [population.masks(t.name).astype(np.int64) @ numbers for t in linked.tables], numbers)
    levels = threshold(value, 2)
    for known in (who, None):
        posed = pose(linked, value, levels, zeros="secondary", weight="log", single=value == 1, who=known)
        # (a0, b0) is one person, of the kind (a0, b0, c0); without records (a0, b0, c1) could be as well.
        assert posed.single[linked.own_cells :].tolist() == [known is not None] + [False] * 7
