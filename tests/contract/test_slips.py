"""A slip in what an example is given: ``check`` and ``run`` refuse it with findings, without a trace, for nothing."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import confide
from tests.contract.kit import ConfideError, Project, findings_of, lay_out, tree


def assert_refused(project: Project, slip: str) -> None:
    before = tree(project.folder)
    folders = sorted(path for path in project.folder.rglob("*") if path.is_dir())
    checked = findings_of(lambda: check(project))
    assert checked, f"check finds nothing where {slip}"
    refused = findings_of(project.run)
    assert {finding.code for finding in refused} == {finding.code for finding in checked}, slip
    assert tree(project.folder) == before, slip
    assert sorted(path for path in project.folder.rglob("*") if path.is_dir()) == folders, slip


def check(project: Project) -> None:
    """What ``check`` finds, raised: a check of a spec that cannot be read raises as well."""
    if errors := confide.check(project.spec, processes=1).errors:
        raise ConfideError(errors)


def test_an_example_has_no_slip(sealed: Project, tmp_path: Path) -> None:
    """Otherwise the refusals below could be for another reason."""
    project = lay_out(sealed.name, tmp_path / "project")
    before = tree(project.folder)
    assert findings_of(lambda: check(project)) == []
    assert tree(project.folder) == before


@pytest.mark.parametrize("slip", ["missing", "empty"])
def test_an_input_that_is_missing_or_empty(name: str, slip: str, tmp_path: Path) -> None:
    for number in range(len(lay_out(name, tmp_path / "counted").given)):
        project = lay_out(name, tmp_path / str(number))
        given = project.given[number]
        folder = given.is_dir()
        if folder:
            shutil.rmtree(given)
        else:
            given.unlink()
        if slip == "empty":
            given.mkdir() if folder else given.touch()
        assert_refused(project, f"{given.name} is {slip}")


def test_a_file_of_a_folder_that_is_empty_or_broken(name: str, tmp_path: Path) -> None:
    project = lay_out(name, tmp_path / "project")
    folders = [given for given in project.given if given.is_dir()]
    for file in (max(folder.rglob("*.parquet"), key=lambda path: path.stat().st_size) for folder in folders):
        content = file.read_bytes()
        for other in (b"", content[: len(content) // 2]):
            file.write_bytes(other)
            assert_refused(project, f"{file.name} has {len(other)} bytes")
        file.write_bytes(content)


def test_a_misspelt_column(project: Project) -> None:
    """One that the release needs is refused by its name; others may have any name."""
    file = max(project.inputs, key=lambda path: path.stat().st_size)
    content = file.read_bytes()
    for column in columns(file):
        rename(file, column, f"{column}x")
        if findings := findings_of(lambda: check(project)):
            assert any(column in str(finding) for finding in findings), column
            assert_refused(project, f"the column {column} is misspelt")
            return
        file.write_bytes(content)
    pytest.fail("no column is needed")


def columns(file: Path) -> list[str]:
    if file.suffix == ".parquet":
        return list(pq.ParquetFile(file).schema_arrow.names)
    return header(file).replace("|", ",").split(",")


def header(file: Path) -> str:
    return file.read_bytes().splitlines()[0].decode()


def rename(file: Path, old: str, new: str) -> None:
    if file.suffix == ".parquet":
        table = pq.ParquetFile(file).read()
        to = io.BytesIO()
        pq.write_table(table.rename_columns([new if name == old else name for name in table.column_names]), to)
        file.write_bytes(to.getvalue())
    else:
        first = header(file)
        file.write_bytes(file.read_bytes().replace(first.encode(), first.replace(old, new, 1).encode(), 1))


def test_a_key_of_the_spec_that_is_misspelt(project: Project) -> None:
    text = project.spec.read_text(encoding="utf-8")
    misspelt = re.sub(r"\btitle =", "titel =", text, count=1)
    assert misspelt != text
    project.spec.write_text(misspelt, encoding="utf-8")
    before = tree(project.folder)
    for verb in (lambda: check(project), project.run):
        findings = findings_of(verb)
        assert any("title" in str(finding) and finding.where.line for finding in findings), findings
    assert tree(project.folder) == before
