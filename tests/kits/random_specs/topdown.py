"""Random projects of TopDown: strategies of their own over made-up frames, and those that ship over a few blocks."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.contract.kit import EXAMPLES
from tests.kits.random_specs.project import Draw, RandomProject, toml

GQ = [f"gq{kind}" for kind in range(1, 8)]


def topdown(draw: Draw, folder: Path) -> Path:
    """One of both kinds."""
    project = RandomProject(draw, folder, "topdown")
    if project.sometimes(15):
        shipped_strategy(project)
    else:
        own_strategy(project)
    return project.write()


def shares(project: RandomProject, number: int) -> list[str]:
    """Exact shares with the sum one."""
    weights = [project.choose([1, 1, 2, 7, 1000]) for _ in range(number)]
    return [str(Fraction(weight, sum(weights))) for weight in weights]


def own_strategy(project: RandomProject) -> None:
    """Bounds of both sides, totals on any level, counts that the frame tells, records that come counted, only children,
    spines made around areas, roots cut from larger ones."""
    draw = project.draw
    made = project.sometimes(4)
    names = ["state", *project.some(["county", "tract"], None, 0, 1), "block_group"] if made else None
    project.geography(areas=2 if draw(st.booleans()) else 0, root=not project.wrong or draw(st.booleans()), names=names)
    for area in project.spec["geography"]["areas"]:
        if project.sometimes(4):
            area["optional"] = True
            if draw(st.booleans()):
                del project.columns[area["column"]]
    levels = [*(level["name"] for level in project.spec["geography"]["levels"]), "block"]
    schema = project.schema(most=3)
    truth = _counted(project) if project.sometimes(4) else _listed(project)
    strategy = _Strategy(project, levels, schema, truth)
    (project.folder / "own.toml").write_text(toml(strategy.text()), encoding="utf-8")
    project.spec["data"]["blocks"] = project.table("blocks", project.columns | strategy.columns)
    if strategy.columns and project.sometimes(4):
        project.spec["data"]["presence"] = project.some(list(strategy.columns), ["nothing"], 1, len(strategy.columns))
    project.accounted("zcdp", "change-one")
    part: dict[str, Any] = {"strategy": "own.toml", "spine": "optimised" if made else "plain"}
    if strategy.cut:
        part["root"] = "part"
    if made:
        areas = [area["name"] for area in project.spec["geography"]["areas"]]
        part["around"] = project.some(areas, ["nowhere"], 0, len(areas)) if areas else []
        part |= {"fanout": project.choose([0, 3, 10], [10_001]), "entity_threshold": project.choose([0, 9, 1000], [-1])}
    project.spec["topdown"] = part
    project.output("parquet", "csv", measurements=draw(st.booleans()))
    if project.sometimes(3):
        project.spec["output"] |= _tabulation(project, levels)


Truth = Mapping[Any, Counter[tuple[Any, ...]]]
"""For each block, how many records it has of each combination of codes."""


def _listed(project: RandomProject) -> Truth:
    project.records()
    columns = project.columns_of_records
    rows = list(zip(*(columns[name] for name in project.codes), strict=True))
    truth: dict[Any, Counter[tuple[Any, ...]]] = {block: Counter() for block in project.blocks}
    for block, row in zip(columns["geocode"], rows, strict=True):
        if block in truth:  # an attribute may have the name of the block's column, where a project is wrong
            truth[block][row] += 1
    return truth


def _counted(project: RandomProject) -> Truth:
    """Households, which come counted by block: those of some kinds, one of them as what another leaves."""
    kinds = [tuple(project.choose(codes) for codes in project.codes.values()) for _ in range(2)]
    kinds = list(dict.fromkeys(kinds))
    counts = [[project.choose([0, 0, 1, 2, 5], [10**6]) for _ in project.blocks] for _ in kinds]
    columns: dict[str, list[Any]] = {"geocode": project.blocks, "first": counts[0]}
    wheres = [dict(zip(project.codes, kind, strict=True)) for kind in kinds]
    parts: list[dict[str, Any]] = [{"where": wheres[0], "column": "first"}]
    if len(kinds) == 2:
        columns["all of them"] = [one + other for one, other in zip(*counts, strict=True)]
        parts.append({"where": wheres[1], "column": "all of them", "less": "first"})
    project.spec["data"]["records"] = project.table("counted", columns)
    project.spec["data"]["counted"] = parts
    return {
        block: Counter({kind: column[place] for kind, column in zip(kinds, counts, strict=True) if column[place]})
        for place, block in enumerate(project.blocks)
    }


class _Strategy:
    """A strategy in the making, with the columns of the frame that it needs."""

    def __init__(self, project: RandomProject, levels: list[str], schema: Mapping[str, Any], truth: Truth):
        self.project, self.levels, self.schema, self.truth = project, levels, schema, truth
        self.columns: dict[str, list[int]] = {}
        self.constraints: dict[str, list[Any]] = {"bounds": [], "invariants": [], "zeros": []}
        self.cut = project.sometimes(6)
        self.not_at_top: list[str] = []
        self.limited: str | None = None
        self._constrain()

    def _constrain(self) -> None:
        project = self.project
        kind = project.choose(["nothing", "bounds", "bounds", "told"])
        if kind == "bounds":
            self.limited = project.choose(project.variables)
            for number in range(project.draw(st.integers(1, 4))):
                self._bound(number)
        elif kind == "told":
            # What tells the whole histogram would leave nothing to measure.
            less = [query for query in ("total", *project.variables) if self._cells(query) != self._cells("detailed")]
            if less:
                self.limited = project.choose(less)
                self._told()
        known = project.choose([None, *self.levels])
        if "block_group" in self.levels:  # the spine makes units of its own there
            known = project.choose([None, self.levels[0], "block"], self.levels)
        if self._cells("total") == self._cells("detailed") and not project.wrong:
            known = None
        if known is not None:
            invariants = [{"name": "people", "level": known, "query": "total"}]
            if project.sometimes(4):
                invariants.append({"name": "again", "level": project.choose(self.levels), "query": "total"})
            self.constraints["invariants"] += invariants
            self.not_at_top.append("total")
        if project.sometimes(4):
            name = project.choose(list(project.codes))
            self.constraints["zeros"].append({"name": "nobody", "where": {name: project.codes[name][:1]}})
        self.blocks_with: list[str] = []
        if project.sometimes(3):
            homes = [1 if sum(counts.values()) else project.draw(st.integers(0, 1)) for counts in self._by_block()]
            self.columns["homes"] = homes
            self.blocks_with = ["homes"]
            if project.draw(st.booleans()):
                self.constraints["invariants"].append({"name": "homes", "level": "block", "frame": ["homes"]})

    def _by_block(self) -> list[Counter[tuple[Any, ...]]]:
        return [self.truth[block] for block in self.project.blocks]

    def _of_group(self, number: int) -> list[int]:
        """The true counts of a group of the limited variable, by block."""
        assert self.limited is not None
        if self.limited == "total":
            return [sum(counts.values()) for counts in self._by_block()]
        # A name may have separators in it, where a project is wrong.
        attribute = max((name for name in self.project.codes if f"{self.limited}:".startswith(f"{name}:")), key=len)
        recode = self.limited[len(attribute) + 1 :]
        codes = self.project.codes[attribute]
        chosen = codes[number : number + 1]
        if recode:
            groups = self.schema["attributes"][attribute]["recodes"][recode]["groups"]
            chosen = list(groups.values())[number]
        place = list(self.project.codes).index(attribute)
        return [sum(n for row, n in counts.items() if row[place] in chosen) for counts in self._by_block()]

    def _bound(self, number: int) -> None:
        """A bound that the records keep, or, at random, one that they may not."""
        project = self.project
        assert self.limited is not None
        side, per_unit = project.choose(["upper", "upper", "lower"]), project.choose([1, 3, 99])
        frame = {}
        groups = project.groups[self.limited]
        for group in project.some(range(len(groups)), None, 1, min(2, len(groups))):
            column = f"column {number} {group}"
            true = self._of_group(group)
            if project.sometimes(6):
                self.columns[column] = [project.draw(st.integers(0, 4)) for _ in true]
            elif side == "upper":
                self.columns[column] = [-(-n // per_unit) + project.draw(st.integers(0, 3)) for n in true]
            else:
                self.columns[column] = [project.draw(st.integers(0, n // per_unit)) for n in true]
            frame[groups[group]] = column
        self.constraints["bounds"].append(
            {"name": f"bound-{number}", "variable": self.limited, "side": side, "per_unit": per_unit, "frame": frame}
        )

    def _told(self) -> None:
        assert self.limited is not None
        groups = [""] if self.limited == "total" else self.project.groups[self.limited]
        columns = [f"told {number}" for number in range(len(groups))]
        self.columns |= {column: self._of_group(number) for number, column in enumerate(columns)}
        told = {"name": "told", "level": "block", "query": self.limited, "frame": columns}
        self.constraints["invariants"].append(told)
        self.not_at_top.append(self.limited)

    def text(self) -> dict[str, Any]:
        """The strategy file."""
        project, attributes = self.project, list(self.project.codes)
        levels = ["world", *self.levels] if self.cut else self.levels
        # Words of a query may have any order.
        crossed = ["*".join(project.draw(st.permutations(attributes))[:2])] if len(attributes) > 2 else []
        candidates = self._different(["total", *project.variables, *crossed])
        rows = {query: ["-"] * len(levels) for query in [*candidates, "detailed"]}
        estimation = {}
        for place in range(len(levels)):
            top = place <= int(self.cut)
            usable = [query for query in candidates if not top or not self._known(query)]
            queries = [*(project.some(usable, None, 0, min(3, len(usable))) if usable else []), "detailed"]
            for query, share in zip(queries, shares(project, len(queries)), strict=True):
                rows[query][place] = share
            estimation[f"of-{place}"] = self._estimation(queries)
        names = [f"of-{place}" for place in range(len(levels))]
        strategy: dict[str, Any] = {
            "id": "own", "title": "Own", "provenance": "made up", "definition": "zcdp", "neighbours": "change-one",
            "root": "top", "record": project.choose(["person", "household", "housing unit"], ["Person", ""]),
            "schema": dict(self.schema), "blocks_with": self.blocks_with,
            "roots": {
                "top": {
                    "budget": "1", "levels": levels, "shares": shares(project, len(levels)), "estimation": names,
                    "queries": {query: row for query, row in rows.items() if set(row) != {"-"}},
                }
            },
            "estimation": estimation,
        }  # fmt: skip
        if self.blocks_with and project.sometimes(3):
            strategy["apart"] = self.blocks_with
        if project.sometimes(2):
            strategy["evidence"] = project.choose(["tree", "tree", "own"], ["Tree"])
        if project.sometimes(3):
            strategy["bypass"] = project.choose(["by-query", "by-level"], ["by-cell"])
        if self.cut:
            derived = {"from": "top", "top": self.levels[0], "estimation": "of-1", "renormalise": project.sometimes(2)}
            strategy["derived"] = {"part": derived}
        return strategy | {key: value for key, value in self.constraints.items() if value}

    def _cells(self, query: str) -> frozenset[frozenset[tuple[Any, ...]]]:
        """The sets of records that a query counts."""
        attributes = self.schema["attributes"]
        grouped: list[list[list[Any]]] = []
        for name, codes in self.project.codes.items():
            named = [part for part in query.split("*") if part.partition(":")[0] == name]
            recode = named[0].partition(":")[2] if named else ""
            single = [[code] for code in codes] if named or query == "detailed" else [codes]
            # A name with separators in it, where a project is wrong, is no recode.
            known = attributes[name].get("recodes", {}).get(recode)
            grouped.append(list(known["groups"].values()) if known else single)
        return frozenset(frozenset(product(*cell)) for cell in product(*grouped))

    def _different(self, queries: list[str]) -> list[str]:
        """Those that count no sets of records that another has counted before, or that are the histogram's."""
        met = {self._cells("detailed")}
        chosen = []
        for query in queries:
            cells = self._cells(query)
            if cells not in met or (self.project.wrong and self.project.sometimes(8)):
                chosen.append(query)
            met.add(cells)
        return chosen

    def _known(self, query: str) -> bool:
        """Whether an invariant tells the answer, under this name or another."""
        return self._cells(query) in {self._cells(known) for known in self.not_at_top}

    def _estimation(self, queries: list[str]) -> dict[str, Any]:
        project = self.project
        chain = [*(["total"] if project.sometimes(2) else [])]
        if self.limited not in (None, "total"):
            chain.append(str(self.limited))
        chain.append("detailed")
        part: dict[str, Any] = {"least_squares": [{"queries": queries}], "rounding": [chain]}
        if len(chain) > 1 and project.sometimes(2):
            part["rounding"] = [chain[:1], chain[1:]]
        if len(queries) > 1 and project.sometimes(2):
            first = project.draw(st.integers(1, len(queries) - 1))
            part["least_squares"] = [{"queries": queries[:first]}, {"queries": queries[first:]}]
            if not project.wrong or not project.sometimes(8):
                part["least_squares"][0]["constrain"] = queries[:1]
                part["slack"] = project.choose(["1/100", "1/2", "1e-6"], ["0", "-1"])
        return part


def _tabulation(project: RandomProject, levels: list[str]) -> dict[str, Any]:
    """Tables of our own, for some levels."""
    name, codes = next(iter(project.codes.items()))
    lines = [{"label": "Total"}, {"label": project.choose(["First", "é", "a,b"]), "where": {name: codes[:1]}}]
    table = {"name": project.choose(["t1", "x-1"], ["records"]), "title": "Own", "universe": "all", "prefix": "T001"}
    file = {"id": "own-tables", "provenance": "made up", "tables": [table | {"lines": lines}]}
    (project.folder / "tables.toml").write_text(toml(file), encoding="utf-8")
    wanted = project.some(levels, ["nowhere"], 1, len(levels))
    return {"tabulation": "tables.toml", "table_levels": wanted, "microdata": ["records"]}


def shipped_strategy(project: RandomProject) -> None:
    """Persons or housing units as in 2020, in some blocks of the example, along spines of all settings."""
    draw, example = project.draw, EXAMPLES / "topdown"
    with (example / "blocks.csv").open(encoding="utf-8") as file:
        blocks = list(csv.DictReader(file))
    first = draw(st.integers(0, len(blocks) - 2))
    kept = blocks[first : first + draw(st.integers(1, 4))]
    persons, state = draw(st.booleans()), kept[0]["geocode"][:2]
    kept = [block for block in kept if block["geocode"].startswith(state)]
    columns: dict[str, list[Any]] = {name: [block[name] for block in kept] for name in kept[0]}
    for name in ("housing_units", *GQ):
        columns[name] = [int(number) for number in columns[name]]
    product, root = ("persons" if persons else "units"), "state"
    project.spec["data"] |= {"blocks": project.table("blocks", columns)}
    if persons:
        _people_of(project, example / "persons.parquet", columns["geocode"])
        if project.sometimes(3):
            project.spec["data"]["presence"] = project.some(GQ, ["nothing"], 1, 3)
    else:
        occupied = [draw(st.integers(0, number)) for number in columns["housing_units"]]
        counted = {"geocode": columns["geocode"], "housing_units": columns["housing_units"], "occupied": occupied}
        project.spec["data"] |= {
            "records": project.table("units", counted),
            "counted": [
                {"where": {"h1": 1}, "column": "occupied"},
                {"where": {"h1": 0}, "column": "housing_units", "less": "occupied"},
            ],
        }
    digits = {"state": 2, "county": 5, "tract": 11, "block_group": 12}
    areas = [{"name": "place", "column": "place", "none": "99999", "within": "state"},
             {"name": "cousub", "column": "cousub", "within": "county"},
             {"name": "aiannh", "column": "aiannh", "none": "9999"}]  # fmt: skip
    chosen = project.some(areas, None, 0, 3)
    project.spec["geography"] = {
        "levels": [{"name": name, "digits": number} for name, number in digits.items()],
        "areas": [area | ({"optional": True} if project.sometimes(3) else {}) for area in chosen],
    }
    project.accounted("zcdp", "change-one")
    part: dict[str, Any] = {
        "strategy": f"pl94-{product}",
        "root": root,
        "spine": project.choose(["optimised", "plain"]),
    }
    part |= {"split_aian": draw(st.booleans()), "fanout": project.choose([0, 10]), "entity_threshold": 9}
    if draw(st.booleans()):
        part["around"] = project.some([a["name"] for a in chosen], ["nowhere"], 0, len(chosen)) if chosen else []
    project.spec["topdown"] = part
    project.output("parquet", "csv", measurements=draw(st.booleans()))


def _people_of(project: RandomProject, file: Path, blocks: list[str]) -> None:
    people = pq.read_table(file)
    here = people.filter(pc.is_in(people.column("geocode"), pa.array(blocks, pa.string())))
    pq.write_table(here, project.folder / "persons.parquet")
    project.spec["data"]["records"] = "persons.parquet"
