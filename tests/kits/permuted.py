"""The example of a mechanism written in another order, and its figures by name: no order may change them."""

from __future__ import annotations

import csv
import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.documents import load_schema
from confide.mechanisms.swapping.swap import Streams
from confide.mechanisms.tables import mechanism as tables_mechanism
from confide.releases.mechanism import NoiseSource
from tests.contract.kit import Project
from tests.kits.random_specs.project import toml

LISTS = ("variables", "risk", "keep", "levels")
"""Lists of names in a spec whose order says nothing."""
Shuffle = Callable[[list[Any]], list[Any]]


def other_order(seed: int) -> Shuffle:
    """Puts a list that is not the same both ways into another order."""
    rng = random.Random(seed)

    def shuffled(items: list[Any]) -> list[Any]:
        result = items
        while result == items and any(item != items[0] for item in items):
            result = rng.sample(items, len(items))
        return result

    return shuffled


# What can be permuted.


def rows(project: Project, shuffled: Shuffle) -> None:
    """The rows of every file that is given."""
    for file in _tables(project):
        head, *body, write = _read(file)
        write([head, *shuffled(body)])


def columns(project: Project, shuffled: Shuffle) -> None:
    """The columns of every file that is given, but of those that have an official order."""
    for file in _tables(project):
        head, *body, write = _read(file)
        order = shuffled(list(range(len(head))))
        if file.suffix != ".txt":
            write([[row[place] for place in order] for row in (head, *body)])


def words(project: Project, shuffled: Shuffle) -> None:
    """The names of variables and levels, wherever the spec has a list of them."""
    values = project.values
    own = [] if project.name == "tables" else [values.get(project.name, {})]
    for part in (*values.get("tables", []), *own):
        part |= {key: shuffled(part[key]) for key in LISTS if key in part}
        if "profiles" in part:  # tried in order; what partners have in common has none
            part["profiles"] = [shuffled(profile) for profile in part["profiles"]]
    _write_spec(project, values)


def tables(project: Project, shuffled: Shuffle) -> None:
    """The tables of the spec, and the levels of SafeTab."""
    values = project.values
    for key in ("tables", "levels"):
        if key in values:
            values[key] = shuffled(values[key])
    _write_spec(project, values)


def attributes(project: Project, shuffled: Shuffle) -> None:
    """The attributes of the schema, and the recodes of each."""
    schema = _schema(project)
    schema["attributes"] = dict(shuffled(list(schema["attributes"].items())))
    for attribute in schema["attributes"].values():
        attribute["recodes"] = dict(shuffled(list(attribute.get("recodes", {}).items())))
    _write_schema(project, schema)


def levels(project: Project, shuffled: Shuffle) -> None:
    """The levels of attributes that list them, and the groups of recodes that do."""
    schema = _schema(project)
    for attribute in schema["attributes"].values():
        if "levels" in attribute:
            attribute["levels"] = shuffled(attribute["levels"])
        for recode in attribute.get("recodes", {}).values():
            if "groups" in recode:
                recode["groups"] = dict(shuffled(list(recode["groups"].items())))
    _write_schema(project, schema)


PERMUTATIONS = {"rows": rows, "columns": columns, "words": words, "tables": tables, "attributes": attributes,
                "levels": levels}  # fmt: skip


def permute(project: Project, kind: str, seed: int) -> bool:
    """Whether anything of the project has another order now."""
    before = {file: file.read_bytes() for file in sorted(project.folder.rglob("*")) if file.is_file()}
    PERMUTATIONS[kind](project, other_order(seed))
    after = {file: file.read_bytes() for file in sorted(project.folder.rglob("*")) if file.is_file()}
    return before != after


def _tables(project: Project) -> Iterator[Path]:
    for given in project.given:
        listed = [given] if given.is_file() else sorted(file for file in given.rglob("*.parquet") if file.is_file())
        yield from (file for file in listed if file.suffix in (".csv", ".txt", ".parquet"))


def _read(file: Path) -> list[Any]:
    """The head and the rows of a file, and last what writes others."""
    if file.suffix == ".parquet":
        table = pq.read_table(file, partitioning=None)
        fields = {field.name: field for field in table.schema}

        def write(lines: list[list[Any]]) -> None:
            head, *body = lines
            schema = pa.schema([fields[name] for name in head], table.schema.metadata)
            pq.write_table(pa.table([pa.array(c, f.type) for c, f in zip(_turned(body, head), schema, strict=True)],
                                    schema=schema), file)  # fmt: skip

        return [list(fields), *(list(row.values()) for row in table.to_pylist()), write]
    delimiter = "|" if file.suffix == ".txt" else ","
    with file.open(encoding="utf-8", newline="") as opened:
        lines = list(csv.reader(opened, delimiter=delimiter))

    def write_text(lines: list[list[Any]]) -> None:
        with file.open("w", encoding="utf-8", newline="") as opened:
            csv.writer(opened, delimiter=delimiter, lineterminator="\n").writerows(lines)

    return [*lines, write_text]


def _turned(body: list[list[Any]], head: list[str]) -> list[list[Any]]:
    return [list(column) for column in zip(*body, strict=True)] if body else [[] for _ in head]


def _write_spec(project: Project, values: dict[str, Any]) -> None:
    if values != project.values:
        project.spec.write_text(toml(values), encoding="utf-8")


def _schema(project: Project) -> dict[str, Any]:
    """The schema that the spec names: beside it, or one that ships."""
    named = project.values["data"].get("schema")
    if named is None:
        return {"attributes": {}}
    if project.schema is not None:
        return tomllib.loads(project.schema.read_text(encoding="utf-8"))
    return tomllib.loads((files("confide") / "data" / "schemas" / f"{named}.toml").read_text(encoding="utf-8"))


def _write_schema(project: Project, schema: dict[str, Any]) -> None:
    if not schema["attributes"]:
        return
    values = project.values
    values["data"]["schema"] = "schema.toml"
    project.spec.write_text(toml(values), encoding="utf-8")
    (project.folder / "schema.toml").write_text(toml(schema), encoding="utf-8")


# Noise that moves along, and figures by name.


@contextmanager
def noise_by_name(project: Project) -> Iterator[None]:
    """Noise that depends on what a count is of, by the names of level, variables and labels, and on no order of them:
    neither on the bytes of the records, nor on the plan."""
    asked: dict[bytes, tuple[str, str]] = {}
    derived, drawn_for = NoiseSource.stream, Streams.of

    def stream(source: NoiseSource, level: str, query: str) -> Any:
        same = NoiseSource(source.key, "00" * 32, "00" * 32, source.mechanism)
        result = derived(same, level, query)
        asked[result.word_key] = (level, query)
        return result

    def purposes(streams: Streams, purpose: str, level: str = "") -> Any:
        return drawn_for(Streams(streams.key, bytes(32), bytes(32)), purpose, level)

    def perturb(counts: Any, _law: Any, stream: Any, start: int = 0) -> Any:
        level, query = asked[stream.word_key]
        schema = load_schema(project.values["data"]["schema"], project.folder)
        table, _, names = query.rpartition("/")
        variables = [] if names == "total" else [schema.variable(name) for name in names.split("*")]
        shape = tuple(variable.size for variable in variables)
        result = np.array(counts).ravel()
        for number in range(len(result)):
            unit, cell = divmod(start + number, int(np.prod(shape, dtype=int)))
            places = np.unravel_index(cell, shape) if shape else ()
            named = sorted((v.name, v.labels[int(place)]) for v, place in zip(variables, places, strict=True))
            text = repr((level, table, unit, named))
            result[number] += int.from_bytes(sha256(text.encode()).digest()[:4]) % 9 - 4
        return result.reshape(np.shape(counts))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoiseSource, "stream", stream)
        patch.setattr(Streams, "of", purposes)
        patch.setattr(tables_mechanism, "perturb", perturb)
        yield


def figures(release: Path) -> dict[str, Counter[frozenset[tuple[str, str]]]]:
    """The rows of every table of a release, each as what stands in which column; groups of variables by their labels.

    Codes of groups are left out beside labels, since some are numbers in the order of the groups, and so is the name of
    a margin, which lists variables.
    """
    result = {}
    for file in sorted((release / "tables").glob("*.parquet")):
        table = pq.read_table(file)
        names = [name for name in table.column_names if f"{name}_label" not in table.column_names and name != "margin"]
        listed = table.select(names).to_pylist()
        result[file.name] = Counter(frozenset((name, repr(row[name])) for name in names) for row in listed)
    assert result
    return result
