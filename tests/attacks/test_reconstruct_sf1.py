"""The person tables of Summary File 1: 34 tables, 38 age bins, and people reconstructed from them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.errors import InputError, ParameterError
from confide.lab.attacks.reconstruction import Reconstruction, read_tables, reconstruct, write_sf1_tables
from confide.lab.attacks.reconstruction.description import load_description, query_of
from confide.lab.attacks.reconstruction.integer_program import program_structure

BINS = [*range(22), 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85]


def bin_of(age: int) -> int:
    return max(start for start in [*range(22), *BINS[22:]] if start <= age)


def binned(table: pa.Table, age: str) -> Counter[tuple[object, ...]]:
    """People by block, sex, age bin (by hand), race and origin."""
    return Counter((p["geocode"], p["sex"], bin_of(p[age]), p["cenrace"], p["hispanic"]) for p in table.to_pylist())


def agreement(found: Reconstruction, truth: pa.Table) -> float:
    """The share of people that are the same in all of these."""
    return sum((binned(found.records(), "age_low") & binned(truth, "age")).values()) / truth.num_rows


@pytest.fixture(scope="module")
def people(population_folder: Path) -> pa.Table:
    return pq.read_table(population_folder / "persons.parquet")


@pytest.fixture(scope="module")
def folder(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sf1_tables(people, tmp_path_factory.mktemp("sf1") / "tables")


def test_the_list_of_tables() -> None:
    description, schema = load_description("sf1-2010")
    names = {level: [t.name for t in description.tables if t.level == level] for level in ("block", "tract")}
    letters = [f"P12{letter}" for letter in "ABCDEFGHI"]
    assert names["block"] == ["P1", "P6", "P7", "P8", "P9", "P10", "P11", "P12", *letters, "P14"]
    assert names["tract"] == ["PCT12", *(f"PCT12{letter}" for letter in "ABCDEFGHIJKLMNO")]
    cells = {t.name: sum(query_of(schema, q).cells for q in t.queries) for t in description.tables}
    assert (cells["P1"], cells["P6"], cells["P7"], cells["P8"]) == (1, 6, 12, 63)
    assert (cells["P9"], cells["P11"], cells["P12"], cells["P12I"]) == (65, 65, 46, 46)
    assert (cells["P14"], cells["PCT12"], cells["PCT12O"]) == (40, 206, 206)


def test_races_in_combination() -> None:
    """Code k is the k-th set of races, by size; "White alone or in combination" is every set with White."""
    _, schema = load_description("sf1-2010")
    sets = [chosen for size in range(1, 7) for chosen in combinations(range(6), size)]
    for race, name in enumerate(("white", "black", "aian", "asian", "nhpi", "other")):
        (group,) = schema.variable(f"cenrace:{name}-any").groups
        assert set(group.codes) == {code for code, chosen in enumerate(sets) if race in chosen}
        assert len(group.codes) == 32
        assert schema.variable(f"cenrace:{name}-alone").groups[0].codes == (race,)


def test_block_tables_tell_38_age_bins_apart(folder: Path) -> None:
    published = read_tables(folder)
    plan = program_structure(published, 0)
    age = next(axis for axis in plan.space.axes if axis.attribute.name == "age")
    assert [codes[0] for codes in age.codes] == BINS
    assert age.labels[22:24] == ("22 to 24", "25 to 29")
    assert age.labels[-1] == "85 and over"
    assert plan.space.cells == 2 * 38 * 63 * 2 == 9_576
    fine = program_structure(published, 1)
    ages = next(axis for axis in fine.space.axes if axis.attribute.name == "age")
    assert ages.size == 103
    assert ages.labels[-3:] == ("100 to 104", "105 to 109", "110 and over")


def test_from_tables_to_people(folder: Path, people: pa.Table) -> None:
    found = reconstruct(read_tables(folder), level="block", processes=1)
    rows = found.records()
    assert found.persons == people.num_rows
    assert rows.column_names == [
        *("geocode", "tract", "sex", "age", "age_low", "age_high", "age_bin", "hispanic", "cenrace"),
        *("confidence", "certain", "guessed", "solution_variability"),
    ]
    by_bin = [
        Counter((g, s, bin_of(a)) for g, s, a in zip(*(table.column(c).to_pylist() for c in columns), strict=True))
        for table, columns in ((rows, ("geocode", "sex", "age_low")), (people, ("geocode", "sex", "age")))
    ]
    assert by_bin[0] == by_bin[1]  # P12 and P14 settle block, sex and age bin
    assert agreement(found, people) > 0.85
    unique = [found.published.geography.blocks[b] for b, v in found.variability.items() if v is not None and v.unique]
    assert len(unique) > 10
    keep = np.isin(people.column("geocode").to_numpy(zero_copy_only=False), unique)
    only = np.isin(rows.column("geocode").to_numpy(zero_copy_only=False), unique)
    assert all(rows.column("certain").to_numpy()[only])
    assert binned(rows.filter(only), "age_low") == binned(people.filter(keep), "age")  # the only solution is the truth
    sure = rows.filter(rows.column("certain"))
    assert sure.num_rows > 0.5 * rows.num_rows
    assert not binned(sure, "age_low") - binned(people, "age")  # what is certain is true
    small = found.by_size()[0]
    assert small["size"] == "1-9"
    assert small["share_of_blocks_at_0"] > 0.9


def test_a_tract_solved_as_a_whole_has_its_single_years(folder: Path, people: pa.Table) -> None:
    found = reconstruct(read_tables(folder), processes=1)
    assert found.level == "tract"
    rows = found.records()
    keys = ("tract", "sex", "age", "hispanic")
    truth = people.append_column("tract", pa.array([code[:11] for code in people.column("geocode").to_pylist()]))
    mine, true = (Counter(zip(*(table.column(c).to_pylist() for c in keys), strict=True)) for table in (rows, truth))
    assert sum((mine & true).values()) / people.num_rows > 0.99  # PCT12 and PCT12H to I: ages by origin
    assert agreement(found, people) > 0.88
    assert rows.column("age_bin").to_pylist()[0] in program_structure(found.published, 0).space.axes[1].labels


def test_fewer_tables_know_less(people: pa.Table, tmp_path: Path) -> None:
    few = write_sf1_tables(people, tmp_path / "few", tables=["P1", "P9", "P12"], levels=(), format_="csv")
    assert sorted(path.name for path in few.iterdir()) == ["p1.csv", "p12.csv", "p9.csv", "tables.toml"]
    assert (few / "p12.csv").stat().st_mode & 0o077 == 0
    found = reconstruct(read_tables(few), processes=1)
    assert found.mean is not None
    assert found.mean > 20
    assert agreement(found, people) < 0.8


def test_records_that_do_not_fit(people: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_sf1_tables(people.drop_columns(["cenrace"]), tmp_path / "a")
    assert caught.value.findings[0].where.column == "cenrace"
    wrong = people.set_column(people.column_names.index("sex"), "sex", pa.array([3] * people.num_rows))
    with pytest.raises(InputError) as caught:
        write_sf1_tables(wrong, tmp_path / "b")
    assert "3" not in str(caught.value.findings[0].found)
    with pytest.raises(ParameterError):
        write_sf1_tables(people, tmp_path / "c", tables=["P99"])
    with pytest.raises(ParameterError):
        write_sf1_tables(people, tmp_path / "d", tables=["PCT12"], levels=())
