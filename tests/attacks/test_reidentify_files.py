"""Files of an attack that are not as they should be: refused with the row and the rule, and without a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.kits import commands

from confide.errors import ConfideError, Finding
from confide.lab.attacks.reidentification import (
    AttackerSettings,
    Role,
    make_attacker,
    read_people,
    reidentification_rates,
)

A, B = "010010001001001", "010010001001002"


def people(**columns: Any) -> pa.Table:
    """Four people, with other columns if asked for."""
    plain = {
        "person_id": ["p1", "p2", "p3", "p4"],
        "geocode": [A, A, B, B],
        "sex": [1, 2, 1, 2],
        "age": [30, 31, 5, 70],
        "cenrace": [0, 0, 1, 0],
        "hispanic": [0, 1, 0, 0],
    }
    return pa.table(plain | columns)


def refused(reconstructed: pa.Table, attacker: pa.Table, truth: pa.Table) -> list[Finding]:
    with pytest.raises(ConfideError) as caught:
        reidentification_rates(reconstructed, attacker, truth)
    for finding in caught.value.findings:
        assert finding.found, finding
        assert finding.expected, finding
        assert finding.remedy, finding
    return list(caught.value.findings)


AGES = [
    (pa.array([30, -1, 5, 70]), "bad-age", 2),
    (pa.array([30, 31, 5, 201]), "bad-age", 4),
    (pa.array([30.0, 31.5, 5.0, 70.0]), "not-whole", 2),
    (pa.array([30.0, 31.0, float("nan"), 70.0]), "not-whole", 3),
    (pa.array(["30", "31", "5", "old"]), "not-whole", 4),
    (pa.array(["30", "85+", "5", "70"]), "not-whole", 2),
    (pa.array([True, False, True, True]), "column-type", None),
    (pa.array([[30], [31], [5], [70]]), "column-type", None),
]


@pytest.mark.parametrize(("ages", "code", "row"), AGES)
def test_ages_that_are_none(ages, code, row):
    """In the truth, in the attacker's file, and in a truth that an attacker's file is to be made from."""
    for attacker, truth, role in ((people(), people(age=ages), "truth"), (people(age=ages), people(), "attacker")):
        (found,) = refused(people(), attacker, truth)
        assert (found.code, found.where.row, found.where.file) == (code, row, role)
    with pytest.raises(ConfideError) as caught:
        make_attacker(people(age=ages), AttackerSettings())
    assert caught.value.findings[0].code == code


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("geocode", [A, None, B, B]),
        ("geocode", [A, A, " ", B]),
        ("age", [30, None, 5, 70]),
        ("cenrace", ["0", "", "1", "0"]),
        ("tract", ["t", None, "t", "t"]),
    ],
)
def test_the_truth_lacks_nothing(column, values):
    truth = people(**{column: values})
    assert refused(people(), people(), truth)[0].code == "missing-value"
    with pytest.raises(ConfideError, match="lacks a value"):
        make_attacker(truth, AttackerSettings())


@pytest.mark.parametrize("column", ["person_id", "sex", "age_bin", "solution_variability"])
def test_columns_of_lists(column):
    bad = people(**{column: [[1], [1], [1], [1]]})
    assert refused(bad, bad, people())[0].code in ("column-type", "bad-variability")


def test_one_code_written_in_several_ways():
    """Numbers, texts with and without zeros, with a fraction of zero as some programs write them, and dictionaries."""
    first = reidentification_rates(people(), people(), people()).as_dict()
    assert first["reidentification"]["all"]["confirmed"] == 4
    for ages, sexes in (
        (pa.array([30.0, 31.0, 5.0, 70.0]), pa.array([1.0, 2.0, 1.0, 2.0])),
        (pa.array(["30.0", "31.0", "5.0", "70.0"]), pa.array(["1.0", "2.0", "1.0", "2.0"])),
        (pa.array([" 30", "031 ", "05", "70"]), pa.array(["01", "02", " 1", "2 "])),
        (pa.array([30, 31, 5, 70], pa.int8()).dictionary_encode(), pa.array([1, 2, 1, 2], pa.uint8())),
    ):
        other = people(age=ages, sex=sexes)
        assert reidentification_rates(people(), other, people()).as_dict() == first
        assert reidentification_rates(other, people(), other).as_dict() == first


def test_a_blank_person_id_is_none():
    known = people(person_id=["p1", "", "", None], geocode=[A, A, A, A])
    rates = reidentification_rates(people(), known, people())
    assert (rates.attacker_records, rates.attacker_left_out) == (1, 3)


LOST = [A[1:], A[1:], B[1:], B[1:]]


@pytest.mark.parametrize(
    ("role", "column", "values", "found"),
    [
        ("attacker", "geocode", LOST, "codes of 14 characters in attacker, codes of 15 characters in the truth"),
        ("reconstructed", "geocode", ["all"] * 4, "codes of 3 characters in reconstructed"),
        ("attacker", "person_id", [1, 2, 3, 4], "codes of 1 characters in attacker"),
        ("attacker", "sex", ["M", "F", "M", "F"], "words in attacker, whole numbers in the truth"),
        ("reconstructed", "cenrace", ["White", "White", "Black", "White"], "words in reconstructed"),
    ],
)
def test_files_about_others_are_refused(role, column, values, found):
    """A rate of zero that comes from codes that were written differently would look like safety."""
    other = people(**{column: values})
    ours, known = (other, people()) if role == "reconstructed" else (people(), other)
    (finding,) = refused(ours, known, people())
    assert (finding.code, finding.where.file, finding.where.column) == ("strangers", role, column)
    assert str(finding.found).startswith(found)
    assert "White" not in str(finding)


def test_other_races_are_not_strangers():
    """A reconstruction may be wrong about everybody."""
    rates = reidentification_rates(people(cenrace=[7, 7, 8, 8]), people(), people())
    assert (rates.universe("all").putative, rates.universe("all").confirmed) == (4, 0)


@pytest.mark.parametrize("values", [[-1.0, 0, 0, 0], [0, 0, 0, 101.0], ["x", "0", "0", "0"]])
def test_solution_variability_is_in_per_cent(values):
    assert refused(people(solution_variability=values), people(), people())[0].code == "bad-variability"


def test_ties_do_not_hang_on_the_order_of_rows():
    """Four blocks of one person, in four block groups; two groups are equally common in the file. The mode of all is
    then the first group by its codes, whoever comes first."""
    alone = people(geocode=["1a", "2b", "3c", "4d"], cenrace=[10, 0, 0, 10], hispanic=[0, 0, 0, 0])
    for order in ([0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0]):
        rows = alone.take(order)
        rates = reidentification_rates(rows, alone.slice(1, 1), rows)
        assert rates.modes_from["whole"] == 4
        assert rates.universe("modal").attacker_records == 1


def write(folder: Path, name: str, table: pa.Table) -> Path:
    (pq.write_table if name.endswith("parquet") else pacsv.write_csv)(table, folder / name)
    return folder / name


def finding_of(path: Path, role: Role = Role.TRUTH) -> Finding:
    with pytest.raises(ConfideError) as caught:
        read_people(path, role)
    return caught.value.findings[0]


def test_a_file_without_a_line_of_names_is_not_shown(tmp_path):
    """Its first record would be taken for the names of the columns."""
    lines = write(tmp_path, "all.csv", people()).read_text().splitlines()
    (tmp_path / "none.csv").write_text("\n".join(lines[1:]) + "\n")
    found = finding_of(tmp_path / "none.csv")
    assert found.code == "missing-column"
    assert "p1" not in str(found)
    assert A not in str(found)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"person_id,geocode\np1\n", "a row with more or fewer values than the first"),
        (b"person_id,geocode,sex,age,cenrace,hispanic\n\xe9,1,1,1,1,1\n", "bytes that are not UTF-8"),
        (b"PAR1 and no more", "a file of another format, or a damaged one"),
    ],
)
def test_why_a_file_cannot_be_read(tmp_path, content, found):
    (tmp_path / "x.csv").write_bytes(content)
    assert str(finding_of(tmp_path / "x.csv").found).startswith(found)


def test_columns_that_are_there_twice_or_by_half(tmp_path):
    (tmp_path / "twice.csv").write_text("person_id,geocode,sex,age,age\np1,1,1,1,2\n")
    assert finding_of(tmp_path / "twice.csv", Role.ATTACKER).code == "column-twice"
    half = people().drop_columns(["age"]).append_column("age_low", pa.array([30, 30, 5, 70]))
    found = finding_of(write(tmp_path, "half.parquet", half), Role.RECONSTRUCTED)
    assert (found.code, found.where.column) == ("missing-column", "age_high")


def test_the_command_refuses_before_it_writes(tmp_path):
    truth = write(tmp_path, "truth.parquet", people())
    words = ["attack", "reidentify", truth, truth, "--truth", truth]
    assert commands.run_json(*words)["ok"] is True
    assert "ends in" in commands.usage(*words, "--matches", tmp_path / "m.xlsx")
    (tmp_path / "m.csv").mkdir()
    assert commands.codes(*words, "--matches", tmp_path / "m.csv") == ["matches-file"]
    made = ["attack", "reidentify", truth, "--truth", truth, "--attacker-from-truth"]
    for settings in ("coverage=nan", "coverage=1e400", "age_error="):
        (code,) = commands.codes(*made, settings)
        assert code in ("not-a-number", "bad-attacker")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder where nothing can be written")
def test_a_file_system_that_refuses(tmp_path):
    truth = write(tmp_path, "truth.parquet", people())
    words = ["attack", "reidentify", truth, truth, "--truth", truth]
    assert commands.codes(*words, "--matches", "/proc/m.csv") == ["matches-file"]
    assert commands.codes(*words, "--plots", truth)[0] in ("plots-folder", "no-plots")
