"""Alternative and crossing hierarchies of one variable: recodes that cross, and what follows from both together."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy import linalg, optimize
from tests.kits.labelled import read_labelled

from confide import api
from confide.errors import ParameterError
from confide.lab.attacks import audit_suppression
from confide.lab.attacks.reconstruction import read_source, reconstruct
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, leaf_codes, of_attribute
from confide.mechanisms.suppression.structure import NOT_HERE, Dimension, TableDimensions, flat, link
from confide.mechanisms.suppression.suppress import suppress_tables, with_totals
from confide.schema import Attribute, Group, Level, Recode, Schema, identity

# Six municipalities, by county (a, b) and by size (small, large).
TOWNS = Dimension(
    "town",
    ("_T", "a", "b", "small", "large", "a1", "a2", "a3", "b1", "b2", "b3"),
    (-1, 0, 0, NOT_HERE, NOT_HERE, 1, 1, 1, 2, 2, 2),
    ((-1, NOT_HERE, NOT_HERE, 0, 0, 3, 3, 4, 3, 4, 4),),
)
SEX = flat("sex", ["f", "m"])


def bounds(matrix: np.ndarray, value: np.ndarray, hidden: np.ndarray, cell: int) -> tuple[float, float]:
    """The interval of a hidden cell by two plain linear programmes."""
    ranges = [(0, None) if h else (v, v) for v, h in zip(value.tolist(), hidden.tolist(), strict=True)]
    ends = []
    for sign in (1, -1):
        cost = np.zeros(len(value))
        cost[cell] = sign
        found = optimize.linprog(cost, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=ranges)
        ends.append(np.inf if found.status == 3 else sign * found.fun)
    return ends[0], ends[1]


def test_every_division_of_both_hierarchies_is_an_equation_and_each_once() -> None:
    linked = link([TableDimensions("t", (TOWNS, SEX)), TableDimensions("s", (SEX,))])
    # Of the total, two counties and two sizes: 2 + 2 + 2 divisions for three columns; and women and men for 11 rows.
    assert linked.structure.rows == 6 * 3 + 11
    assert linked.structure.cells == 33
    counts = with_totals([TOWNS, SEX], np.arange(12).reshape(6, 2))
    assert not (linked.structure.matrix[:, linked.numbers[0]] @ counts.reshape(-1)).any()
    assert (
        counts[TOWNS.codes.index("small")].tolist()
        == (
            counts[TOWNS.codes.index("a1")] + counts[TOWNS.codes.index("a2")] + counts[TOWNS.codes.index("b1")]
        ).tolist()
    )


def test_tables_of_one_hierarchy_must_still_divide_alike() -> None:
    other = flat("sex", ["f", "m", "x"])
    with pytest.raises(ParameterError) as caught:
        link([TableDimensions("a", (SEX,)), TableDimensions("b", (other,))])
    assert "divide a code differently" in str(caught.value)
    named = Dimension("sex", ("_T", "f", "m", "x"), (-1, 0, 0, 0), called=("other",))
    assert link([TableDimensions("a", (SEX,)), TableDimensions("b", (named,))]).structure.rows == 2


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
@pytest.mark.parametrize("method", ["optimal", "modular", "heuristic"])
def test_random_tables_with_two_hierarchies_are_safe_by_an_attacker_of_its_own(seed: int, method: str) -> None:
    rng = np.random.default_rng(seed)
    counts = with_totals([TOWNS, SEX], rng.poisson(4, (6, 2)))
    done = suppress_tables({"t": ([TOWNS, SEX], counts)}, maximum=3, method=method, singletons=False)
    hidden, value = ~done.published["t"].reshape(-1), counts.reshape(-1).astype(float)
    matrix = done.linked.structure.matrix.toarray()[:, done.linked.numbers[0]]
    for cell in np.flatnonzero((value > 0) & (value <= 3)).tolist():
        assert hidden[cell]
        low, high = bounds(matrix, value, hidden, cell)
        assert high >= 4 - 1e-6
        assert high - low >= 3 - 1e-6


def test_what_is_safe_by_county_is_known_by_size_and_the_structure_sees_it() -> None:
    """b1 and b2 hide each other within their county; b1 is the only hidden one among the small ones."""
    counts = with_totals([TOWNS], [8, 9, 8, 2, 9, 8]).astype(float)
    hidden = np.array([code in ("b1", "b2") for code in TOWNS.codes])
    both = suppress_tables({"t": ([TOWNS], counts.astype(int))}, singletons=False)
    matrix = both.linked.structure.matrix.toarray()[:, both.linked.numbers[0]]
    at = TOWNS.codes.index("b1")
    low, high = bounds(matrix, counts, hidden, at)
    assert (low, high) == (pytest.approx(2), pytest.approx(2))
    low, high = bounds(matrix, counts, ~both.published["t"], at)
    assert high - low >= 3 - 1e-6
    single = Dimension("town", TOWNS.codes[:3] + TOWNS.codes[5:], (-1, 0, 0, 1, 1, 1, 2, 2, 2))
    by_county = suppress_tables({"t": ([single], with_totals([single], [8, 9, 8, 2, 9, 8]))}, singletons=False)
    assert (~by_county.published["t"]).sum() == 2 < (~both.published["t"]).sum()


def completeness(
    programme: SuppressionProgramme, attributes: list[Attribute], recodes: dict[str, Recode]
) -> tuple[int, int]:
    """How many listed cells are independent for all records, and how many the structure leaves independent."""
    linked = programme.linked
    inner = list(product(*(range(attribute.size) for attribute in attributes)))
    order = {attribute.name: at for at, attribute in enumerate(attributes)}
    functions = np.zeros((linked.structure.cells, len(inner)))
    for table, numbers in zip(programme.tables, linked.numbers, strict=True):
        for axis_cells, number in zip(table.layout.places.tolist(), numbers.tolist(), strict=True):
            members = np.ones(len(inner), np.bool_)
            for variable, names, code in zip(table.variables, table.listed, axis_cells, strict=True):
                leaf = leaf_codes(variable, names, Schema("x", "", tuple(attributes), tuple(recodes.values())))
                kept = variable.kept(names)
                inside = [int(kept[code]) in variable.above[int(kept[at])] for at in leaf.tolist()]
                members &= np.array([inside[each[order[variable.name]]] for each in inner])
            functions[number] = members
    assert not (linked.structure.matrix @ functions).any()
    kernel = linalg.null_space(linked.structure.matrix.toarray())
    return np.linalg.matrix_rank(functions[linked.listed]), np.linalg.matrix_rank(kernel[linked.listed])


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))])
def test_every_relation_between_tables_with_crossing_recodes_is_in_the_structure(seed: int) -> None:
    """Three tables of random recodes of one attribute, with another attribute or without. The first has a relation that
    no two of its tables have: 1 | 23, 2 | 13 and 3 | 12 together count everybody."""
    rng = np.random.default_rng(seed)
    town = Attribute("town", "", tuple(Level(str(at), f"t{at}") for at in range(3 if not seed else 5)))
    sex, age = (Attribute(name, "", tuple(Level(c, f"{name} {c}") for c in "ab")) for name in ("sex", "age"))
    groups = [[0, 1, 1], [1, 0, 1], [1, 1, 0]] if not seed else rng.integers(0, 3, (4, 5)).tolist()
    recodes = {}
    for number, group in enumerate(groups):
        members = {g: tuple(str(at) for at, own in enumerate(group) if own == g) for g in sorted(set(group))}
        parts = tuple(Group(f"{number}{g}", codes) for g, codes in members.items())
        recodes[f"town:{number}"] = Recode(f"town:{number}", town, parts)
    names = [[f"town:{number}"] for number in range(3)]
    if seed:
        names = [sorted({f"town:{at}" for at in rng.integers(0, 4, 2)}) for _ in range(3)]
    used = {name: recodes[name] for each in names for name in each}
    variables = {
        "town": of_attribute(list(used.values()), names),
        "sex": of_attribute([identity(sex)]),
        "age": of_attribute([identity(age)]),
    }
    tables = tuple(
        HierarchicalTable(
            f"t{at}",
            "",
            (variables["town"], *((variables[other],) if other else ())),
            (tuple(each), *(((other,),) if other else ())),
        )
        for at, (each, other) in enumerate(zip(names, ("sex", "age", "" if seed % 2 else "sex"), strict=True))
    )
    truth, structure = completeness(SuppressionProgramme(variables, tables), [town, sex, age], recodes)
    assert truth == structure


SCHEMA = """
id = "towns"
provenance = "made up for tests"
[attributes.town]
title = "municipality"
levels = [["1", "a1"], ["2", "a2"], ["3", "a3"], ["4", "b1"], ["5", "b2"], ["6", "b3"]]
[attributes.town.recodes.county]
groups = { a = ["1", "2", "3"], b = ["4", "5", "6"] }
[attributes.town.recodes.size]
groups = { small = ["1", "2", "4"], large = ["3", "5", "6"] }
[attributes.sex]
title = "sex"
levels = [["f", "women"], ["m", "men"]]
"""
SPEC = """
[release]
name = "towns"
mechanism = "suppression"
[data]
records = "people.csv"
schema = "schema.toml"
{value}
[suppression]
{rule}
[[tables]]
name = "both"
variables = ["town:county", "town:size", {town}"sex"]
[[tables]]
name = "size"
variables = ["town:size"]
"""


def project(folder: Path, *, towns: bool, magnitude: bool = False) -> tuple[Path, list[dict[str, object]]]:
    rng = np.random.default_rng(8)
    number = 60
    rows = [
        {"town": t, "sex": s, "turnover": v}
        for t, s, v in zip(
            rng.choice(list("123456"), number, p=[0.3, 0.1, 0.2, 0.05, 0.25, 0.1]).tolist(),
            rng.choice(["f", "m"], number).tolist(),
            np.ceil(rng.pareto(1.2, number) * 50).astype(int).tolist(),
            strict=True,
        )
    ]
    pa.csv.write_csv(pa.Table.from_pylist(rows), folder / "people.csv")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(
        SPEC.format(
            value='value = "turnover"' if magnitude else "",
            rule="p = 20" if magnitude else "threshold = 3",
            town='"town", ' if towns else "",
        )
    )
    return folder / "spec.toml", rows


COUNTY = dict(zip("123456", "aaabbb", strict=True))
SIZE = {"1": "small", "2": "small", "4": "small", "3": "large", "5": "large", "6": "large"}
NAMES = dict(zip("123456", ["a1", "a2", "a3", "b1", "b2", "b3"], strict=True))


@pytest.mark.parametrize("towns", [True, False])
def test_a_spec_with_recodes_that_cross(tmp_path: Path, towns: bool) -> None:
    spec, people = project(tmp_path, towns=towns)
    assert not api.check(spec).findings
    release = api.run(spec).release
    assert api.verify(release).ok
    rows = read_labelled(release / "tables" / "both.parquet").to_pylist()
    labels = ["_T", "a", "b", "small", "large", *(NAMES.values() if towns else ())]
    assert [(row["town"], row["sex"]) for row in rows] == [(t, s) for t in labels for s in ("_T", "women", "men")]
    truth: Counter[tuple[str, str]] = Counter()
    for person in people:
        town, sex = str(person["town"]), {"f": "women", "m": "men"}[str(person["sex"])]
        groups = ["_T", COUNTY[town], SIZE[town], *([NAMES[town]] if towns else [])]
        truth.update((group, which) for group in groups for which in ("_T", sex))
    for row in rows:
        assert row["count"] in (None, truth[row["town"], row["sex"]])
        assert row["count"] is None or not 1 <= row["count"] <= 3
    by_size = {row["town"]: row["count"] for row in read_labelled(release / "tables" / "size.parquet").to_pylist()}
    assert {t: c for t, c in by_size.items() if t != "_T"} == {
        row["town"]: row["count"] for row in rows if row["town"] in ("small", "large") and row["sex"] == "_T"
    }
    found = api.evaluate(tmp_path / "towns").accuracy.reveal("a test")
    assert found["intervals"]["primary"]["cells"] == found["intervals"]["primary"]["protected"]
    published = read_source(release, tmp_path / "schema.toml")
    solved = reconstruct(published, processes=1, time_limit=20)
    assert solved.persons == len(people)
    question = json.loads((release / "manifest.json").read_text())["plan"]["question"]
    assert len(question["variables"]["town"]["others"]) == 1


def test_magnitudes_count_a_contributor_once_in_a_total_that_two_hierarchies_have(tmp_path: Path) -> None:
    spec, people = project(tmp_path, towns=True, magnitude=True)
    release = api.run(spec).release
    assert api.verify(release).ok
    rows = {(r["town"], r["sex"]): r["value"] for r in read_labelled(release / "tables" / "both.parquet").to_pylist()}
    values = sorted((int(str(person["turnover"])) for person in people), reverse=True)
    # The total is hidden only if it is sensitive itself: counted twice, one would stand for both largest.
    rest, first = sum(values) - values[0] - values[1], values[0]
    assert 5 * rest >= first
    assert rows["_T", "_T"] == sum(values)


def test_what_two_given_tables_with_crossing_codes_have_in_common_is_seen(tmp_path: Path) -> None:
    """One table has counties and the other sizes: the only small town is a county of its own, and so it is known."""
    (tmp_path / "counties.csv").write_text("town,count\n_T,10\na,2\nb,8\n")
    (tmp_path / "sizes.csv").write_text("town,count\n_T,10\nsmall,\nlarge,\n")
    (tmp_path / "table.toml").write_text(
        '[variables.town]\nparts = { a = ["a1"], b = ["b1", "b2"] }\nunlisted = ["a1", "b1", "b2"]\n'
        'also = { size = { small = ["a1"], large = ["b1", "b2"] } }\n'
        '[[tables]]\nfile = "counties.csv"\nhidden = 0\n[[tables]]\nfile = "sizes.csv"\n'
    )
    found = audit_suppression(tmp_path)
    assert found.as_dict()["disclosed"] == 2
