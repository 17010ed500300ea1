"""What the releases of all mechanisms have in common when they are read back as published tables.

The schema that the manifest names, files by their beginnings, tables with a level and an area, protected records, and
the reasons why a release cannot be read so. A mechanism's own reader is ``mechanisms/NAME/published.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.documents import load_schema, shipped
from confide.errors import InputError, ParameterError, Place, ReleaseError
from confide.inputs.table_files import read_text
from confide.releases.folder import MANIFEST, SealedRelease
from confide.releases.published import Published, PublishedGeography, PublishedMarginal, sparse
from confide.releases.published_rows import PublishedRows, group_of_label, marginals_of, nested, unit_of_code
from confide.schema import Query, Schema

AREA, BLOCK = "area", "block"
KnownAreas = Mapping[str, Sequence[str]]
"""What everybody knows of the areas: for each level, ``block`` among them, the code of every smallest area in a row."""
RECORDS = ("tables/records.", "microdata/persons.")
PROTECTED = (
    "What was published are protected records: nothing is reconstructed beyond them, and the true ones may differ."
)
NOISE = "The counts have noise: the records are a fit, and not a reconstruction."
BOUNDED = "The noise never passes ±{}, and the records keep to that."


def release_title(folder: Path, manifest: Mapping[str, Any]) -> str:
    """What reports call a release."""
    return f"release {manifest.get('release', folder.name)} ({manifest['mechanism']})"


def no_groups(groups: Sequence[str], source: str) -> None:
    """Groups can be chosen in releases of SafeTab-P alone; raises for others."""
    if groups:
        raise ParameterError("no-groups/release", where=Place(path="--group"), found=source)


def not_attacked(found: str) -> ReleaseError:
    """The error of a release that counts nobody."""
    return ReleaseError("not-attacked", where=Place(file=MANIFEST, path="mechanism"), found=found)


def release_schema(named: Any, given: str | Path | None) -> Schema:
    """The schema of a release: one that ships, with the same fingerprint, or the file given."""
    named = named if isinstance(named, Mapping) else {"id": named}
    if given is not None:
        schema = load_schema(str(given), Path())
    elif named.get("id") in shipped("schemas"):
        schema = load_schema(str(named["id"]), Path())
    else:
        what = "the schema of the release does not ship"
        raise release_unlike(what, str(named.get("id")), "give its file: --schema FILE")
    if named.get("sha256") not in (None, schema.fingerprint):
        what = "the schema is not the one of the release"
        raise release_unlike(what, schema.id, "give the file that the release was made with")
    return schema


def release_unlike(what: str, found: str, remedy: str) -> ReleaseError:
    """The error of a release whose plan and files, or schema, do not belong together."""
    place = Place(file=MANIFEST, path="plan.question")
    return ReleaseError("release-schema/other", where=place, found=found, what=what, remedy=remedy)


def release_file(folder: Path, manifest: Mapping[str, Any], *starts: str) -> Path | None:
    """The file of a release whose path begins so; Parquet before CSV."""
    return SealedRelease(folder, manifest).table(*starts)


def release_rows(folder: Path, manifest: Mapping[str, Any], table: str) -> pa.Table:
    """The rows of a table of the plan, as text."""
    file = release_file(folder, manifest, f"tables/{table}.")
    if file is None:
        raise release_unlike(
            "a table of the plan has no file", table, "get the release again from the office that published it"
        )
    return read_text(file)


def under_attributes(rows: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Rows with their labels under the names of the attributes, without other columns of those names: the codes of the
    second layout, which stand beside the labels."""
    attributes = set(columns.values())
    kept = [name for name in rows.column_names if name in columns or name not in attributes]
    return rows.select(kept).rename_columns([columns.get(name, name) for name in kept])


def released_records(folder: Path, manifest: Mapping[str, Any], file: Path, schema: Schema) -> Published:
    """Released records as one table with all their attributes: the *protected* records, and nothing beyond them."""
    rows = read_text(file)
    attributes = [attribute for attribute in schema.attributes if attribute.name in rows.column_names]
    question = manifest["plan"]["question"]
    block = (question.get("microdata") or question.get("layout") or {}).get("block", "geocode")
    units = release_file(folder, manifest, "tables/units.")
    finest, *levels = [*reversed(manifest["plan"].get("spine", ()))] or [BLOCK]
    frame = rows if units is None else read_text(units)
    columns = {finest: frame.column(block).to_pylist()}
    columns |= {name: frame.column(name).to_pylist() for name in levels if name in frame.column_names}
    geography = nested(columns, finest)
    query = Query(tuple(schema.variable(attribute.name) for attribute in attributes))
    cell = np.zeros(rows.num_rows, np.int64)
    for variable in query.variables:
        cell = cell * variable.size + group_of_label(rows.column(variable.attribute.name), variable)
    unit = unit_of_code(rows.column(block), geography.blocks)
    key, count = np.unique(unit * query.cells + cell, return_counts=True)
    arrays = sparse(key // query.cells, key % query.cells, count.astype(np.float64), len(geography.blocks))
    marginal = PublishedMarginal("records", 0, query, *arrays)
    return Published(schema, geography, (marginal,), (), release_title(folder, manifest), (PROTECTED,))


@dataclass(frozen=True, eq=False)
class AreaTables:
    """Tables of a release that have a column for the level and one for the area."""

    geography: PublishedGeography
    rows: tuple[tuple[PublishedRows, str, pa.Table], ...]
    """For each table and level its rows."""
    levels_left_out: tuple[str, ...]
    """Levels whose areas do not nest in the others."""

    @classmethod
    def read(
        cls,
        folder: Path,
        manifest: Mapping[str, Any],
        tables: Mapping[PublishedRows, Sequence[str]],
        spine: Sequence[str],
        columns: Mapping[str, Mapping[str, str]] | None = None,
        areas: KnownAreas | None = None,
    ) -> AreaTables:
        """The tables of a release, given the levels of each, over the levels of a spine (coarsest first); ``columns``
        has, by table, attributes for columns of other names, ``areas`` says what lies in what."""
        contents: list[tuple[PublishedRows, str, pa.Table]] = []
        units: dict[str, list[str]] = {}
        left_out: list[str] = []
        for table, levels in tables.items():
            rows = release_rows(folder, manifest, table.name)
            rows = under_attributes(rows, (columns or {}).get(table.name, {}))
            for level in levels:
                here = rows.filter(pc.equal(rows.column("level"), level))
                if level in spine:
                    contents.append((table, level, here))
                    units.setdefault(level, []).extend(dict.fromkeys(here.column(AREA).to_pylist()))
                elif level not in left_out:
                    left_out.append(level)
        geography = _by_prefix(units, spine) if areas is None else _by_list(units, spine, areas)
        left_out += [level for level in units if level not in geography.levels]
        on_levels = tuple(content for content in contents if content[1] in geography.levels)
        return cls(geography, on_levels, tuple(left_out))

    def marginals(self, schema: Schema) -> Iterator[tuple[PublishedRows, str, list[PublishedMarginal]]]:
        """For each table and level its marginals, in the order of its queries."""
        for table, level, rows in self.rows:
            depth = self.geography.depth(level)
            yield table, level, marginals_of(table, rows, schema, self.geography, depth, AREA)

    @property
    def notes(self) -> tuple[str, ...]:
        """That levels are left out, if some are."""
        names = ", ".join(self.levels_left_out)
        why = "their codes do not say which areas lie in them; a list of the areas does (--geography)"
        return (f"Tables of {names} are left out: {why}.",) if names else ()


def _by_prefix(units: Mapping[str, Sequence[str]], spine: Sequence[str]) -> PublishedGeography:
    """Levels of a spine whose codes begin with the codes of the level above; others are dropped.

    Codes of different lengths may begin alike by chance: areas that are joined wrongly make an attack fail, which looks
    like safety. Then nothing is taken from them.
    """
    there = [level for level in reversed(spine) if level in units]
    finest = there[0]
    blocks = sorted(set(units[finest]))
    columns = {finest: blocks}
    regular = len({len(block) for block in blocks}) == 1
    for level in there[1:] if regular else ():
        codes = set(units[level])
        lengths = {len(code) for code in codes}
        if len(lengths) == 1 and all(block[: next(iter(lengths))] in codes for block in blocks):
            columns[level] = [block[: next(iter(lengths))] for block in blocks]
    return nested(columns, finest)


def _by_list(units: Mapping[str, Sequence[str]], spine: Sequence[str], areas: KnownAreas) -> PublishedGeography:
    """Levels of a spine as a list of areas has them; levels that it does not have are dropped."""
    there = [level for level in reversed(spine) if level in units]
    finest = there[0]
    if finest not in areas:
        raise InputError(
            "geography/row-smallest-area", where=Place(path="--geography"), finest=finest, areas=", ".join(areas)
        )
    row_of = {code: row for row, code in enumerate(areas[finest])}
    blocks = sorted(set(units[finest]))
    unknown = [block for block in blocks if block not in row_of]
    if unknown:
        raise InputError(
            "geography/area-tables-listed", where=Place(path="--geography"), finest=finest, unknown=len(unknown)
        )
    columns: dict[str, list[str]] = {finest: blocks}
    for level in there[1:]:
        if level not in areas:
            continue
        columns[level] = [areas[level][row_of[block]] for block in blocks]
        strangers = set(units[level]) - set(columns[level])
        if strangers:
            raise InputError("geography/areas", where=Place(path="--geography"), level=level, strangers=len(strangers))
    return nested(columns, finest)
