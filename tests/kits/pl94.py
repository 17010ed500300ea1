"""A made-up PL 94-171 zip, written from a list of people by the documentation of the format."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable
from itertools import combinations

SETS = [set(races) for size in range(1, 7) for races in combinations(range(6), size)]

# geocode, place, county subdivision, housing units, occupied units
BLOCKS = [
    ("440030201011000", "19180", "18640", 12, 10),
    ("440010301002001", "99999", "05140", 4, 3),
    ("440010301001001", "99999", "05140", 0, 0),
    ("440010301001000", "59000", "05140", 7, 7),
    ("440010302001000", "59000", "09280", 2, 1),
]
# block, votingage, hispanic, cenrace: every block but one is populated, every number of races occurs
PEOPLE = [
    *[("440030201011000", age, origin, race) for age in (0, 1) for origin in (0, 1) for race in (0, 0, 3, 12, 30)],
    *[("440010301002001", 1, 0, race) for race in (1, 1, 5, 62, 45)],
    *[("440010301001000", 0, 1, race) for race in (2, 20, 21, 40)],
    *[("440010302001000", age, 1, race) for age in (0, 1, 1) for race in (4, 58)],
]
POSITIONS = {  # counted from 1
    "FILEID": 1, "STUSAB": 7, "SUMLEV": 9, "GEOCOMP": 12, "CHARITER": 14, "CIFSN": 17, "LOGRECNO": 19, "STATE": 28,
    "COUNTY": 30, "COUSUB": 37, "PLACE": 46, "TRACT": 55, "BLKGRP": 61, "BLOCK": 62, "AIANHH": 77, "CD": 154,
    "AREALAND": 199, "AREAWATR": 213, "NAME": 227, "POP100": 319, "HU100": 328, "INTPTLAT": 337, "INTPTLON": 348,
}  # fmt: skip

Members = dict[str, bytes]
GEO, ONE, TWO = "rigeo2010.pl", "ri000012010.pl", "ri000022010.pl"


def by_race(races: Counter[int]) -> list[int]:
    """The 71 lines, in the order of the documentation."""
    sizes = {size: [number for number, races in enumerate(SETS) if len(races) == size] for size in range(1, 7)}
    sums = {size: sum(races[race] for race in members) for size, members in sizes.items()}
    lines = [races.total(), sums[1], *(races[race] for race in sizes[1]), races.total() - sums[1]]
    for size in range(2, 7):
        lines += [sums[size], *(races[race] for race in sizes[size])]
    return lines


def by_origin(rows: list[tuple[str, int, int, int]]) -> list[int]:
    """The 73 lines of a table with Hispanic origin."""
    others = by_race(Counter(row[3] for row in rows if row[2] == 0))
    return [len(rows), len(rows) - others[0], *others]


def area_rows() -> list[tuple[str, str, dict[str, str], list[str]]]:
    """Summary level, component, header fields, and the blocks of each row."""
    rows: list[tuple[str, str, dict[str, str], list[str]]] = []

    def add(
        sumlev: str, key: Callable[[tuple[str, str, str, int, int]], dict[str, str] | None], comp: str = "00"
    ) -> None:
        groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for block in BLOCKS:
            fields = key(block)
            if fields is not None:
                groups.setdefault(tuple(fields.items()), []).append(block[0])
        rows.extend((sumlev, comp, dict(fields), blocks) for fields, blocks in groups.items())

    add("040", lambda b: {"STATE": "44", "NAME": "Río Imaginado"})
    add("040", lambda b: {"STATE": "44", "NAME": "its urban part"}, comp="01")
    add("500", lambda b: {"STATE": "44", "CD": "01", "NAME": "Congressional District 1"})
    add("050", lambda b: {"STATE": "44", "COUNTY": b[0][2:5]})
    add("060", lambda b: {"STATE": "44", "COUNTY": b[0][2:5], "COUSUB": b[2]})
    add("740", lambda b: {"STATE": "44", "COUNTY": b[0][2:5], "NAME": "a level that is not read"})
    add("140", lambda b: {"STATE": "44", "COUNTY": b[0][2:5], "TRACT": b[0][5:11]})
    add("150", lambda b: {"STATE": "44", "COUNTY": b[0][2:5], "TRACT": b[0][5:11], "BLKGRP": b[0][11]})
    add("750", lambda b: {"STATE": "44", "COUNTY": b[0][2:5], "TRACT": b[0][5:11], "BLKGRP": b[0][11],
                          "BLOCK": b[0][11:], "PLACE": b[1], "COUSUB": b[2], "AIANHH": "9999", "CD": "01",
                          "NAME": f"Block {b[0][11:]}"})  # fmt: skip
    add("160", lambda b: None if b[1] == "99999" else {"STATE": "44", "PLACE": b[1], "NAME": "Doña Señora CDP"})
    return rows


def made_up(newline: str = "\n") -> Members:
    """The members of the zip."""
    units = {block[0]: block[3:] for block in BLOCKS}
    geo, one, two = [], [], []
    for number, (sumlev, component, fields, blocks) in enumerate(area_rows(), 1):
        rows = [person for person in PEOPLE if person[0] in blocks]
        adults = [person for person in rows if person[1] == 1]
        total, occupied = (sum(units[block][place] for block in blocks) for place in (0, 1))
        fields = fields | {
            "FILEID": "PLST", "STUSAB": "RI", "SUMLEV": sumlev, "GEOCOMP": component, "CHARITER": "000",
            "LOGRECNO": f"{number:07}", "AREALAND": f"{1000 + number:14}", "AREAWATR": f"{number:14}",
            "POP100": f"{len(rows):9}", "HU100": f"{total:9}", "INTPTLAT": "+41.5978358", "INTPTLON": "-071.5252895",
        }  # fmt: skip
        record = [" "] * 500
        for name, value in fields.items():
            start = POSITIONS[name] - 1
            record[start : start + len(value)] = value
        geo.append("".join(record))
        cells = [*by_race(Counter(row[3] for row in rows)), *by_origin(rows)]
        one.append(",".join(map(str, ["PLST", "RI", "000", "01", f"{number:07}", *cells])))
        cells = [*by_race(Counter(row[3] for row in adults)), *by_origin(adults), total, occupied, total - occupied]
        two.append(",".join(map(str, ["PLST", "RI", "000", "02", f"{number:07}", *cells])))
    texts = {GEO: geo, ONE: one, TWO: two}
    return {name: "".join(line + newline for line in lines).encode("latin-1") for name, lines in texts.items()}


def zipped(members: Members) -> bytes:
    """The zip with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"packinglist.txt": b"a list", **members}.items():
            archive.writestr(name, content)
    return buffer.getvalue()
