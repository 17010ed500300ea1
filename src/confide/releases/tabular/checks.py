"""What ``verify`` asks of every tabular release, and how an evaluation finds the files of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from confide.errors import Place, ReleaseError
from confide.releases.mechanism import Check
from confide.releases.tabular.table import SDMX, Table, UnlikePlanError

STATEMENT, STAMP_FILE = "statement.html", "NOT-FOR-RELEASE.txt"
R = TypeVar("R")


def table_files(name: str, files: Iterable[str]) -> dict[str, str]:
    """The files of a table by their format, stamped or not."""
    stems = {f"tables/{name}": ("parquet", "csv"), f"sdmx/{name}": ("csv",)}
    paths = {}
    for path in files:
        stem, ending = path.split(".")[0], path.rsplit(".", maxsplit=1)[-1]
        if ending in stems.get(stem, ()):
            paths[SDMX if stem.startswith("sdmx/") else ending] = path
    return {format_: paths[format_] for format_ in ("parquet", "csv", SDMX) if format_ in paths}


def no_other_files(names: Iterable[str], files: Collection[str], also: Iterable[str] = ()) -> Check:
    """Every file is a table of the plan, the statement, or named in ``also``."""
    planned = {path for name in names for path in table_files(name, files).values()} | {STATEMENT, STAMP_FILE, *also}
    others = sorted(set(files) - planned)
    return Check("no other files", not others, ", ".join(others) or "every file is one of the plan, or the statement")


def every_format(names: Iterable[str], files: Collection[str]) -> Check:
    """All tables are there, in the same formats."""
    formats = {tuple(table_files(name, files)) for name in names}
    detail = ", ".join(sorted(set().union(*formats))) or "no file of any table is in the release"
    return Check("every table in every format", len(formats) == 1 and () not in formats, detail)


def unique_keys(name: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Check:
    """Whether the columns that say which cell a row is tell every row apart from every other.

    Args:
        name: The name of the table.
        columns: These columns.
        rows: Texts of which no two may be the same: those of each row, or for each variable its labels and the total's.

    Returns:
        The check: without it, two figures would stand for one cell.
    """
    twice = [text for text, times in Counter(tuple(row) for row in rows).items() if times > 1]
    twice += [(column,) for column, times in Counter(column.lower() for column in columns).items() if times > 1]
    detail = f"{' '.join(twice[0])} stands for two" if twice else ", ".join(columns) or "one row"
    return Check(f"{name}: a key for each row", not twice, detail)


def labels_tell_apart(table: Table) -> Check:
    """The same from the labels of the plan, for tables whose rows are known to have each combination of them once."""
    labels = ((variable.column, text) for variable in table.variables for text in table.label_texts(variable))
    return unique_keys(table.name, table.columns, labels)


def read_formats(
    folder: Path, name: str, files: Iterable[str], read: Callable[[Path, str], R]
) -> tuple[dict[str, R], str]:
    """A table as each of its files has it, and the first problem in words.

    Args:
        folder: The release.
        name: The name of the table.
        files: The files that the manifest lists.
        read: Reads one file, given its path and format.

    Returns:
        What was read by format, and what is not as the plan describes it, or nothing.
    """
    contents: dict[str, R] = {}
    paths = table_files(name, files)
    problem = "" if paths else "no file of this table is in the release"
    for format_, path in paths.items():
        try:
            contents[format_] = read(folder / path, format_)
        except UnlikePlanError as error:
            problem = problem or f"{format_}: {error}"
    return contents, problem


def same_formats(name: str, contents: Mapping[str, R], equal: Callable[[R, R], bool]) -> Check:
    """Every format has the same rows."""
    first, *others = contents.values()
    same = all(equal(first, other) for other in others)
    return Check(f"{name}: the same in every format", same, ", ".join(contents))


def released_file(release: Path, name: str, formats: Sequence[str]) -> tuple[Path, str]:
    """One file of a released table and its format: a plain one, if there is any."""
    present = [str(file.relative_to(release)) for file in release.rglob(f"{name}.*") if file.is_file()]
    paths = table_files(name, present)
    for format_ in (*(each for each in formats if each != SDMX), SDMX):
        if format_ in paths:
            return release / paths[format_], format_
    raise unlike_plan(name, UnlikePlanError("no file"))


def unlike_plan(file: str, problem: Exception) -> ReleaseError:
    """The error for a released table that an evaluation cannot read."""
    return ReleaseError(
        "release-unlike",
        "a released table is not as the plan describes it",
        where=Place(file=file),
        found=str(problem) if isinstance(problem, UnlikePlanError) else "a file that cannot be read",
        expected="the table as it was sealed",
        remedy="verify the release with `confide verify`, and restore it",
    )
