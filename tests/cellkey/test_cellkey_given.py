"""Tables that were counted elsewhere, with cell keys: the noise of a release from records, cell by cell."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.cellkey import (
    KEYS,
    TABLES,
    expected_figures,
    people,
    release_of,
    true_cells,
    with_count,
)
from tests.kits.cellkey_areas import looked_up
from tests.kits.forged import failed, rehash
from tests.kits.labelled import read_labelled
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.engines import Source
from confide.errors import CONFIDENTIAL, ConfideError
from confide.mechanisms.cellkey.given import GivenTable, given_fingerprint
from confide.mechanisms.cellkey.programme import shuffled
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.noise.ptables import count_settings, export_text, generate

PLAIN = generate(count_settings(5, "2")).table(KEYS)
PTABLE = shuffled(PLAIN, CellKeyPart())
NAME, VARIABLES = TABLES[0]


def given(folder: Path, *, decimals: bool = False, weighted: bool = False, backwards: bool = False) -> Path:
    """All cells of a table of the town with their true counts and cell keys, as an office would bring them."""
    cells = true_cells(people(), VARIABLES)
    rows = []
    for labels, cell in cells.items():
        key = cell.key % KEYS
        row = dict(zip(VARIABLES, labels, strict=True)) | {"count": cell.count}
        row["cell_key"] = f"{Decimal(key).scaleb(-8):.8f}" if decimals else str(key)
        if weighted:
            row["weight"] = str(Decimal(cell.weight.numerator) / Decimal(cell.weight.denominator))
        rows.append(row)
    rows.sort(key=lambda row: row["count"], reverse=backwards)
    folder.mkdir(parents=True, exist_ok=True)
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows), folder / "cells.csv")
    return folder / "cells.csv"


def published(release: Path) -> dict[tuple[str, ...], int]:
    table = pq.read_table(release / "tables/cells.parquet")
    return {tuple(row[name] for name in VARIABLES): row["count"] for row in table.to_pylist()}


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> confide.mechanisms.cellkey.given.PerturbedTable:  # type: ignore[name-defined]
    folder = tmp_path_factory.mktemp("given")
    return confide.perturb_cells(given(folder), folder / "out", D=5, V="2")


def test_every_cell_has_the_noise_of_its_count_and_key(answer: object) -> None:
    expected = {
        labels: figure
        for labels, cell in true_cells(people(), VARIABLES).items()
        if (figure := looked_up(PTABLE, cell.count, cell.key % KEYS))
    }
    assert published(answer.release) == expected  # type: ignore[attr-defined]


def test_the_same_members_have_the_figures_of_a_release_from_records(answer: object, tmp_path: Path) -> None:
    release = release_of(tmp_path, tables=((NAME, VARIABLES),), output="")
    rows = read_labelled(release / f"tables/{NAME}.parquet").to_pylist()
    assert published(answer.release) == {tuple(row[v] for v in VARIABLES): row["count"] for row in rows}  # type: ignore[attr-defined]


def test_it_is_a_release_like_others(answer: object) -> None:
    release = answer.release  # type: ignore[attr-defined]
    assert confide.verify(release).ok
    question = json.loads((release / "manifest.json").read_text())["plan"]["question"]
    assert question["given"] is True
    assert question["tables"] == [{"name": "cells", "title": "cells", "variables": list(VARIABLES)}]
    told = confide.evaluate(answer.spec).accuracy.reveal("made-up people")  # type: ignore[attr-defined]
    assert told["programme"]["cells"] == len(true_cells(people(), VARIABLES))
    assert answer.spec.stat().st_mode & 0o077 == 0  # type: ignore[attr-defined]


def test_its_folder_explains_the_columns_that_were_given(tmp_path: Path) -> None:
    """Codes such as 01 stay text by the data package and by the commands of the codebook; nothing is said of totals."""
    (tmp_path / "cells.csv").write_text(
        "region,sex,count,cell_key\n01,f,50,910000\n01,m,70,50326000\n01,_T,120,41326000\n02,f,15,13260000\n"
    )
    spec = confide.perturb_cells(tmp_path / "cells.csv", tmp_path / "out", D=5, V="2").spec
    text = spec.read_text().replace('folder = "run"', 'folder = "all"')
    spec.write_text(text.replace('["parquet", "csv"]', '["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry"]'))
    release = confide.run(spec, processes=1).release
    assert [check for check in confide.verify(release).checks if not check.ok] == []
    rows = pq.read_table(release / "tables/cells.parquet").to_pylist()
    (resource,) = json.loads((release / "datapackage.json").read_text())["resources"]
    kinds = {each["name"]: each["type"] for each in resource["schema"]["fields"]}
    assert kinds == {"region": "string", "sex": "string", "count": "integer"}
    assert resource["schema"]["primaryKey"] == ["region", "sex"]
    page = html.unescape((release / "codebook.html").read_text())
    (command,) = re.findall(r"<code>(SELECT .*?)</code>", page)
    found = duckdb.sql(command.replace("'tables/", f"'{release}/tables/")).fetchall()
    assert found == [tuple(row.values()) for row in rows]
    assert found[0][0] == "01"
    readme = (release / "README.txt").read_text()
    assert "HOW TO ADD UP" not in readme
    assert "_label" not in readme + page
    assert "tables.xlsx" in readme
    opened = confide.open_release(release)
    assert opened.tables["cells"].pandas()["region"].tolist()[0] == "01"
    spec.write_text(text.replace('["parquet", "csv"]', '["csv", "argus"]'))
    with pytest.raises(ConfideError) as refused:
        confide.check(spec)
    assert [finding.code for finding in refused.value.findings] == ["given-cells"]


def test_the_order_of_the_file_and_the_form_of_keys_say_nothing(answer: object, tmp_path: Path) -> None:
    """Rows sorted by their true counts, keys as decimals: the same bytes."""
    cells = given(tmp_path, decimals=True, backwards=True)
    other = confide.perturb_cells(cells, tmp_path / "out", D=5, V="2").release
    for format_ in ("csv", "parquet"):
        path = f"tables/cells.{format_}"
        assert (other / path).read_bytes() == (answer.release / path).read_bytes()  # type: ignore[attr-defined]


def test_a_perturbation_table_from_a_file_and_weights_and_a_threshold(tmp_path: Path) -> None:
    (tmp_path / "table.txt").write_text(export_text(PLAIN))
    cells = given(tmp_path, weighted=True)
    answer = confide.perturb_cells(
        cells, tmp_path / "out", ptable=tmp_path / "table.txt", weight="weight", threshold=10, name="cells"
    )
    rows = pq.read_table(answer.release / "tables/cells.parquet").to_pylist()
    found = {tuple(row[name] for name in VARIABLES): (row["count"], Fraction(str(row["weighted"]))) for row in rows}
    assert found == expected_figures(true_cells(people(), VARIABLES), PLAIN, 10)


def test_the_command(tmp_path: Path) -> None:
    cells = given(tmp_path)
    arguments = ["cellkey", "perturb", str(cells), "-D", "5", "-V", "2", "--out", str(tmp_path / "out"), "--json"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    told = json.loads(shown.stdout)
    assert told["variables"] == list(VARIABLES)
    assert confide.verify(told["release"]).ok
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, ConfideError)
    assert "already" in str(again.exception)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda rows: [*rows, rows[0]], "is there twice"),
        (lambda rows: [rows[0] | {"count": "-1"}, *rows[1:]], "a count is not one"),
        (lambda rows: [rows[0] | {"count": "2.5"}, *rows[1:]], "a count is not one"),
        (lambda rows: [rows[0] | {"cell_key": str(KEYS)}, *rows[1:]], "a key is not one"),
        (lambda rows: [rows[0] | {"cell_key": ""}, *rows[1:]], "a key is not one"),
        (lambda rows: [rows[0] | {"cell_key": "1.5"}, *rows[1:]], "a cell key is not one"),
        (lambda rows: [rows[0] | {"sex": " "}, *rows[1:]], "no label"),
        (lambda rows: [*rows, rows[0] | {"sex": rows[0]["sex"] + " "}], "nobody sees"),
        (lambda rows: [*rows, rows[0] | {"sex": rows[0]["sex"] + "\u200b"}], "nobody sees"),
        (lambda rows: [{k: v for k, v in row.items() if k != "cell_key"} for row in rows], "no column"),
    ],
)
def test_cells_that_cannot_be_are_found_and_not_shown(tmp_path: Path, change: object, what: str) -> None:
    rows = [
        {name: str(value) for name, value in row.items()} for row in pyarrow.csv.read_csv(given(tmp_path)).to_pylist()
    ]
    pyarrow.csv.write_csv(pa.Table.from_pylist(change(rows)), tmp_path / "cells.csv")  # type: ignore[operator]
    with pytest.raises(ConfideError) as error:
        confide.perturb_cells(tmp_path / "cells.csv", tmp_path / "out", D=5, V=2, variables=VARIABLES)
    found = [finding for finding in error.value.findings if finding.severity == "error"]
    assert any(what in finding.what for finding in found)
    if what != "no column":
        assert {finding.found for finding in found} == {CONFIDENTIAL}
    assert not (tmp_path / "out/run/release").exists()


@pytest.mark.parametrize("other", ["qu_arter", "obs value"])
def test_columns_that_sdmx_cannot_tell_apart_are_refused(tmp_path: Path, other: str) -> None:
    """Two columns of one name in SDMX-CSV, or one of the name of the figures: the run ended in an internal error."""
    (tmp_path / "cells.csv").write_text(f"qu arter,{other},count,cell_key\nN,1,3,17\nS,2,4,99\n")
    text = (
        '[release]\nname = "given"\nmechanism = "cellkey"\n[data]\n[cellkey]\nD = 2\nV = "1"\n'
        f'[[tables]]\nname = "cells"\nvariables = ["qu arter", "{other}"]\ncells = "cells.csv"\n'
    )
    (tmp_path / "spec.toml").write_text(text + '[output]\nformats = ["csv"]\n')
    assert not confide.check(tmp_path / "spec.toml", processes=1).errors
    (tmp_path / "spec.toml").write_text(text + '[output]\nformats = ["csv", "sdmx-csv"]\n')
    (finding,) = confide.check(tmp_path / "spec.toml", processes=1).errors
    assert finding.code == "reserved-name"


def test_the_fingerprint_is_that_of_all_files_in_their_order(tmp_path: Path) -> None:
    """What a run is bound to: no file of cells can change, or take the place of another, unnoticed."""
    files = [tmp_path / f"{name}.csv" for name in "ab"]
    tables = [GivenTable(file.stem, file.stem, ("sex",), Source(file, "csv")) for file in files]

    def fingerprint(*texts: str) -> str:
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        return given_fingerprint(tables)

    assert fingerprint("one", "two") == fingerprint("one", "two")
    assert len({fingerprint(*texts) for texts in (("one", "two"), ("one", "2"), ("1", "two"), ("two", "one"))}) == 4


@pytest.mark.parametrize(
    "keys",
    [range(2_000), [12_345] * 2_000, [at % 7 * 10**7 for at in range(2_000)], [7] * 60, [99_999_999] * 60, range(60)],
    ids=["row numbers", "one key", "few keys", "one key of 60 cells", "a large one", "60 row numbers"],
)
def test_keys_that_nobody_drew_are_refused(tmp_path: Path, keys: Sequence[int]) -> None:
    """Row numbers; one key for all cells; a handful of them, spread evenly."""
    rows = [{"cell": f"c{at:05d}", "count": 1 + at % 7, "cell_key": key} for at, key in enumerate(keys)]
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows), tmp_path / "cells.csv")
    with pytest.raises(ConfideError) as error:
        confide.perturb_cells(tmp_path / "cells.csv", tmp_path / "out", D=5, V=2)
    assert "keys-not-drawn" in {finding.code for finding in error.value.findings}
    assert not list((tmp_path / "out").rglob("manifest.json"))


@pytest.mark.parametrize("cells", [1, 2, 20, 60, 300, 2_000])
@pytest.mark.parametrize("modulus", [10**4, 10**8])
def test_keys_that_were_drawn_are_taken(tmp_path: Path, cells: int, modulus: int) -> None:
    drawn = np.random.default_rng(cells + modulus).integers(0, modulus, cells).tolist()
    rows = [{"cell": f"c{at:05d}", "count": 1 + at % 7, "cell_key": key} for at, key in enumerate(drawn)]
    rows.append({"cell": "all", "count": sum(row["count"] for row in rows), "cell_key": sum(drawn) % modulus})
    pyarrow.csv.write_csv(pa.Table.from_pylist(rows), tmp_path / "cells.csv")
    assert confide.perturb_cells(tmp_path / "cells.csv", tmp_path / "out", D=5, V=2, keys=modulus).release.exists()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "cells: every cell once, in order"),
        (lambda t: with_count(t, 0, -1), "cells: counts that may be published"),
        (lambda t: t.append_column("true", t.column("count")), "cells: columns"),
    ],
)
def test_a_forged_table_is_found(answer: object, tmp_path: Path, change: object, name: str) -> None:
    import shutil

    copy = Path(shutil.copytree(answer.release, tmp_path / "copy"))  # type: ignore[attr-defined]
    forged = change(pq.read_table(copy / "tables/cells.parquet"))  # type: ignore[operator]
    pq.write_table(forged, copy / "tables/cells.parquet")
    pyarrow.csv.write_csv(forged, copy / "tables/cells.csv")
    rehash(copy)
    assert name in failed(copy)
