"""The geographic reference file (GRF-C): which blocks there are, and which areas of every region type they lie in.

It has a row for every tabulation block. Columns are read by name, in any order, and others are ignored:

========== ========= ======================================
column     digits    what it is
========== ========= ======================================
TABBLKST   2         state
TABBLKCOU  3         county within the state
TABTRACTCE 6         census tract within the county
TABBLK     4         block within the tract
PLACEFP    5         place within the state; 99999: none
AIANNHCE   4         AIANNH area; 9999: none
========== ========= ======================================

The identifier of an area is ``1`` for the nation, state, state + county, state + county + tract, state + place, and
for an AIANNH area its code alone, since such an area may cross states. Puerto Rico has types of its own and no AIANNH
areas; no block of it is in the nation. An area exists because a block of the file lies in it, inhabited or not.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.engines import Engine, Source, identifier
from confide.errors import Finding, InputError, Place
from confide.mechanisms.safetab.settings import PR_REGIONS, PUERTO_RICO, REGION_TYPES

DIGITS = {"TABBLKST": 2, "TABBLKCOU": 3, "TABTRACTCE": 6, "TABBLK": 4, "PLACEFP": 5, "AIANNHCE": 4}
"""The columns that are read, and the digits of each."""

BLOCK_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
"""The columns that make up a block's code of 15 digits."""

BLOCK_DIGITS = 15
NO_AREA = -1
NO_PLACE, NO_AIANNH = "99999", "9999"
NATION = "1"
SHOWN = 5

CoterminousSet = tuple[tuple[str, int], ...]
"""Areas that are taken for the same: region types in order, each with the number of the area."""


def area_column(region_type: str) -> str:
    """The column of a table of blocks that has the numbers of areas of a type."""
    return f"area_{region_type}"


@dataclass(frozen=True, eq=False)
class Regions:
    """Blocks and areas of the passes that run.

    ``areas`` has the sorted identifiers of every region type. ``blocks`` is sorted by ``code`` (15 digits), and has for
    every region type a column ``area_<TYPE>`` with the number of the area in ``areas``, -1 for none. ``fingerprint`` is
    the SHA-256 of what was read of the blocks, whatever the order of rows and the format.
    """

    areas: Mapping[str, tuple[str, ...]] = field(repr=False)
    blocks: pa.Table = field(repr=False)
    fingerprint: str
    warnings: tuple[Finding, ...] = ()

    def numbers(self, region_type: str) -> npt.NDArray[np.int64]:
        """For each block the number of its area, or -1."""
        numbers: npt.NDArray[np.int64] = self.blocks.column(area_column(region_type)).to_numpy()
        return numbers

    def coterminous(self, *, on_land: bool = False) -> list[CoterminousSet]:
        """All sets of two or more areas, of different region types, that have the very same blocks; ``on_land``: the
        same but for blocks of water, whose number begins with 0. An area of water alone is in no set.

        An area a with a block x can only equal the area b that x lies in, and it does if as many blocks lie in both as
        in either. The nation is left out: it is no donor of Algorithm 4, even if it is one state. GRF-C does not say
        which blocks have addresses, so areas that differ by empty blocks are not found; see
        :func:`confide.mechanisms.safetab.regions.coterminous_from_file`.
        """
        types = [name for name in self.areas if name != "USA"]
        land = _on_land(self.blocks.column("code")) if on_land else slice(None)
        numbers = {name: self.numbers(name)[land] for name in types}
        result: dict[tuple[str, int], list[tuple[str, int]]] = {}
        taken: set[tuple[str, int]] = set()
        for position, one in enumerate(types):
            for other in types[position + 1 :]:
                mine, theirs = _same_blocks(numbers[one], numbers[other], len(self.areas[one]), len(self.areas[other]))
                for area, equal in zip(mine.tolist(), theirs.tolist(), strict=True):
                    # Equality is transitive: what was matched before is in the set of its first member already.
                    if (one, area) not in taken:
                        result.setdefault((one, area), [(one, area)]).append((other, equal))
                        taken.add((other, equal))
        return [tuple(result[first]) for first in sorted(result, key=lambda area: (types.index(area[0]), area[1]))]


def _on_land(codes: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Whether blocks have land: the Bureau numbers those of water alone from 0001 to 0999."""
    number = pc.utf8_slice_codeunits(codes, BLOCK_DIGITS - 4, BLOCK_DIGITS - 3)
    return np.asarray(pc.not_equal(number, "0").to_numpy(), np.bool_)


def read_regions(engine: Engine, source: Source, states: Sequence[str], puerto_rico: bool) -> Regions:
    """The regions of a GRF-C. The file is public: findings, all of one :class:`InputError`, name row and value.

    Rows of states that are neither in ``states`` nor, with ``puerto_rico``, that territory's are not looked at.
    """
    findings = _columns(engine, source)
    if findings:
        raise InputError(findings)
    columns = ", ".join(f"{identifier(source.theirs(name))} AS {name}" for name in DIGITS)
    table = engine.sql(f"SELECT {columns} FROM blocks", blocks=source).reveal("the geographic file is public")
    wanted = [*states, PUERTO_RICO] if puerto_rico else list(states)
    findings = _bad_values(source, "TABBLKST", table.column("TABBLKST"), np.arange(table.num_rows))
    rows = np.flatnonzero(pc.is_in(table.column("TABBLKST"), pa.array(wanted, pa.string())).to_numpy())
    table = table.take(pa.array(rows)).combine_chunks()
    for name in BLOCK_COLUMNS[1:]:
        findings += _bad_values(source, name, table.column(name), rows)
    present = set(table.column("TABBLKST").unique().to_pylist())
    findings += _empty_passes(source, present, states, puerto_rico)
    if findings:
        raise InputError(findings + _bad_areas(source, table, rows))
    codes = pc.binary_join_element_wise(*(table.column(name) for name in BLOCK_COLUMNS), "").combine_chunks()
    order = np.argsort(pc.cast(codes, pa.int64()).to_numpy(), kind="stable")
    codes, table, rows = codes.take(pa.array(order)), table.take(pa.array(order)), rows[order]
    findings = _bad_areas(source, table, rows) + _duplicates(source, codes, rows)
    if findings:
        raise InputError(findings)
    areas, numbers = _areas(table, codes, bool(states), puerto_rico)
    blocks = pa.table({"code": codes, **{area_column(name): pa.array(column) for name, column in numbers.items()}})
    absent = [state for state in wanted if state not in present]
    warnings = (
        (
            Finding.of(
                "no-blocks/filter",
                where=Place(file=source.file, column=source.theirs("TABBLKST")),
                severity="warning",
                states=_so_many(len(absent), "state", "states"),
                named=", ".join(absent),
            ),
        )
        if absent
        else ()
    )
    return Regions(areas, blocks, _fingerprint(table, codes), warnings)


def _same_blocks(
    one: npt.NDArray[np.int64], other: npt.NDArray[np.int64], ones: int, others: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers of the areas of two types that have the same blocks."""
    candidate = np.full(ones + 1, NO_AREA)  # the last place is for blocks in no area
    candidate[one] = other
    sizes = np.bincount(one[one >= 0], minlength=ones)
    of_others = np.append(np.bincount(other[other >= 0], minlength=others), -1)
    both = np.bincount(one[(one >= 0) & (candidate[one] == other)], minlength=ones)
    candidate = candidate[:-1]
    equal = np.flatnonzero((candidate >= 0) & (both == sizes) & (of_others[candidate] == sizes))
    return equal, candidate[equal]


def _areas(
    table: pa.Table, codes: pa.Array, united_states: bool, puerto_rico: bool
) -> tuple[dict[str, tuple[str, ...]], dict[str, npt.NDArray[np.int64]]]:
    state, place, aiannh = (table.column(name).combine_chunks() for name in ("TABBLKST", "PLACEFP", "AIANNHCE"))
    in_place = pc.not_equal(place, NO_PLACE)
    nothing = pa.scalar(None, pa.string())
    ids = {
        "USA": pa.array([NATION] * len(codes), pa.string()),
        "STATE": state,
        "COUNTY": pc.utf8_slice_codeunits(codes, 0, 5),
        "TRACT": pc.utf8_slice_codeunits(codes, 0, 11),
        "PLACE": pc.if_else(in_place, pc.binary_join_element_wise(state, place, ""), nothing),
        "AIANNH": pc.if_else(pc.not_equal(aiannh, NO_AIANNH), aiannh, nothing),
    }
    of_puerto_rico = pc.equal(state, PUERTO_RICO)
    areas, numbers = {}, {}
    for name in REGION_TYPES:
        if puerto_rico if name in PR_REGIONS else united_states:
            here = of_puerto_rico if name in PR_REGIONS else pc.invert(of_puerto_rico)
            areas[name], numbers[name] = _numbered(pc.if_else(here, ids[name.removeprefix("PR-")], nothing))
    return areas, numbers


def _numbered(ids: pa.Array) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The sorted identifiers, and for each block the number of its own, -1 where it has none."""
    coded = ids.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    rank = np.full(len(distinct) + 1, NO_AREA, np.int64)
    rank[order] = np.arange(len(distinct))
    return tuple(distinct[index] for index in order), rank[pc.fill_null(coded.indices, len(distinct)).to_numpy()]


def _fingerprint(table: pa.Table, codes: pa.Array) -> str:
    # Every value has a fixed number of digits, so that the text is unambiguous without separators.
    text = pc.binary_join_element_wise(codes, *(table.column(name) for name in ("PLACEFP", "AIANNHCE")), "")
    digest = hashlib.sha256(b"confide/safetab/regions/v1")
    for start in range(0, len(text), 1 << 16):
        digest.update("".join(text.slice(start, 1 << 16).to_pylist()).encode())
    return digest.hexdigest()


def _columns(engine: Engine, source: Source) -> list[Finding]:
    kinds = engine.kinds(source)
    findings = []
    for name, digits in DIGITS.items():
        theirs = source.theirs(name)
        if kinds.get(theirs) == "text":
            continue
        missing = theirs not in kinds
        findings.append(
            Finding.of(
                "missing-column/text" if missing else "column-type/digits",
                where=Place(file=source.file, column=theirs),
                theirs=theirs,
                missing=missing,
                kinds=len(kinds),
                kind=None if missing else kinds[theirs],
                digits=digits,
                digits_remedy=", ".join(source.theirs(name) for name in DIGITS),
            )
        )
    return findings


def _bad_areas(source: Source, table: pa.Table, rows: npt.NDArray[np.int64]) -> list[Finding]:
    return [
        finding for name in ("PLACEFP", "AIANNHCE") for finding in _bad_values(source, name, table.column(name), rows)
    ]


def _bad_values(source: Source, name: str, column: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> list[Finding]:
    """A finding if values are not of the right number of digits. ``rows`` are counted from zero."""
    good = pc.fill_null(pc.match_substring_regex(column, rf"^[0-9]{{{DIGITS[name]}}}$"), False)
    bad = np.flatnonzero(~good.to_numpy())
    bad = bad[np.argsort(rows[bad])]
    if not len(bad):
        return []
    values = column.take(bad[:SHOWN]).to_pylist()
    examples = [
        f"row {rows[index] + 1:,}: {'no value' if value is None else repr(value[:40])}"
        for index, value in zip(bad.tolist(), values, strict=False)
    ]
    return [
        Finding.of(
            "bad-geography",
            where=Place(file=source.file, row=int(rows[bad[0]]) + 1, column=source.theirs(name)),
            found="; ".join(examples) + (", ..." if len(bad) > SHOWN else ""),
            number=len(bad),
            one=len(bad) == 1,
            digit=DIGITS[name],
        )
    ]


def _duplicates(source: Source, codes: pa.Array, rows: npt.NDArray[np.int64]) -> list[Finding]:
    """A block that is there twice would make a person lie in two areas of a type, or count twice."""
    again = np.flatnonzero(pc.equal(codes.slice(1), codes.slice(0, max(0, len(codes) - 1))).to_numpy(False)) + 1
    if not len(again):
        return []
    first = int(again[np.argmin(rows[again])])
    examples = [f"rows {rows[i - 1] + 1:,} and {rows[i] + 1:,}: {codes[i].as_py()}" for i in again[:SHOWN].tolist()]
    return [
        Finding.of(
            "duplicate-block/another",
            where=Place(file=source.file, row=int(rows[first]) + 1),
            found="; ".join(examples) + (", ..." if len(again) > SHOWN else ""),
            number=len(again),
            one=len(again) == 1,
            block_columns=", ".join(source.theirs(name) for name in BLOCK_COLUMNS),
        )
    ]


def _empty_passes(source: Source, present: set[str], states: Sequence[str], puerto_rico: bool) -> list[Finding]:
    lacking: list[tuple[str, str]] = []
    if states and not present.intersection(states):
        lacking.append(("the US pass", f"a row with one of the {len(states)} states of the filter"))
    if puerto_rico and PUERTO_RICO not in present:
        lacking.append(("the Puerto Rico pass", f"a row with state {PUERTO_RICO}"))
    return [
        Finding.of(
            "no-blocks/file-block",
            where=Place(file=source.file, column=source.theirs("TABBLKST")),
            name=name,
            expected=expected,
        )
        for name, expected in lacking
    ]


def _so_many(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many}"


# Sets of coterminous areas that somebody gives: a text file with a line for every area of a set.
#
# The first line is ``SET|REGION_TYPE|REGION_ID``; a set is what lines with the same ``SET`` name. Areas may be taken
# for the same that differ by blocks without population, such as water, which the geographic file cannot tell. For
# areas with the very same blocks see :meth:`confide.mechanisms.safetab.regions.Regions.coterminous`.


COLUMNS = ("SET", "REGION_TYPE", "REGION_ID")
NAME_COLUMNS = ("REGION_TYPE", "REGION_ID", "NAME")
"""For findings: the code, and what to correct."""


@dataclass(frozen=True, slots=True)
class _Member:
    line: int
    region_type: str
    area: int


def coterminous_from_file(path: Path, regions: Regions) -> list[CoterminousSet]:
    """The sets of a file, each in the order of region types, in the order of their first lines.

    A set has at least two areas, at most one of each region type, all of one pass; an area is in at most one set.
    Everything else is a finding of one :class:`InputError`.
    """
    findings: list[Finding] = []
    numbers = {name: {area: number for number, area in enumerate(areas)} for name, areas in regions.areas.items()}
    numbers.pop("USA", None)
    sets: dict[str, list[_Member]] = {}
    seen: dict[tuple[str, int], int] = {}
    for line, values in _lines(path, findings):
        name, region_type, region_id = values
        problem = _unknown(path, line, region_type, region_id, numbers)
        if problem is not None:
            findings.append(problem)
            sets.setdefault(name, [])
            continue
        member = _Member(line, region_type, numbers[region_type][region_id])
        before = seen.setdefault((region_type, member.area), line)
        if before != line:
            findings.append(
                Finding.of(
                    "coterminous/here",
                    where=Place(file=path.name, line=line, column="REGION_ID"),
                    before=before,
                    region_type=region_type,
                    region_id=region_id,
                )
            )
        others = sets.setdefault(name, [])
        if before == line and any(other.region_type == region_type for other in others):
            findings.append(
                Finding.of(
                    "coterminous/two",
                    where=Place(file=path.name, line=line, column="REGION_TYPE"),
                    found=region_type,
                    name=name,
                )
            )
        if any((other.region_type in PR_REGIONS) != (region_type in PR_REGIONS) for other in others):
            findings.append(
                Finding.of(
                    "coterminous/passes",
                    where=Place(file=path.name, line=line, column="REGION_TYPE"),
                    found=region_type,
                    name=name,
                )
            )
        others.append(member)
    if not findings:
        findings = [
            Finding.of(
                "coterminous/set-area",
                where=Place(file=path.name, line=members[0].line, column="SET"),
                name=name,
            )
            for name, members in sets.items()
            if len(members) == 1
        ]
    if findings:
        raise InputError(findings)
    order = list(regions.areas)
    return [
        tuple(sorted(((member.region_type, member.area) for member in members), key=lambda area: order.index(area[0])))
        for members in sets.values()
    ]


def area_names_from_file(path: Path, regions: Regions) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
    """What areas are called: for each region type the codes of its areas and their names, empty where the file has
    none. Areas that are in no region of the release are passed over: such files are often of a whole country."""
    findings: list[Finding] = []
    names: dict[tuple[str, str], str] = {}
    seen: dict[tuple[str, str], int] = {}
    for line, (region_type, region_id, name) in _lines(path, findings, NAME_COLUMNS):
        if region_type not in REGION_TYPES:
            wanted = ", ".join(REGION_TYPES)
            findings.append(
                Finding.of(
                    "area-names/region",
                    where=Place(file=path.name, line=line, column="REGION_TYPE"),
                    found=repr(region_type[:40]),
                    expected=wanted,
                )
            )
        before = seen.setdefault((region_type, region_id), line)
        if before != line:
            findings.append(
                Finding.of(
                    "area-names/here",
                    where=Place(file=path.name, line=line, column="REGION_ID"),
                    before=before,
                    region_type=region_type,
                    region_id=region_id,
                )
            )
        names[region_type, region_id] = name.strip()
    if findings:
        raise InputError(findings)
    return {kind: (areas, [names.get((kind, area), "") for area in areas]) for kind, areas in regions.areas.items()}


def _lines(path: Path, findings: list[Finding], columns: tuple[str, ...] = COLUMNS) -> list[tuple[int, list[str]]]:
    """The lines with three values, and their numbers; what is wrong with others is added to the findings."""
    of_sets = columns == COLUMNS
    place = Place(file=path.name)
    try:
        if path.is_fifo():
            raise OSError(errno.ESPIPE, "a pipe")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("coterminous/encoding" if of_sets else "area-names/encoding", where=place) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        key = "coterminous/unreadable" if of_sets else "area-names/unreadable"
        raise InputError(key, where=place, found=found) from None
    header, *lines = text.split("\n")  # reading in text mode has turned CRLF into LF
    if tuple(header.split("|")) != columns:
        raise InputError(
            "coterminous/columns" if of_sets else "area-names/columns",
            where=replace(place, line=1),
            found=repr(header[:80]),
            columns="|".join(columns),
        )
    result = []
    for number, line in enumerate(lines, start=2):
        values = line.split("|")
        if len(values) == len(columns) and values[0]:
            result.append((number, values))
        elif line:
            findings.append(
                Finding.of(
                    "coterminous/line" if of_sets else "area-names/line",
                    where=replace(place, line=number),
                    found=repr(line[:80]),
                    columns="|".join(columns),
                )
            )
    return result


def _unknown(
    path: Path, line: int, region_type: str, region_id: str, numbers: dict[str, dict[str, int]]
) -> Finding | None:
    if region_type not in numbers:
        return Finding.of(
            "coterminous/region",
            where=Place(file=path.name, line=line, column="REGION_TYPE"),
            found=repr(region_type[:40]),
            expected=", ".join(numbers),
        )
    if region_id not in numbers[region_type]:
        return Finding.of(
            "coterminous/geographic",
            where=Place(file=path.name, line=line, column="REGION_ID"),
            found=repr(region_id[:40]),
            region_type=region_type,
        )
    return None
