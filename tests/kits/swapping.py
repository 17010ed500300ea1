"""Small made-up towns, by hand and at random; a spec over one; and swaps said again, slowly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

import confide
from confide.mechanisms.swapping import SwapSettings, swap_settings
from confide.noise import ReleaseKey

KEY = "5a" * 32
SECRET = ReleaseKey.choose(KEY)

SCHEMA = """
id = "town"
provenance = "made up for tests"

[attributes.sex]
title = "sex"
levels = [[1, "men"], [2, "women"]]

[attributes.age]
title = "age"
range = [0, 99]
[attributes.age.recodes.broad]
starts = [0, 18, 65]
[attributes.age.recodes.some]
groups = { "young" = "0..29" }

[attributes.race]
title = "race"
levels = [["a", "race a"], ["b", "race b"], ["c", "race c"]]

[attributes.tenure]
title = "tenure"
levels = [["own", "owns"], ["rent", "rents"]]

[attributes.hhgq]
title = "where"
levels = [[0, "household"], [1, "facility"]]
"""


def block_table(states: int = 1, counties: int = 2, tracts: int = 2, blocks: int = 3) -> pa.Table:
    """Codes of one character for each level."""
    codes = [
        f"{s}{c}{t}{b}" for s in range(states) for c in range(counties) for t in range(tracts) for b in range(blocks)
    ]
    return pa.table(
        {
            "geocode": codes,
            "state": [code[:1] for code in codes],
            "county": [code[:2] for code in codes],
            "tract": [code[:3] for code in codes],
            "place": ["p" if code.endswith("0") else "" for code in codes],
        }
    )


Household = tuple[str, list[tuple[int, int, str]], str]
"""Block, members (sex, age, race), tenure."""


def people_of(households: Iterable[Household], facility: Iterable[tuple[str, int, int, str]] = ()) -> pa.Table:
    """Records of households, with ids that do not rise along the file, and of people in facilities."""
    rows: list[dict[str, Any]] = []
    for number, (block, members, tenure) in enumerate(households):
        rows += [
            {
                "geocode": block,
                "household_id": (number * 7919) % 100_003,
                "sex": sex,
                "age": age,
                "race": race,
                "tenure": tenure,
                "hhgq": 0,
            }
            for sex, age, race in members
        ]
    rows += [
        {"geocode": block, "household_id": None, "sex": sex, "age": age, "race": race, "tenure": "rent", "hhgq": 1}
        for block, sex, age, race in facility
    ]
    kinds = {"household_id": pa.int64(), "sex": pa.int64(), "age": pa.int64(), "hhgq": pa.int64()}
    names = ["geocode", "household_id", "sex", "age", "race", "tenure", "hhgq"]
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in names})


def town(households: int = 400, seed: int = 3, blocks: pa.Table | None = None) -> pa.Table:
    """A made-up town: a rare race, sizes from one to five, some people in facilities."""
    draw = np.random.default_rng(seed)
    codes = (block_table() if blocks is None else blocks).column("geocode").to_pylist()
    made: list[Household] = []
    for _ in range(households):
        size = int(draw.choice([1, 2, 3, 4, 5], p=[0.3, 0.3, 0.2, 0.15, 0.05]))
        race = str(draw.choice(["a", "b", "c"], p=[0.9, 0.08, 0.02]))
        members = [
            (int(draw.integers(1, 3)), int(draw.integers(18 if place == 0 else 0, 90)), race) for place in range(size)
        ]
        made.append((str(draw.choice(codes)), members, str(draw.choice(["own", "rent"]))))
    quarters = [(str(draw.choice(codes)), 1, int(draw.integers(20, 80)), "b") for _ in range(30)]
    return people_of(made, quarters)


def plain_town(households: int = 300) -> pa.Table:
    """A town by arithmetic alone, the same for ever."""
    codes = block_table().column("geocode").to_pylist()
    made: list[Household] = [
        (
            codes[i * i % 12],
            [(1 + (i + j) % 2, (37 * i + 11 * j) % 90, "aaaaaaabbc"[i * 7 % 10]) for j in range(1 + i * 3 % 4)],
            "own",
        )
        for i in range(households)
    ]
    return people_of(made)


def settings_of(**changes: Any) -> SwapSettings:
    """A targeted swap of a fifth of the households."""
    if changes.get("variant") == "enhanced":
        return swap_settings(**{"rate": "0.4"} | changes)
    named = {"variant": "targeted", "rate": "0.2", "risk": ["race"], "profiles": [["size", "adults"]]}
    return swap_settings(**named | changes)


def counts(records: pa.Table, test: Callable[[dict[str, Any]], bool] = lambda row: True) -> Counter[str]:
    """People by block."""
    return Counter(row["geocode"] for row in records.to_pylist() if test(row))


def places(records: pa.Table) -> dict[int, str]:
    """Where each household is; fails if one is torn apart."""
    found: dict[int, str] = {}
    for row in records.to_pylist():
        if row["household_id"] is not None and row["hhgq"] == 0:
            assert found.setdefault(row["household_id"], row["geocode"]) == row["geocode"]
    return found


def multiset(records: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in records.to_pylist())


@st.composite
def populations(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Any small population on any small geography."""
    blocks = block_table(*(draw(st.integers(1, 3)) for _ in range(4)))
    codes = blocks.column("geocode").to_pylist()
    person = st.tuples(st.integers(1, 2), st.integers(0, 99), st.sampled_from("abc"))
    household = st.tuples(
        st.sampled_from(codes), st.lists(person, min_size=1, max_size=4), st.sampled_from(["own", "rent"])
    )
    quarters = st.tuples(st.sampled_from(codes), st.integers(1, 2), st.integers(0, 99), st.sampled_from("abc"))
    made = draw(st.lists(household, min_size=0, max_size=40))
    return people_of(made, draw(st.lists(quarters, max_size=5))), blocks


SPEC_TABLES = """
[[tables]]
name = "race"
title = "Race by sex"
variables = ["sex", "race"]
levels = ["state", "county", "block", "place"]

[[tables]]
name = "ages"
variables = ["age:broad"]
levels = ["tract", "block"]

[[tables]]
name = "races"
variables = ["race"]
levels = ["county"]
margins = "none"
"""
TARGETED = 'variant = "targeted"\nrate = "1/5"\nrisk = ["race"]\nprofiles = [["size", "adults"]]\nwithin = "state"'


def write_project(
    folder: Path,
    records: pa.Table | None = None,
    *,
    swapping: str = TARGETED,
    data: str = "",
    output: str = "microdata = true",
    tables: str = SPEC_TABLES,
) -> Path:
    """Records, blocks, schema and spec in a folder; returns the path of the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(town() if records is None else records, folder / "town.parquet")
    pq.write_table(block_table(), folder / "blocks.parquet")
    (folder / "town.toml").write_text(SCHEMA)
    levels = ", ".join(f'{{ name = "{name}", column = "{name}" }}' for name in ("state", "county", "tract"))
    (folder / "spec.toml").write_text(
        '[release]\nname = "town"\nmechanism = "swapping"\ntitle = "The town"\n'
        '[data]\nrecords = "town.parquet"\nblocks = "blocks.parquet"\nschema = "town.toml"\n'
        f"in_households = {{ hhgq = 0 }}\n{data}\n"
        f'[geography]\nlevels = [{levels}]\nareas = [{{ name = "place", column = "place" }}]\n'
        f"[swapping]\n{swapping}\n[output]\n{output}\n{tables}"
    )
    return folder / "spec.toml"


def release_of(folder: Path, records: pa.Table | None = None, key: str | None = KEY, **changes: Any) -> Path:
    """The release of a new project."""
    return confide.run(write_project(folder, records, **changes), processes=1, insecure_key=key).release


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def failed(release: Path) -> list[str]:
    """The names of the checks that fail."""
    return [check.name for check in confide.verify(release).checks if not check.ok]
