"""What the attack can be made on: a folder of tables with a description, or a release of Confide.

How a release is read back its mechanism says (:mod:`confide.lab.published`): tables with noise, tables with
figures left out, or the protected records themselves. For a part of a release, write a folder of tables: every file is
read against the description (``tables.toml``), with all problems at once (``docs/concepts/reconstruction.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from confide.errors import Finding, InputError, ParameterError, Place, RunError
from confide.inputs.table_files import read_text
from confide.lab.attacks.reconstruction import description as reconstruction_description
from confide.lab.published import published_rows
from confide.lab.published.marginals import NoiseBound, Published, PublishedGeography, PublishedMarginal, one_unit
from confide.lab.published.published_rows import KnownAreas, ReadBack, no_groups, not_attacked
from confide.mechanisms import MECHANISMS
from confide.releases.abilities import PUBLISHED
from confide.releases.folder import MANIFEST, SealedRelease
from confide.schema import Schema


def read_source(
    folder: str | Path,
    schema: str | Path | None = None,
    groups: Sequence[str] = (),
    areas: KnownAreas | None = None,
) -> Published:
    """The tables of a folder with a ``tables.toml``, or those of a release folder.

    Args:
        folder: The folder.
        schema: The schema file of a release whose schema does not ship.
        groups: The iteration codes of a SafeTab-P release to attack; all if there is none.
        areas: For each level of a release, ``block`` among them, the codes of every smallest area, where its codes do
            not say in which areas it lies: see :func:`confide.lab.attacks.read_areas`.

    Returns:
        The tables, for :func:`confide.lab.attacks.reconstruct`.

    >>> len(read_source(sealed).tables) > 0
    True
    """
    folder = Path(folder)
    if (folder / reconstruction_description.DESCRIPTION).exists():
        no_groups(groups, reconstruction_description.DESCRIPTION)
        if schema is not None:
            raise ParameterError(
                "schema-twice",
                where=Place(path="--schema"),
                found=str(schema),
                description=reconstruction_description.DESCRIPTION,
            )
        return read_tables(folder)
    if (release := SealedRelease.at(folder)) is None:
        raise InputError(
            "no-tables/folder",
            where=Place(file=folder.name),
            description=reconstruction_description.DESCRIPTION,
            manifest=MANIFEST,
        )
    return read_release(release, schema, groups, areas)


def read_release(
    given: str | Path | SealedRelease,
    schema: str | Path | None = None,
    groups: Sequence[str] = (),
    areas: KnownAreas | None = None,
) -> Published:
    """The tables of a release folder, as its mechanism reads them back; see :func:`read_source`.

    Args:
        given: The release, or the folder of its run.
        schema: The schema file of a release whose schema does not ship.
        groups: The iteration codes of a SafeTab-P release; all if there is none.
        areas: For each level the codes of every smallest area: see :func:`read_source`.

    Returns:
        The tables.

    >>> len(read_release(sealed).tables) > 0
    True
    """
    release = given if isinstance(given, SealedRelease) else SealedRelease.of(given)
    manifest = release.manifest
    if manifest["mechanism"] not in MECHANISMS:
        raise not_attacked(manifest["mechanism"])
    published = PUBLISHED.of(MECHANISMS[manifest["mechanism"]])
    if published is None:
        raise RunError(
            "not-published-as-tables", where=Place(file=str(release.folder)), mechanism=manifest["mechanism"]
        )
    tables: Published = published(ReadBack(release, schema, groups, areas))
    return tables


# Which block lies in which unit: by the first digits of its code, or by a column of a file of blocks.


def find_geography(
    folder: Path, part: reconstruction_description.TablesGeographyPart, units: Mapping[str, Sequence[str]]
) -> PublishedGeography:
    """The geography of a description; ``units`` has the codes that tables of each level name.

    Where no table is of blocks and no file lists them, the finest level with tables takes their place.
    """
    columns = _columns(folder, part, units)
    if not columns[reconstruction_description.BLOCK]:
        with_tables = [level for level in part.levels if units.get(level.name)]
        if not with_tables:
            raise InputError("geography/unit", where=Place(file=None, row=None))
        finest = max(with_tables, key=lambda level: level.digits or 0)
        columns = {finest.name: list(units[finest.name])}
        for level in part.levels:
            if level.name != finest.name and level.digits is not None and level.digits < (finest.digits or 0):
                columns[level.name] = [code[: level.digits] for code in columns[finest.name]]
        return published_rows.nested(columns, finest.name)
    return published_rows.nested(columns, reconstruction_description.BLOCK)


def _columns(
    folder: Path, part: reconstruction_description.TablesGeographyPart, units: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """For each block its code and the code of its unit on every level."""
    blocks = list(units.get(reconstruction_description.BLOCK, ()))
    listed = None if part.blocks is None else read_text(folder / part.blocks)
    if listed is not None:
        wanted = [part.block, *(level.column for level in part.levels if level.column is not None)]
        lacking = [name for name in wanted if name not in listed.column_names]
        if lacking:
            raise InputError(
                "geography/file",
                where=Place(file=part.blocks, row=None),
                lacking=lacking[0],
                column_names=", ".join(listed.column_names[:12]),
            )
        for name in wanted:
            codes = listed.column(name).to_pylist()
            blank = [row for row, code in enumerate(codes) if not (code or "").strip()]
            if blank:
                raise InputError(
                    "geography/row", where=Place(file=part.blocks, row=blank[0] + 1), name=name, blank=len(blank)
                )
        row_of_block: dict[str, int] = {}
        for row, code in enumerate(listed.column(part.block).to_pylist()):
            if row_of_block.setdefault(code, row) < row:
                raise InputError("geography/block-listed", where=Place(file=part.blocks, row=row + 1), its_code=code)
        unknown = [code for code in blocks if code not in row_of_block]
        if unknown:
            raise InputError(
                "geography/block-tables-listed",
                where=Place(file=part.blocks, row=None),
                unknown=unknown[0],
                number=len(unknown),
            )
        blocks = list(row_of_block)
    columns = {reconstruction_description.BLOCK: blocks}
    for level in sorted(part.levels, key=lambda each: -(each.digits or 0)):
        if level.digits is not None:
            columns[level.name] = [code[: level.digits] for code in blocks]
        elif listed is not None:
            columns[level.name] = listed.column(level.column).to_pylist()
    return columns


def read_tables(folder: str | Path) -> Published:
    """The tables of a folder with a ``tables.toml``.

    Args:
        folder: The folder; the format of its files is in ``docs/concepts/reconstruction.md``.

    Returns:
        The tables, for :func:`confide.lab.attacks.reconstruct`.

    Raises:
        ConfideError: With a finding for each problem: file, row, what is wrong and what to do.

    >>> from confide.lab.attacks import tabulate_sf1
    >>> made = tabulate_sf1(project / "persons.parquet", tmp_path / "tables", tables=["P1"])
    >>> len(read_tables(made.folder).tables)
    1
    """
    folder = Path(folder)
    description, schema = reconstruction_description.read_description(folder / reconstruction_description.DESCRIPTION)
    findings: list[Finding] = []
    rows: list[pa.Table | None] = []
    for table in description.tables:
        try:
            rows.append(_read_file(folder, table, schema, description))
        except InputError as error:
            findings += error.findings
            rows.append(None)
    if findings:
        raise InputError(findings)
    geography, names = _geography(folder, description, rows)
    marginals: list[PublishedMarginal] = []
    for table, content in zip(description.tables, rows, strict=True):
        try:
            depth = geography.depth(table.level) if description.geography is not None else 0
            area = None if names is None else _unit_column(content, names, table)
            marginals += published_rows.marginals_of(_rows(table), content, schema, geography, depth, area)
        except InputError as error:
            findings += error.findings
    published = Published(
        schema,
        geography,
        tuple(marginals),
        reconstruction_description.zeros_of(description.zeros, schema),
        description.title or folder.name,
    )
    findings += [] if findings else published_rows.check_totals(published)
    if findings:
        raise InputError(findings)
    return published


def _geography(
    folder: Path, description: reconstruction_description.TablesDescription, rows: Sequence[Any]
) -> tuple[PublishedGeography, str | None]:
    """The units, and the column that has them."""
    part = description.geography
    if part is None:
        return one_unit(), None
    units: dict[str, list[str]] = {}
    for table, content in zip(description.tables, rows, strict=True):
        units.setdefault(table.level, []).extend(content.column(_unit_column(content, part.block, table)).to_pylist())
    return find_geography(folder, part, {level: sorted(set(codes)) for level, codes in units.items()}), part.block


def _rows(table: reconstruction_description.TableFilePart) -> published_rows.PublishedRows:
    """What the description says of the rows of a table."""
    bound = None if table.bound is None else NoiseBound(table.bound, table.zeros_kept)
    return published_rows.PublishedRows(
        table.name, tuple(table.queries), table.variance, bound, table.absent == "unknown", str(table.file)
    )


def _unit_column(content: pa.Table, block: str, table: reconstruction_description.TableFilePart) -> str:
    return block if block in content.column_names or table.level == reconstruction_description.BLOCK else table.level


def _read_file(
    folder: Path,
    table: reconstruction_description.TableFilePart,
    schema: Schema,
    description: reconstruction_description.TablesDescription,
) -> pa.Table:
    """All rows as text, under our names; every column that is needed is there."""
    path = folder / str(table.file)
    content = read_text(path)
    ours = {theirs: name for name, theirs in table.columns.items()}
    if "count" not in table.columns:
        ours[table.count] = "count"
    findings = [_no_column(table, path.name, theirs, content) for theirs in ours if theirs not in content.column_names]
    if findings:
        raise InputError(findings)
    # A column that another one takes the name of is not ours to read.
    names = [name for name in content.column_names if name in ours or name not in ours.values()]
    content = content.select(names).rename_columns([ours.get(name, name) for name in names])
    needed = [
        "count",
        *dict.fromkeys(v.attribute.name for q in table.queries for v in published_rows.query_of(schema, q).variables),
    ]
    missing = [name for name in needed if name not in content.column_names]
    if description.geography is not None:
        unit = _unit_column(content, description.geography.block, table)
        if unit not in content.column_names:
            missing.append(description.geography.block)
        elif not missing:
            published_rows.refuse_blank(_rows(table), content, unit)
    if missing:
        raise InputError(_no_column(table, path.name, name, content) for name in missing)
    return content


def _no_column(table: reconstruction_description.TableFilePart, file: str, name: str, content: pa.Table) -> Finding:
    return Finding.of(
        "no-column/table",
        where=Place(file=file, column=name),
        found=", ".join(content.column_names[:12]),
        table=table.name,
        name=name,
    )
