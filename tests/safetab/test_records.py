"""Person records: every rule with its row, and never a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.safetab_geography import BLOCKS, GRFC, parquet, settings_for, text

from confide.engines import Engine, LocalEngine, Source
from confide.errors import CONFIDENTIAL, Finding
from confide.mechanisms.safetab.records import (
    CODE_COLUMNS,
    PERSON_COLUMNS,
    check_person_columns,
    check_persons,
    in_states,
    person_expressions,
)
from confide.mechanisms.safetab.regions import Regions, read_regions
from confide.mechanisms.safetab.settings import AGE_23

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "safetab" / "safetab_p_toy"
CODES = ("1000", "1010", "2020", "9950")
NULLS = "|".join(["Null"] * 7)
GOOD = f"028|1|True|01|001|000100|1000|01|1000|{NULLS}|9950"
MORE = f"115|2|False|02|001|000100|1000|63|1010|2020|1010|{'|'.join(['Null'] * 5)}|1010"
ISLAND = f"0|2|False|72|031|050901|2040|10|2020|{NULLS}|2020"
FULL = "|".join([*GOOD.split("|")[:8], *(["1000"] * 9)])
CANARY = "7777"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with LocalEngine(tmp_path_factory.mktemp("scratch"), processes=2) as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("geography")


@pytest.fixture(scope="module")
def regions(engine: Engine, folder: Path) -> Regions:
    read = read_regions(engine, text(folder / "GRF-C.txt", GRFC, BLOCKS), ("01", "02"), True)
    pq.write_table(read.blocks.select(["code"]), folder / "blocks.parquet")
    return read


class Checker:
    """Checks records, as text and as Parquet, and that both give the same findings."""

    def __init__(self, engine: Engine, regions: Regions, blocks: Path, folder: Path):
        self.engine, self.regions, self.blocks, self.folder = engine, regions, blocks, folder

    def source(self, source: Source, states: Sequence[str] = ("01", "02"), *, pr: bool = True) -> list[Finding]:
        chosen = settings_for(states, puerto_rico=pr)
        return check_persons(self.engine, source, CODES, self.blocks, chosen)

    def __call__(self, *rows: str, states: Sequence[str] = ("01", "02"), pr: bool = True) -> list[Finding]:
        name = "person-records"
        found = self.source(text(self.folder / f"{name}.txt", PERSON_COLUMNS, rows), states, pr=pr)
        again = self.source(parquet(self.folder / f"{name}.parquet", PERSON_COLUMNS, rows), states, pr=pr)
        told = [str(finding).replace(".txt", ".parquet") for finding in found]
        assert told == [str(finding) for finding in again]
        assert all(finding.found == CONFIDENTIAL for finding in found if finding.code == "bad-record")
        return found


@pytest.fixture
def check(engine: Engine, regions: Regions, folder: Path, tmp_path: Path) -> Checker:
    return Checker(engine, regions, folder / "blocks.parquet", tmp_path)


def changed(row: str, **values: str) -> str:
    old = dict(zip(PERSON_COLUMNS, row.split("|"), strict=True))
    assert set(values) <= set(old)
    return "|".join((old | values).values())


def test_good_records_have_no_findings(check: Checker) -> None:
    assert check(GOOD, MORE, ISLAND) == []


def test_ages_may_have_leading_zeros(check: Checker) -> None:
    ages = ["0", "00", "000", "5", "05", "005", "0000028", "28", "115", "0115"]
    assert check(*(changed(GOOD, QAGE=age) for age in ages), ISLAND) == []


FORM, UNKNOWN = "a code has another form", "there is no such code"
RULES = [
    *(("QAGE", value, "an age is wrong") for value in ["", "116", "-1", "+5", "1.5", "1e1", "x", " 28", "Null", "٣"]),
    ("QAGE", "9" * 30, "an age is wrong"),
    *(("QSEX", value, "a sex is wrong") for value in ["", "0", "3", "11", "Null", "M"]),
    *(("HOUSEHOLDER", value, "a value is wrong") for value in ["", "true", "1", "Null"]),
    *(("TABBLKST", value, "a state has another form") for value in ["", "1", "001", "AL", "Null"]),
    *(("TABBLKCOU", value, FORM) for value in ["", "1", "0001", "00x"]),
    *(("TABTRACTCE", value, FORM) for value in ["", "100", "0001000", "00.100"]),
    *(("TABBLK", value, FORM) for value in ["", "100", "01000", "100 "]),
    ("TABBLK", "1999", "a record lies in a block that the geographic file lacks"),
    *(("CENRACE", value, FORM) for value in ["", "1", "001", "Null"]),
    *(("CENRACE", value, UNKNOWN) for value in ["00", "64", "99"]),
    *(("QRACE1", value, FORM) for value in ["", "Null", "100", "01000", "0100", "10x0"]),
    ("QRACE1", CANARY, UNKNOWN),
    *(("QRACE2", value, FORM) for value in ["", "NULL", "null", "100", "0100"]),
    ("QRACE2", CANARY, UNKNOWN),
    *(("QSPAN", value, FORM) for value in ["", "Null", "995", "0995"]),
    ("QSPAN", CANARY, UNKNOWN),
]


def told(findings: Sequence[Finding]) -> dict[tuple[str | None, str], str]:
    """For each column and rule, how many records break it and which are the first."""
    parts = {(finding.where.column, finding.what.partition(" (")[0]): finding for finding in findings}
    assert len(parts) == len(findings)
    return {key: finding.what.partition(" (")[2] for key, finding in parts.items()}


def as_told(rows: Sequence[int]) -> str:
    records = "1 record" if len(rows) == 1 else f"{len(rows):,} records"
    return f"{records}; the first such rows: {', '.join(map(str, rows[:5]))})"


def test_every_rule_with_its_rows(check: Checker) -> None:
    """Every bad value in a row of its own, between good ones: each is told under its rule and under no other."""
    expected: dict[tuple[str | None, str], list[int]] = {}
    rows = []
    for column, value, what in RULES:
        rows += [MORE, changed(GOOD, **{column: value})]
        expected.setdefault((column, what), []).append(len(rows))
    found = check(*rows, ISLAND)
    assert told(found) == {key: as_told(numbers) for key, numbers in expected.items()}
    assert all(
        finding.where.row == expected[finding.where.column, finding.what.partition(" (")[0]][0] for finding in found
    )


def test_the_rules_hold_for_every_column_of_codes(check: Checker) -> None:
    rows, expected = [FULL, ISLAND], {}
    for column in CODE_COLUMNS:
        for value, what in ((CANARY, UNKNOWN), ("x", FORM)):
            rows.append(changed(FULL, **{column: value}))
            expected[column, what] = as_told([len(rows)])
    assert told(check(*rows)) == expected


def test_no_code_after_a_null(check: Checker) -> None:
    rows, bad = [GOOD, MORE, ISLAND], []
    for gap in range(2, 8):
        for later in range(gap + 1, 9):
            filled = {f"QRACE{number}": "1010" for number in range(2, gap)}
            rows += [GOOD, changed(GOOD, **filled, **{f"QRACE{later}": "1010"})]
            bad.append(len(rows))
    assert told(check(*rows)) == {("QRACE2", "a race code follows a 'Null'"): as_told(bad)}


def test_codes_of_wrong_widths_cannot_make_up_a_block(check: Checker) -> None:
    found = check(changed(GOOD, TABBLKCOU="0010", TABTRACTCE="00100"), ISLAND)
    assert [finding.where.column for finding in found] == ["TABBLKCOU", "TABTRACTCE"]


def test_all_findings_come_at_once_in_the_order_of_columns(check: Checker) -> None:
    bad = changed(GOOD, QAGE="200", QSEX="x", CENRACE="77", QRACE3="1000", QSPAN="Null")
    found = check(bad, changed(GOOD, QSEX=""), ISLAND)
    assert [(finding.where.column, finding.where.row) for finding in found] == [
        ("QAGE", 1),
        ("QSEX", 1),
        ("CENRACE", 1),
        ("QRACE2", 1),
        ("QSPAN", 1),
    ]
    assert found[1].what == "a sex is wrong (2 records; the first such rows: 1, 2)"


def test_five_rows_are_named_and_all_are_counted(check: Checker) -> None:
    (finding,) = check(GOOD, *[changed(GOOD, QSEX="9")] * 1200, ISLAND)
    assert finding.what == "a sex is wrong (1,200 records; the first such rows: 2, 3, 4, 5, 6)"


def test_states_outside_the_filter_are_not_looked_at(check: Checker) -> None:
    elsewhere = changed(GOOD, TABBLKST="06", QAGE="x", QRACE1=CANARY, TABBLK="")
    assert check(GOOD, elsewhere, ISLAND) == []
    assert check(GOOD, changed(ISLAND, QSEX="x"), pr=False) == []
    assert check(changed(GOOD, QSEX="x"), ISLAND, states=()) == []
    (finding,) = check(GOOD, changed(elsewhere, TABBLKST="6"), ISLAND)
    assert finding.where.column == "TABBLKST"


def test_each_pass_has_a_record(check: Checker) -> None:
    (finding,) = check(GOOD)
    assert finding.what == "the file has no record for the Puerto Rico pass"
    (finding,) = check(ISLAND)
    assert finding.what == "the file has no record for the US pass"
    assert check(GOOD, pr=False) == []
    assert check(ISLAND, states=()) == []


def test_a_file_without_records(check: Checker, tmp_path: Path) -> None:
    found = check.source(text(tmp_path / "persons.txt", PERSON_COLUMNS, []))
    assert [finding.code for finding in found] == ["no-records", "no-records"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_empty_last_lines(check: Checker, tmp_path: Path, end: str) -> None:
    assert check.source(text(tmp_path / "persons.txt", PERSON_COLUMNS, [GOOD, ISLAND, "", ""], end)) == []
    (finding,) = check.source(
        text(tmp_path / "persons.txt", PERSON_COLUMNS, [GOOD, changed(ISLAND, QSPAN=""), ""], end)
    )
    assert (finding.where.row, finding.where.column) == (2, "QSPAN")


def test_lines_of_another_length(check: Checker, tmp_path: Path) -> None:
    rows = [GOOD, f"{GOOD}|{CANARY}", ISLAND, CANARY, f"{GOOD}|"]
    found = check.source(text(tmp_path / "persons.txt", PERSON_COLUMNS, rows))
    assert [(finding.code, finding.where.line) for finding in found] == [("short-line", 5), ("long-line", 3)]
    assert CANARY not in "".join(f"{finding} {finding!r}" for finding in found)


def test_bytes_that_are_no_text(check: Checker, tmp_path: Path) -> None:
    source = text(tmp_path / "persons.txt", PERSON_COLUMNS, [GOOD, ISLAND])
    source.path.write_bytes(source.path.read_bytes() + f"{CANARY}|é{GOOD}\n".encode("latin-1"))
    found = check.source(source)
    assert "encoding" in {finding.code for finding in found}
    assert CANARY not in "".join(f"{finding} {finding!r}" for finding in found)


@pytest.mark.parametrize("planted", [f"{CANARY}{CANARY}", f"{CANARY}\"' é", f"Null{CANARY}"])
def test_no_value_is_in_any_message(check: Checker, planted: str) -> None:
    found = check(*(changed(FULL, **{name: planted}) for name in PERSON_COLUMNS), GOOD, ISLAND)
    assert [(finding.where.column, finding.where.row) for finding in found] == [
        (name, row) for row, name in enumerate(PERSON_COLUMNS, start=1)
    ]
    assert CANARY not in "".join(f"{finding} {finding!r} {finding.as_dict()}" for finding in found)


def test_missing_unexpected_and_misplaced_columns_are_told_apart(engine: Engine, check: Checker) -> None:
    def found(header: Sequence[str]) -> list[Finding]:
        values = [dict(zip(PERSON_COLUMNS, row.split("|"), strict=True)) for row in (GOOD, MORE, ISLAND)]
        rows = ["|".join(row.get(name, CANARY) for name in header) for row in values]
        source = text(check.folder / "persons.txt", header, rows)
        listed = check.source(source)
        assert listed[: len(columns := check_person_columns(engine, source))] == columns
        assert CANARY not in "".join(f"{finding} {finding!r}" for finding in listed)
        return listed

    lacking = found([name for name in PERSON_COLUMNS if name not in ("QSEX", "QRACE8")])
    assert [(f.code, f.where.column) for f in lacking] == [("missing-column", "QSEX"), ("missing-column", "QRACE8")]
    (more,) = found([*PERSON_COLUMNS[:3], f"x{CANARY}", *PERSON_COLUMNS[3:], "MORE"])
    assert more.code == "unexpected-column"
    assert more.what.endswith("(the first of them at position 4, 19)")
    (order,) = found(["QSEX", "QAGE", *PERSON_COLUMNS[2:]])
    assert (order.code, order.found, order.expected) == ("column-order", "QSEX at position 1", "QAGE there")
    renamed = found([name.lower() if name == "QAGE" else name for name in PERSON_COLUMNS])
    assert [finding.code for finding in renamed] == ["missing-column", "unexpected-column"]


def test_a_wrong_order_does_not_hide_wrong_values(check: Checker, tmp_path: Path) -> None:
    values = changed(GOOD, HOUSEHOLDER="no").split("|")
    header = ["QSEX", "QAGE", *PERSON_COLUMNS[2:]]
    source = text(tmp_path / "persons.txt", header, ["|".join([values[1], values[0], *values[2:]])])
    found = check.source(source, pr=False)
    assert [(finding.code, finding.where.column) for finding in found] == [
        ("column-order", "QSEX"),
        ("bad-record", "HOUSEHOLDER"),
    ]


def test_a_file_without_names_shows_no_record(check: Checker, tmp_path: Path) -> None:
    (tmp_path / "persons.txt").write_text(f"{changed(MORE, QRACE2=CANARY, QRACE3='1011')}\n{GOOD}\n")
    found = check.source(Source(tmp_path / "persons.txt", "csv", delimiter="|", quoted=False))
    assert found
    assert CANARY not in "".join(f"{finding} {finding!r}" for finding in found)


def columns_of(*rows: str) -> dict[str, list[str]]:
    columns = zip(*(row.split("|") for row in rows), strict=True)
    return {name: list(column) for name, column in zip(PERSON_COLUMNS, columns, strict=True)}


def test_parquet_in_any_order_with_ages_as_numbers(check: Checker, tmp_path: Path) -> None:
    table = pa.table(dict(reversed(columns_of(GOOD, MORE, ISLAND).items())))
    path = tmp_path / "persons.parquet"
    for ages, rows in (([28, 115, 0], []), ([116, 0, -1], [1]), ([0, None, 5], [2])):
        at = table.column_names.index("QAGE")
        pq.write_table(table.set_column(at, "QAGE", pa.array(ages, pa.int16())), path)
        assert [finding.where.row for finding in check.source(Source(path, "parquet"))] == rows


def test_parquet_with_types_or_nulls_that_do_not_do(check: Checker, tmp_path: Path) -> None:
    path = tmp_path / "persons.parquet"
    columns = columns_of(GOOD, ISLAND)
    pq.write_table(pa.table(columns | {"QAGE": [28.0, 0.0], "QSEX": [1, 2], "HOUSEHOLDER": [True, False]}), path)
    found = check.source(Source(path, "parquet"))
    assert [(f.code, f.where.column) for f in found] == [
        ("column-type", name) for name in ("QAGE", "QSEX", "HOUSEHOLDER")
    ]
    lacking = {
        name: [*columns[name], *(None if other == name else columns[name][0] for other in PERSON_COLUMNS)]
        for name in PERSON_COLUMNS
    }
    pq.write_table(pa.table(lacking), path)
    found = check.source(Source(path, "parquet"))
    assert [(f.where.row, f.where.column) for f in found] == list(enumerate(PERSON_COLUMNS, start=3))


def test_expressions_give_block_cell_and_codes(engine: Engine, tmp_path: Path) -> None:
    cuts = sorted({0, 115, *AGE_23.cuts, *(cut - 1 for cut in AGE_23.cuts)})
    rows = [changed(MORE, QAGE=f"{age:03d}", QSEX=sex) for age in cuts for sex in "12"]
    expected = [
        23 * (int(sex) - 1) + next(i for i, (first, last) in enumerate(AGE_23.bounds) if first <= age <= last)
        for age in cuts
        for sex in "12"
    ]
    plain = text(tmp_path / "persons.txt", PERSON_COLUMNS, rows)
    numbers = pa.table(columns_of(*rows) | {"QAGE": pa.array([age for age in cuts for _ in "12"], pa.int8())})
    pq.write_table(numbers, tmp_path / "persons.parquet")
    for source in (plain, Source(tmp_path / "persons.parquet", "parquet")):
        expressions = person_expressions(engine, source)
        assert list(expressions) == ["code", "cell", *CODE_COLUMNS]
        selected = ", ".join(f"{expression} AS {name}" for name, expression in expressions.items())
        table = engine.sql(f"SELECT {selected} FROM records", records=source).reveal("test")
        assert table.column("cell").to_pylist() == expected
        assert set(table.column("code").to_pylist()) == {"020010001001000"}
        assert [table.column(name)[0].as_py() for name in CODE_COLUMNS] == MORE.split("|")[8:]
    assert set(expected) == set(range(46))


def test_the_state_filter_as_a_condition(engine: Engine, tmp_path: Path) -> None:
    source = text(tmp_path / "persons.txt", PERSON_COLUMNS, [GOOD, MORE, ISLAND])

    def kept(states: Sequence[str], pr: bool) -> list[int]:
        return engine.first_rows(source, in_states(settings_for(states, puerto_rico=pr), source), 9)

    assert kept(("02",), True) == [2, 3]
    assert kept(("01", "02"), False) == [1, 2]
    assert kept((), True) == [3]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/data/safetab is not there")
def test_the_toy_records_of_the_census_bureau(engine: Engine, tmp_path: Path) -> None:
    def official(path: Path) -> Source:
        return Source(path, "csv", delimiter="|", quoted=False)

    lines = (SHARED / "input_dir_zcdp" / "race-and-ethnicity-codes.txt").read_text().splitlines()[1:]
    codes = [line.split("|")[0] for line in lines if line]
    states = ("01", "02", "11")
    regions = read_regions(engine, official(SHARED / "GRF-C.txt"), states, True)
    pq.write_table(regions.blocks.select(["code"]), tmp_path / "blocks.parquet")
    records = official(SHARED / "person-records.txt")
    chosen = settings_for(states, puerto_rico=True)
    assert check_persons(engine, records, codes, tmp_path / "blocks.parquet", chosen) == []
    found = check_persons(engine, records, codes[1:], tmp_path / "blocks.parquet", chosen)
    assert [(finding.where.column, finding.where.row) for finding in found] == [("QRACE1", 1)]
