"""Small TopDown projects whose strategies cross attributes, and the same projects written in another order.

One project is a few people of three attributes in the blocks of some regions. It can be written with the words of its
queries, its attributes, their levels, and the rows and columns of its files in any order: the figures stay the same.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.mechanisms.topdown import measure as topdown_measure
from confide.releases.ledger import Ledger
from confide.releases.mechanism import NoiseSource
from tests.kits.random_specs.project import toml

LEDGER = "people.ledger"
NAMES = [("sex", "age", "job"), ("пол", "العمر", "职业"), ("लिंग", "ηλικία", "b"), ("z", "y", "x")]
GROUPS = "groups"
Turn = Callable[[list[Any]], list[Any]]


def as_it_is(items: list[Any]) -> list[Any]:
    return items


def turned(seed: int) -> Turn:
    """Puts lists of two and more into another order, always the same for a seed."""
    rng = random.Random(seed)

    def turn(items: list[Any]) -> list[Any]:
        other = items
        while len(items) > 1 and other == items:
            other = rng.sample(items, len(items))
        return other

    return turn


@dataclass
class Order:
    """The order in which each kind of thing is written."""

    words: Turn = as_it_is
    attributes: Turn = as_it_is
    levels: Turn = as_it_is
    rows: Turn = as_it_is
    columns: Turn = as_it_is


@dataclass
class CrossedProject:
    """A project at random.

    Args:
        seed: Decides everything.
        evidence: ``own`` or ``tree``; or ``turns``: own, with passes and rounding in turns.
        people: How many records a cell of a block has at most.
        budget: Of the release; an endless one makes noise zero.
        told: Whether the frame tells the counts of a crossed query.
        regions: How many regions the country has.
    """

    seed: int
    evidence: str = "tree"
    people: int = 6
    budget: str = "1"
    told: bool = False
    regions: int = 2
    attributes: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)
        sizes = [2, rng.choice([2, 3]), rng.choice([2, 4])]
        rng.shuffle(sizes)
        names = NAMES[self.seed % len(NAMES)]
        self.attributes = {name: list(range(1, size + 1)) for name, size in zip(names, sizes, strict=True)}
        self.blocks = [
            f"{region}{number}" for region in range(1, self.regions + 1) for number in range(rng.randint(1, 3) + 1)
        ]
        histogram = [dict(zip(self.attributes, codes, strict=True)) for codes in product(*self.attributes.values())]
        self.records = [
            {"geocode": block} | cell
            for block in self.blocks
            for cell in histogram
            for _ in range(rng.randint(0, self.people) if rng.random() < 0.8 else 0)
        ]
        pairs = [*combinations(names, 2)]
        crossed = [[self._variable(name) for name in pair] for pair in pairs]
        self.crossed = [*crossed, *(list(pair) for pair in pairs)]
        self.crossed = [list(query) for query in dict.fromkeys(map(tuple, self.crossed))]

    def _variable(self, name: str) -> str:
        recoded = len(self.attributes[name]) > 2 and self.rng.random() < 0.5
        return f"{name}:{GROUPS}" if recoded else name

    def _groups(self, variable: str) -> dict[str, list[int]]:
        """The groups of a variable by their labels."""
        name, _, recode = variable.partition(":")
        codes = self.attributes[name]
        return {"first": codes[:1], "others": codes[1:]} if recode else {f"{name} {code}": [code] for code in codes}

    def write(self, folder: Path, order: Order | None = None, *, shuffled: int | None = None) -> Path:
        """The project in a folder, with an open ledger; its spec. ``shuffled`` stands for an order of the words."""
        order = order or Order() if shuffled is None else Order(words=turned(shuffled))
        folder.mkdir(parents=True)
        columns = order.columns(["geocode", *self.attributes])
        records = order.rows(self.records)
        pq.write_table(pa.table({name: [row[name] for row in records] for name in columns}), folder / "persons.parquet")
        told = self.crossed[0]
        frame = self._told(told) if self.told else {}
        blocks = order.rows(self.blocks)
        of_blocks = {name: [counts[block] for block in blocks] for name, counts in frame.items()}
        everything: dict[str, list[Any]] = {"geocode": blocks} | of_blocks
        pq.write_table(
            pa.table({name: everything[name] for name in order.columns(list(everything))}), folder / "blocks.parquet"
        )
        (folder / "own.toml").write_text(toml(self._strategy(order, told)), encoding="utf-8")
        spec = {
            "release": {"name": "crossed", "mechanism": "topdown"},
            "data": {"records": "persons.parquet", "blocks": "blocks.parquet"},
            "geography": {"levels": [{"name": "country", "digits": 0}, {"name": "region", "digits": 1}]},
            "privacy": {"ledger": LEDGER, "budget": self.budget},
            "topdown": {"strategy": "own.toml", "spine": "plain"},
            "output": {"formats": ["parquet"], "measurements": True},
        }
        (folder / "spec.toml").write_text(toml(spec), encoding="utf-8")
        Ledger.open_new(
            folder / LEDGER, data_set="people", definition="zcdp", neighbours="change-one", budget=self.budget
        )
        return folder / "spec.toml"

    def write_again(self, folder: Path, measurements: Path, order: Order | None = None) -> Path:
        """A spec of the same strategy that post-processes measurements, without a block table."""
        folder.mkdir(parents=True)
        (folder / "own.toml").write_text(toml(self._strategy(order or Order(), self.crossed[0])), encoding="utf-8")
        spec = {
            "release": {"name": "again", "mechanism": "postprocess"},
            "data": {"measurements": str(measurements)},
            "geography": {"levels": [{"name": "country", "digits": 0}, {"name": "region", "digits": 1}]},
            "topdown": {"strategy": "own.toml"},
            "output": {"formats": ["parquet"]},
        }
        (folder / "spec.toml").write_text(toml(spec), encoding="utf-8")
        return folder / "spec.toml"

    def _told(self, query: list[str]) -> dict[str, dict[str, int]]:
        """For each cell of a query a column of the block table, named by the codes that it counts."""
        result = {}
        for cell in product(*(self._groups(variable).items() for variable in query)):
            wanted = {variable.partition(":")[0]: codes for variable, (_, codes) in zip(query, cell, strict=True)}
            count = Counter(
                row["geocode"] for row in self.records if all(row[name] in codes for name, codes in wanted.items())
            )
            result[_column(zip(query, (label for label, _ in cell), strict=True))] = {b: count[b] for b in self.blocks}
        return result

    def _strategy(self, order: Order, told: list[str]) -> dict[str, Any]:
        rng = random.Random(self.seed)
        measured = [*([name] for name in self.attributes), *self.crossed]
        measured = [query for query in measured if query != told or not self.told]

        def word(query: Sequence[str]) -> str:
            return "*".join(order.words(list(query)))

        levels = ["country", "region", "block"]
        rows: dict[str, list[str]] = {}
        estimation: dict[str, Any] = {}
        asked = [rng.sample(range(len(measured)), rng.randint(2, len(measured))) for _ in levels]
        texts = {place: word(measured[place]) for place in sorted({place for own in asked for place in own})}
        limited = order.words(list(told)) if self.told else []
        chain = [["total"], *([["*".join(limited)]] if self.told else []), ["detailed"]]
        for number, own in enumerate(asked):
            queries = ["detailed", *(texts[place] for place in sorted(own))]
            weights = [Fraction(rng.choice([1, 2, 3, 5]) * 17 + place) for place, _ in enumerate(queries)]
            for query, weight in zip(queries, weights, strict=True):
                rows.setdefault(query, ["-"] * len(levels))[number] = str(weight / sum(weights))
            # A pass may name a query in yet another order than the row of its shares.
            again = {texts[place]: word(measured[place]) for place in own}
            passes: list[dict[str, list[str]]] = [{"queries": [again.get(query, query) for query in queries]}]
            rounding = [[name] for (name,) in chain]
            kept = [place for place in sorted(own) if not self.told or set(measured[place]) <= set(told)]
            if self.evidence == "turns" and kept:
                # The finest answers that nest with what the frame tells are made whole before the cells are looked at.
                finest = max(kept, key=lambda place: (len(measured[place]), place))
                passes[0]["queries"].remove("detailed")
                passes[0]["constrain"] = [word(measured[finest])]
                passes.append({"queries": ["detailed"]})
                rounding = [
                    ["total", word(measured[finest])],
                    ["*".join(limited), "detailed"] if limited else ["detailed"],
                ]
            estimation[f"of-{number}"] = {"least_squares": passes, "rounding": rounding}
        schema = {
            name: {
                "levels": order.levels([[code, f"{name} {code}"] for code in codes]),
                "recodes": {GROUPS: {"groups": dict(order.levels(list(self._groups(f"{name}:{GROUPS}").items())))}},
            }
            for name, codes in ((name, self.attributes[name]) for name in order.attributes(list(self.attributes)))
        }
        strategy: dict[str, Any] = {
            "id": "crossed", "title": "Crossed", "provenance": "made up", "definition": "zcdp",
            "neighbours": "change-one", "root": "top",
            "evidence": "own" if self.evidence == "turns" else self.evidence,
            "schema": {"id": "crossed", "provenance": "made up", "attributes": schema},
            "roots": {"top": {"budget": "1", "levels": levels, "shares": ["2/9", "3/9", "4/9"],
                              "estimation": list(estimation), "queries": rows}},
            "estimation": estimation,
        }  # fmt: skip
        if self.told:
            # The columns follow the words of the query, and the levels as the schema lists them.
            listed = [order.levels(list(self._groups(variable))) for variable in limited]
            frame = [_column(zip(limited, cell, strict=True)) for cell in self._cells(limited, schema)]
            assert len(frame) == prod(map(len, listed))
            part = {"name": "told", "level": "block", "query": "*".join(limited), "frame": frame}
            strategy["invariants"] = [part]
        return strategy

    def _cells(self, query: list[str], schema: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        """The cells of a query as labels, the last variable fastest."""
        labels = []
        for variable in query:
            name, _, recode = variable.partition(":")
            groups = schema[name]["recodes"][GROUPS]["groups"] if recode else None
            labels.append(list(groups) if groups is not None else [label for _, label in schema[name]["levels"]])
        yield from product(*labels)

    @contextmanager
    def noise_by_name(self, spec: Path, spread: int) -> Iterator[None]:
        """Noise that depends on the level, the unit, and the names of what a cell counts, and on no order of them."""
        schema = json.loads(json.dumps(_toml(spec.parent / "own.toml")["schema"]["attributes"]))
        asked: dict[bytes, tuple[str, str]] = {}
        derived = NoiseSource.stream

        def stream(source: NoiseSource, level: str, query: str) -> Any:
            result = derived(source, level, query)
            asked[result.word_key] = (level, query)
            return result

        def draw_at(_law: Any, stream: Any, places: Any) -> Any:
            level, query = asked[stream.word_key]
            named = list(schema) if query == "detailed" else [] if query == "total" else query.split("*")
            cells = [frozenset(zip(named, cell, strict=True)) for cell in self._cells(named, schema)]
            return np.array([_noise(level, place // len(cells), cells[place % len(cells)], spread) for place in places])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NoiseSource, "stream", stream)
            patch.setattr(topdown_measure, "draw_at", draw_at)
            yield


def _column(cell: Iterable[tuple[str, str]]) -> str:
    return "told " + " ".join(f"{name}={label}" for name, label in sorted(cell))


def _noise(level: str, unit: int, cell: frozenset[tuple[str, str]], spread: int) -> int:
    number = int.from_bytes(sha256(repr((level, unit, sorted(cell))).encode()).digest()[:8])
    return number % (2 * spread + 1) - spread


def _toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def released_records(release: Path, names: Iterable[str]) -> Counter[tuple[Any, ...]]:
    """How often each combination of block and codes is released, whatever the order of columns."""
    (file,) = (release / "tables").glob("records*.parquet")
    table = pq.read_table(file).select(["geocode", *names])
    return Counter(tuple(row.values()) for row in table.to_pylist())
