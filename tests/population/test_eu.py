"""Made-up people for the EU census programme: codes, tables and files."""

from __future__ import annotations

import time
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.documents import load_schema
from confide.errors import ParameterError, RunError, SpecError
from confide.lab.population import eu as eu_people
from confide.lab.population.eu import EuFiles, EuPeople, write_eu
from confide.lab.population.settings import LEVELS, Country, EuAreas, load_eu_settings, programme_tables
from confide.lab.risk.bounded_noise.static_programme import load_programme
from confide.schema import Schema

PROGRAMME = load_programme("eu-2021")
SIZES = [EuAreas(), EuAreas(1, 1, 1, 1), EuAreas(1, 1, 2, 68), EuAreas(3, 9, 35, 400)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> EuFiles:
    return write_eu(tmp_path_factory.mktemp("eu"), 60_000, seed=7)


@pytest.fixture(scope="module")
def schema(files: EuFiles) -> Schema:
    return load_schema(files.schema.name, files.schema.parent)


@pytest.fixture(scope="module")
def people(files: EuFiles) -> pa.Table:
    return pq.read_table(files.records)


def as_programme(areas: EuAreas) -> dict[str, int]:
    return {level.upper(): number for level, number in zip(LEVELS, areas, strict=True)}


@pytest.mark.parametrize("areas", SIZES)
def test_every_breakdown_has_the_categories_of_the_programme(areas: EuAreas) -> None:
    schema = EuPeople(1, 0, areas).schema
    names = load_eu_settings().variables
    used = {name for table in PROGRAMME.of_unit("persons").values() for name in table}
    assert used - set(names) == {"GEO.N"}
    assert set(names) <= used
    for breakdown, variable in names.items():
        (level,) = PROGRAMME.levels(breakdown, as_programme(areas))
        assert schema.variable(variable).size == level.size, breakdown


def test_coarser_breakdowns_are_made_of_finer_ones(schema: Schema) -> None:
    chains = [
        ["geo", "geo:nuts3", "geo:nuts2", "geo:nuts1"],
        ["age", "age:five-year", "age:broad"],
        *([f"{name}", f"{name}:continents", f"{name}:broad"] for name in ("pob", "coc")),
        *([f"{name}", f"{name}:medium", f"{name}:broad"] for name in ("fst", "hst")),
        ["yae", "yae:periods", "yae:since-2010"],
        *([name, f"{name}:main"] for name in ("lms", "cas", "ind")),
        ["lpw", "lpw:nation"],
    ]
    for fine, coarse in (pair for chain in chains for pair in pairwise(chain)):
        finer, coarser = schema.variable(fine), schema.variable(coarse)
        pairs = set(zip(finer.assignment.tolist(), coarser.assignment.tolist(), strict=True))
        assert len(pairs) == finer.size > coarser.size - (coarse == "geo:nuts1")
        assert schema.query(coarse).is_complete


@pytest.mark.parametrize("areas", SIZES)
def test_tables_are_those_of_the_programme(areas: EuAreas) -> None:
    schema = EuPeople(1, 0, areas).schema
    tables = programme_tables(load_eu_settings())
    expected = PROGRAMME.of_unit("persons")
    assert [name.removeprefix("t").replace("-", ".") for name in tables] == list(expected)
    for variables, breakdowns in zip(tables.values(), expected.values(), strict=True):
        query = schema.query("*".join(variables))
        assert query.cells == PROGRAMME.cells(breakdowns, as_programme(areas), margins=False)


def test_the_file_of_tables(files: EuFiles, schema: Schema) -> None:
    tables = {table["name"]: table["variables"] for table in tomllib.loads(files.tables.read_text())["tables"]}
    assert tables == programme_tables(load_eu_settings())
    assert len(tables) == 103
    assert tables["t9-2"] == ["geo:nuts3", "sex", "age:five-year", "yae"]
    assert tables["t1-4"] == ["sex", "lms", "hst"]
    distinct = {
        frozenset(variable.name for variable in margin.variables): margin.cells
        for variables in tables.values()
        for margin in schema.query("*".join(variables)).margins()
    }
    assert len(distinct) == 1_244  # Bach (2020), Annex B, by the plain rule
    assert sum(distinct.values()) == 1_865_842


def test_records_have_the_codes_of_the_schema_and_nothing_else(schema: Schema, people: pa.Table) -> None:
    assert people.column_names == [attribute.name for attribute in schema.attributes]
    assert people.num_rows == 60_000
    for attribute in schema.attributes:
        column = people.column(attribute.name)
        assert column.type == pa.string()
        assert column.null_count == 0
        known = pa.array([str(level.code) for level in attribute.levels])
        assert pc.all(pc.is_in(column, known)).as_py(), attribute.name


def test_almost_every_level_occurs(schema: Schema) -> None:
    tables = pa.Table.from_batches(EuPeople(300_000, seed=3).batches())
    for attribute in schema.attributes:
        occurring = len(pc.unique(tables.column(attribute.name)))
        if attribute.name == "loc":
            assert occurring >= 6  # no local unit is a city of a million
        else:
            assert occurring >= 0.97 * attribute.size, attribute.name


def test_the_written_schema_is_that_of_the_people(schema: Schema) -> None:
    assert schema.fingerprint == EuPeople(1, 0).schema.fingerprint


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    first, again, other = (write_eu(tmp_path / name, 3_000, seed=seed) for name, seed in [("a", 1), ("b", 1), ("c", 2)])
    for one, two in zip(first, again, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert first.records.read_bytes() != other.records.read_bytes()
    assert first.schema.read_bytes() == other.schema.read_bytes()


def test_numbers_are_exact_across_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eu_people, "BATCH", 1_000)
    sizes = [batch.num_rows for batch in EuPeople(2_001, seed=1).batches()]
    assert sizes == [1_000, 1_000, 1]
    people = EuPeople(2_001, seed=1)
    place = pa.Table.from_batches(people.batches()).column("geo").cast(pa.string()).combine_chunks()
    counts = {row["values"]: row["counts"] for row in place.value_counts().to_pylist()}
    assert [counts.get(code, 0) for code in people.country.codes["lau"]] == people.sizes.tolist()
    assert place.to_pylist() == sorted(place.to_pylist())


def share(people: pa.Table, condition: pc.Expression, outcome: pc.Expression) -> float:
    among = people.filter(condition)
    assert among.num_rows > 0
    return float(among.filter(outcome).num_rows / among.num_rows)


def test_what_depends_on_what(people: pa.Table) -> None:
    child = pc.field("age").isin([f"Y{age}" for age in range(15)])
    old = pc.field("age").isin([f"Y{age}" for age in range(85, 100)])
    employed, unknown = pc.field("cas") == "EMP", pc.field("cas") == "UNK"
    for column, code in {"cas": "CHI", "edu": "NAP", "lms": "NEV", "hst": "FAM"}.items():
        assert share(people, child, pc.field(column) == code) == 1
    for column, code in {"cas": "CHI", "edu": "NAP"}.items():
        assert share(people, ~child, pc.field(column) == code) == 0
    for column in ("occ", "ind", "sie", "lpw"):
        assert share(people, employed, pc.field(column) == "NAP") == 0
        assert share(people, ~(employed | unknown), pc.field(column) == "NAP") == 1
    assert share(people, pc.field("age") == "Y0", pc.field("roy") == "NAP") == 1
    assert share(people, pc.field("age") != "Y0", pc.field("roy") == "NAP") == 0
    assert share(people, pc.field("hst") == "INS", pc.field("har") == "COL") == 1
    assert share(people, pc.field("fst") == "P1", pc.field("lms") == "MAR") == 1
    assert share(people, old, pc.field("cas") == "PEN") > 0.85
    assert share(people, old, pc.field("lms") == "WID") > 0.4
    assert share(people, pc.field("pob") == "NAT", pc.field("coc") == "NAT") > 0.95
    assert share(people, pc.field("pob") == "AF01", pc.field("coc") == "NAT") < 0.6


def test_most_people_work_where_they_live(people: pa.Table, schema: Schema) -> None:
    region = schema.variable("geo:nuts2")
    of_place = dict(zip((str(level.code) for level in region.attribute.levels), region.assignment, strict=True))
    works = people.filter(pc.field("lpw").isin(region.labels))
    same = np.array(
        [
            region.labels[of_place[place]] == work
            for place, work in zip(works.column("geo").to_pylist(), works.column("lpw").to_pylist(), strict=True)
        ]
    )
    assert 0.9 < same.mean() < 0.96


@given(st.lists(st.integers(1, 150), min_size=4, max_size=4))
def test_areas_nest(numbers: list[int]) -> None:
    areas = EuAreas(*sorted(numbers))
    country = Country("QQ", areas)
    for level, number in zip(LEVELS, areas, strict=True):
        codes, unit_of = country.codes[level], country.unit_of(level)
        assert len(set(codes)) == len(codes) == number
        assert set(unit_of) == set(range(number))
        assert all(code.startswith(codes[unit]) for code, unit in zip(country.codes["lau"], unit_of, strict=True))


@pytest.mark.parametrize("areas", [EuAreas(1, 1, 1, 1), EuAreas(1, 2, 3, 4)])
def test_small_countries(tmp_path: Path, areas: EuAreas) -> None:
    files = write_eu(tmp_path, 500, seed=1, areas=areas)
    assert len(pc.unique(pq.read_table(files.records).column("geo"))) == areas.lau


@pytest.mark.parametrize(
    ("persons", "seed", "areas", "code"),
    [
        (0, 1, EuAreas(), "persons-out-of-range"),
        (400_000_001, 1, EuAreas(), "persons-out-of-range"),
        (10, -1, EuAreas(), "seed-out-of-range"),
        (10, 2**64, EuAreas(), "seed-out-of-range"),
        (10, 1, EuAreas(2, 1, 6, 200), "areas-out-of-range"),
        (10, 1, EuAreas(0, 1, 6, 200), "areas-out-of-range"),
        (10, 1, EuAreas(1, 2, 6, 100_001), "areas-out-of-range"),
    ],
)
def test_numbers_that_cannot_be(tmp_path: Path, persons: int, seed: int, areas: EuAreas, code: str) -> None:
    with pytest.raises(ParameterError) as error:
        write_eu(tmp_path / "new", persons, seed, areas)
    assert [finding.code for finding in error.value.findings] == [code]
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError) as error:
        write_eu(tmp_path / "file" / "folder", 10, 1)
    assert error.value.findings[0].code == "cannot-write-population"


def test_settings_that_leave_a_person_nothing() -> None:
    settings = load_eu_settings()
    first = settings.drawn[0].model_copy(update={"weights": (0.0, 0.0)})
    broken = settings.model_copy(update={"drawn": (first, *settings.drawn[1:])})
    with pytest.raises(SpecError, match="excluded"):
        next(EuPeople(10, 1, settings=broken).batches())


@pytest.mark.slow
def test_a_million_persons_within_fifteen_seconds(tmp_path: Path) -> None:
    begin = time.perf_counter()
    write_eu(tmp_path, 1_000_000, seed=7)
    assert time.perf_counter() - begin < 15
