"""What random projects of all mechanisms share: names, labels and codes of all kinds, geographies, schemas, records.

Most projects are right in everything, however odd that may look: names of SQL, codes with quotes and commas, levels
whose units have one child, attributes of one level, nobody in most blocks. The others are wrong here and there, so that
every rule is tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from hypothesis import strategies as st

from confide.releases.ledger import Ledger

Draw = Callable[[st.SearchStrategy[Any]], Any]
LEDGER = "data-set.ledger"

NAMES = ["sex", "age", "race", "a b", "é", "日本", "n", "cell", "code", "unit", "part", "frame", "records", "value"]
NAMES += ["select", "order", "a.b", "it's", 'q"q', "a;b", "a,b", "{x}", "%s", "back\\slash", "<b>", "_", "null", "$1"]
NAMES += ["status", "weights", "size", "adults", "x" * 60, "unit_block", "A-1", "?", "#", "year=2020"]
SCRIPTS = {
    "Cyrillic": ["пол", "возраст", "мужчины", "женщины", "Ёж", "ґ"],
    "Arabic": ["العمر", "الجنس", "ذكر", "أنثى", "لا", "٣"],
    "Devanagari": ["लिंग", "आयु", "पुरुष", "स्त्री", "क्षत्रिय", "ॐ"],
    "Chinese": ["性别", "年龄", "男", "女", "未知", "𠮷"],
    "Greek": ["φύλο", "ηλικία", "άνδρες", "γυναίκες", "Σ"],
}
"""Words of names and labels. The last of each is a trap: a digit, a letter with two lower cases, a character of four
bytes."""
WORDS = [word for words in SCRIPTS.values() for word in words]
NAMES += WORDS
ODD_NAMES = ["total", "Sex", "a*b", "in:c", "a/b", " sex", "level", "area", "count", "block", "geocode", "detailed"]
ODD_NAMES += ["Detailed", "", "sex\u200b", "tab\there", "é".encode().decode("latin-1")]
LABELS = ["one", "two", "three", "a,b", 'q"q', "é", "1", "One", "", "=1+1", "null", "<b>&", "’", "Ａ", "x" * 120]
LABELS += WORDS
LABELS += [" four", "five ", "a|b", "a;b", "\\", "ALL", "_t"]
ODD_LABELS = ["all", "_T", "one", "one ", "e\u0301", "a\nb", "a\tb", "\x00", "\u2028", "ς", "σ"]
CODES = ["0", "00", "a b", "é", "it's", 'q"q', "a,b", "null", "1.0", "+1", "1e3", "x;y", "a|b", "-", "NULL", "ÿ"]
CODES += WORDS
ODD_CODES = ["", "\n", " "]
TABLES = ["first", "second-table", "t", "1", "x" * 64, "con", "manifest"]
ODD_TABLES = ["frame", "records", "histogram", "first", "Odd", "a_b", "units", "mdf"]
LEVELS = ["state", "county", "tract", "select", "unit", "n", "x_1", "value", "cell", "a" * 31, "level", "parent"]
ODD_LEVELS = ["block", "frame", "histogram", "area", "household", "geocode", "state", "total", "State", "code", "count"]
BUDGETS = ["1", "1/100", "8", "1e3", "293764/114921", "1/3", "7e-3", "1000000007/998244353"]
ODD_BUDGETS = ["1e-9", "1e15", "1e-40", "1e16", "0", "-1", "1/0", "1e5000", "9" * 120, "nan"]


def distinct(draw: Draw, one: st.SearchStrategy[Any], number: int, *, twice: bool) -> list[Any]:
    """So many of them, different; now and then one twice, if that may be."""
    chosen: list[Any] = []
    for _ in range(number * 20):
        value = draw(one)
        if value not in chosen or (twice and draw(st.integers(0, 19)) == 13):
            chosen.append(value)
        if len(chosen) == number:
            break
    return chosen


def toml(values: Mapping[str, Any], path: str = "") -> str:
    """Values as TOML: tables after plain keys, lists of tables as such."""
    plain = {key: value for key, value in values.items() if not isinstance(value, Mapping) and not _tables(value)}
    lines = [f"{_text(key)} = {_value(value)}" for key, value in plain.items()]
    text = "\n".join(lines) + "\n"
    for key, value in values.items():
        name = f"{path}{_text(key)}"
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
        return "{ " + ", ".join(f"{_text(key)} = {_value(each)}" for key, each in value.items()) + " }"
    return _text(value)


def _text(value: Any) -> str:
    """As JSON writes it, but for characters beyond 16 bits, which have no escape in two halves in TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class RandomProject:
    """A folder in the making: what every mechanism needs."""

    def __init__(self, draw: Draw, folder: Path, mechanism: str, *, wrong: bool | None = None):
        self.draw, self.folder = draw, folder
        folder.mkdir(parents=True)
        self.wrong = draw(st.integers(0, 9)) < 3 if wrong is None else wrong
        """Whether anything in it may be wrong."""
        self.release = self.choose(["odd", "1", "x" * 60], ["Odd", "a_b", "-a", "x" * 65, ""])
        self.spec: dict[str, Any] = {"release": {"name": self.release, "mechanism": mechanism}, "data": {}}
        title = self.choose(["", "<b>&amp;", "é" * 200, "{{ 7 }}", "a\nb", " ".join(WORDS[::5])], ["x" * 201])
        if title:
            self.spec["release"]["title"] = title
        self.ledger: dict[str, Any] | None = None
        self.delimiter = ","
        if self.sometimes(8):
            self.delimiter = self.choose([";", "\t", "|", "é"], ["\n", '"', ",,", ""])
            self.spec["data"]["delimiter"] = self.delimiter

    def write(self) -> Path:
        """The spec, and an open ledger with what it spends."""
        if self.ledger is not None:
            Ledger.open_new(self.folder / LEDGER, data_set="odd", **self.ledger)
        path = self.folder / "spec.toml"
        path.write_text(toml(self.spec), encoding="utf-8")
        return path

    # Chances.

    def sometimes(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def oneof(self, usual: Sequence[Any], odd: Sequence[Any] | None = None) -> st.SearchStrategy[Any]:
        """Something right, or, where the project may be wrong, now and then something odd."""
        if not self.wrong or odd is None:
            return st.sampled_from(usual)
        return st.integers(0, 11).flatmap(lambda n: st.sampled_from(odd if n == 11 else usual))

    def choose(self, usual: Sequence[Any], odd: Sequence[Any] | None = None) -> Any:
        return self.draw(self.oneof(usual, odd))

    def some(self, usual: Sequence[Any], odd: Sequence[Any] | None, least: int, most: int) -> list[Any]:
        one = self.oneof(usual, odd)
        return distinct(self.draw, one, self.draw(st.integers(least, most)), twice=self.wrong)

    # Who there is, and where.

    def geography(self, *, areas: int = 2, root: bool = False, names: Sequence[str] | None = None) -> None:
        """Blocks with codes of all kinds, levels by digits or columns, areas within levels."""
        number = self.draw(st.integers(1, 8))
        odd = self.choose(["", "", "é", "it's ", 'q"', "a,b", "+", "-", *WORDS], ["\n", "\t"])
        whole = not odd and self.sometimes(4)
        # Digits from the left are those of larger units: 0 to 3 of them make levels that nest.
        codes = [f"{1 + n // 4}{n // 2 % 2}{n % 2}" for n in range(number)]
        self.blocks: list[Any] = [f"{code}{odd}{'x' if odd else ''}" for code in codes]
        if self.wrong and self.sometimes(6):
            self.blocks[-1] = self.choose(["1", "", "é é", "00+1", self.blocks[0], "x" * 300, " "])
        if whole and all(isinstance(code, str) and code.isdecimal() for code in self.blocks):
            self.blocks = [int(code) for code in self.blocks]
        columns: dict[str, list[Any]] = {"geocode": self.blocks}
        levels: list[dict[str, Any]] = [{"name": "nation", "digits": 0}] if root else []
        chosen = list(names) if names is not None else self.some(LEVELS, ODD_LEVELS, 0, 3)
        digits = sorted(self.draw(st.integers(0, 3)) for _ in chosen)
        for name, length in zip(chosen, digits, strict=True):
            if self.draw(st.booleans()):
                levels.append({"name": name, "digits": length})
            else:
                columns[f"of_{name}"] = [f"{odd}{str(code)[:length]}" or "x" for code in codes]
                levels.append({"name": name, "column": f"of_{name}"})
        self.levels = ["block", *(level["name"] for level in levels)]
        of_areas: list[dict[str, Any]] = []
        for name in self.some(["place", "district"], ODD_LEVELS, 0, areas) if areas else []:
            columns[f"in_{name}"] = [self.choose(["1", "12", "2", "", "-", "é", *WORDS[:9]]) for _ in codes]
            area = {"name": name, "column": f"in_{name}", "none": "-"}
            if levels and self.draw(st.booleans()):
                area["within"] = self.choose([level["name"] for level in levels], ["block", "nowhere"])
                # Codes of one length: others may read alike, beside those of a level.
                columns[f"in_{name}"] = [self.choose(["1", "2", "", "-"], ["12"]) for _ in codes]
            of_areas.append(area)
            self.levels.append(name)
        self.columns = columns
        self.spec["data"]["blocks"] = self.table("blocks", columns)
        self.spec["geography"] = {"block": "geocode", "levels": levels, "areas": of_areas}

    def table(self, name: str, columns: Mapping[str, list[Any]]) -> str:
        """A file of these columns, Parquet or CSV, some of them under other names; nothing in a file of no rows but its
        header."""
        types = {key: pa.string() if any(isinstance(v, str) for v in values) or not values else pa.int64()
                 for key, values in columns.items()}  # fmt: skip
        table = pa.table({key: pa.array(values, types[key]) for key, values in columns.items()})
        if self.draw(st.booleans()):
            pq.write_table(table, self.folder / f"{name}.parquet")
            return f"{name}.parquet"
        ascii_delimiter = self.delimiter if len(self.delimiter.encode()) == 1 and self.delimiter not in '\n"' else ","
        if self.delimiter == "é":
            self.delimiter = self.spec["data"]["delimiter"] = ","
        options = pyarrow.csv.WriteOptions(delimiter=ascii_delimiter)
        pyarrow.csv.write_csv(table, self.folder / f"{name}.csv", options)
        return f"{name}.csv"

    def schema(self, most: int = 3, least_levels: int = 1) -> dict[str, Any]:
        """Attributes with levels and recodes that cross; ``self.variables`` are the names that tables can use."""
        attributes: dict[str, Any] = {}
        self.codes: dict[str, list[Any]] = {}
        self.variables: list[str] = []
        self.groups: dict[str, list[str]] = {}
        """For every variable, how a strategy names its groups."""
        for name in self.some(NAMES, ODD_NAMES, 1, most):
            labels = self.some(LABELS, ODD_LABELS, least_levels, 4)
            codes: list[Any] = self.some(CODES, ODD_CODES, len(labels), len(labels))
            if self.draw(st.booleans()):
                first = self.choose([0, 1, -3, 2**31], [2**62, -(2**63)])
                codes = [first + number for number in range(len(labels))]
            codes = codes[: len(labels)]
            part: dict[str, Any] = {"levels": [list(pair) for pair in zip(codes, labels, strict=False)]}
            if self.sometimes(5):
                part["title"] = self.choose(["Title", "é\n", "", *WORDS])
            self.variables.append(name)
            self.groups[name] = [str(code) for code in codes]
            recodes: dict[str, Any] = {}
            for recode in self.some(["broad", "x", "a b", "é", *WORDS], ["total", "a:b", "x*", ""], 0, 2):
                cut = self.draw(st.integers(0, len(codes)))
                turned = codes[cut:] + codes[:cut]
                first_label, second = self.some(["few", "some", "", "é", "1", *WORDS], ["all", "one", "_T"], 2, 2)[:2]
                groups = {first_label: turned[:1]}
                if len(codes) > 1:
                    groups[second] = turned[1:] if not self.wrong or not self.sometimes(4) else turned[1:-1]
                recodes[recode] = {"groups": groups}
                self.variables.append(f"{name}:{recode}")
                self.groups[f"{name}:{recode}"] = list(groups)
            if recodes:
                part["recodes"] = recodes
            attributes[name] = part
            self.codes[name] = codes
        return {"id": "odd", "provenance": "made up", "attributes": attributes}

    def write_schema(self) -> None:
        (self.folder / "schema.toml").write_text(toml(self.schema()), encoding="utf-8")
        self.spec["data"]["schema"] = "schema.toml"

    def records(
        self,
        extra: Mapping[str, Callable[[int], Any]] | None = None,
        *,
        block: bool = True,
        number: int | None = None,
    ) -> None:
        """A few people of the schema's codes; maybe nobody, or one with a code that is none."""
        number = self.choose([3, 5, 8, 1], [0]) if number is None else number
        columns: dict[str, list[Any]] = {}
        if block:
            columns["geocode"] = [self.draw(st.sampled_from(self.blocks)) for _ in range(number)]
        for name, codes in self.codes.items():
            columns[name] = [self.draw(st.sampled_from(codes)) for _ in range(number)]
            if number and self.wrong and self.sometimes(12):
                columns[name][-1] = "nobody's" if isinstance(codes[0], str) else 77
        for name, make in (extra or {}).items():
            columns[name] = [make(row) for row in range(number)]
        self.columns_of_records = dict(columns)
        # Columns may have other names in the file than in the schema.
        theirs = {name: f"their {name}" for name in self.codes if self.sometimes(8)}
        if theirs:
            self.spec["data"]["columns"] = theirs
        self.spec["data"]["records"] = self.table(
            "persons", {theirs.get(name, name): values for name, values in columns.items()}
        )

    # What is asked for.

    def tables(self, most: int = 2, **more: Callable[[], Any]) -> list[dict[str, Any]]:
        """Tables of some variables, one of each attribute."""
        tables = []
        for name in self.some(TABLES, ODD_TABLES, 1, most):
            variables = self.some(self.variables, ["nobody", ""], 0, min(3, len(self.variables)))
            if not self.wrong:  # one variable of an attribute: two are refused
                variables = list({variable.split(":")[0]: variable for variable in variables}.values())
            title = {"title": self.choose(["Title", "é" * 200, "{{ 7 }}"], ["x" * 201])} if self.sometimes(8) else {}
            tables.append({"name": name, "variables": variables} | title | {key: make() for key, make in more.items()})
        return tables

    def of_levels(self, least: int = 1) -> list[str]:
        return self.some(self.levels, ["nowhere"], least, min(3, len(self.levels)))

    def accounted(self, definition: str, neighbours: str) -> None:
        """A budget, and a ledger of the same kind with just as much."""
        budget = self.choose(BUDGETS, ODD_BUDGETS)
        delta = "1e-6" if definition == "approximate" else 0
        self.spec["privacy"] = {
            "ledger": LEDGER, "budget": budget, "definition": definition, "neighbours": neighbours,
        } | ({"delta": delta} if delta else {})  # fmt: skip
        kept = budget if budget not in ODD_BUDGETS[3:] else 1
        self.ledger = {"definition": definition, "neighbours": neighbours, "budget": kept, "delta": delta}
        if self.sometimes(6):  # kept for other neighbours: charged twice or four times as much, or as little
            self.ledger |= {"neighbours": "add-remove" if neighbours == "change-one" else "change-one", "budget": 10**7}

    def output(self, *formats: str, **more: Any) -> None:
        self.spec["output"] = {"formats": self.some(formats, ["xlsx"], 1, len(formats))} | more
        if self.sometimes(6):
            self.spec["output"]["folder"] = self.choose(["out put/é", "a/b/c", "x" * 200], ["", "spec.toml", "..", "."])

    @property
    def run_folder(self) -> Path:
        return self.folder / (self.spec["output"].get("folder") or self.release or "odd")
