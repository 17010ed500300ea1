"""What the tests of whole SafeTab-P releases share: official inputs of few people, and a plain reference.

The reference is written for reading and for nothing else: it goes through persons, areas and iterations one by one, and
knows no noise. With infinite budgets the tables must be those of the reference, row by row.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide import official_runs
from confide.mechanisms.safetab.measure import MeasureGroups, measure_groups
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import LevelSettings
from confide.noise import NoiseDistribution, NoiseStream, ReleaseKey, derive_stream
from confide.official_runs import Execution
from confide.privacy import Definition, Neighbours, budget_of, calibrate
from confide.releases.mechanism import NoiseSource
from tests.kits.safetab_codes import NAMES, TEXTS

KEY = "5a" * 32
MEMORY = "1GiB"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "safetab"
TOY = SHARED / "safetab_p_toy"
GOLDEN = SHARED / "toy_us_pr_infinite"
PRODUCTION = SHARED / "safetab_p_production_spec"

US = ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")
PR = ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
ALL = US + PR
STATEWIDE = ("USA", "STATE", "PR-STATE")
INFINITY = float("inf")

GEOGRAPHY = (
    "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|PLACEFP|AIANNHCE",
    "01|001|000100|1000|00100|0010",
    "01|001|000100|1001|99999|9999",
    "01|001|000200|1000|00100|9999",
    "01|003|000100|1000|99999|5000",
    "02|020|000101|2000|00100|0010",
    "02|020|000101|2001|00300|9999",
    "72|001|956300|1000|00700|9999",
    "72|001|956300|1001|99999|9999",
    "72|003|956400|1000|00700|9999",
)
PERSON_HEADER = (
    "QAGE|QSEX|HOUSEHOLDER|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|CENRACE|QRACE1|QRACE2|QRACE3|QRACE4|QRACE5|QRACE6|"
    "QRACE7|QRACE8|QSPAN"
)
CODES = tuple(line.split("|")[0] for line in TEXTS["codes"].split("\n")[1:])


def budget_key(region: str, level: int) -> str:
    return f"privacy_budget_p_level_{level}_{region.lower().replace('-', '_')}"


def config(**changes: Any) -> dict[str, Any]:
    """The content of a config.json: infinite budgets, thresholds 0, 1, 2, both passes, the states 01 and 02."""
    values: dict[str, Any] = {
        "max_race_codes": 8,
        "privacy_budget_p_stage_1_fraction": 0.1,
        "thresholds_p": {f"({region}, {level})": [0, 1, 2] for region in ALL for level in (1, 2)},
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["01", "02"],
        "privacy_defn": "zcdp",
    }
    values |= {budget_key(region, level): INFINITY for region in ALL for level in (1, 2)}
    return values | changes


def budgets(value: Any, regions: Sequence[str] = ALL) -> dict[str, Any]:
    """The same budget for both levels of some region types."""
    return {budget_key(region, level): value for region in regions for level in (1, 2)}


def thresholds(*numbers: Any) -> dict[str, Any]:
    """The same thresholds everywhere."""
    return {"thresholds_p": {f"({region}, {level})": list(numbers) for region in ALL for level in (1, 2)}}


def person(block: str, *codes: str, age: str = "030", sex: str = "1", span: str = "9950") -> str:
    """A line of person-records: the block is a line of the geography."""
    place = "|".join(block.split("|")[:4])
    races = "|".join([*codes, *["Null"] * (8 - len(codes))])
    return f"{age}|{sex}|True|{place}|01|{races}|{span}"


PEOPLE = (
    person(GEOGRAPHY[1], "1010"),
    person(GEOGRAPHY[1], "1010", "1011", age="064", sex="2"),
    person(GEOGRAPHY[2], "1020", age="017"),
    person(GEOGRAPHY[4], "1020", "1030", span="9010", age="115"),
    person(GEOGRAPHY[5], "2010", "1010", "2020", sex="2", span="9000"),
    person(GEOGRAPHY[7], "2010", age="0"),
    person(GEOGRAPHY[9], "3010", "1010", age="022", span="9010"),
)


def write_input(
    folder: Path,
    values: Mapping[str, Any],
    *,
    people: Sequence[str] = PEOPLE,
    geography: Sequence[str] = GEOGRAPHY,
    lists: Mapping[str, str] = TEXTS,
    end: str = "\n",
    tail: str = "",
) -> tuple[Path, Path]:
    """The folders of parameters and data."""
    parameters, data = folder / "parameters", folder / "data"
    parameters.mkdir(parents=True, exist_ok=True)
    data.mkdir(exist_ok=True)
    (parameters / "config.json").write_text(json.dumps(dict(values), indent=1))
    files = {parameters / f"{NAMES[key]}.txt": text.split("\n") for key, text in lists.items()}
    files |= {data / "person-records.txt": [PERSON_HEADER, *people], data / "GRF-C.txt": list(geography)}
    for path, lines in files.items():
        path.write_bytes((end.join([*lines, ""]) + tail).encode())
    return parameters, data


def as_parquet(folder: Path) -> None:
    """Every text file of a folder as Parquet instead, all columns as text."""
    for path in folder.glob("*.txt"):
        header, *rows = (line.split("|") for line in path.read_text(encoding="utf-8-sig").split("\n") if line)
        columns = zip(*rows, strict=True)
        table = pa.table({name: pa.array(list(values)) for name, values in zip(header, columns, strict=True)})
        pq.write_table(table, path.with_suffix(".parquet"))
        path.unlink()


def execute(parameters: Path, data: Path, out: Path, **options: Any) -> Execution:
    return official_runs.execute(parameters, data, out, processes=1, memory=MEMORY, **options)


Rows = list[tuple[str, ...]]


def read_rows(file: Path) -> Rows:
    """The rows of a text file without its header."""
    return [tuple(line.split("|")) for line in file.read_text().split("\n")[1:] if line]


def tables(folder: Path) -> tuple[Rows, Rows]:
    """The rows of t1 and t2 of a release, in the order of the files."""
    (first,), (second,) = (list((folder / name).glob("*.csv")) for name in ("t1", "t2"))
    return read_rows(first), read_rows(second)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# The reference.

AGE_CUTS = {
    1: (18, 45, 65),
    2: (5, 18, 25, 35, 45, 55, 65, 75),
    3: (5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
}


def lines_of(path: Path) -> Iterator[dict[str, str]]:
    header, *lines = path.read_text().split("\n")
    for line in lines:
        if line.strip():
            yield dict(zip(header.strip("\r").split("|"), line.strip("\r").split("|"), strict=True))


@dataclass
class TestedLists:
    """For each kind of iteration, which codes it has; and the flags of every iteration."""

    alone: dict[str, set[str]] = field(default_factory=dict)
    combined: dict[str, set[str]] = field(default_factory=dict)
    ethnic: dict[str, set[str]] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    total_only: set[str] = field(default_factory=set)
    coarse_only: set[str] = field(default_factory=set)


def read_lists(folder: Path) -> TestedLists:
    lists = TestedLists()
    for name in ("race_iterations", "ethnicity_iterations"):
        for row in lines_of(folder / f"{NAMES[name]}.txt"):
            code = row["ITERATION_CODE"]
            if row["LEVEL"] == "0":
                continue
            kind = {"True": lists.alone, "False": lists.combined, None: lists.ethnic}[row.get("ALONE")]
            kind[code] = set()
            lists.level[code] = int(row["LEVEL"])
            if row["DETAILED_ONLY"] == "True":
                lists.total_only.add(code)
            if row["COARSE_ONLY"] == "True":
                lists.coarse_only.add(code)
    for row in lines_of(folder / f"{NAMES['code_to_iteration']}.txt"):
        for kind in (lists.alone, lists.combined, lists.ethnic):
            if row["ITERATION_CODE"] in kind:
                kind[row["ITERATION_CODE"]].add(row["RACE_ETH_CODE"])
    return lists


def region_of(kind: str, block: Mapping[str, str]) -> str | None:
    """The identifier of the area of a type that a block lies in."""
    state, county, tract = block["TABBLKST"], block["TABBLKCOU"], block["TABTRACTCE"]
    if (state == "72") != kind.startswith("PR-"):
        return None
    match kind.removeprefix("PR-"):
        case "USA":
            return "1"
        case "STATE":
            return state
        case "COUNTY":
            return state + county
        case "TRACT":
            return state + county + tract
        case "PLACE":
            return None if block["PLACEFP"] == "99999" else state + block["PLACEFP"]
        case _:
            return None if block["AIANNHCE"] == "9999" else block["AIANNHCE"]


def is_in(lists: TestedLists, iteration: str, races: set[str], span: str) -> bool:
    if iteration in lists.alone:
        return races <= lists.alone[iteration]
    if iteration in lists.combined:
        return bool(races & lists.combined[iteration])
    return span in lists.ethnic[iteration]


def reference(parameters: Path, data: Path) -> tuple[Rows, Rows]:
    """Both tables of an input whose budgets are all zero or infinite, sorted."""
    values = json.loads((parameters / "config.json").read_text())
    lists = read_lists(parameters)
    states = [*(values["state_filter_us"] if values["run_us"] else []), *(["72"] if values["run_pr"] else [])]
    blocks = [row for row in lines_of(data / "GRF-C.txt") if row["TABBLKST"] in states]
    key = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
    where = {tuple(block[name] for name in key): block for block in blocks}
    people = [row for row in lines_of(data / "person-records.txt") if row["TABBLKST"] in states]
    t1: Rows = []
    t2: Rows = []
    for kind in (*(US if values["run_us"] else ()), *(PR if values["run_pr"] else ())):
        areas = {region_of(kind, block) for block in blocks} - {None}
        for level in (1, 2):
            if not values[budget_key(kind, level)]:
                continue
            left_out = lists.coarse_only if kind in STATEWIDE else lists.total_only
            iterations = [code for code, of in lists.level.items() if of == level and code not in left_out]
            cells: Counter[tuple[str | None, str, str, int]] = Counter()
            for row in people:
                area = region_of(kind, where[tuple(row[name] for name in key)])
                races = {row[f"QRACE{number}"] for number in range(1, values["max_race_codes"] + 1)} - {"Null"}
                for code in iterations:
                    if area and is_in(lists, code, races, row["QSPAN"]):
                        cells[area, code, row["QSEX"], int(row["QAGE"])] += 1
            for area in areas:
                for code in iterations:
                    group = {(sex, age): n for (a, c, sex, age), n in cells.items() if (a, c) == (area, code)}
                    one, more = _publish(group, str(area), kind, code, code in lists.total_only, level, values)
                    t1 += one
                    t2 += more
    return sorted(t1), sorted(t2)


def _publish(
    group: Mapping[tuple[str, int], int],
    area: str,
    kind: str,
    code: str,
    total_only: bool,
    level: int,
    values: Mapping[str, Any],
) -> tuple[Rows, Rows]:
    total = sum(group.values())
    named = (area, kind, code)
    reached = sum(total >= threshold for threshold in values["thresholds_p"][f"({kind}, {level})"])
    if total_only or not reached:
        suppressed = kind not in STATEWIDE and values.get("zero_suppression_chance", 0) > 0 and total <= 0
        return ([] if suppressed else [(*named, str(total))]), []
    rows: Rows = []
    starts = (0, *AGE_CUTS[reached])
    for sex in ("1", "2"):
        of_sex = {age: n for (s, age), n in group.items() if s == sex}
        rows.append((*named, "*", "*", sex, str(sum(of_sex.values()))))
        for start, end in zip(starts, (*(cut - 1 for cut in AGE_CUTS[reached]), 115), strict=True):
            count = sum(n for age, n in of_sex.items() if start <= age <= end)
            rows.append((*named, str(start), str(end), sex, str(count)))
    return [(*named, str(total))], rows


# Inputs of many kinds.


def random_input(folder: Path, seed: int) -> tuple[Path, Path]:
    """An input that is drawn by a seed: lists, geography, people and settings."""
    draw = random.Random(seed)
    lists, codes = _random_lists(draw)
    run_us, run_pr = draw.choice([(True, True), (True, False), (False, True)])
    states = draw.sample(["01", "02", "11", "56"], draw.randint(1, 3))
    geography = _random_geography(draw, [*states, "72", "48"])
    here = [line for line in geography[1:] if line.split("|")[0] in (states if run_us else ["72"])]
    everywhere = geography[1:]
    if not here or (run_pr and not any(line.startswith("72|") for line in everywhere)):
        return random_input(folder, seed + 10_000)
    chosen = [draw.choice(here), *draw.choices(everywhere, k=draw.randint(5, 60))]
    chosen += [line for line in everywhere if line.startswith("72|")][:1]
    people = [_random_person(draw, line, codes) for line in chosen]
    first = draw.randint(-1, 3)
    steps = [first, first + draw.randint(0, 3), first + 3 + draw.randint(0, 3)]
    values = config(
        max_race_codes=draw.randint(1, 8),
        run_us=run_us,
        run_pr=run_pr,
        state_filter_us=states,
        allow_negative_counts=draw.random() < 0.5,
        privacy_defn=draw.choice(["zcdp", "puredp"]),
        **thresholds(*steps),
    )
    values |= {key: 0 for key in values if key.startswith("privacy_budget_p_level") and draw.random() < 0.25}
    values |= {budget_key("STATE" if run_us else "PR-STATE", 2): INFINITY}
    values |= {budget_key("COUNTY" if run_us else "PR-COUNTY", 2): INFINITY}
    if draw.random() < 0.5:
        values["zero_suppression_chance"] = draw.choice([0, 0.3, 0.9999])
    return write_input(
        folder,
        values,
        people=people,
        geography=_mixed(draw, geography),
        lists=lists,
        end=draw.choice(["\n", "\r\n"]),
        tail=draw.choice(["", "\n", "\r\n\r\n"]),
    )


def _random_lists(draw: random.Random) -> tuple[dict[str, str], list[str]]:
    """Lists of common, total-only and coarse-only iterations, of all of them or of one kind alone."""
    codes = [str(number) for number in sorted(draw.sample(range(1000, 9999), draw.randint(4, 14)))]
    kinds = draw.choice([("common", "total", "coarse"), ("common",), ("total",), ("coarse",), ("common", "total")])
    race, ethnic, pairs, number = [], [], [], 0
    for level in (1, 2):
        for alone in ("True", "False", None):
            made: dict[str, list[str]] = {}
            for kind in kinds:
                for _ in range(draw.randint(1, 3)):
                    number += 1
                    code = f"{number:04d}"
                    made.setdefault(kind, []).append(code)
                    flags = f"{kind == 'total'}|{kind == 'coarse'}"
                    if alone is None:
                        ethnic.append(f"{code}|Group {number}|{level}|{flags}")
                    else:
                        race.append(f"{code}|Group {number}|{level}|{alone}|{flags}")
            for code in codes:
                separate = [kind for kind in ("total", "coarse") if kind in made]
                chosen = ["common"] if "common" in made and draw.random() < 0.6 else separate
                pairs += [f"{draw.choice(made[kind])}|{code}" for kind in chosen if draw.random() < 0.9]
    race.append("9001|A major race|0|True|Null|Null")
    pairs.append(f"9001|{codes[0]}")
    draw.shuffle(pairs)
    lists = {
        "codes": ["RACE_ETH_CODE|RACE_ETH_NAME", *(f"{code}|Code {code}" for code in codes)],
        "race_iterations": ["ITERATION_CODE|ITERATION_NAME|LEVEL|ALONE|DETAILED_ONLY|COARSE_ONLY", *race],
        "ethnicity_iterations": ["ITERATION_CODE|ITERATION_NAME|LEVEL|DETAILED_ONLY|COARSE_ONLY", *ethnic],
        "code_to_iteration": ["ITERATION_CODE|RACE_ETH_CODE", *pairs],
    }
    return {key: "\n".join(lines) for key, lines in lists.items()}, codes


def _random_geography(draw: random.Random, states: Sequence[str]) -> list[str]:
    """Blocks of few areas."""
    blocks = sorted(
        {
            (
                draw.choice(states),
                draw.choice(["001", "003"]),
                draw.choice(["000100", "000200"]),
                draw.choice(["1000", "1001", "9999"]),
            )
            for _ in range(draw.randint(6, 20))
        }
    )
    draw.shuffle(blocks)
    rows = [
        (*block, draw.choice(["00100", "00200", "99999"]), draw.choice(["0001", "9500", "9999"])) for block in blocks
    ]
    return [GEOGRAPHY[0], *("|".join(row) for row in rows)]


def _mixed(draw: random.Random, geography: Sequence[str]) -> list[str]:
    """The columns in any order, with another one among them."""
    columns = [list(column) for column in zip(*(line.split("|") for line in geography), strict=True)]
    columns.append(["BLKGRPCE", *["1"] * (len(geography) - 1)])
    draw.shuffle(columns)
    return ["|".join(row) for row in zip(*columns, strict=True)]


def _random_person(draw: random.Random, block: str, codes: Sequence[str]) -> str:
    races = [draw.choice(codes[:5] if draw.random() < 0.6 else codes) for _ in range(draw.choice([1, 1, 1, 2, 3, 8]))]
    age = str(draw.choice([draw.randint(0, 115), draw.choice([0, 4, 5, 17, 18, 21, 22, 61, 62, 84, 85, 115])]))
    width = draw.randint(1, 3)
    return person(block, *races, age=age.zfill(width), sex=draw.choice("12"), span=draw.choice(codes))


# Levels by themselves.


def level_of(
    *,
    areas: int = 100,
    iterations: int = 10,
    total_only: Sequence[int] = (),
    region: str = "COUNTY",
    budget: str = "0.159",
    steps: tuple[int, int, int] = (971, 4971, 19971),
    suppression: Fraction | None = Fraction("0.9999"),
    definition: Definition = Definition.ZCDP,
    stability: int = 9,
) -> GroupLevel:
    """A population group level without files: its laws are those of the budget."""
    whole, first = Fraction(budget), Fraction(1, 10)

    def law(part: Fraction) -> NoiseDistribution:
        return calibrate(budget_of(definition, part / stability), Neighbours.ADD_REMOVE)

    second = law(whole * (1 - first))
    return GroupLevel(
        settings=LevelSettings(region, 2, whole, steps),
        areas=areas,
        iterations=np.arange(iterations),
        total_only=np.isin(np.arange(iterations), list(total_only)),
        stability=stability,
        first=law(whole * first),
        second=second,
        total=law(whole),
        suppressed_up_to=None if suppression is None else second.quantile(suppression),
    )


def noise_source(number: int = 0) -> NoiseSource:
    """The noise of a key that is given by a number."""
    return NoiseSource(ReleaseKey.choose(f"{number:064x}"), "ab" * 32, "cd" * 32, "safetab")


def counts(groups: Mapping[int, Mapping[int, int]]) -> pa.Table:
    """True counts as the tabulation leaves them: for each group its cells of sex by 23 ages."""
    rows = [(group, cell, n) for group, cells in sorted(groups.items()) for cell, n in sorted(cells.items())]
    group, cell, number = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"part": [0] * len(rows), "group": group, "cell": cell, "n": number}
    return pa.table({name: pa.array(list(column), pa.int64()) for name, column in columns.items()})


def same_size(groups: Sequence[int] | np.ndarray, size: int) -> pa.Table:
    """Every given group with so many persons, all in one cell."""
    number = len(groups)
    column = {"part": np.zeros(number), "group": np.asarray(groups), "cell": np.full(number, 7), "n": [size] * number}
    return pa.table({name: pa.array(np.asarray(values, np.int64)) for name, values in column.items()})


def measured(level: GroupLevel, rows: pa.Table, key: int = 0) -> pa.Table:
    """What is measured and published of a level, all in one part."""
    assert len(level.parts) == 1
    measure: MeasureGroups = measure_groups(level, noise_source(key))
    return measure(0, rows)


def stream_of(number: int) -> NoiseStream:
    key = ReleaseKey.choose(f"{number:064x}")
    names = {"mechanism": "safetab", "level": "COUNTY", "query": "a test"}
    return derive_stream(key, records_fingerprint=bytes(32), plan_hash=bytes(32), **names)
