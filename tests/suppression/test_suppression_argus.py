"""Files of tau-ARGUS and sdcTable: tables, hierarchies, a-priori statuses and problems, read, written and refused."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.kits.commands import codes, run_json

import confide
from confide.documents.argus import (
    JJCell,
    JJProblem,
    JJSum,
    levels_of_digits,
    read_apriori,
    read_hierarchy,
    read_jj,
    read_metadata,
    read_tab,
    write_jj,
)
from confide.errors import ConfideError

METADATA = """   <SEPARATOR> ";"
   <SAFE> "s"
   <UNSAFE> "u"
   <PROTECT> "p"
REGION
  <RECODEABLE>
  <TOTCODE> "Total"
  <HIERARCHICAL>
  <HIERCODELIST> "C:\\elsewhere\\region.hrc"
  <HIERLEADSTRING> "@"
SIZE
  <RECODEABLE>
  <TOTCODE> "Total"
turnover
  <NUMERIC>
  <DECIMALS> 0
freq
  <FREQUENCY>
max1
  <MAXSCORE>
max2
  <MAXSCORE>
"""
HIERARCHY = "N\n@N1\n@N2\nS\n@S1\n@S2\n"
TABLE = """N1;small;100;4;40;30
N1;large;900;2;800;100
N2;small;300;9;60;50
 N2;large; 500;8;90;80
S1;small;210;7;50;45
S1;large;450;6;120;110
S2;small;90;5;30;25
S2;large;700;9;150;140
"""
APRIORI = "N2,small,s\nS1,large,p\nS2,small,c,1\nTotal,Total,z\nS2,large,pl,20,30\n"


def written(folder: Path, **changes: str) -> Path:
    files = {"pp.rda": METADATA, "region.hrc": HIERARCHY, "pp.tab": TABLE, "pp.hst": APRIORI}
    for name, text in files.items():
        (folder / name).write_text(changes.get(name.replace(".", "_"), text))
    return folder / "pp.tab"


def test_a_table_of_tau_argus_is_protected_as_its_files_say(tmp_path: Path) -> None:
    tab = written(tmp_path)
    found = run_json("suppress", tab, "--rule", "p=10", "--rule", "threshold=2", "--out", tmp_path / "out")
    assert found["ok"]
    cells = {
        tuple(part.split(" = ")[1] for part in row["cell"].split(", ")): row
        for row in pq.read_table(tmp_path / "out" / "confidential" / "cells.parquet").to_pylist()
    }
    assert len(cells) == 7 * 3
    assert {cell for cell, row in cells.items() if row["primary"]} == {("N1", "large"), ("S2", "large")}
    assert (cells["N1", "large"]["lower"], cells["N1", "large"]["upper"]) == (90, 90)
    assert (cells["S2", "large"]["lower"], cells["S2", "large"]["upper"]) == (20, 30)
    assert cells["S2", "small"]["cost"] == 1.0
    assert cells["N", "_T"]["figure"] == 1800
    for cell in (("S1", "large"), ("_T", "_T")):
        assert not cells[cell]["hidden"]
    assert run_json("verify", tmp_path / "out" / "release")["ok"]
    by_metadata = run_json(
        "suppress", tab.with_suffix(".rda"), "--rule", "p=10", "--rule", "threshold=2", "--out", tmp_path / "b"
    )
    assert by_metadata["ok"]


def test_an_sdctable_problem_by_its_files_and_by_its_data_frame(tmp_path: Path) -> None:
    """As createArgusInput writes it, with statuses and levels in columns; and as sdcProb2df prints it."""
    (tmp_path / "hier_sex.hrc").write_text("f\nm\n")
    (tmp_path / "tab.rda").write_text(
        '<SEPARATOR> ","\r\n<SAFE> "S"\r\n<UNSAFE> "U"\r\n<PROTECT> "Z"\r\n'
        'region\r\n   <RECODEABLE>\r\n   <TOTCODE> "tot"\r\n'
        'sex\r\n   <RECODEABLE>\r\n   <TOTCODE> "tot"\r\n   <HIERCODELIST> "/home/x/hier_sex.hrc"\r\n'
        '   <HIERLEADSTRING> "@"\r\n   <HIERARCHICAL>\r\nsdcStatus\r\n   <STATUS>\r\nfreq\r\n   <NUMERIC>\r\n'
        "lpl\r\n   <NUMERIC> <LOWERPL>\r\nupl\r\n   <NUMERIC> <UPPERPL>\r\n"
    )
    rows = [
        ("tot", "tot", "S", 30),
        ("tot", "f", "S", 12),
        ("tot", "m", "S", 18),
        ("N", "tot", "S", 11),
        ("N", "f", "U", 2),
    ]
    rows += [("N", "m", "S", 9), ("S", "tot", "Z", 19), ("S", "f", "S", 10), ("S", "m", "S", 9)]
    lines = [f"{a},{b:>3},{s},{n},{int(s == 'U')},{2 * int(s == 'U')}" for a, b, s, n in rows]
    (tmp_path / "tab.tab").write_text("\r\n".join(lines) + "\r\n")
    done = confide.suppress(tmp_path / "tab.rda", out=tmp_path / "a")
    hidden = {
        (r["region"], r["sex"])
        for r in pq.read_table(done.release / "tables/tab.parquet").to_pylist()
        if r["count"] is None
    }
    assert hidden == {("N", "f"), ("N", "m"), ("S", "f"), ("S", "m")}
    frame = ["strID,freq,sdcStatus,region,sex"]
    frame += [
        f"{at:02},{n},{s.lower()},{a.replace('tot', 'Total')},{b.replace('tot', 'Total')}"
        for at, (a, b, s, n) in enumerate(rows)
    ]
    (tmp_path / "frame.csv").write_text("\n".join(frame) + "\n")
    again = confide.suppress(tmp_path / "frame.csv", out=tmp_path / "b")
    rows_again = pq.read_table(again.release / "tables/frame.parquet").to_pylist()
    assert {(r["region"], r["sex"]) for r in rows_again if r["count"] is None} == hidden


def test_what_says_nothing_of_a_table_of_cells_is_passed_over(tmp_path: Path) -> None:
    more = METADATA.replace("SIZE\n", 'asked\n  <REQUEST> "1" "2"\ngroup\n  <HOLDING>\nSIZE\n  <DISTANCE> 1 3 5\n')
    (tmp_path / "pp.rda").write_text(more)
    read = read_metadata(tmp_path / "pp.rda")
    assert [column.name for column in read.of_kind("other")] == ["asked", "group"]
    assert [column.name for column in read.of_kind("variable")] == ["REGION", "SIZE"]


def test_a_table_that_tau_argus_has_protected_is_audited(tmp_path: Path) -> None:
    rda = '<SEPARATOR> ","\n<UNSAFE> "U"\nregion\n <RECODABLE>\n <TOTCODE> "T"\nn\n <NUMERIC>\nflag\n <STATUS>\n'
    (tmp_path / "x.rda").write_text(rda)
    (tmp_path / "x.tab").write_text("T,10,S\nN,3,U\nS,4,M\nW,3,S\n")
    found = run_json("audit", "suppression", tmp_path / "x.tab")
    assert [(row["lower"], row["upper"]) for row in found["intervals"]] == [(0, 7), (0, 7)]
    (tmp_path / "x.tab").write_text("T,10,S\nN,3,U\nS,4,S\nW,3,S\n")
    assert confide.audit_suppression(tmp_path / "x.rda").as_dict()["disclosed"] == 1
    (tmp_path / "x.tab").write_text("T,10,S\nN,3,S\nS,4,S\nW,3,S\n")
    assert codes("audit", "suppression", tmp_path / "x.tab") == ["nothing-hidden"]


def test_hierarchies_by_lead_and_by_digits(tmp_path: Path) -> None:
    (tmp_path / "r.hrc").write_text("\ufeffN\n##N1\n####N1a\n##N2\n\nS\n", encoding="utf-8")
    assert read_hierarchy(tmp_path / "r.hrc", "T", "##") == {"T": ["N", "S"], "N": ["N1", "N2"], "N1": ["N1a"]}
    found = levels_of_digits(["T", "011", "012", "02", "031"], [2, 1], "T")
    assert found == {"T": ["01", "02", "03"], "01": ["011", "012"], "03": ["031"]}
    rda = METADATA.replace('<HIERCODELIST> "C:\\elsewhere\\region.hrc"', "<HIERLEVELS> 1 1 0 0 0")
    tab = written(tmp_path, pp_rda=rda.replace('  <HIERLEADSTRING> "@"\n', ""))
    assert read_metadata(tab.with_suffix(".rda")).columns[0].digits == (1, 1)
    assert confide.suppress(tab, out=tmp_path / "out", rule="p=10").ok


WRONG = {
    "rda": [
        ("<NUMERIC>\n  <DECIMALS> 0", "<COLOUR>", 15),
        ('<SEPARATOR> ";"', "<SEPARATOR>", 1),
        ('<SEPARATOR> ";"', '<SEPARATOR> ";;"', 1),
        ("SIZE\n", "REGION\n", 11),
        ('   <SEPARATOR> ";"\n', '<RECODEABLE>\n   <SEPARATOR> ";"\n', 1),
        ("  <HIERARCHICAL>\n", "  <HIERLEVELS> a b\n", 8),
    ],
    "hrc": [("@N1", "@@@N1", 2), ("@N2", "@N1", 3), ("@S1", "@", 5), ("S\n", "N1\n", 4)],
    "tab": [("N1;large;900;2;800;100", "N1;large;900;2;800", 2), ("N1;large;900;2;800;100", "N1,large", 2)],
    "hst": [("N2,small,s", "N2,small", 1), ("S1,large,p", "S1,large,q", 2), ("small,c,1", "small,c", 3),
            (",pl,20,30", ",pl,20,x", 5),
            ("S1,large,p", "S9,large,p", 2)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "old", "new", "line"), [(kind, *each) for kind, all_ in WRONG.items() for each in all_]
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, kind: str, old: str, new: str, line: int) -> None:
    texts = {"rda": METADATA, "hrc": HIERARCHY, "tab": TABLE, "hst": APRIORI}
    assert old in texts[kind]
    key = {"rda": "pp_rda", "hrc": "region_hrc", "tab": "pp_tab", "hst": "pp_hst"}[kind]
    tab = written(tmp_path, **{key: texts[kind].replace(old, new, 1)})
    with pytest.raises(ConfideError) as caught:
        confide.suppress(tab, out=tmp_path / "out", rule="p=10")
    finding = caught.value.findings[0]
    assert finding.where.line == line
    assert finding.where.file is not None
    assert finding.where.file.endswith(kind)
    assert finding.remedy


JJ = """0
4
0 20 20 s 0 40 0 0 0
1 3 3.5 u 0 40 1 2 3
2 9 9 m 0 40 0 0 0
3 8 8 z 0 40 0 0 0
1
0 4 : 0 (-1) 1 (1) 2 (1) 3 (1)
"""


def test_problems_go_round(tmp_path: Path) -> None:
    (tmp_path / "p.jj").write_text(JJ)
    problem = read_jj(tmp_path / "p.jj")
    assert problem.cells[1] == JJCell(1, Decimal(3), Decimal("3.5"), "u", *map(Decimal, (0, 40, 1, 2, 3)))
    assert problem.sums == (JJSum(Decimal(0), ((0, -1), (1, 1), (2, 1), (3, 1))),)
    write_jj(problem, tmp_path / "q.jj")
    assert (tmp_path / "q.jj").read_text() == JJ
    assert read_jj(tmp_path / "q.jj") == problem
    assert ((tmp_path / "q.jj").stat().st_mode & 0o077) == 0
    rng = np.random.default_rng(5)
    for _ in range(10):
        parts = [Decimal(int(x)) / 4 for x in rng.integers(0, 50, rng.integers(2, 9))]
        cells = [JJCell(7, sum(parts, Decimal(0)), Decimal(1), "s", Decimal(0), Decimal(10_000), *[Decimal(0)] * 3)]
        cells += [
            JJCell(at + 8, x, Decimal(1), "u", Decimal(0), Decimal(99), *[Decimal("0.25")] * 3)
            for at, x in enumerate(parts)
        ]
        terms = ((7, -1), *((at + 8, 1) for at in range(len(parts))))
        made = JJProblem(tuple(cells), (JJSum(Decimal(0), terms),))
        write_jj(made, tmp_path / "r.jj")
        assert read_jj(tmp_path / "r.jj") == made


def test_as_sdctable_writes_it_there_are_no_statuses(tmp_path: Path) -> None:
    lines = JJ.splitlines()
    lines[2:6] = [" ".join(word for word in line.split() if word not in "suzm") for line in lines[2:6]]
    lines[-1] = "0.0 4 : 0 ( -1 ) 1 ( 1 ) 2 ( 1 ) 3 ( 1 )"
    (tmp_path / "p.jj").write_text("\n".join(lines) + "\n")
    assert [cell.status for cell in read_jj(tmp_path / "p.jj").cells] == ["s", "u", "s", "s"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("0\n4\n", "1\n4\n", 1),
        ("0\n4\n", "0\nfour\n", 2),
        ("0\n4\n", "0\n3\n", 6),
        ("3 8 8 z 0 40 0 0 0", "3 8 8 q 0 40 0 0 0", 6),
        ("3 8 8 z 0 40 0 0 0", "3 8 8 z 0 40 0 0", 6),
        ("3 8 8 z 0 40 0 0 0", "2 8 8 z 0 40 0 0 0", 6),
        ("3 8 8 z 0 40 0 0 0", "3 8 8 z 0 4 0 0 0", 6),
        ("3 8 8 z 0 40 0 0 0", "3 eight 8 z 0 40 0 0 0", 6),
        ("3 8 8 z 0 40 0 0 0", "3 7 8 z 0 40 0 0 0", 8),
        ("3 (1)", "4 (1)", 8),
        ("2 (1) 3", "3 (1) 3", 8),
        ("0 4 :", "0 5 :", 8),
        ("0 4 :", "0 4", 8),
        ("\n1\n0 4", "\n2\n0 4", None),
        ("3 (1)\n", "3 (1)\nmore\n", 9),
    ],
)
def test_a_problem_that_cannot_be_read_names_its_line(tmp_path: Path, old: str, new: str, line: int | None) -> None:
    assert old in JJ
    (tmp_path / "p.jj").write_text(JJ.replace(old, new, 1))
    with pytest.raises(ConfideError) as caught:
        read_jj(tmp_path / "p.jj")
    assert caught.value.findings[0].where.line == line
    assert caught.value.findings[0].code == "argus-file"


def test_a_solved_problem_is_audited_with_its_bounds_and_levels(tmp_path: Path) -> None:
    (tmp_path / "p.jj").write_text(JJ)
    found = run_json("audit", "suppression", tmp_path / "p.jj")
    assert found["ok"]
    assert found["confidential"]
    assert [(row["cell"]["cell"], row["lower"], row["upper"]) for row in found["intervals"]] == [
        ("1", 0, 12),
        ("2", 0, 12),
    ]
    (tmp_path / "p.jj").write_text(JJ.replace("2 9 9 m 0 40", "2 9 9 m 8 10"))
    narrow = confide.audit_suppression(tmp_path / "p.jj")
    assert not narrow.ok
    (tmp_path / "p.jj").write_text(JJ.replace("2 9 9 m", "2 9 9 s"))
    assert confide.audit_suppression(tmp_path / "p.jj").as_dict()["disclosed"] == 1
    (tmp_path / "p.jj").write_text(JJ.replace("2 9 9 m", "2 9 9 s").replace("3.5 u", "3.5 s"))
    assert codes("audit", "suppression", tmp_path / "p.jj") == ["nothing-hidden"]
    assert codes("suppress", tmp_path / "p.jj", "--out", tmp_path / "D") == ["argus-file"]


def test_what_suppress_leaves_in_the_exchange_format_passes_the_audit(tmp_path: Path) -> None:
    tab = written(tmp_path)
    done = confide.suppress(tab, out=tmp_path / "out", rule=["p=10", "threshold=2"])
    file = done.run.workspace.confidential / "problem.jj"
    problem = read_jj(file)
    assert {cell.status for cell in problem.cells} == {"u", "m", "s", "z"}
    found = confide.audit_suppression(file)
    assert found.ok
    assert found.suspect.suppressed.sum() == sum(cell.status in "um" for cell in problem.cells)


@pytest.mark.slow
def test_a_hundred_thousand_cells_are_read_in_seconds(tmp_path: Path) -> None:
    rows, columns = 1_000, 100
    lines = [f"r{i:04};c{j:03};{(7 * i + 3 * j) % 50}" for i in range(rows) for j in range(columns)]
    (tmp_path / "big.tab").write_text("\n".join(lines) + "\n")
    names = ("row", "column")
    rda = (
        '<SEPARATOR> ";"\n' + "".join(f'{name}\n <RECODEABLE>\n <TOTCODE> "T"\n' for name in names) + "n\n <NUMERIC>\n"
    )
    (tmp_path / "big.rda").write_text(rda)
    began = time.process_time()
    read = read_tab(tmp_path / "big.tab", read_metadata(tmp_path / "big.rda"))
    assert len(read["n"]) == rows * columns
    cell = " 0 99 0 0 0\n"
    text = f"0\n{rows * columns}\n" + "".join(f"{at} 5 5 s{cell}" for at in range(rows * columns))
    text += f"{rows}\n" + "".join(f"0 2 : {i} (-1) {i + rows} (1)\n" for i in range(rows))
    (tmp_path / "big.jj").write_text(text)
    assert len(read_jj(tmp_path / "big.jj").cells) == rows * columns
    (tmp_path / "big.hst").write_text("".join(line.rsplit(";", 1)[0].replace(";", ",") + ",s\n" for line in lines))
    assert len(read_apriori(tmp_path / "big.hst", 2)) == rows * columns
    assert time.process_time() - began < 10


def test_statuses_are_read_with_the_separator_of_their_metadata(tmp_path: Path) -> None:
    """A file of statuses with commas, and the same with the separator that the .rda has."""
    from confide.mechanisms.suppression.given.description import _between

    (tmp_path / "a.hst").write_text("S1;large;p\n")
    (tmp_path / "b.hst").write_text("S1,large,p\n")
    assert _between(tmp_path / "a.hst", ";") == ";"
    assert _between(tmp_path / "b.hst", ";") == ","
    assert _between(None, ";") == ","
