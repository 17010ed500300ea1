"""Bad input of a TopDown release: each kind is refused with its place and a remedy, and nothing is spent or shown."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.bad_input import Bad, assert_refused, both, confide, entries, removed, spec
from tests.kits.canary import leaks
from tests.kits.topdown import COUNTED, KEY, LEVELS, QUARTERS, write_small_state, write_spec

from confide.documents import FOLDER
from confide.engines import LocalEngine
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.releases.spec import load_spec

Change = Callable[[Path], object]
CANARY = 731_937
"""A confidential number that no message may show."""
NOWHERE = "907319371937123"
"""A confidential block code that no message may show."""

AREAS = """areas = [
  { name = "place", column = "place", none = "99999", within = "state", optional = true },
  { name = "cousub", column = "cousub", within = "county" },
]"""


@pytest.fixture(scope="session")
def hamlet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_state(tmp_path_factory.mktemp("hamlet"), 300, 4)


@pytest.fixture
def project(tmp_path: Path, hamlet: Path) -> Path:
    return make(tmp_path, hamlet)


def make(folder: Path, hamlet: Path, *, units: bool = False) -> Path:
    """A project with nothing wrong; of units, their counts are in a file of their own."""
    shutil.copy(hamlet / "blocks.parquet", folder)
    if units:
        table = pq.read_table(hamlet / "blocks.parquet", columns=["geocode", "housing_units", "occupied_units"])
        pq.write_table(table, folder / "units.parquet")
        write_spec(folder, product="pl94-units", records="units.parquet", data=COUNTED, areas=AREAS)
    else:
        shutil.copy(hamlet / "persons.parquet", folder)
        write_spec(folder, areas=AREAS)
    return folder


def column(file: str, name: str, change: Callable[[list[Any]], list[Any]] | None) -> Change:
    """A column of a file with other values; None takes it away."""

    def changed(project: Path) -> None:
        table = pq.read_table(project / file)
        position = table.column_names.index(name)
        if change is None:
            table = table.drop_columns([name])
        else:
            values = change(table.column(name).to_pylist())
            table = table.set_column(position, name, pa.array(values))
        pq.write_table(table, project / file)

    return changed


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


def everywhere(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value] * len(values)


def own_strategy(old: str, new: str, product: str = "pl94-persons") -> Change:
    """The shipped strategy as a file of the user's own, with one thing changed."""

    def changed(project: Path) -> None:
        text = (FOLDER / "strategies" / f"{product}.toml").read_text()
        assert old in text, old
        (project / "own.toml").write_text(text.replace(old, new))
        spec(f'strategy = "{product}"', 'strategy = "own.toml"')(project)

    return changed


def twice(project: Path) -> None:
    table = pq.read_table(project / "units.parquet")
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), project / "units.parquet")


def uninhabitable(project: Path) -> None:
    """The block of the first record has no unit."""
    home = pq.read_table(project / "persons.parquet").column("geocode")[0].as_py()
    place = pq.read_table(project / "blocks.parquet").column("geocode").to_pylist().index(home)
    for name in ["housing_units", *QUARTERS]:
        column("blocks.parquet", name, lambda values: [*values[:place], 0, *values[place + 1 :]])(project)


LOWER = 'side = "lower"\nper_unit = 1\n'
UPPER = 'side = "upper"\nper_unit = 99999\n'
TOTAL = 'level = "state"\nquery = "total"'
ZERO = "where = { hhgq = [3], votingage = [0] }"
OWN = r"own\.toml, line \d+, path "

SPECS = [
    Bad(
        "a level left out", spec('{ name = "tract", digits = 11 }, ', ""), "strategy-levels", r"path geography\.levels"
    ),
    Bad(
        "levels in another order",
        both(
            spec('"county", digits = 5', '"tract", digits = 5'), spec('"tract", digits = 11', '"county", digits = 11')
        ),
        "strategy-levels",
        r"path geography\.levels",
    ),
    Bad("no levels", both(spec(LEVELS, ""), spec(AREAS, "")), "spine-levels", r"path geography"),
    Bad("a level too many", spec("levels = [", 'levels = [{ name = "us", digits = 0 }, '), "strategy-levels", "levels"),
    Bad("an unknown root", spec('root = "state"', 'root = "county"'), "unknown-root", r"path topdown\.", remedy="root"),
    Bad("an unknown strategy", spec('"pl94-persons"', '"pl94-people"'), "no-strategy", r"path topdown\.strategy"),
    Bad("no strategy", spec('strategy = "pl94-persons"', ""), "missing-key", r"path topdown"),
    Bad("another kind of spine", spec('"optimised"', '"best"'), "bad-value", r"path topdown\.spine"),
    Bad(
        "a budget that is a float",
        spec('budget = "3212131612780/1929937650363"', "budget = 1.66"),
        "float-refused",
        r"path privacy\.budget",
        "1.66",
    ),
    Bad(
        "a pure budget",
        spec("[topdown]", 'definition = "pure"\n[topdown]'),
        "topdown-definition",
        r"path privacy\.definition",
        "pure",
    ),
    Bad(
        "neighbours that come and go",
        spec("[topdown]", 'neighbours = "add-remove"\n[topdown]'),
        "topdown-definition",
        r"path privacy\.neighbours",
        "add-remove",
    ),
    Bad("an unknown table", spec("[output]", '[output]\ntables = ["p9"]'), "unknown-table", r"output\.tables", "p9"),
    Bad("an unknown microdata", spec("[output]", '[output]\nmicrodata = ["mdx"]'), "bad-value", r"output\.microdata"),
    Bad("no records", spec("[output]", '[output]\nmicrodata = ["mdf"]'), "no-records", r"output\.microdata", "mdf"),
    Bad("an unknown layout", spec("[output]", '[output]\nlayout = "mine"'), "no-layout", r"output\.layout", "mine"),
    Bad(
        "an unknown level of tables",
        spec("[output]", '[output]\ntable_levels = ["state", "district"]'),
        "unknown-level",
        r"output\.table_levels",
        "district",
    ),
    Bad("an area in no level", spec('within = "county"', 'within = "parish"'), "unknown-level", "areas", "parish"),
    Bad("a level's name twice", spec('name = "cousub"', 'name = "tract"'), "duplicate-level", "areas", "tract"),
    Bad(
        "an unknown presence",
        spec("[geography]", 'presence = ["gq9"]\n[geography]'),
        "unknown-column",
        "presence",
        "gq9",
    ),
    Bad(
        "kinds that are not the schema's",
        spec("[geography]", f"{COUNTED}\n[geography]"),
        "counted-kind",
        r"data\.counted",
    ),
]

STRATEGIES = [
    Bad(
        "bounds that clash",
        own_strategy(LOWER, LOWER.replace("1", "100000")),
        "constraints-clash",
        OWN + "bounds",
    ),
    Bad(
        "a facility where everybody is forbidden",
        own_strategy(ZERO, "where = { hhgq = [3] }"),
        "constraints-clash",
        OWN,
    ),
    Bad(
        "an invariant that is not the total",
        own_strategy(TOTAL, 'level = "state"\nquery = "hispanic"'),
        "invariant-query",
        OWN + r"invariants\[?\.?0",
    ),
    Bad(
        "an invariant on a made level",
        own_strategy(TOTAL, 'level = "block_group"\nquery = "total"'),
        "invariant-level",
        r"spec\.toml, line \d+, path topdown\.strategy",
        remedy="plain",
    ),
    Bad("an invariant of nothing", own_strategy(TOTAL, 'level = "state"'), "empty-invariant", OWN),
    Bad(
        "an invariant where records come and go",
        own_strategy('neighbours = "change-one"', 'neighbours = "add-remove"'),
        "invariant-neighbours",
        OWN + "neighbours",
    ),
    Bad("shares that are not one", own_strategy('"104/4099"', '"105/4099"'), "share-sum", OWN + r"roots\.us\.shares"),
    Bad("a share that is a float", own_strategy('"104/4099"', "0.0254"), "float-refused", OWN + r"roots\.us\.shares"),
    Bad("an unknown variable", own_strategy('"hhgq:residence"', '"hhgq:resident"'), "unknown-variable", OWN),
    Bad("an unknown group", own_strategy('1 = "gq1"', '9 = "gq1"'), "unknown-group", OWN + "bounds"),
    Bad("an unknown code", own_strategy(ZERO, "where = { hhgq = [9] }"), "unknown-code", OWN + "zeros"),
    Bad(
        "rounding that is no chain",
        own_strategy('["total"],\n  ["hhgq", "hhgq*hispanic"', '["total"],\n  ["hhgq", "votingage"'),
        "not-a-chain",
        OWN + r"estimation\.total-first",
    ),
    Bad(
        "a strategy of another form",
        own_strategy("[derived.state]", "[derived.state"),
        "bad-strategy",
        r"own\.toml, line \d+",
    ),
]

PEOPLE = "persons.parquet"
FRAME = [
    Bad("no units in the frame", column("blocks.parquet", "housing_units", None), "missing-column", "housing_units"),
    Bad("less than no unit", column("blocks.parquet", "gq3", first(-1)), "bad-count", r"row 1, column gq3"),
    Bad("half a unit", column("blocks.parquet", "gq3", lambda n: [v + 0.5 for v in n]), "bad-count", r"column gq3"),
    Bad("no column for an area", column("blocks.parquet", "cousub", None), "missing-column", r"column cousub"),
    Bad(
        "a block that must have more than it may",
        both(
            own_strategy(
                UPPER + 'frame = { 0 = "housing_units", 1 = "gq1"', UPPER + 'frame = { 0 = "housing_units", 1 = "gq2"'
            ),
            column("blocks.parquet", "gq1", first(2)),
            column("blocks.parquet", "gq2", first(0)),
        ),
        "constraints-clash",
        r"blocks\.parquet, row 1",
    ),
    Bad(
        "more facilities than people",
        column("blocks.parquet", "gq5", first(CANARY)),
        "constraints-clash",
        r"persons\.parquet",
        remedy="loosen",
    ),
    Bad(
        "more people than there is room for",
        own_strategy(UPPER, UPPER.replace("99999", "1")),
        "constraints-clash",
        r"persons\.parquet",
    ),
    Bad("people where nobody can live", uninhabitable, "bad-record", r"persons\.parquet, row 1, column geocode"),
    Bad(
        "nowhere to live at all",
        both(*(column("blocks.parquet", name, everywhere(0)) for name in ["housing_units", *QUARTERS])),
        "no-units",
        r"blocks\.parquet",
    ),
    Bad("a record in no block", column(PEOPLE, "geocode", first(NOWHERE)), "bad-record", r"row 1, column geocode"),
    Bad("a record of no race", column(PEOPLE, "cenrace", first(CANARY)), "bad-record", r"row 1, column cenrace"),
    Bad("a record without an age", column(PEOPLE, "votingage", first(None)), "bad-record", r"row 1, column votingage"),
    Bad("records without a race", column(PEOPLE, "cenrace", None), "missing-column", r"column cenrace"),
    Bad("no records at all", removed(PEOPLE), "no-such-file", r"path data\.records"),
]

COUNTS = "units.parquet"
UNITS = [
    Bad("no counts", column(COUNTS, "occupied_units", None), "missing-column", r"column occupied_units"),
    Bad(
        "a count below zero", column(COUNTS, "occupied_units", first(-CANARY)), "bad-record", r"row 1, column occupied"
    ),
    Bad("no count", column(COUNTS, "occupied_units", first(None)), "bad-record", r"row 1, column occupied_units"),
    Bad(
        "more occupied than there are",
        column(COUNTS, "occupied_units", first(CANARY)),
        "bad-record",
        r"row 1, column housing_units",
    ),
    Bad("a block twice", twice, "bad-record", r"row 1, column geocode"),
    Bad("a block that is not", column(COUNTS, "geocode", first(NOWHERE)), "bad-record", r"row 1, column geocode"),
    Bad(
        "counts of floats",
        column(COUNTS, "occupied_units", lambda n: [float(v) for v in n]),
        "column-type",
        r"column occupied_units",
    ),
    Bad("other units than the frame's", column(COUNTS, "housing_units", first(CANARY)), "invariant-broken", "units"),
    Bad("a kind of no code", spec("h1 = 1", "h1 = 2"), "counted-kind", r"data\.counted", "h1 = 2"),
    Bad("a kind twice", spec("h1 = 0", "h1 = 1"), "counted-kind", r"data\.counted"),
    Bad("a kind of another attribute", spec("{ h1 = 1 }", "{ h2 = 1 }"), "counted-kind", r"data\.counted"),
    Bad("a count without a column", spec(', column = "occupied_units"', ""), "missing-key", r"data\.counted"),
]


def assert_quiet(bad: Bad, project: Path) -> None:
    assert_refused(bad, project)
    shown = confide("check", project / "spec.toml", "--processes", "1", "--json").text
    assert not leaks(shown, (CANARY, NOWHERE)), "a confidential value is shown"
    assert entries(project) == ["open"]
    assert not (project / "descent").exists()


@pytest.mark.parametrize("bad", SPECS + STRATEGIES + FRAME, ids=lambda bad: bad.name)
def test_what_is_wrong_with_persons_is_said_and_nothing_is_spent(bad: Bad, project: Path) -> None:
    bad.change(project)
    assert_quiet(bad, project)


@pytest.mark.parametrize("bad", UNITS, ids=lambda bad: bad.name)
def test_what_is_wrong_with_counted_units_is_said_and_nothing_is_spent(bad: Bad, tmp_path: Path, hamlet: Path) -> None:
    project = make(tmp_path, hamlet, units=True)
    bad.change(project)
    assert_quiet(bad, project)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (own_strategy(LOWER, LOWER.replace("1", "100000")), ["'hhgq-lower'", "'hhgq-upper'"]),
        (own_strategy(ZERO, "where = { hhgq = [3] }"), ["'hhgq-lower'", "'nursing-home-minors'"]),
        (own_strategy(UPPER, UPPER.replace("99999", "1")), ["'state-population'", "'hhgq-upper'"]),
        (column("blocks.parquet", "gq5", first(CANARY)), ["'state-population'", "'hhgq-lower'"]),
    ],
)
def test_constraints_that_clash_are_named(project: Path, change: Change, names: list[str]) -> None:
    change(project)
    outcome = confide("check", project / "spec.toml", "--processes", "1", "--json")
    (finding, *_) = (one for one in outcome.findings if one["code"] == "constraints-clash")
    assert all(name in finding["what"] + finding["found"] for name in names), finding


def test_an_area_that_is_optional_may_be_missing(project: Path) -> None:
    column("blocks.parquet", "place", None)(project)
    outcome = confide("run", project / "spec.toml", "--processes", "1", "--insecure-key", KEY)
    assert outcome.exit_code == 0, outcome.text


def test_an_area_that_is_missing_is_listed_by_check(project: Path) -> None:
    both(column("blocks.parquet", "place", None), spec("[topdown]", '[topdown]\naround = ["cousub", "place"]'))(project)
    outcome = confide("check", project / "spec.toml", "--processes", "1", "--json")
    (finding,) = outcome.findings
    assert (finding["code"], finding["severity"]) == ("absent-area", "warning")
    assert "'place'" in finding["found"]
    assert "no block groups are made around place" in finding["what"]
    assert outcome.exit_code == 0


def test_block_groups_are_made_around_levels_as_well(project: Path) -> None:
    """No made block group is cut by an official one, and what stands neither for a level nor an area is refused."""
    named = write_spec(project / "named", areas=AREAS, around=["cousub", "block_group"], **_files(project, "named"))
    loaded = load_spec(named, {"topdown": TopDownSpec})
    with LocalEngine(project / "scratch", processes=1) as engine:
        spine = TopDown().prepare(loaded, engine).spine
    official, unit = spine.official_of_block("block_group"), spine.unit_of_block("block_group")
    assert len({*zip(unit.tolist(), official.tolist(), strict=True)}) == spine.level("block_group").units
    unknown = write_spec(project / "wrong", areas=AREAS, around=["cousub", "blockgroup"], **_files(project, "wrong"))
    (finding,) = confide("check", unknown, "--processes", "1", "--json").findings
    assert finding["code"] == "unknown-area"
    assert "block_group" in finding["expected"]


def _files(project: Path, folder: str) -> dict[str, str]:
    (project / folder).mkdir()
    return {name: str(project / f"{file}.parquet") for name, file in (("records", "persons"), ("blocks", "blocks"))}


def test_every_wrong_thing_of_a_stage_is_said_at_once(project: Path) -> None:
    both(
        spec('{ name = "tract", digits = 11 }, ', ""),
        spec("[geography]", f'presence = ["gq9"]\n{COUNTED}\n[geography]'),
        removed(PEOPLE),
    )(project)
    codes = confide("check", project / "spec.toml", "--processes", "1", "--json").codes
    assert {"strategy-levels", "unknown-column", "counted-kind", "no-such-file"} <= set(codes)
