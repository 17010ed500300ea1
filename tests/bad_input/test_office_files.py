"""Files as offices have them, each wrong in one way: one finding, and the remedy that mends it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import confide
from confide.releases.ledger import Ledger

NAMES = ("sex", "age", "mun", "job")
PEOPLE = [("M", "34", "001", "01"), ("F", "7", "002", "02"), ("F", "60", "924A", "01"), ("M", "61", "018", "02")] * 3
AREAS = [("mun", "region"), ("001", "N"), ("002", "N"), ("018", "S"), ("924A", "S")]
SCHEMA = """\
id = "people"
provenance = "Made up for a test."
[attributes.sex]
levels = [["M", "male"], ["F", "female"]]
[attributes.age]
range = [0, 99]
[attributes.age.recodes.broad]
starts = [0, 15, 65]
[attributes.job]
levels = [["01", "farm"], ["02", "sea"]]
"""
SPEC = """\
[release]
name = "office"
mechanism = "tables"
[data]
records = "people.csv"
blocks = "areas.csv"
schema = "schema.toml"
[geography]
block = "mun"
smallest = "municipality"
levels = [{ name = "region", column = "region" }]
[privacy]
ledger = "people.ledger"
budget = "1"
[[tables]]
name = "people"
variables = ["sex", "age:broad", "job"]
levels = ["region", "municipality"]
"""


def text(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    return "".join(delimiter.join(row) + "\n" for row in rows)


def people(
    delimiter: str = ",", encoding: str = "utf-8", names: Sequence[str] = NAMES, above: str = "", **changes: str
) -> Callable[[Path], object]:
    """Records, the third of which differs."""
    rows = [list(row) for row in PEOPLE]
    for name, value in changes.items():
        rows[2][NAMES.index(name)] = value
    content = above + text([names, *rows], delimiter)
    return lambda folder: (folder / "people.csv").write_bytes(content.encode(encoding))


def areas(
    rows: Sequence[Sequence[str]] = AREAS, delimiter: str = ",", encoding: str = "utf-8"
) -> Callable[[Path], object]:
    return lambda folder: (folder / "areas.csv").write_bytes(text(rows, delimiter).encode(encoding))


def instead(file: str, old: str, new: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        before = (folder / file).read_text(encoding="utf-8")
        assert old in before
        (folder / file).write_text(before.replace(old, new), encoding="utf-8")

    return change


def data(line: str) -> Callable[[Path], object]:
    return instead("spec.toml", "[data]\n", f"[data]\n{line}\n")


def every(*changes: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: [change(folder) for change in changes]


def content(file: str, written: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(written)


def named(file: str) -> Callable[[Path], object]:
    """The records under another name."""
    return every(
        lambda folder: shutil.copy(folder / "people.csv", folder / file), instead("spec.toml", "people.csv", file)
    )


def workbook(
    file: str = "people.xlsx", sheets: Sequence[str] = ("people",), beside: str = "", codes: bool = False
) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title in sheets:
            sheet = book.create_sheet(title)
            for row in [NAMES, *PEOPLE]:
                sheet.append([int(value) if codes and value.isdigit() else value for value in row])
            if beside:
                sheet["H3"] = beside
        book.save(folder / file)

    return every(write, instead("spec.toml", 'records = "people.csv"', f'records = "{file}"'))


def parquet(**columns: pa.Array) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        table = dict(zip(NAMES, (pa.array(column) for column in zip(*PEOPLE, strict=True)), strict=True)) | columns
        pq.write_table(pa.table(table), folder / "people.parquet")

    return every(write, instead("spec.toml", "people.csv", "people.parquet"))


@dataclass(frozen=True)
class Bad:
    name: str
    change: Callable[[Path], object]
    code: str
    remedy: str


ALIASES = 'aliases = { "018" = "017" }'
AGES = pa.array([34.0, 7.0, None, 61.0] * 3)
BAD = [
    Bad("semicolons", people(";"), "wrong-delimiter", 'delimiter = ";"'),
    Bad("tabs", people("\t"), "wrong-delimiter", r'delimiter = "\\t"'),
    Bad("bars", people("|"), "wrong-delimiter", r'delimiter = "\|"'),
    Bad("both-semicolons", every(people(";"), areas(delimiter=";")), "wrong-delimiter", 'delimiter = ";"'),
    Bad("areas-semicolons", areas(delimiter=";"), "wrong-delimiter", "block_delimiter"),
    Bad(
        "comma-declared-semicolon", data('delimiter = ";"\nblock_delimiter = ","'), "wrong-delimiter", 'delimiter = ","'
    ),
    Bad("comma-in-a-name", people(";", names=("sex", "age", "mun", "job")), "wrong-delimiter", 'delimiter = ";"'),
    Bad("latin-1", people(encoding="latin-1", job="é"), "encoding", 'encoding = "windows-1252"'),
    Bad("latin-1-names", people(encoding="latin-1", names=("sex", "age", "mun", "jöb")), "encoding", "windows-1252"),
    Bad("latin-1-areas", areas([*AREAS, ("é", "S")], encoding="latin-1"), "encoding", "block_encoding"),
    Bad("utf-16", people(encoding="utf-16"), "encoding", 'encoding = "utf-16"'),
    Bad("utf-16-without-mark", people(encoding="utf-16-le"), "encoding", 'encoding = "utf-16-le"'),
    Bad(
        "utf-8-declared-utf-16", data('encoding = "utf-16"\nblock_encoding = "utf-8"'), "encoding", 'encoding = "utf-8"'
    ),
    Bad("no-such-encoding", data('encoding = "ANSI"'), "encoding", ""),
    Bad("no-names", content("people.csv", text(PEOPLE).encode()), "csv-header", "column names above"),
    Bad("title-above", people(above="Register of people, 2031\n"), "csv-header", "remove the lines above"),
    Bad("titles-above", people(above="Register\nas of 1 January\n"), "csv-header", "remove the lines above"),
    Bad("merged-names", people(names=("sex", "", "mun", "job")), "csv-header", "without merged cells"),
    Bad("name-twice", people(names=("sex", "age", "mun", "Age")), "csv-header", "its own name"),
    Bad("name-in-capitals", people(names=("SEX", "age", "mun", "job")), "missing-column", 'sex = "SEX"'),
    Bad("name-with-a-blank", people(names=("sex ", "age", "mun", "job")), "missing-column", 'sex = "sex "'),
    Bad("empty-value", people(sex=""), "bad-record", "missing for empty values"),
    Bad("not-applicable", people(age="n/a"), "bad-record", "codes"),
    Bad("small-letter", people(sex="f"), "bad-record", "aliases"),
    Bad("blank-at-the-end", people(job="01 "), "bad-record", "trim for blanks"),
    Bad("open-age", people(age="100+"), "bad-record", "aliases"),
    Bad("age-in-words", people(age="forty"), "bad-record", "--show-values"),
    Bad("decimal-point", people(age="34.0"), "bad-record", "correct the records"),
    Bad(
        "decimal-comma",
        every(people(";", age="34,0"), data('delimiter = ";"\nblock_delimiter = ","')),
        "bad-record",
        "correct the records",
    ),
    Bad("date-for-a-code", people(job="2031-02-01"), "bad-record", "correct the records"),
    Bad("date-for-a-place", people(mun="01.02.2031"), "bad-record", "correct the records"),
    Bad("merged-municipality", people(mun="017"), "bad-record", r"\[geography\] aliases"),
    Bad("place-with-a-blank", people(mun="018 "), "bad-record", "trim"),
    Bad("lost-zeros-of-places", people(mun="2"), "bad-record", "leading zeros"),
    Bad(
        "lost-zeros-of-areas",
        areas([("mun", "region"), ("1", "N"), ("2", "N"), ("18", "S"), ("924A", "S")]),
        "bad-record",
        "leading zeros",
    ),
    Bad("lost-zeros-of-codes", people(job="1"), "bad-record", "leading zeros"),
    Bad("lost-zeros-in-parquet", parquet(mun=pa.array([1, 2, 18, 2] * 3)), "bad-record", "leading zeros"),
    Bad("floating-point-ages", parquet(age=AGES), "column-type", "Int64"),
    Bad("label-twice", instead("schema.toml", '"female"', '"male"'), "repeated-label", "change the label"),
    Bad("label-of-totals", instead("schema.toml", '"female"', '"all"'), "repeated-label", "change the label"),
    Bad("label-of-sdmx-totals", instead("schema.toml", '"female"', '"_T"'), "repeated-label", "change the label"),
    Bad("mixed-codes", instead("schema.toml", '["F",', "[2,"), "schema-attribute", "every code as text"),
    Bad(
        "alias-of-nothing",
        instead("schema.toml", "[attributes.age]", 'aliases = { X = "x" }\n[attributes.age]'),
        "schema-attribute",
        "",
    ),
    Bad(
        "alias-of-two",
        instead("schema.toml", "[attributes.age]", 'aliases = { M = "F" }\n[attributes.age]'),
        "ambiguous-code",
        "remove the alias",
    ),
    Bad("old-excel", named("people.xls"), "unknown-format", "save it as .xlsx"),
    Bad("spss", named("people.sav"), "unknown-format", "SPSS"),
    Bad("compressed", named("people.csv.gz"), "unknown-format", "unpack"),
    Bad("excel-called-csv", workbook("people.csv"), "csv-header", r"\.xlsx"),
    Bad("several-sheets", workbook(sheets=("notes", "people")), "sheet", 'sheet = "notes"'),
    Bad("another-sheet", every(workbook(), data('sheet = "2031"')), "sheet", 'sheet = "people"'),
    Bad("notes-beside-a-sheet", workbook(beside="checked"), "csv-header", "remove notes"),
    Bad(
        "lost-zeros-in-excel",
        every(workbook(codes=True), instead("schema.toml", '"01"', '"1"'), instead("schema.toml", '"02"', '"2"')),
        "bad-record",
        "leading zeros",
    ),
    Bad(
        "damaged-workbook",
        every(workbook(), content("people.xlsx", b"PK\x03\x04broken")),
        "unreadable",
        "save it again",
    ),
    Bad("empty-file", content("people.csv", b""), "csv-header", "first line"),
    Bad("names-alone", content("people.csv", b"sex,age,mun,job\n"), "no-records", "give the file"),
    Bad("municipality-twice", areas([*AREAS, ("018", "S")]), "duplicate-block", ""),
    Bad("area-without-a-code", areas([*AREAS, ("", "N")]), "empty-code", "fill in"),
    Bad(
        "merged-into-nothing",
        instead("spec.toml", 'block = "mun"', 'block = "mun"\naliases = { "019" = "017" }'),
        "block-alias",
        "aliases",
    ),
    Bad("open-quotes", people(above="", job='"'), "unreadable", "complete"),
    Bad("short-row", content("people.csv", text([NAMES, *PEOPLE, ("M", "3", "001")]).encode()), "unreadable", "every"),
    Bad("long-row", people(job="01,02"), "unreadable", "double quotes"),
    Bad("rows-of-nothing", people(mun=""), "bad-record", "if they are empty, remove them"),
]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    people()(folder)
    areas()(folder)
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=1, note="a test"
    )
    assert confide.check(folder / "spec.toml", processes=1).findings == ()
    return folder


def findings(project: Path) -> Sequence[confide.errors.Finding]:
    try:
        return confide.check(project / "spec.toml", processes=1).findings
    except confide.errors.ConfideError as error:
        return error.findings


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_each_is_one_finding_with_the_right_remedy(clean: Path, tmp_path: Path, bad: Bad) -> None:
    project = Path(shutil.copytree(clean, tmp_path / "project"))
    bad.change(project)
    (finding,) = findings(project)
    assert finding.code == bad.code
    assert finding.remedy or not bad.remedy
    assert re.search(bad.remedy, finding.remedy or "")
    said = re.sub(r"""["'`][^"'`]*["'`]|\[\w+\] \w+|\w+_\w+""", "", str(finding))
    assert "block" not in said, "the office calls it a municipality"


def test_there_are_more_than_forty() -> None:
    assert len({bad.name for bad in BAD}) == len(BAD) > 40


@pytest.mark.parametrize(
    "mended",
    [
        every(people(";", encoding="latin-1"), data('delimiter = ";"\nencoding = "latin-1"\nblock_delimiter = ","')),
        every(people(encoding="utf-16"), data('encoding = "utf-16"\nblock_encoding = "utf-8"')),
        people(encoding="utf-8-sig"),
        every(workbook(sheets=("notes", "people")), data('sheet = "people"')),
        every(people(sex=""), instead("schema.toml", "[attributes.age]", 'missing = "not stated"\n[attributes.age]')),
        every(people(mun="017 "), instead("spec.toml", 'block = "mun"', 'block = "mun"\ntrim = true\n' + ALIASES)),
    ],
)
def test_the_remedy_mends_it(clean: Path, tmp_path: Path, mended: Callable[[Path], object]) -> None:
    project = Path(shutil.copytree(clean, tmp_path / "project"))
    mended(project)
    assert findings(project) == ()
