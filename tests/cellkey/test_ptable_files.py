"""Tables as text: exact round trips in every form, and what is said about bad files."""

from __future__ import annotations

from decimal import localcontext
from pathlib import Path

import numpy as np
import pytest

from confide.errors import InputError, ParameterError
from confide.noise.ptables import (
    LookupRow,
    PTable,
    count_settings,
    export_ons,
    export_text,
    generate,
    magnitude_settings,
    modify,
    read_table,
    same_distribution,
)
from confide.noise.ptables.formats import Form
from confide.noise.ptables.ptable import key_of

PLAIN = """i;j;p;v;p_int_ub
0;0;1;0;1
1;0;0.25;-1;0.25
1;1;0.5;0;0.75
1;2;0.25;1;1
"""
QUOTED = """"i";"j";"p";"v";"p_ij_ub"
0;0;1;0;1
1;0;0.250000000012345;-1;0.2500000000
1;1;0.499999999987655;0;0.75
1;2;0.25;1;1
"""
ONS_HEADER = "pcv,ckey,pvalue\n"


def written(folder: Path, text: str, name: str = "table.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def problems(folder: Path, text: str) -> list[tuple[str, int | None, str | None]]:
    with pytest.raises(InputError) as caught:
        read_table(written(folder, text))
    for finding in caught.value.findings:
        assert finding.expected
        assert finding.remedy
    return [(finding.code, finding.where.line, finding.where.column) for finding in caught.value.findings]


TABLES = {
    "counts": generate(count_settings(5, 2)).table(),
    "blocked": generate(count_settings(5, 3, 2)).table(),
    "ten digits": generate(count_settings(3, 2)).table(10**10),
    "two digits": generate(count_settings(3, 2)).table(100),
    "magnitudes": generate(magnitude_settings(5, 2, step=4, icat=[1, 3, 5], kind="even")).table(),
    "thirds": generate(magnitude_settings(3, 2, step=3, icat=[1, 3])).table(),
    "modified": modify(generate(count_settings(3, 1)).table(), "0.05", key_of("12ab")),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("form", ["tau-argus", "sas", "csv"])
def test_there_and_back(name: str, form: Form, tmp_path: Path) -> None:
    """The same table, and from it the same characters."""
    text = export_text(TABLES[name], form)
    back = read_table(written(tmp_path, text))
    assert back.table == TABLES[name]
    assert back.table.fingerprint == TABLES[name].fingerprint
    assert back.text() == text
    assert export_text(back.table, form) == text
    assert back.findings == ()


@pytest.mark.parametrize("whole", [2**32, 3, 2**53])
def test_our_own_form_has_any_number_of_keys(whole: int, tmp_path: Path) -> None:
    table = generate(count_settings(4, "3/2", 1)).table(whole)
    assert read_table(written(tmp_path, export_text(table, "csv"))).table == table
    with pytest.raises(ParameterError) as caught:
        export_text(table, "tau-argus")
    assert caught.value.findings[0].code == "not-decimal"


def test_how_they_look() -> None:
    rows = (LookupRow(0, (0,), (100,)), LookupRow(1, (-1, 0, 1), (25, 75, 100)))
    table = PTable(rows, 100)
    assert export_text(table, "tau-argus").splitlines() == [
        "i;j;p;v;p_int_ub",
        "0;0;1.00; 0;1.00",
        "1;0;0.25;-1;0.25",
        "1;1;0.50; 0;0.75",
        "1;2;0.25; 1;1.00",
    ]
    assert export_text(table, "sas").splitlines()[2] == "1;0;0.25;-1;0.00;0.25"
    assert export_text(table, "csv").splitlines()[::3] == [
        "i,j,v,p,key_from,key_below,keys,type",
        "1,1,0,0.5,25,75,100,all",
    ]


@pytest.mark.parametrize("text", [PLAIN, PLAIN.replace("\n", "\r\n"), PLAIN.rstrip(), PLAIN.replace(";", ",")])
def test_files_of_other_programs_come_back_byte_by_byte(text: str, tmp_path: Path) -> None:
    back = read_table(written(tmp_path, text))
    assert back.text() == text
    assert back.table.modulus == 10**8
    assert [str(p) for p in back.table.probabilities(1).values()] == ["1/4", "1/2", "1/4"]


def test_the_older_header_and_longer_probabilities(tmp_path: Path) -> None:
    back = read_table(written(tmp_path, QUOTED.replace("0.2500000000\n", "0.2500000001\n")))
    assert back.table.modulus == 10**10
    assert back.text() == QUOTED.replace("0.2500000000\n", "0.2500000001\n")


def test_other_columns_are_passed_over(tmp_path: Path) -> None:
    lines = PLAIN.strip().replace(";", ",").split("\n")
    text = "\n".join([lines[0] + ",note", *(line + ",x" for line in lines[1:])])
    assert read_table(written(tmp_path, text)).table == read_table(written(tmp_path, PLAIN)).table


def test_several_types(tmp_path: Path) -> None:
    even, odd = (
        generate(magnitude_settings(2, v, step=2, icat=[1, 2], kind=kind)).table()
        for v, kind in (("1", "even"), ("1/2", "odd"))
    )
    lines = export_text(even).splitlines() + export_text(odd).splitlines()[2:]
    path = written(tmp_path, "\n".join(lines) + "\n")
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert caught.value.findings[0].code == "several-types"
    assert read_table(path, "even").table == even
    assert read_table(path, "odd").table == odd


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0.75\n", "0.2\n", ("bounds-not-increasing", 4, "p_int_ub")),
        ("1;2;0.25;1;1\n", "1;2;0.25;1;0.99\n", ("not-one", 5, "p_int_ub")),
        ("1;1;0.5;0", "1;1;0.6;0", ("probability-differs", 4, "p")),
        ("1;0;0.25;-1", "1;-1;0.25;-2", ("negative-result", 3, "p_int_ub")),
        ("1;2;0.25;1;1", "1;3;0.25;1;1", ("bad-target", 5, "j")),
        ("1;1;0.5;0;0.75", "1;1;0.5;0;", ("not-a-number", 4, "p_int_ub")),
        ("1;1;0.5;0;0.75", "1;1;nan;0;0.75", ("not-a-number", 4, "p")),
        ("1;1;0.5;0;0.75", "1;1;0.5;0", ("bad-line", 4, None)),
        ("1;1;0.5;0;0.75", "1;1;1.5;0;0.75", ("bad-probability", 4, "p")),
        ("0;0;1;0;1\n", "", ("bad-rows", 2, "p_int_ub")),
        ("0;0;1;0;1\n", "0;0;1;0;0.5\n0;1;0.5;1;1\n", ("zero-perturbed", 2, "p_int_ub")),
        ("0.75\n", "0.7512345678901234567\n", ("too-many-decimals", 4, "p_int_ub")),
        ("0.75\n", "0.75\n1.5;1.5;0;0;0.75\n", ("bad-count", 5, "i")),
        ("p_int_ub", "bound", ("bad-header", 1, None)),
        (PLAIN.partition("\n")[2], "", ("no-rows", 1, None)),
    ],
)
def test_bad_files(old: str, new: str, expected: tuple[str, int, str], tmp_path: Path) -> None:
    assert PLAIN.count(old) >= 1
    assert expected in problems(tmp_path, PLAIN.replace(old, new, 1))


def test_a_bad_lower_bound(tmp_path: Path) -> None:
    text = export_text(TABLES["counts"], "sas")
    line = text.splitlines()[3]
    bad = line.split(";")
    bad[4] = "0.10000000"
    assert problems(tmp_path, text.replace(line, ";".join(bad))) == [("bad-lower-bound", 4, "p_int_lb")]


def test_bias_is_a_warning(tmp_path: Path) -> None:
    text = PLAIN.replace("1;0;0.25;-1;0.25", "1;0;0.125;-1;0.125").replace("1;1;0.5;0", "1;1;0.625;0")
    (finding,) = read_table(written(tmp_path, text)).findings
    assert (finding.code, finding.severity, finding.where.line) == ("biased-row", "warning", 3)
    assert finding.found == "a mean of 0.125"


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01")
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "binary"):
        with pytest.raises(InputError) as caught:
            read_table(path)
        assert caught.value.findings[0].code == "unreadable-ptable"


@pytest.mark.parametrize("keys", [256, pytest.param(4096, marks=pytest.mark.slow)])
def test_the_ons_form_there_and_back(keys: int, tmp_path: Path) -> None:
    table = generate(count_settings(5, 2)).table(keys)
    text = export_ons(table)
    assert text.startswith(ONS_HEADER + "1,0,-1\n")
    assert text.count("\n") == 750 * keys + 1
    back = read_table(written(tmp_path, text))
    assert back.table == table.compact()
    assert back.text() == text
    counts = np.repeat(np.arange(0, 900), 64)
    drawn = np.tile(np.arange(0, keys, keys // 64), 900)
    assert (back.table.lookup(counts, drawn) == table.lookup(counts, drawn)).all()


def test_rows_in_turn_survive_the_ons_form(tmp_path: Path) -> None:
    """As in a table that rounds to fives: deterministic, biased row by row, with the last 250 rows in turn."""
    lines = [f"{n},{key},{-n if n < 10 else (n + 2) // 5 * 5 - n}\n" for n in range(1, 751) for key in range(2)]
    text = ONS_HEADER + "".join(lines)
    back = read_table(written(tmp_path, text))
    assert back.table.cycle == 250
    assert back.text() == text
    assert back.table.lookup([3, 12, 13, 1001, 1003], [0, 1, 0, 1, 1]).tolist() == [-3, -2, 2, -1, 2]
    assert {finding.code for finding in back.findings} == {"biased-row"}
    with pytest.raises(ParameterError, match="in turn"):
        export_text(back.table, "csv")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("1,0,0\n1,2,0\n", "missing-key"),
        ("1,0,0\n1,0,0\n", "twice"),
        ("1,0,0\n1,x,0\n", "not-a-number"),
        ("1,0,0\n1,1,0.5\n", "not-a-number"),
        ("1,0\n", "not-a-number"),
        ("0,0,0\n", "bad-place"),
        ("1,4096,0\n", "bad-place"),
        ("1,0,-2\n1,1,2\n", "negative-result"),
        ("", "no-rows"),
    ],
)
def test_bad_ons_files(lines: str, code: str, tmp_path: Path) -> None:
    found = problems(tmp_path, ONS_HEADER + lines)
    assert found[0][0] == code
    assert found[0][1] is not None


def test_what_has_no_ons_form() -> None:
    for table in (TABLES["counts"], TABLES["magnitudes"]):
        with pytest.raises(ParameterError) as caught:
            export_ons(table)
        assert caught.value.findings[0].code == "not-ons"


def test_the_law_does_not_depend_on_the_form(tmp_path: Path) -> None:
    one = read_table(written(tmp_path, export_text(TABLES["blocked"], "sas"))).table
    other = read_table(written(tmp_path, export_text(TABLES["blocked"], "csv"), "b.csv")).table
    assert same_distribution(one, other)


@pytest.mark.parametrize("digits", [6, 60])
def test_the_precision_of_a_program_changes_no_file(digits: int) -> None:
    expected = [export_text(table) for table in TABLES.values()]
    with localcontext(prec=digits):
        assert [export_text(table) for table in TABLES.values()] == expected
