"""The folder of a release by suppression: codes and labels, statuses in every file, and no hidden figure in any."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import rehash, remake

import confide
from confide.documents.argus import metadata_text, read_metadata
from confide.errors import ConfideError
from confide.mechanisms.suppression.output import SuppressionExplained
from confide.mechanisms.suppression.programme import of_attribute, published_codes
from confide.schema import Attribute, Group, Level, Recode, identity

EVERYTHING = '["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry", "argus"]'
SCHEMA = """
id = "firms"
provenance = "made up for tests"

[attributes.branch]
title = "Branch"
levels = [["01", "farms"], ["02", "mines"], ["10", "food"], ["11", "drink"], ["45", "trade"]]
[attributes.branch.recodes.section]
groups = { primary = ["01", "02"], industry = ["10", "11"], "trade alone" = "45" }
[attributes.branch.recodes.taste]
groups = { eaten = ["01", "10", "45"], other = ["02", "11"] }

[attributes.size]
title = "Size of the firm"
levels = [["s", "small"], ["l", "large"]]
"""
SPEC = f"""
[release]
name = "firms"
mechanism = "suppression"
title = "Firms"
[data]
records = "firms.csv"
schema = "schema.toml"
blocks = "blocks.csv"
value = "turnover"
unit = "1/100"
weight = "w"
weight_unit = "1/10"
[geography]
block = "place"
block_names = "name"
smallest = "municipality"
levels = [{{ name = "county", digits = 1 }}]
[suppression]
threshold = 2
method = "heuristic"
p = 10
[[tables]]
name = "branch"
title = "Branch by size"
variables = ["branch:section", "branch", "size"]
levels = ["county"]
[[tables]]
name = "taste"
variables = ["branch:taste", "branch:section"]
[output]
formats = {EVERYTHING}
"""
PLACES = {"101": "Old Town", "102": "Øster", "201": "Hill, upper"}


def firms(number: int = 90, seed: int = 11) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = [f"{units // 100}.{units % 100:02d}" for units in rng.integers(1_000_003, 99_999_989, number).tolist()]
    return pa.table(
        {
            "place": rng.choice([*PLACES], number).tolist(),
            "branch": rng.choice(["01", "02", "10", "11", "45"], number, p=[0.3, 0.02, 0.36, 0.02, 0.3]).tolist(),
            "size": rng.choice(["s", "l"], number, p=[0.8, 0.2]).tolist(),
            "turnover": texts,
            "w": [f"1.{tenth}" for tenth in rng.integers(0, 9, number).tolist()],
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("firms")
    pyarrow.csv.write_csv(firms(), folder / "firms.csv")
    blocks = pa.table({"place": [*PLACES], "name": [*PLACES.values()]})
    pyarrow.csv.write_csv(blocks, folder / "blocks.csv")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC)
    assert not confide.check(folder / "spec.toml").findings
    return confide.run(folder / "spec.toml", processes=1).release


def rows_of(release: Path, table: str, place: str = "tables") -> list[dict[str, Any]]:
    return pq.read_table(release / place / f"{table}.parquet").to_pylist()


def true_sums() -> Counter[tuple[str, ...]]:
    """Every cell of the table of branches, counted by hand in thousandths, by its codes."""
    sums: Counter[tuple[str, ...]] = Counter()
    sections = {"01": "01-02", "02": "01-02", "10": "10-11", "11": "10-11", "45": "45"}
    for row in firms().to_pylist():
        whole, _, part = row["turnover"].partition(".")
        units = int(whole + part) * int(row["w"].replace(".", ""))
        branches = dict.fromkeys(["_T", sections[row["branch"]], row["branch"]])
        for area in ("_T", row["place"][0]):
            for branch in branches:
                for size in ("_T", row["size"]):
                    sums[area, branch, size] += units
    return sums


def everything(release: Path) -> dict[str, str]:
    """All texts of a release: those of a workbook, and Parquet files as rows, with them."""
    texts = {}
    for file in release.rglob("*"):
        name = str(file.relative_to(release))
        if file.suffix == ".xlsx":
            with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as book:
                texts |= {f"{name}/{part}": book.read(part).decode() for part in book.namelist()}
        elif file.suffix == ".parquet":
            texts[name] = json.dumps(pq.read_table(file).to_pylist(), default=str)
        elif file.is_file():
            texts[name] = file.read_text(encoding="utf-8")
    return texts


def test_magnitudes_with_weights_and_names_are_consistent_in_every_file(made: Path) -> None:
    assert [check for check in confide.verify(made).checks if not check.ok] == []
    rows, true = rows_of(made, "branch"), true_sums()
    assert [*rows[0]] == [
        *("level", "area", "area_name", "margin", "branch", "branch_label", "size", "size_label", "value", "status"),
    ]
    assert {row["status"] for row in rows} == {"published", "suppressed"}
    for row in rows:
        assert (row["value"] is None) == (row["status"] == "suppressed")
        if row["value"] is not None:
            assert int(row["value"].scaleb(3)) == true[row["area"], row["branch"], row["size"]]


def test_no_hidden_figure_stands_in_any_file(made: Path) -> None:
    """Figures of eight digits and more: none of those that are hidden is found anywhere, in any form."""
    true, texts = true_sums(), everything(made)
    shown = {
        true[row["area"], row["branch"], row["size"]] for row in rows_of(made, "branch") if row["value"] is not None
    }
    hidden = {true[r["area"], r["branch"], r["size"]] for r in rows_of(made, "branch") if r["value"] is None} - shown
    assert len(hidden) > 5
    assert len(texts) > 20
    for units in hidden - {0}:
        digits = str(units)
        for form in (f"{digits[:-3]}.{digits[-3:]}", digits, f"{int(digits[:-3]):,}"):
            assert not [name for name, text in texts.items() if form in text], form
    found = {units for units in shown if any(f"{str(units)[:-3]}.{str(units)[-3:]}" in text for text in texts.values())}
    assert found | {0} == shown | {0}, "the search finds what is there"


def test_every_file_says_the_same_of_every_cell(made: Path) -> None:
    book = pytest.importorskip("openpyxl").load_workbook(made / "tables.xlsx", read_only=True)
    for name in ("branch", "taste"):
        rows = rows_of(made, name)
        status = [row["status"] for row in rows]
        csv = pyarrow.csv.read_csv(made / "tables" / f"{name}.csv")
        assert csv["status"].to_pylist() == status
        assert [value is None for value in csv["value"].to_pylist()] == [text == "suppressed" for text in status]
        sdmx = pyarrow.csv.read_csv(made / "sdmx" / f"{name}.csv")
        assert sdmx["OBS_STATUS"].to_pylist() == ["Q" if text == "suppressed" else "A" for text in status]
        assert sdmx["CONF_STATUS"].to_pylist() == ["C" if text == "suppressed" else "F" for text in status]
        assert [value is None for value in sdmx["OBS_VALUE"].to_pylist()] == [text == "suppressed" for text in status]
        header, *sheet = list(book[name].iter_rows(values_only=True))
        assert [line[header.index("status")] for line in sheet] == status
        assert [line[header.index("value")] is None for line in sheet] == [text == "suppressed" for text in status]
        lines = [line.split(";") for line in (made / "argus" / f"{name}.tab").read_text().splitlines()]
        # Recodes that cross are two hierarchies, of which tau-ARGUS has one.
        assert len(lines) == len([row for row in rows if row["margin"] != "by branch:taste"])
        assert {(line[-1], line[-2] == "") for line in lines} == {("S", False), ("U", True)}


def test_margins_of_one_name_leave_nobody_out(made: Path) -> None:
    """Where recodes cross, the cells are the groups of one of them: they add up to the total."""
    rows = rows_of(made, "taste")
    cells = [row["branch"] for row in rows if row["margin"] == "cell"]
    assert sorted(cells) == ["01-02", "10-11", "45"]
    assert {row["branch"]: row["branch_label"] for row in rows if row["margin"] == "by branch:taste"} == {
        "taste-1": "eaten",
        "taste-2": "other",
    } or {row["branch"] for row in rows if row["margin"] == "by branch:taste"} == {"1", "2"}


def test_codes_of_two_recodes_that_would_be_one_are_told_apart() -> None:
    levels = tuple(Level(str(code), f"level {code}") for code in range(1, 7))
    attribute = Attribute("kind", "Kind", levels)
    odd = Recode("kind:odd", attribute, (Group("odd", ("1", "3", "5")), Group("even", ("2", "4", "6"))))
    low = Recode("kind:low", attribute, (Group("ends", ("1", "6")), Group("middle", ("2", "3", "4", "5"))))
    recodes = [odd, low, identity(attribute)]
    published = published_codes(of_attribute(recodes), recodes)
    pairs = dict(zip(published.codes, published.labels, strict=True))
    assert pairs["odd-1"] == "odd"
    assert pairs["low-2"] == "middle"
    assert pairs["kind-1"] == "level 1"
    assert pairs["3"] == "level 3"
    assert len(pairs) == 1 + 2 + 2 + 6


def test_sums_are_exact_or_say_what_is_missing(made: Path) -> None:
    release = confide.open_release(made)
    table = release.tables["branch"]
    known = [row for row in rows_of(made, "branch") if row["value"] is not None]
    shown = table.rows(level=known[0]["level"], area=known[0]["area"], branch=known[0]["branch"], size=known[0]["size"])
    exact = release.sum(shown)
    assert (exact.value, exact.margin) == (float(known[0]["value"]), 0)
    missing = release.sum(table.rows(status="suppressed"))
    assert missing.value is None
    assert missing.margin is None
    assert "suppressed, which does not mean zero" in missing.note
    part = release.sum(table.cells())
    assert part.value is None
    assert f"of {len(table.cells()):,} figures" in part.note
    assert str(part).startswith("unknown:")


FORGERIES = {
    "label": ("tables/branch.csv", '"food"', '"drink"', "branch: columns, labels and statuses"),
    "code": ("tables/branch.csv", '"10","food"', '"11","food"', "branch: columns, labels and statuses"),
    "margin": ("tables/branch.csv", '"by size"', '"cell"', "branch: columns, labels and statuses"),
    "status": ("tables/branch.csv", ',"suppressed"', ',"published"', "branch: columns, labels and statuses"),
    "sdmx status": ("sdmx/branch.csv", '"Q","C"', '"A","C"', "branch: columns, labels and statuses"),
    "confidentiality": ("sdmx/branch.csv", '"Q","C"', '"Q","F"', "branch: columns, labels and statuses"),
    "cells": ("cells/branch.csv", ',"suppressed"', ',"published"', "branch: cells alone"),
    "argus status": ("argus/branch.tab", ";U", ";S", "pages as the manifest has them"),
    "argus label": ("argus/branch.branch.cdl", "10,food", "10,drink", "pages as the manifest has them"),
    "argus hierarchy": ("argus/branch.branch.hrc", "@01", "@02", "pages as the manifest has them"),
    "name": ("areas.csv", "_T", "_X", "areas: each once, in order"),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_verify_finds_what_a_forger_changes_in_one_file(made: Path, tmp_path: Path, kind: str) -> None:
    path, old, new, check = FORGERIES[kind]
    release = Path(shutil.copytree(made, tmp_path / "release"))
    text = (release / path).read_text(encoding="utf-8")
    assert old in text
    (release / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    rehash(release)
    assert check in {each.name for each in confide.verify(release).checks if not each.ok}


# tau-ARGUS: what is written is read again, and protects and audits as the release itself.


def test_an_audit_of_the_files_of_tau_argus_finds_what_an_audit_of_the_release_finds(
    made: Path, tmp_path: Path
) -> None:
    text = SPEC.replace('value = "turnover"\nunit = "1/100"\nweight = "w"\nweight_unit = "1/10"\n', "")
    text = text.replace("p = 10\n", "").replace("threshold = 2", "threshold = 5")
    text = text[: text.index('[[tables]]\nname = "taste"')] + text[text.index("[output]") :]
    for name in ("firms.csv", "blocks.csv", "schema.toml"):
        shutil.copy(made.parent.parent / name, tmp_path / name)
    (tmp_path / "spec.toml").write_text(text)
    release = confide.run(tmp_path / "spec.toml", processes=1).release
    ours = confide.audit_suppression(release).as_dict()
    theirs = confide.audit_suppression(release / "argus" / "branch.rda").as_dict()
    assert ours["suppressed"] == theirs["suppressed"] > 0
    assert ours["cells"] == theirs["cells"]
    bounds = [sorted((each["lower"], each["upper"]) for each in answer["intervals"]) for answer in (ours, theirs)]
    assert bounds[0] == bounds[1]


def test_labels_and_hierarchies_of_tau_argus_come_out_as_they_went_in(tmp_path: Path) -> None:
    lines = {("N1", "f"): 2, ("N1", "m"): 8, ("N2", "f"): 9, ("N2", "m"): 7, ("S", "f"): 12, ("S", "m"): 6}
    (tmp_path / "t.tab").write_text("".join(f"{a};{b};{n}\n" for (a, b), n in lines.items()))
    (tmp_path / "t.rda").write_text(
        '<SEPARATOR> ";"\nregion\n  <RECODEABLE>\n  <TOTCODE> "Total"\n  <CODELIST> "region.cdl"\n  <HIERARCHICAL>\n'
        '  <HIERCODELIST> "region.hrc"\n  <HIERLEADSTRING> "@"\nsex\n  <RECODEABLE>\n  <TOTCODE> "Total"\n'
        "count\n  <NUMERIC>\n"
    )
    (tmp_path / "region.hrc").write_text("N\n@N1\n@N2\nS\n")
    (tmp_path / "region.cdl").write_text("N,The North\nN1,Town, old\nN2,Coast\nS,The North\n")
    done = confide.suppress(tmp_path / "t.rda", rule="threshold=3", out=tmp_path / "out")
    assert done.ok
    release = done.release
    rows = pyarrow.csv.read_csv(release / "tables/t.csv").to_pylist()
    labels = {row["region"]: row["region_label"] for row in rows}
    assert labels == {"_T": "_T", "N": "The North", "N1": "Town, old", "N2": "Coast", "S": "The North"}
    margins = {row["region"]: row["margin"] for row in rows if row["sex"] == "_T"}
    assert margins == {"_T": "total", "N": "by region:level 1", "N1": "by region", "N2": "by region", "S": "by region"}
    assert (release / "argus/t.region.hrc").read_text() == "N\n@N1\n@N2\nS\n"
    listed = sorted((release / "argus/t.region.cdl").read_text().splitlines())
    assert listed == ["N,The North", "N1,Town, old", "N2,Coast", "S,The North"]
    metadata = read_metadata(release / "argus/t.rda")
    (tmp_path / "again.rda").write_text(metadata_text(metadata))
    again = read_metadata(tmp_path / "again.rda")
    assert [(c.name, c.kind, c.total, c.hierarchy, c.labels) for c in metadata.columns] == [
        (c.name, c.kind, c.total, c.hierarchy, c.labels) for c in again.columns
    ]
    audited = confide.audit_suppression(release / "argus/t.rda").as_dict()
    assert audited["suppressed"] == sum(row["status"] == "suppressed" for row in rows)
    assert audited["disclosed"] == 0


def as_asc(folder: Path, rows: list[list[str]], names: list[str], separator: str | None = None) -> None:
    """Records as tau-ARGUS reads them."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(names))]
    if separator is not None:
        (folder / "firms.asc").write_text("".join(separator.join(row) + "\n" for row in rows))
        (folder / "firms.rda").write_text(
            f'<SEPARATOR> "{separator}"\n' + "".join(f"{name}\n  <RECODEABLE>\n" for name in names)
        )
        return
    places = np.cumsum([1, *(width + 1 for width in widths)])
    (folder / "firms.asc").write_text(
        "".join(" ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)) + "\n" for row in rows)
    )
    described = [
        f"{name} {start} {width} 99\n  <{'NUMERIC' if name == 'turnover' else 'RECODEABLE'}>\n"
        for name, start, width in zip(names, places, widths, strict=False)
    ]
    (folder / "firms.rda").write_text("".join(described))


@pytest.mark.parametrize("separator", [None, ";"])
def test_records_of_tau_argus_are_records_like_others(made: Path, tmp_path: Path, separator: str | None) -> None:
    table = firms()
    rows = [list(row.values()) for row in table.to_pylist()]
    as_asc(tmp_path, rows, table.column_names, separator)
    for name in ("blocks.csv", "schema.toml"):
        shutil.copy(made.parent.parent / name, tmp_path / name)
    (tmp_path / "spec.toml").write_text(SPEC.replace('records = "firms.csv"', 'records = "firms.asc"'))
    release = confide.run(tmp_path / "spec.toml", processes=1).release
    for name in ("branch", "taste"):
        assert rows_of(release, name) == rows_of(made, name)
    from confide.inputs.records import records_fingerprint

    before = records_fingerprint(tmp_path / "firms.asc")
    text = (tmp_path / "firms.rda").read_text()
    (tmp_path / "firms.rda").write_text(text + "\n")
    assert records_fingerprint(tmp_path / "firms.asc") != before, "what says where values stand is part of the records"


@pytest.mark.parametrize(
    ("metadata", "line"),
    [
        ("place 1 3\n  <RECODEABLE>\nbranch\n  <RECODEABLE>\n", "101 01\n"),
        ("place 1 3\n  <RECODEABLE>\nbranch 5 2\n  <RECODEABLE>\n", "101\n"),
        ('<SEPARATOR> ";"\nplace\n  <RECODEABLE>\nbranch\n  <RECODEABLE>\n', "101;01;2\n"),
    ],
)
def test_records_that_do_not_fit_their_metadata_are_a_finding(
    made: Path, tmp_path: Path, metadata: str, line: str
) -> None:
    (tmp_path / "firms.asc").write_text(line)
    (tmp_path / "firms.rda").write_text(metadata)
    for name in ("blocks.csv", "schema.toml"):
        shutil.copy(made.parent.parent / name, tmp_path / name)
    (tmp_path / "spec.toml").write_text(SPEC.replace('records = "firms.csv"', 'records = "firms.asc"'))
    try:
        found = [finding.code for finding in confide.check(tmp_path / "spec.toml").findings]
    except ConfideError as error:
        found = [finding.code for finding in error.findings]
    assert "argus-file" in found


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('["45", "trade"]', '["_T", "trade"]', "reserved-code"),
        (
            "[attributes.size]",
            "[attributes.branch_label]\ntitle = 'x'\nlevels = [['a', 'b'], ['c', 'd']]\n[attributes.size]",
            "",
        ),
    ],
)
def test_what_tables_cannot_have_is_a_finding(made: Path, tmp_path: Path, old: str, new: str, code: str) -> None:
    for name in ("firms.csv", "blocks.csv"):
        shutil.copy(made.parent.parent / name, tmp_path / name)
    schema = SCHEMA.replace(old, new).replace('"45"', '"_T"' if code else '"45"')
    (tmp_path / "schema.toml").write_text(schema)
    spec = SPEC if code else SPEC.replace('"branch", "size"]', '"branch", "branch_label"]')
    (tmp_path / "spec.toml").write_text(spec)
    with pytest.raises(ConfideError) as raised:
        confide.run(tmp_path / "spec.toml", processes=1)
    assert {finding.code for finding in raised.value.findings} & {code or "same-column"}


def test_a_remade_release_is_consistent(made: Path, tmp_path: Path) -> None:
    """What follows from the tables is made anew by the forger's tool as by the runner: the argus files too."""
    release = Path(shutil.copytree(made, tmp_path / "release"))
    remake(release)
    assert "pages as the manifest has them" not in {each.name for each in confide.verify(release).checks if not each.ok}


def test_a_variable_along_which_nothing_adds_up_has_no_total(tmp_path: Path) -> None:
    rows = [
        "year,sex,count",
        *(f"{year},{sex},{n}" for year in (2020, 2021) for sex, n in (("f", 2), ("m", 9), ("x", 8))),
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "t.toml").write_text(
        '[variables.year]\nadds_up = false\ntitle = "Year of the count"\n[variables.sex]\n'
        'labels = { f = "women", m = "men", x = "others" }\n[[tables]]\n'
    )
    done = confide.suppress(
        tmp_path / "t.csv", rule="threshold=3", out=tmp_path / "out", formats=["csv", "argus", "xlsx"]
    )
    assert done.ok
    table = pyarrow.csv.read_csv(done.release / "tables/t.csv").to_pylist()
    assert {row["margin"] for row in table} == {"cell", "by year"}
    assert {row["sex"]: row["sex_label"] for row in table} == {"_T": "_T", "f": "women", "m": "men", "x": "others"}
    assert "Year of the count" in (done.release / "codebook.html").read_text()
    codebook = SuppressionExplained().codebook(json.loads((done.release / "manifest.json").read_text()))
    assert codebook is not None
    assert [variable.title for variable in codebook.variables] == ["Year of the count", "sex"]
