"""Random projects of every mechanism: tiny populations, and specs that may be odd in everything a person writes.

Each is a folder with records, block table, schema and spec, and an open ledger with just what the spec spends. What is
drawn is mostly right, so that many end in a release, and now and then odd, so that every rule is tried.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from hypothesis import strategies as st

from confide.releases.ledger import Ledger
from tests.contract.kit import EXAMPLES

Draw = Callable[[st.SearchStrategy[Any]], Any]
LEDGER = "data-set.ledger"

NAMES = ["sex", "age", "race", "a b", "é", "n", "cell", "code", "unit", "part", "frame", "records", "status", "value"]
ODD_NAMES = [
    "total",
    "Sex",
    "a*b",
    "in:c",
    "a/b",
    " sex",
    "level",
    "area",
    "count",
    "block",
    "geocode",
    "detailed",
    'q"q',
]
LABELS = ["one", "two", "three", "a,b", 'q"q', "é", "1"]
ODD_LABELS = ["all", "_T", "", "one", "a\nb", " one"]
TABLES = ["first", "second-table", "t"]
ODD_TABLES = ["frame", "records", "histogram", "first", "Odd"]
LEVELS = ["state", "county", "tract"]
ODD_LEVELS = ["block", "frame", "histogram", "level", "area", "household", "geocode", "state"]


def rarely(usual: list[Any], odd: list[Any]) -> st.SearchStrategy[Any]:
    """Mostly something usual."""
    return st.integers(0, 24).flatmap(lambda n: st.sampled_from(odd if n == 17 else usual))


def distinct(draw: Draw, one: st.SearchStrategy[Any], number: int) -> list[Any]:
    """Some of them, mostly different."""
    chosen: list[Any] = []
    while len(chosen) < number:
        value = draw(one)
        if value not in chosen or draw(st.integers(0, 19)) == 13:
            chosen.append(value)
    return chosen


def toml(values: Mapping[str, Any], path: str = "") -> str:
    """Values as TOML: tables after plain keys, lists of tables as such."""
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping) and not _tables(value)}
    lines = [f"{json.dumps(key)} = {_value(value)}" for key, value in plain.items()]
    text = "\n".join(lines) + "\n"
    for key, value in values.items():
        name = f"{path}{json.dumps(key)}"
        if isinstance(value, Mapping):
            text += f"[{name}]\n" + toml(value, f"{name}.")
        elif _tables(value):
            text += "".join(f"[[{name}]]\n" + toml(each, f"{name}.") for each in value)
    return text


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


class RandomProject:
    """A folder in the making: what every mechanism needs."""

    def __init__(self, draw: Draw, folder: Path):
        self.draw, self.folder = draw, folder
        folder.mkdir(parents=True)
        self.spec: dict[str, Any] = {"release": {"name": "odd", "mechanism": ""}, "data": {}}
        self.ledger: dict[str, Any] | None = None

    def write(self) -> Path:
        """The spec, and an open ledger with what it spends."""
        if self.ledger is not None:
            Ledger.open_new(self.folder / LEDGER, data_set="odd", **self.ledger)
        path = self.folder / "spec.toml"
        path.write_text(toml(self.spec), encoding="utf-8")
        return path

    def some(self, one: st.SearchStrategy[Any], least: int, most: int) -> list[Any]:
        return distinct(self.draw, one, self.draw(st.integers(least, most)))

    def choose(self, usual: list[Any], odd: list[Any] | None = None) -> Any:
        return self.draw(rarely(usual, odd or usual))

    # Who there is, and where.

    def geography(self, *, areas: bool = True, root: bool = False) -> None:
        """Blocks with codes of all kinds, levels by digits or columns, areas within levels."""
        draw = self.draw
        number = draw(st.integers(1, 5))
        width = draw(st.sampled_from([3, 4]))
        codes = [f"{n % 3}{n % 2}{n:0{width - 2}d}" for n in range(number)]
        if draw(st.integers(0, 9)) == 7:
            codes[draw(st.integers(0, number - 1))] = draw(st.sampled_from(["1", "", "é é", "00+1", codes[0]]))
        self.blocks = codes
        columns: dict[str, list[Any]] = {"geocode": codes}
        levels: list[dict[str, Any]] = []
        self.levels = ["block"]
        if root:
            levels.append({"name": "nation", "digits": 0})
            self.levels.append("nation")
        for position, name in enumerate(self.some(rarely(LEVELS, ODD_LEVELS), 0, 2)):
            if draw(st.booleans()):
                levels.append({"name": name, "digits": draw(st.sampled_from([0, 1] if not position else [1, 2]))})
            else:
                columns[f"of_{name}"] = [code[: position + 1] or "x" for code in codes]
                levels.append({"name": name, "column": f"of_{name}"})
            self.levels.append(name)
        of_areas: list[dict[str, Any]] = []
        if areas and draw(st.booleans()):
            columns["town"] = [draw(st.sampled_from(["1", "12", "2", "", "-"])) for _ in codes]
            area = {"name": self.choose(["place"], ODD_LEVELS), "column": "town", "none": "-"}
            if levels and draw(st.booleans()):
                area["within"] = levels[-1]["name"]
            of_areas.append(area)
            self.levels.append(area["name"])
        self.columns = columns
        self.spec["data"]["blocks"] = self.table("blocks", columns)
        self.spec["geography"] = {"block": "geocode", "levels": levels, "areas": of_areas}

    def table(self, name: str, columns: Mapping[str, list[Any]]) -> str:
        """A file of these columns, Parquet or CSV; nothing in a file of no rows but its header."""
        types = {key: pa.string() if any(isinstance(v, str) for v in values) or not values else pa.int64()
                 for key, values in columns.items()}  # fmt: skip
        table = pa.table({key: pa.array(values, types[key]) for key, values in columns.items()})
        if self.draw(st.booleans()):
            pq.write_table(table, self.folder / f"{name}.parquet")
            return f"{name}.parquet"
        pyarrow.csv.write_csv(table, self.folder / f"{name}.csv")
        return f"{name}.csv"

    def schema(self, most: int = 3, least_levels: int = 1) -> dict[str, Any]:
        """Attributes with levels and recodes; ``self.variables`` are the names that tables can use."""
        attributes: dict[str, Any] = {}
        self.codes: dict[str, list[Any]] = {}
        self.variables: list[str] = []
        for name in self.some(rarely(NAMES, ODD_NAMES), 1, most):
            labels = self.some(rarely(LABELS, ODD_LABELS), least_levels, 3)
            kind = self.draw(st.sampled_from([int, str]))
            codes = [kind(number) for number in range(len(labels))]
            part: dict[str, Any] = {"levels": [[code, label] for code, label in zip(codes, labels, strict=True)]}
            if self.draw(st.integers(0, 2)) == 1:
                recode = self.choose(["broad", "x"], ["total", "a:b", "x*"])
                groups = {self.choose(["few", "some"], ["all", "one"]): codes[:1]}
                if len(codes) > 1:
                    groups[self.choose(["many", "rest"], ["some", "_T"])] = codes[1:]
                part["recodes"] = {recode: {"groups": groups}}
                self.variables.append(f"{name}:{recode}")
            attributes[name] = part
            self.codes[name] = codes
            self.variables.append(name)
        return {"id": "odd", "provenance": "made up", "attributes": attributes}

    def write_schema(self) -> None:
        (self.folder / "schema.toml").write_text(toml(self.schema()), encoding="utf-8")
        self.spec["data"]["schema"] = "schema.toml"

    def records(
        self, extra: Mapping[str, Callable[[int], Any]] | None = None, *, block: bool = True, usual: int = 5
    ) -> None:
        """Nobody, or a few people of the schema's codes; now and then one with a code that is none."""
        number = self.choose([3, usual, usual + 3, 1], [0])
        columns: dict[str, list[Any]] = {}
        if block:
            columns["geocode"] = [self.draw(st.sampled_from(self.blocks)) for _ in range(number)]
        for name, codes in self.codes.items():
            columns[name] = [self.choose(codes, [codes[0], codes[-1]]) for _ in range(number)]
        for name, make in (extra or {}).items():
            columns[name] = [make(row) for row in range(number)]
        self.columns_of_records = columns
        self.spec["data"]["records"] = self.table("persons", columns)

    def tables(self, most: int = 2, **more: Callable[[], Any]) -> list[dict[str, Any]]:
        """Tables of some variables."""
        return [
            {
                "name": name,
                "variables": self.some(rarely(self.variables, ["nobody"]), 0, min(2, len(self.variables))),
            }
            | {key: make() for key, make in more.items()}
            for name in self.some(rarely(TABLES, ODD_TABLES), 1, most)
        ]

    def of_levels(self) -> list[str]:
        return self.some(rarely(self.levels, ["nowhere"]), 1, min(2, len(self.levels)))

    def accounted(self, definition: str, neighbours: str) -> None:
        budget = self.choose(["1", "1/100", "8", "1e6"], ["1e-9", "1e15", "1e-40"])
        delta = "1e-6" if definition == "approximate" else 0
        self.spec["privacy"] = {
            "ledger": LEDGER, "budget": budget, "definition": definition, "neighbours": neighbours,
        } | ({"delta": delta} if delta else {})  # fmt: skip
        self.ledger = {"definition": definition, "neighbours": neighbours, "budget": budget, "delta": delta}

    def output(self, *formats: str, **more: Any) -> None:
        self.spec["output"] = {"formats": self.some(st.sampled_from(formats), 1, len(formats))} | more


def tables(draw: Draw, folder: Path) -> Path:
    project = RandomProject(draw, folder)
    project.spec["release"]["mechanism"] = "tables"
    project.geography()
    project.write_schema()
    project.records()
    definition = draw(st.sampled_from(["zcdp", "pure", "approximate"]))
    project.accounted(definition, draw(st.sampled_from(["change-one", "add-remove"])))
    margins = draw(st.sampled_from(["all", "none"]))
    project.spec["tables"] = project.tables(levels=project.of_levels, margins=lambda: margins)
    project.spec["programme"] = {"repeated": draw(st.sampled_from(["independent", "pooled"]))}
    project.output("parquet", "csv")
    return project.write()


def cellkey(draw: Draw, folder: Path) -> Path:
    project = RandomProject(draw, folder)
    project.spec["release"]["mechanism"] = "cellkey"
    project.write_schema()
    extra: dict[str, Callable[[int], Any]] = {"record_key": lambda row: draw(st.integers(0, 10**8 - 1)) + 0 * row}
    if draw(st.booleans()):
        extra["weight"] = lambda _: draw(st.integers(0, 3))
        project.spec["data"]["weight"] = "weight"
    project.records(extra, block=False)
    variance = project.choose(["1", "2"], ["1/2", "9"])
    project.spec["cellkey"] = {"D": draw(st.sampled_from([1, 2, 5])), "V": variance, "js": draw(st.integers(0, 2))}
    if draw(st.booleans()):
        project.spec["cellkey"]["threshold"] = draw(st.integers(1, 4))
    project.spec["tables"] = project.tables(margins=lambda: draw(st.sampled_from(["all", "none"])))
    project.output("parquet", "csv", "sdmx-csv")
    return project.write()


def suppression(draw: Draw, folder: Path) -> Path:
    project = RandomProject(draw, folder)
    project.spec["release"]["mechanism"] = "suppression"
    project.geography(areas=False)
    project.write_schema()
    magnitude = draw(st.integers(0, 3)) == 2
    project.records({"turnover": lambda _: draw(st.integers(0, 50))} if magnitude else None)
    part: dict[str, Any] = {
        "method": "heuristic",
        "zeros": draw(st.sampled_from(["secondary", "published", "primary"])),
    }
    part["threshold"] = draw(st.integers(1, 4))
    if magnitude:
        project.spec["data"]["value"] = "turnover"
        part["p"] = "10"
    else:
        part["lower"] = draw(st.integers(0, 2))
    part["keep"] = project.some(rarely(["total", *project.codes], ["nobody"]), 0, 1)
    project.spec["suppression"] = part
    project.spec["tables"] = project.tables(levels=lambda: project.some(rarely(project.levels, ["nowhere"]), 0, 2))
    project.output("parquet", "csv", "sdmx-csv")
    return project.write()


def swapping(draw: Draw, folder: Path) -> Path:
    project = RandomProject(draw, folder)
    project.spec["release"]["mechanism"] = "swapping"
    project.geography()
    project.write_schema()
    project.records({"household_id": lambda row: f"{row // 2}-{row % 2}"}, usual=20)
    swap: dict[str, Any] = {"rate": project.choose(["0.5", "0.8"], ["2", 0, "-1"])}
    above = len(project.spec["geography"]["levels"])
    if not above or draw(st.booleans()):
        swap |= {"variant": "targeted", "risk": project.some(rarely(project.variables, ["nobody"]), 0, 2)}
        swap |= {"profiles": [["size"]], "k_anonymity": draw(st.integers(0, 3))}
        if draw(st.integers(0, 5)) == 4:
            swap["within"] = draw(rarely(project.levels, ["nowhere"]))
    else:
        swap |= {"variant": "enhanced"}
        swap["groups"] = [["1"], ["1/2", "1/2"]][above - 1]
    if draw(st.integers(0, 5)) == 4:
        swap["levels"] = project.of_levels()
    swap["publish_rate"] = draw(st.booleans())
    project.spec["swapping"] = swap
    project.spec["tables"] = project.tables(levels=project.of_levels)
    project.output("parquet", "csv", microdata=draw(st.booleans()))
    return project.write()


def topdown(draw: Draw, folder: Path) -> Path:
    """Own strategies: bounds of both sides, totals on any level, structural zeros, blocks without people or units."""
    project = RandomProject(draw, folder)
    project.spec["release"]["mechanism"] = "topdown"
    project.geography(areas=draw(st.booleans()), root=draw(st.integers(0, 9)) != 7)
    names = [level["name"] for level in project.spec["geography"]["levels"]]
    levels = [*names, "block"]
    schema = project.schema(most=2, least_levels=2)
    project.records()
    bounded = project.choose(list(project.codes), project.variables)
    groups = len(project.codes.get(bounded, [1]))
    counts = {f"units{n}": [draw(st.integers(0, 4)) for _ in project.blocks] for n in range(2)}
    constraints: dict[str, list[Any]] = {"bounds": [], "invariants": [], "zeros": []}
    for number in range(draw(st.integers(0, 3))):
        frame = {str(draw(st.integers(0, groups - 1))): draw(st.sampled_from(list(counts)))}
        constraints["bounds"].append(
            {
                "name": f"bound-{number}", "variable": bounded, "side": project.choose(["upper", "upper", "lower"]),
                "per_unit": draw(st.sampled_from([1, 3, 99])), "frame": frame,
            }
        )  # fmt: skip
    known = draw(st.sampled_from([None, *levels]))
    if known is not None:
        constraints["invariants"].append({"name": "people", "level": known, "query": "total"})
    if draw(st.integers(0, 3)) == 2:
        name = draw(st.sampled_from(list(project.codes)))
        constraints["zeros"].append({"name": "nobody", "where": {name: project.codes[name][:1]}})
    share = f"1/{len(levels)}"
    first = draw(st.booleans())
    queries: dict[str, list[str]] = {"detailed": ["1" if known else "1/2"] + ["1/2"] * (len(levels) - 1)}
    queries["total"] = ["-" if known else "1/2"] + ["1/2"] * (len(levels) - 1)
    chain = [bounded] if constraints["bounds"] else []
    chain = [*chain, "detailed"] if chain != list(project.codes) else ["detailed"]
    passes: list[Any] = [{"queries": ["total", "detailed"]}]
    below: dict[str, Any] = {"least_squares": passes, "rounding": [["total", *chain]]}
    if first:
        below["least_squares"] = [{"queries": ["total"], "constrain": ["total"]}, {"queries": ["detailed"]}]
        below["slack"] = "1/100"
    root = [{"queries": ["detailed"] if known else ["total", "detailed"]}]
    strategy = {
        "id": "own", "title": "Own", "provenance": "made up", "definition": "zcdp", "neighbours": "change-one",
        "root": "top", "schema": schema, "blocks_with": list(counts) if draw(st.integers(0, 3)) == 2 else [],
        "roots": {
            "top": {
                "budget": "1", "levels": levels, "shares": [share] * len(levels),
                "estimation": ["root"] + ["below"] * (len(levels) - 1), "queries": queries,
            }
        },
        "estimation": {"root": {"least_squares": root, "rounding": [chain]}, "below": below},
    }  # fmt: skip
    strategy |= {key: value for key, value in constraints.items() if value}
    (folder / "own.toml").write_text(toml(strategy), encoding="utf-8")
    project.spec["data"]["blocks"] = project.table("blocks", project.columns | counts)
    project.accounted("zcdp", "change-one")
    project.spec["topdown"] = {"strategy": "own.toml", "spine": "plain"}
    project.output("parquet", "csv", measurements=draw(st.booleans()))
    return project.write()


REGIONS = ["USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH", "PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"]


def safetab(draw: Draw, folder: Path) -> Path:
    """Other settings over the files of the example, of which some people are taken."""
    project = RandomProject(draw, folder)
    for file in (EXAMPLES / "safetab").iterdir():
        if file.suffix == ".txt":
            shutil.copy(file, folder / file.name)
    header, *people = (folder / "person-records.txt").read_text().splitlines()
    start, number = draw(st.integers(0, len(people) - 61)), project.choose([3, 20, 60], [0])
    (folder / "person-records.txt").write_text("\n".join([header, *people[start : start + number]]) + "\n")
    kinds = st.tuples(st.sampled_from(REGIONS), st.sampled_from(["regional", "detailed"]))
    levels = [
        {"region": region, "iterations": iterations, "budget": project.choose(["1", "1/2", "3"], ["1e-9"])}
        | {"thresholds": project.choose([[5, 10, 20], [1, 2, 3]], [[3, 2, 1], [5]])}
        for region, iterations in project.some(kinds, 1, 4)
    ]
    passes = [[level for level in levels if level["region"].startswith("PR-") == of_pr] for of_pr in (False, True)]
    budget = max(sum((Fraction(level["budget"]) for level in levels), Fraction(0)) for levels in passes)
    states = ["01", "02"] if passes[0] else []
    project.spec = {
        "release": {"name": "odd", "mechanism": "safetab"},
        "data": {
            "records": "person-records.txt",
            "blocks": "GRF-C.txt",
            "codes": "race-and-ethnicity-codes.txt",
            "race_iterations": "race-characteristic-iterations.txt",
            "ethnicity_iterations": "ethnicity-characteristic-iterations.txt",
            "code_to_iteration": "race-and-ethnicity-code-to-iteration.txt",
        },
        "privacy": {
            "ledger": LEDGER,
            "budget": project.choose([str(budget)], ["1"]),
            "definition": draw(st.sampled_from(["zcdp", "pure"])),
            "neighbours": "add-remove",
        },
        "safetab": {
            "states": project.choose([states], [["01"], ["72"], ["99"], []]),
            "puerto_rico": project.choose([bool(passes[1])], [True, False]),
            "max_race_codes": draw(st.integers(1, 8)),
            "stage_1_fraction": project.choose(["0.1", "1/2"], ["1", "1e-9"]),
            "zero_suppression": project.choose(["0.9", "0.99"], ["0", "1"]),
            "negative_counts": draw(st.booleans()),
        },
        "levels": levels,
    }
    definition = project.spec["privacy"]["definition"]
    neighbours = draw(st.sampled_from(["add-remove", "change-one"]))
    project.ledger = {"definition": definition, "neighbours": neighbours, "budget": 10**6}
    project.output("parquet", "csv", **({"coterminous": "derived"} if draw(st.booleans()) else {}))
    return project.write()


MAKERS: dict[str, Callable[[Draw, Path], Path]] = {
    "tables": tables, "cellkey": cellkey, "suppression": suppression, "swapping": swapping, "topdown": topdown,
    "safetab": safetab,
}  # fmt: skip
