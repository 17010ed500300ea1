"""Measurement files in the layout of the Census Bureau's public ones, of a few made-up people: for tests of readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.mechanisms.topdown.measurements.layout import Words, public_words

PL94 = {
    "total": {},
    "cenrace": {"cenrace": "cenrace"},
    "hispanic": {"hispanic": "hispanic"},
    "votingage": {"votingage": "votingage"},
    "hhinstlevels": {"hhgq": "hhinstlevels"},
    "hhgq": {"hhgq": "hhgq"},
    "hispanic * cenrace": {"hispanic": "hispanic", "cenrace": "cenrace"},
    "votingage * cenrace": {"votingage": "votingage", "cenrace": "cenrace"},
    "hispanic * votingage": {"hispanic": "hispanic", "votingage": "votingage"},
    "votingage * hispanic * cenrace": {"votingage": "votingage", "hispanic": "hispanic", "cenrace": "cenrace"},
    "detailed": {"hhgq": "detailed", "votingage": "detailed", "hispanic": "detailed", "cenrace": "detailed"},
}
UNITS = {"detailed": {"h1": "detailed"}}
DHC = {
    "total": {},
    "relgq_4_groups": {"relgq": "relgq_4_groups"},
    "hispanic * cenrace": {"hispanic": "hispanic", "cenrace": "cenrace"},
    "age_10_groups": {"age": "age_10_groups"},
    "gqlevels * age_18_64_116 * sex * hispanic": {
        "relgq": "gqlevels",
        "age": "age_18_64_116",
        "sex": "sex",
        "hispanic": "hispanic",
    },
}

PL94_LEVELS = {"US": 0, "State": 3, "County": 9, "Tract": 13, "Block_Group": 15, "Block": 31}
DHC_LEVELS = {
    "US": 0,
    "State": 3,
    "County": 8,
    "Prim": 11,
    "Tract_Subset_Group": 13,
    "Tract_Subset": 15,
    "Block_Group": 17,
    "Block": 33,
}
PARENTS = {"State": (0, 0, 0), "County": (0, 1, 2), "made": (0, 1, 1, 2), "Block_Group": (0, 0, 1, 2, 3)}
"""Two parts of one State, and another one, whose counties are only children, as most units below are."""
BLOCKS = (0, 0, 1, 2, 2, 2, 3, 3, 4)
STATES = ("044", "050", "144")


@dataclass
class PublicFiles:
    """A folder in the public layout, and what it was made of."""

    folder: Path
    words: Words
    levels: list[str]
    ids: dict[str, list[str]]
    parents: dict[str, np.ndarray]
    truth: dict[str, np.ndarray]
    """For each level its units x histogram."""
    measured: dict[str, np.ndarray] = field(default_factory=dict)

    def totals(self) -> dict[str, int]:
        """The numbers of people of the States."""
        result: dict[str, int] = {}
        for id_, cells in zip(self.ids["State"], self.truth["State"], strict=True):
            result[id_[1:]] = result.get(id_[1:], 0) + int(cells.sum())
        return result


def write_public(
    folder: Path,
    queries: Mapping[str, Mapping[str, str]] = PL94,
    *,
    noise: float = 4.0,
    seed: int = 1,
    by_county: bool = False,
    wide: bool = True,
) -> PublicFiles:
    """A product as it was published.

    Only children are not measured. Files of State 050 have integers of 64 bits and those of the others 32, unless
    ``wide`` is False; one file of DPQuery has an empty column ``sign``, and Constraint of the State 050 has none.
    ``by_county``: partitions of counties below those of States.
    """
    attributes = sorted({name for words in queries.values() for name in words})
    words = public_words(attributes)
    assert words is not None
    rng = np.random.default_rng(seed)
    levels = DHC_LEVELS if "relgq" in attributes else PL94_LEVELS
    made = _units(folder, words, levels, rng)
    variances = {name: {query: noise * float(rng.uniform(0.5, 2)) for query in queries} for name in levels}
    for level in levels:
        own = made.measured[level]
        for state in ("",) if level == "US" else STATES:
            inside = [u for u, id_ in enumerate(made.ids[level]) if id_.startswith(state)]
            if not inside:
                continue
            counties = {"": inside}
            if by_county and level not in ("US", "State"):
                counties = {}
                for unit in inside:
                    counties.setdefault(made.ids[level][unit][: levels["County"]], []).append(unit)
            for county, units in counties.items():
                place = folder / f"{level}.parquet" / "KIND"
                place = place / f"State={state}" if state else place
                place = place / f"County={county}" if county else place
                type_ = pa.int64() if state == "050" and wide else pa.int32()
                rows = [
                    _measured(made, level, unit, name, said, variances[level][name], rng)
                    for unit in units
                    if own[unit]
                    for name, said in queries.items()
                    if not (level == "US" and name == "total")
                ]
                rows = [rows[i] for i in rng.permutation(len(rows))]
                if rows:
                    _write(_kind(place, "DPQuery"), rows, words, type_, ["variance"], sign=state == "144")
                constraints = [row for unit in units for row in _constraints(made, level, unit, rng)]
                _write(_kind(place, "Constraint"), constraints, words, type_, ["sign"] if state != "050" else [])
    return made


def _kind(place: Path, kind: str) -> Path:
    return Path(*(kind if part == "KIND" else part for part in place.parts))


def _units(folder: Path, words: Words, levels: Mapping[str, int], rng: np.random.Generator) -> PublicFiles:
    ids: dict[str, list[str]] = {}
    parents: dict[str, np.ndarray] = {}
    above: list[str] = []
    for name, width in levels.items():
        parent = (
            (0,)
            if name == "US"
            else BLOCKS
            if name == "Block"
            else PARENTS["State"]
            if name == "State"
            else PARENTS["Block_Group"]
            if name == "Block_Group"
            else PARENTS["made"]
            if name in ("Tract", "Prim")
            else PARENTS["County"]
            if name == "County"
            else tuple(range(4))
        )
        if name == "US":
            ids[name] = [""]
        elif name == "State":
            ids[name] = list(STATES)
        else:
            before = levels[list(levels)[list(levels).index(name) - 1]]
            number = dict.fromkeys(parent, 0)
            made = []
            for key in parent:
                number[key] += 1
                part = f"{number[key]}".zfill(width - before)
                if name == "Block":  # the official code: State, county, tract, block group, block
                    state = above[key][1:3]
                    part = f"{state}0{key:02d}01010{key + 1}{key + 1}{key + 1}00{number[key]}".zfill(16)[:16]
                made.append(above[key] + part)
            ids[name] = made
        parents[name] = np.array(parent)
        above = ids[name]
    cells = int(np.prod(words.shape))
    blocks = len(ids["Block"])
    truth = np.zeros((blocks, cells), np.int64)
    chosen = rng.integers(0, cells, (blocks, 60))
    for block in range(blocks):
        np.add.at(truth[block], chosen[block], rng.integers(1, 9, 60))
    if "hhgq" in words.attributes:
        shaped = truth.reshape(blocks, *words.shape)
        shaped[:, 3, 0] = 0
        shaped[::2, 1:] = 0  # no quarters in every second block
    by_level = {"Block": truth}
    names = list(levels)
    for position in range(len(names) - 1, 0, -1):
        below, name = by_level[names[position]], names[position - 1]
        by_level[name] = np.zeros((len(ids[name]), cells), np.int64)
        np.add.at(by_level[name], parents[names[position]], below)
    result = PublicFiles(folder, words, names, ids, parents, by_level)
    for name in names:
        of_unit = parents[name]
        alone = np.bincount(of_unit)[of_unit] == 1
        result.measured[name] = np.ones(len(of_unit), bool) if name == "US" else ~alone
    return result


def _measured(
    made: PublicFiles,
    level: str,
    unit: int,
    name: str,
    said: Mapping[str, str],
    variance: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    words = {attribute: said.get(attribute, "*") for attribute in made.words.attributes}
    exact = answered(made.words, words, made.truth[level][unit])
    value = exact + np.rint(rng.normal(0, np.sqrt(variance), exact.shape)).astype(np.int64)
    rounded = variance + (1 / 12 if variance > 0.1 else 0)  # of a rounded normal
    return {
        "geocode": made.ids[level][unit],
        "query_name": f"{name}_dpq",
        **words,
        "query_shape": list(exact.shape),
        "value": value.ravel().tolist(),
        "variance": np.float32(rounded),
    }


def answered(words: Words, said: Mapping[str, str], cells: np.ndarray) -> np.ndarray:
    """The answer to the query of some words, in its shape."""
    result = cells.reshape(words.shape)
    for axis, (attribute, word) in enumerate(said.items()):
        groups = words.meaning(attribute, word)
        groups = np.zeros(words.shape[axis], np.int64) if groups is None else groups
        added = np.zeros((*result.shape[:axis], int(groups.max()) + 1, *result.shape[axis + 1 :]), np.int64)
        np.add.at(np.moveaxis(added, axis, 0), groups, np.moveaxis(result, axis, 0))
        result = added
    return result


def _constraints(made: PublicFiles, level: str, unit: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    none = dict.fromkeys(made.words.attributes, "*")
    cells = made.truth[level][unit]
    id_ = made.ids[level][unit]

    def row(name: str, said: Mapping[str, str], value: list[int], sign: str) -> dict[str, Any]:
        shape = [
            1 if word == "*" else int(made.words.meaning(attribute, word).max()) + 1  # type: ignore[union-attr]
            for attribute, word in (none | dict(said)).items()
        ]
        assert prod(shape) == len(value)
        words = none | dict(said)
        return {"geocode": id_, "query_name": name, **words, "query_shape": shape, "value": value, "sign": sign}

    rows = []
    if level == "US" or "h1" in none:
        rows.append(row("total_con", {}, [int(cells.sum())], "="))
    if "hhgq" in none:
        of_type = answered(made.words, none | {"hhgq": "hhgq"}, cells).ravel()
        rows.append(row("hhgq_total_lb_con", {"hhgq": "hhgq"}, (of_type > 0).astype(int).tolist(), ">="))
        limit = (99999 * (of_type > 0)).tolist()
        rows.append(row("hhgq_total_ub_con", {"hhgq": "hhgq"}, limit, "<="))
        rows.append(row("nurse_nva_0_con", {"hhgq": "gqNursingTotal", "votingage": "nonvoting"}, [0], "="))
    if "relgq" in none:
        said = {"relgq": "hhgq8lev", "age": "votingage", "hispanic": "hispanic", "cenrace": "cenrace"}
        noisy = answered(made.words, none | said, cells).ravel() + rng.integers(0, 2, 2016)
        rows.append(row("pl94_con", said, noisy.tolist(), "="))
        rows.append(row("relgq0_age_0_con", {"relgq": "relgq_4_groups"}, [0, 1, 1, 1], "="))
    return rows


def _write(
    place: Path, rows: list[dict[str, Any]], words: Words, type_: pa.DataType, also: list[str], *, sign: bool = False
) -> None:
    place.mkdir(parents=True, exist_ok=True)
    names = ["geocode", "query_name", *words.attributes]
    columns: dict[str, pa.Array] = {name: pa.array([row[name] for row in rows], pa.string()) for name in names}
    columns["query_shape"] = pa.array([row["query_shape"] for row in rows], pa.list_(pa.int64()))
    columns["value"] = pa.array([row["value"] for row in rows], pa.list_(type_))
    for name in also:
        columns[name] = pa.array([row[name] for row in rows], pa.float32() if name == "variance" else pa.string())
    if sign:
        columns["sign"] = pa.nulls(len(rows), pa.string())
    pq.write_table(pa.table(columns), place / "part-00000-c000.snappy.parquet", row_group_size=7)
