"""Sets of coterminous areas that somebody gives: a text file with a line for every area of a set.

The first line is ``SET|REGION_TYPE|REGION_ID``; a set is what lines with the same ``SET`` name. Areas may be taken for
the same that differ by blocks without population, such as water, which the geographic file cannot tell. For areas with
the very same blocks see :meth:`confide.safetab.regions.Regions.coterminous`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from confide.errors import Finding, InputError, Place
from confide.safetab.regions import CoterminousSet, Regions
from confide.safetab.settings import PR_REGIONS

COLUMNS = ("SET", "REGION_TYPE", "REGION_ID")


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
            what = f"an area is given twice, here and in line {before:,}"
            findings.append(_finding(path, line, "REGION_ID", what, f"{region_type} {region_id}", "each area once"))
        others = sets.setdefault(name, [])
        if before == line and any(other.region_type == region_type for other in others):
            what = f"the set {name!r} has two areas of one type"
            findings.append(_finding(path, line, "REGION_TYPE", what, region_type, "at most one area of each type"))
        if any((other.region_type in PR_REGIONS) != (region_type in PR_REGIONS) for other in others):
            what = f"the set {name!r} has areas of both passes"
            expected = "areas of Puerto Rico alone, or none of them"
            findings.append(_finding(path, line, "REGION_TYPE", what, region_type, expected))
        others.append(member)
    if not findings:
        findings = [
            _finding(path, members[0].line, "SET", f"the set {name!r} has one area", "1 area", "at least two areas")
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


def _lines(path: Path, findings: list[Finding]) -> list[tuple[int, list[str]]]:
    """The lines with three values, and their numbers; what is wrong with others is added to the findings."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(_finding(path, None, None, "the file is not UTF-8 text", "other bytes", "UTF-8")) from None
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise InputError(
            _finding(path, None, None, "the file cannot be read", found, "a file that may be read")
        ) from None
    header, *lines = text.split("\n")  # reading in text mode has turned CRLF into LF
    if tuple(header.split("|")) != COLUMNS:
        raise InputError(_finding(path, 1, None, "these are other columns", repr(header[:80]), "|".join(COLUMNS)))
    result = []
    for number, line in enumerate(lines, start=2):
        values = line.split("|")
        if len(values) == len(COLUMNS) and values[0]:
            result.append((number, values))
        elif line:
            what = "a line does not have three values with the name of a set first"
            findings.append(_finding(path, number, None, what, repr(line[:80]), "|".join(COLUMNS)))
    return result


def _unknown(
    path: Path, line: int, region_type: str, region_id: str, numbers: dict[str, dict[str, int]]
) -> Finding | None:
    if region_type not in numbers:
        what = "this is no region type of a pass that runs, or the nation, which has no equal"
        return _finding(path, line, "REGION_TYPE", what, repr(region_type[:40]), ", ".join(numbers))
    if region_id not in numbers[region_type]:
        what = f"there is no such {region_type} in the geographic file and the state filter"
        return _finding(path, line, "REGION_ID", what, repr(region_id[:40]), f"an identifier of a {region_type}")
    return None


def _finding(path: Path, line: int | None, column: str | None, what: str, found: str, expected: str) -> Finding:
    return Finding(
        code="coterminous",
        what=what,
        where=Place(file=path.name, line=line, column=column),
        found=found,
        expected=expected,
        remedy="correct the file of coterminous sets",
    )
