"""Odd specs of TopDown with neighbours of their records: people and households, known totals, bounds, made spines."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.contract.kit import EXAMPLES
from tests.kits.odd_project import OddProject, shares_of

TRAITS = "abc"
Row = tuple[str, int, str]
"""A record: block, kind, trait."""


def odd_topdown(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Most with a strategy of their own; some with those that ship."""
    rng = random.Random(seed)
    if seed % 8 == 5:
        return _shipped_units(folder, rng, versions)
    if seed % 28 == 3:
        return _shipped_persons(folder, rng, versions)
    return _Odd(folder, rng).project(versions)


class _Odd:
    """A strategy with shares, queries, levels and constraints at random, and records that keep its constraints."""

    def __init__(self, folder: Path, rng: random.Random):
        self.folder, self.rng = folder, rng
        self.made = rng.random() < 0.2
        whole = "state" if self.made else "land"
        middle = ["tract"] if rng.random() < 0.6 else []
        self.digits = {whole: 0} | dict.fromkeys(middle, 1) | {"block_group" if self.made else "county": 2, "block": 3}
        self.levels = list(self.digits)
        self.kinds = rng.randint(1, 3)
        some = {f"{rng.randint(1, 3)}{rng.randint(0, 2)}{rng.randint(0, 3)}" for _ in range(rng.randint(3, 12))}
        self.blocks = sorted(some)
        self.counted = rng.random() < 0.3
        self.known = rng.choice([None, None, *(level for level in self.levels if level != "block_group")])
        self.limits = rng.choice(["none", "quarters", "quarters", "two columns", *(["told"] * self.counted)])
        self.zero = rng.random() < 0.2
        self.frame: dict[str, dict[str, int]] = {}
        """For each column of the block table, its count in each block."""
        for kind in range(self.kinds + 1):
            sparse = [0, 0, 1, 2] if kind else [0, 3, 9, 50]
            self.frame[f"homes{kind}"] = {block: rng.choice(sparse) for block in self.blocks}
        self.lived_in = [b for b in self.blocks if any(column[b] for column in self.frame.values())]
        if not self.lived_in:
            self.lived_in = self.blocks[:1]
            self.frame["homes0"][self.blocks[0]] = 3

    def project(self, versions: int) -> OddProject:
        records = [self._somebody() for _ in range(self.rng.randint(2, 30))]
        if self.limits == "quarters":  # a facility has at least one
            for kind in range(1, self.kinds + 1):
                homes = self.frame[f"homes{kind}"]
                records += [self._of(block, kind) for block in self.lived_in for _ in range(homes[block])]
        others = [self._changed(records) for _ in range(versions)]
        self._write_frame(records)
        self._write_strategy()
        header = "geocode,kind,trait"
        rows = [",".join(map(str, row)) for row in records]
        neighbours = [[",".join(map(str, row)) for row in other] for other in others]
        if self.counted:
            header = "geocode," + ",".join(f"n{kind}{trait}" for kind in self._kinds for trait in TRAITS)
            rows, neighbours = self._by_block(records), [self._by_block(other) for other in others]
        return OddProject(self.folder / "spec.toml", self.folder / "people.csv", header, rows, neighbours)

    @property
    def _kinds(self) -> range:
        return range(self.kinds + 1)

    def _of(self, block: str, kind: int) -> Row:
        forbidden = self.zero and kind == self.kinds
        return block, kind, self.rng.choice(TRAITS[:2] if forbidden else TRAITS)

    def _somebody(self, unit: str = "") -> Row:
        """Somebody of a kind that the block has homes for; in a unit whose code begins so."""
        block = self.rng.choice([block for block in self.lived_in if block.startswith(unit)])
        return self._of(block, self.rng.choice([k for k in self._kinds if self.frame[f"homes{k}"][block]]))

    def _changed(self, records: list[Row]) -> list[Row]:
        """One record is another, where the totals that are known stay as they are."""
        place = self.rng.randrange(len(records))
        fixed = 3 if self.limits == "told" else self.digits.get(self.known or "", 0)
        other = self._somebody(records[place][0][:fixed])
        return [*records[:place], other, *records[place + 1 :]]

    def _by_block(self, records: list[Row]) -> list[str]:
        kinds = [(kind, trait) for kind in self._kinds for trait in TRAITS]
        return [
            ",".join([block, *(str(sum(row == (block, *kind) for row in records)) for kind in kinds)])
            for block in self.blocks
        ]

    def _write_frame(self, records: list[Row]) -> None:
        columns = dict(self.frame)
        columns["cap"] = {block: self.rng.randint(10, 40) for block in self.blocks}
        columns["units"] = {block: sum(row[0] == block for row in records) for block in self.blocks}
        place = {block: self.rng.choice("xyz") for block in self.blocks}
        lines = [
            ",".join([block, place[block], *(str(column[block]) for column in columns.values())])
            for block in self.blocks
        ]
        header = ",".join(["geocode", "place", *columns])
        (self.folder / "blocks.csv").write_text("\n".join([header, *lines]) + "\n")

    def _constraints(self) -> str:
        quarters = ", ".join(f'{kind} = "homes{kind}"' for kind in range(1, self.kinds + 1))
        everywhere = ", ".join(f'{kind} = "homes{kind}"' for kind in self._kinds)
        bounds = {
            "none": [],
            "quarters": [("at-least", "lower", 1, quarters), ("at-most", "upper", 99, everywhere)],
            "two columns": [("homes", "upper", 99, everywhere), ("caps", "upper", 3, '0 = "cap"')],
            "told": [],
        }[self.limits]
        text = "".join(
            f'[[bounds]]\nname = "{name}"\nvariable = "kind"\nside = "{side}"\nper_unit = {per_unit}\n'
            f"frame = {{ {frame} }}\n"
            for name, side, per_unit, frame in bounds
        )
        if self.known:
            text += f'[[invariants]]\nname = "records"\nlevel = "{self.known}"\nquery = "total"\n'
        if self.limits == "told":
            text += '[[invariants]]\nname = "units"\nlevel = "block"\nquery = "total"\nframe = ["units"]\n'
        if self.zero:
            text += f'[[zeros]]\nname = "nobody"\nwhere = {{ kind = [{self.kinds}], trait = ["c"] }}\n'
        return text

    def _write_strategy(self) -> None:
        rng, levels = self.rng, self.levels
        queries = ["total", "kind", "trait", "trait:two", "kind*trait:two", "detailed"]
        listed: dict[str, list[str]] = {query: ["-"] * len(levels) for query in queries}
        for place in range(len(levels)):
            chosen = sorted({"detailed", *rng.sample(queries, rng.randint(1, 4))}, key=lambda _: rng.random())
            if place == 0 and "total" in chosen and (self.known or self.limits == "told"):
                chosen.remove("total")
            for query, share in zip(chosen, shares_of(rng, len(chosen)), strict=True):
                listed[query][place] = str(share)
        order = rng.sample(queries, len(queries))
        rows = "\n".join(f'"{query}" = {listed[query]}' for query in order if any(s != "-" for s in listed[query]))
        shares = [str(share) for share in shares_of(rng, len(levels))]
        chain = '[["kind", "detailed"]]' if self.limits != "none" else '[["detailed"]]'
        names = [f"of-{place}" for place in range(len(levels))]
        estimation = "".join(
            f"[estimation.{name}]\nleast_squares = [{{ queries = {[q for q in order if listed[q][place] != '-']} }}]\n"
            f"rounding = {chain}\n"
            for place, name in enumerate(names)
        )
        budget = Fraction(rng.randint(1, 30), 10)
        (self.folder / "strategy.toml").write_text(f"""id = "odd"
title = "Odd"
provenance = "Made up for a test."
record = "{"household" if self.counted else "person"}"
definition = "zcdp"
neighbours = "change-one"
root = "land"
blocks_with = {list(self.frame)}
[schema]
id = "odd"
provenance = "Made up for a test."
[schema.attributes.kind]
range = [0, {self.kinds}]
[schema.attributes.trait]
levels = [["a", "A"], ["b", "B"], ["c", "C"]]
[schema.attributes.trait.recodes.two.groups]
"A" = "a"
"B or C" = ["b", "c"]
[roots.land]
budget = "{budget}"
levels = {levels}
shares = {shares}
estimation = {names}
[roots.land.queries]
{rows}
{estimation}{self._constraints()}""")
        geography = ", ".join(f'{{ name = "{name}", digits = {self.digits[name]} }}' for name in levels[:-1])
        kinds = [(kind, trait) for kind in self._kinds for trait in TRAITS]
        counted = ", ".join(f'{{ where = {{ kind = {k}, trait = "{t}" }}, column = "n{k}{t}" }}' for k, t in kinds)
        (self.folder / "spec.toml").write_text(f"""[release]
name = "odd"
mechanism = "topdown"
[data]
records = "people.csv"
blocks = "blocks.csv"
{f"counted = [{counted}]" if self.counted else ""}
[geography]
levels = [{geography}]
areas = [{{ name = "place", column = "place", none = "z" }}]
[privacy]
ledger = "none.ledger"
budget = "{budget}"
[topdown]
strategy = "strategy.toml"
spine = "{"optimised" if self.made else "plain"}"
{f'around = ["place"]{chr(10)}fanout = {rng.randint(0, 9)}' if self.made else ""}
[output]
measurements = {"true" if rng.random() < 0.5 else "false"}
""")


# The strategies that ship, in the blocks of the example.


@dataclass(frozen=True)
class _Example:
    """Some blocks of the example in one state."""

    blocks: list[dict[str, Any]]

    @classmethod
    def of(cls, rng: random.Random, most: int) -> _Example:
        with (EXAMPLES / "topdown" / "blocks.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        state = rng.choice(sorted({row["geocode"][:2] for row in rows}))
        here = [row for row in rows if row["geocode"].startswith(state)]
        return cls(sorted(rng.sample(here, min(most, len(here))), key=lambda row: str(row["geocode"])))

    def write(self, folder: Path, rng: random.Random, product: str, data: str) -> Path:
        lines = [",".join(self.blocks[0]), *(",".join(row.values()) for row in self.blocks)]
        (folder / "blocks.csv").write_text("\n".join(lines) + "\n")
        made = rng.random() < 0.5
        (folder / "spec.toml").write_text(f"""[release]
name = "odd"
mechanism = "topdown"
[data]
records = "people.csv"
blocks = "blocks.csv"
{data}
[geography]
levels = [
  {{ name = "state", digits = 2 }}, {{ name = "county", digits = 5 }},
  {{ name = "tract", digits = 11 }}, {{ name = "block_group", digits = 12 }},
]
areas = [
  {{ name = "place", column = "place", none = "99999", within = "state" }},
  {{ name = "aiannh", column = "aiannh", none = "9999" }},
]
[privacy]
ledger = "none.ledger"
budget = "{Fraction(rng.randint(1, 30), 10)}"
[topdown]
strategy = "{product}"
root = "state"
spine = "{"optimised" if made else "plain"}"
{f'around = ["place"]{chr(10)}fanout = {rng.randint(0, 9)}' if made else ""}
[output]
measurements = {"true" if rng.random() < 0.5 else "false"}
""")
        return folder / "spec.toml"


def _shipped_units(folder: Path, rng: random.Random, versions: int) -> OddProject:
    """Housing units, which come counted: one is vacant in the one version and occupied in the other."""
    example = _Example.of(rng, 8)
    counted = (
        '[{ where = { h1 = 1 }, column = "occupied" }, { where = { h1 = 0 }, column = "units", less = "occupied" }]'
    )
    spec = example.write(folder, rng, "pl94-units", f"counted = {counted}")
    units = [int(row["housing_units"]) for row in example.blocks]
    occupied = [rng.randint(0, number) for number in units]

    def rows(of: list[int]) -> list[str]:
        columns = zip(example.blocks, units, of, strict=True)
        return [f"{row['geocode']},{number},{full}" for row, number, full in columns]

    others = []
    for _ in range(versions):
        place = rng.choice([place for place, number in enumerate(units) if number])
        other = list(occupied)
        other[place] += 1 if other[place] < units[place] else -1
        others.append(rows(other))
    return OddProject(spec, folder / "people.csv", "geocode,units,occupied", rows(occupied), others)


def _shipped_persons(folder: Path, rng: random.Random, versions: int) -> OddProject:
    """Persons in households and group quarters: one is of another kind, or lives elsewhere in the state."""
    example = _Example.of(rng, 3)
    spec = example.write(folder, rng, "pl94-persons", "")
    here = {row["geocode"]: row for row in example.blocks}
    people = pq.read_table(EXAMPLES / "topdown" / "persons.parquet").to_pylist()
    people = [person for person in people if person["geocode"] in here][:30] or people[:1]
    names = list(people[0])

    def line(person: dict[str, Any]) -> str:
        return ",".join(str(person[name]) for name in names)

    others = []
    for _ in range(versions):
        place = rng.randrange(len(people))
        # In a household anywhere, or in the same quarters as before.
        homes = [block for block, row in here.items() if int(row["housing_units"])]
        moved = {"geocode": rng.choice(homes), "hhgq": 0} if homes and not int(people[place]["hhgq"]) else {}
        other = people[place] | moved | {"hispanic": rng.randint(0, 1), "cenrace": rng.randint(0, 62)}
        others.append([line(person) for person in [*people[:place], other, *people[place + 1 :]]])
    return OddProject(spec, folder / "people.csv", ",".join(names), [line(person) for person in people], others)
