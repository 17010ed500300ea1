"""``geo/LEVEL.parquet``: the areas of a level with their outlines and figures, for geographic information systems.

A row for each area: its code, its name where there is one, a column for each figure that a map can show (totals, and
the groups of each variable by itself), and the outline as WKB, with the metadata of GeoParquet 1.1. Outlines are as the
office's GeoJSON files have them, in degrees (OGC:CRS84); an area that a file lacks has none.

Figures are those of the tables. Where totals and cells were published one by one (``tables``, ``cellkey``), the same
margin of two tables differs, and columns are called after the table.
Reference: https://geoparquet.org/releases/v1.1.0/.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.errors import ConfideError, Finding
from confide.releases import tabular
from confide.releases.folder import ReleaseWriter, SealedRelease
from confide.releases.mechanism import Check
from confide.releases.spec import LoadedSpec
from confide.report.charts import Polygons, read_polygons
from confide.schema import TOTAL

GEO, GEOMETRY, VERSION = "geo", "geometry", "1.1.0"
POLYGON, MULTIPOLYGON = 3, 6
ENCODING = "WKB"


def geometry_findings(
    loaded: LoadedSpec, codebook: tabular.Codebook | None, codes: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """What is wrong with the outlines that a spec names, before anything is spent.

    Args:
        loaded: The spec.
        codebook: What its mechanism says of the tables.
        codes: By level the codes of its units.
    """
    findings: list[Finding] = []
    for level, file in loaded.spec.geography.outlines.items():
        where = loaded.place("geography")
        if codebook is None or level not in codebook.levels or not codebook.tables:
            findings.append(
                Finding.of(
                    "geometry-level/table",
                    where=where,
                    level=level,
                    levels=", ".join(codebook.levels) if codebook is not None else None,
                )
            )
            continue
        try:
            read_polygons(loaded.resolve(file), level, codes[level])
        except ConfideError as error:
            findings += error.findings
    return findings


def publish_outlines(
    loaded: LoadedSpec, release: ReleaseWriter, files: list[dict[str, Any]], codebook: tabular.Codebook
) -> None:
    """Writes the outlines that a spec names, with the figures of the tables that are written already."""
    for level, file in loaded.spec.geography.outlines.items():
        figures = LevelFigures.of(SealedRelease(release.folder, {"files": files}), codebook, level)
        polygons = read_polygons(loaded.resolve(file), level, figures.codes)
        shapes = [polygons.get(code, []) for code in figures.codes]
        column = pa.array([well_known_binary(shape) for shape in shapes], pa.binary())
        described = {"description": "outline in degrees (OGC:CRS84), as WKB"}
        rows = figures.table.append_column(pa.field(GEOMETRY, pa.binary(), True, described), column)
        schema = rows.schema.with_metadata({GEO: json.dumps(geo_metadata(shapes))})
        title = f"Areas of the level {level}, with outlines"
        release.part(f"{GEO}/{level}", schema, rows.replace_schema_metadata(schema.metadata).to_batches(), title)


def geo_metadata(shapes: Sequence[Polygons]) -> dict[str, Any]:
    """What a file says of its column of outlines."""
    kinds = {"Polygon" if len(shape) == 1 else "MultiPolygon" for shape in shapes if any(shape)}
    points = [point for shape in shapes for polygon in shape for ring in polygon for point in ring]
    box = [extreme(point[axis] for point in points) for extreme in (min, max) for axis in (0, 1)] if points else None
    column: dict[str, Any] = {"encoding": ENCODING, "geometry_types": sorted(kinds)}
    return {
        "version": VERSION,
        "primary_column": GEOMETRY,
        "columns": {GEOMETRY: column | ({} if box is None else {"bbox": box})},
    }


def well_known_binary(polygons: Polygons) -> bytes | None:
    """Polygons as WKB, little-endian; nothing where there are none.

    >>> well_known_binary([[[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]]).hex()[:26]
    '01030000000100000004000000'
    """
    parts = [_polygon(polygon) for polygon in polygons if polygon]
    if len(parts) < 2:
        return parts[0] if parts else None
    return struct.pack("<BII", 1, MULTIPOLYGON, len(parts)) + b"".join(parts)


def _polygon(rings: list[list[list[float]]]) -> bytes:
    written = [struct.pack("<BII", 1, POLYGON, len(rings))]
    for ring in rings:
        written.append(struct.pack("<I", len(ring)))
        written += [struct.pack("<dd", *point) for point in ring]
    return b"".join(written)


def read_outlines(file: Path) -> dict[str, Polygons]:
    """By code the polygons of each area that a file of outlines has, in degrees; those alone that can be read."""
    rows = pq.read_table(file, columns=[tabular.AREA, GEOMETRY], use_threads=False).to_pylist()
    return {
        row[tabular.AREA]: polygons_of(row[GEOMETRY]) for row in rows if row[GEOMETRY] and _is_polygon(row[GEOMETRY])
    }


def polygons_of(content: bytes) -> Polygons:
    """Polygons from WKB, as :func:`well_known_binary` writes them.

    >>> polygons_of(well_known_binary([[[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]]))
    [[[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]]
    """
    polygons: Polygons = []
    kind, parts = struct.unpack_from("<II", content, 1)
    at = 9 if kind == MULTIPOLYGON else 0
    for _ in range(parts if kind == MULTIPOLYGON else 1):
        (rings,) = struct.unpack_from("<I", content, at + 5)
        at, polygon = at + 9, []
        for _ in range(rings):
            (points,) = struct.unpack_from("<I", content, at)
            numbers = struct.unpack_from(f"<{2 * points}d", content, at + 4)
            polygon.append([[x, y] for x, y in zip(numbers[::2], numbers[1::2], strict=True)])
            at += 4 + 16 * points
        polygons.append(polygon)
    return polygons


@dataclass(frozen=True, eq=False)
class LevelFigures:
    """The figures of all areas of a level, a row for each: code, name and a column for each figure of a map."""

    codes: tuple[str, ...]
    table: pa.Table

    @classmethod
    def of(cls, release: SealedRelease, codebook: tabular.Codebook, level: str) -> LevelFigures:
        """Those of a level, from the files of areas and tables."""
        areas = tabular.listed_areas(release)
        assert areas is not None
        areas = areas.filter(pc.equal(areas.column(tabular.LEVEL), level)).drop_columns([tabular.LEVEL])
        codes = areas.column(tabular.AREA)
        words = {tabular.AREA: "code of the geounit or area", tabular.AREA_NAME: "name of the geounit or area"}
        fields = [pa.field(name, pa.string(), False, {"description": words[name]}) for name in areas.column_names]
        columns = [column.combine_chunks() for column in areas.columns]
        for table in codebook.tables:
            stored = release.table(f"tables/{table.name}.")
            if level in table.levels and stored is not None:
                rows = tabular.read_described(stored, table)
                rows = rows.filter(pc.equal(rows.column(tabular.LEVEL), level))
                for field, column in _figures(table, rows, codes, shared=codebook.consistent):
                    if field.name not in [each.name for each in fields]:
                        fields.append(field)
                        columns.append(column)
        return cls(tuple(codes.to_pylist()), pa.table(columns, schema=pa.schema(fields)))


def _figures(
    table: tabular.DescribedTable, rows: pa.Table, codes: pa.ChunkedArray, *, shared: bool
) -> Iterator[tuple[pa.Field, pa.Array]]:
    """The totals of a table and its groups of one variable; ``shared``: under names that other tables share."""
    figure, start = table.figures[0], "" if shared else f"{table.name}: "
    variables = table.columns.variables
    others = {each.name: pc.equal(rows.column(each.name), tabular.TOTAL_CODE) for each in variables}
    everywhere = pa.chunked_array([pa.array([True] * rows.num_rows, pa.bool_())])

    def chosen(fits: Any, name: str, words: str) -> tuple[pa.Field, pa.Array]:
        here = rows.filter(fits)
        place = pc.index_in(codes, here.column(tabular.AREA).combine_chunks())
        values = here.column(figure.name).combine_chunks().take(place.combine_chunks())
        values = values if figure.nullable else pc.fill_null(values, pa.scalar(0).cast(figure.type))
        return pa.field(f"{start}{name}", figure.type, figure.nullable, {"description": words}), values

    total = everywhere
    for fits in others.values():
        total = pc.and_(total, fits)
    yield chosen(total, TOTAL, f"{table.title}: total")
    for variable in variables:
        fits = everywhere
        for name, summed in others.items():
            fits = fits if name == variable.name else pc.and_(fits, summed)
        for code, label in zip(variable.codes, variable.labels, strict=True):
            own = pc.and_(fits, pc.equal(rows.column(variable.name), code))
            yield chosen(own, f"{variable.name}={code}", f"{variable.title or variable.name}: {label}")


def outline_checks(release: SealedRelease, codebook: tabular.Codebook) -> Iterator[Check]:
    """Every file of outlines: its figures made again from the tables, and its outlines as GeoParquet has them."""
    for path in release.paths(f"{GEO}/"):
        level = path.removeprefix(f"{GEO}/").split(".")[0]
        if level not in codebook.levels:
            yield Check(f"{GEO}/{level}", False, "there is no such level")
            continue
        rows = pq.read_table(release.folder / path)
        expected = LevelFigures.of(release, codebook, level).table
        same = rows.column_names == [*expected.column_names, GEOMETRY] and all(
            rows.column(each).equals(expected.column(each)) for each in expected.column_names
        )
        yield Check(f"{GEO}/{level}: the figures of the tables", same, f"{expected.num_columns:,} columns")
        outlines = rows.column(GEOMETRY).to_pylist() if GEOMETRY in rows.column_names else [b""]
        valid = all(each is None or _is_polygon(each) for each in outlines)
        stated = json.loads((rows.schema.metadata or {}).get(GEO.encode(), b"{}"))
        valid &= stated.get("version") == VERSION and stated.get("primary_column") == GEOMETRY
        missing = sum(each is None for each in outlines)
        yield Check(
            f"{GEO}/{level}: GeoParquet", valid, f"{len(outlines) - missing:,} outlines; {missing:,} areas without"
        )


def _is_polygon(content: bytes) -> bool:
    """Whether WKB is one polygon or several, whole, with closed rings."""
    try:
        end = _read(content, 0, (POLYGON, MULTIPOLYGON))
    except (struct.error, ValueError):
        return False
    return end == len(content)


def _read(content: bytes, at: int, kinds: tuple[int, ...]) -> int:
    order, kind, parts = struct.unpack_from("<BII", content, at)
    if order != 1 or kind not in kinds:
        raise ValueError
    at += 9
    for _ in range(parts):
        if kind == MULTIPOLYGON:
            at = _read(content, at, (POLYGON,))
            continue
        (points,) = struct.unpack_from("<I", content, at)
        first, last = at + 4, at + 4 + 16 * (points - 1)
        if points < 4 or content[first : first + 16] != content[last : last + 16] or last + 16 > len(content):
            raise ValueError
        at = last + 16
    return at
