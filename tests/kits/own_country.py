"""Norland: a small country that looks nothing like the United States.

Municipalities have irregular codes with letters, which say nothing about the district and the region that they are in:
both are columns of the list of municipalities. All codes of people are text. Neither race nor tract nor block is known.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import confide
from confide.releases.ledger import Ledger

KEY = "5e" * 32
MUNICIPALITIES = {
    # code: district, region, name
    "001": ("Vest", "N", "Ålvik"),
    "017X": ("Vest", "N", "Fjell"),
    "S12": ("Øst", "N", "Nes"),
    "924A": ("Øst", "N", "Bø"),
    "Ö7": ("Sør", "S", "Vik"),
    "3": ("Sør", "S", "Sand"),
    "0012": ("Ytre", "S", "Hamn"),
    "K-9": ("Ytre", "S", "Moen"),
}
SCHEMA = """
id = "norland"
provenance = "Made for a test."

[attributes.kjonn]
title = "Sex"
levels = [["K", "woman"], ["M", "man"]]

[attributes.alder]
title = "Age"
levels = [["a0", "0 to 14"], ["a15", "15 to 29"], ["a30", "30 to 49"], ["a50", "50 to 66"], ["a67", "67 and over"]]
[attributes.alder.recodes.broad.groups]
"children" = "a0"
"adults" = ["a15", "a30", "a50", "a67"]

[attributes.tro]
title = "Faith"
levels = [["L", "Lutheran"], ["K", "Catholic"], ["I", "Muslim"], ["N", "none"]]
[attributes.tro.recodes.church.groups]
"church" = ["L", "K"]
"no church" = ["I", "N"]

[attributes.arbeid]
title = "Work"
levels = [["W", "works"], ["U", "without work"], ["O", "outside"]]
"""
LEVELS = '[{ name = "region", column = "landsdel" }, { name = "district", column = "fylke" }]'
LEDGER = "norland.ledger"


def people(number: int = 120, seed: int = 5) -> list[dict[str, str]]:
    """Made-up people: many Lutherans, few others, and households of one to four."""
    draw = random.Random(seed)  # nobody is protected by it
    codes, household = list(MUNICIPALITIES), 0
    rows: list[dict[str, str]] = []
    while len(rows) < number:
        household += 1
        place, faith = draw.choices(codes, (12, 9, 6, 5, 3, 2, 1, 1))[0], draw.choices("LKIN", (60, 10, 8, 22))[0]
        for _ in range(min(draw.randint(1, 4), number - len(rows))):
            age = draw.choice(["a0", "a15", "a30", "a50", "a67"])
            own = faith if draw.random() < 0.9 else draw.choice("LKIN")
            work = "O" if age in ("a0", "a67") else draw.choices("WUO", (80, 8, 12))[0]
            rows.append(
                {"kommune": place, "hus": f"h{household}", "kjonn": draw.choice("KM"), "alder": age, "tro": own}
                | {"arbeid": work}
            )
    return rows


def write_country(folder: Path, number: int = 120) -> Path:
    """``people.parquet`` and ``people.csv``, ``kommuner.csv``, ``schema.toml``; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(people(number))
    pq.write_table(table, folder / "people.parquet")
    pa_csv.write_csv(table, folder / "people.csv")
    areas = [
        {"kommune": code, "fylke": district, "landsdel": region, "navn": name}
        for code, (district, region, name) in MUNICIPALITIES.items()
    ]
    pa_csv.write_csv(pa.Table.from_pylist(areas), folder / "kommuner.csv")
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return folder


DATA = '[data]\nrecords = "people.parquet"\nblocks = "kommuner.csv"\n'
GEOGRAPHY = f'[geography]\nblock = "kommune"\nlevels = {LEVELS}\n'
STRATEGY = """
id = "norland"
title = "Norland by faith"
provenance = "Made for a test."
schema = "schema.toml"
definition = "zcdp"
neighbours = "change-one"
root = "country"

[roots.country]
budget = "1"
levels     = ["country", "region", "district", "block"]
shares     = ["1/4", "1/4", "1/4", "1/4"]
estimation = ["root", "below", "below", "below"]
[roots.country.queries]
"total"     = ["-", "1/3", "1/3", "1/3"]
"alder*tro" = ["1/2", "1/3", "1/3", "1/3"]
"detailed"  = ["1/2", "1/3", "1/3", "1/3"]

[estimation.root]
least_squares = [{ queries = ["alder*tro", "detailed"] }]
rounding = [["total", "detailed"]]
[estimation.below]
least_squares = [{ queries = ["total", "alder*tro", "detailed"] }]
rounding = [["total", "detailed"]]

[[invariants]]
name = "people-of-norland"
level = "country"
query = "total"
"""
COUNTRY_LEVELS = LEVELS.replace("[{", '[{ name = "country", digits = 0 }, {', 1)


def topdown_spec(folder: Path) -> Path:
    """A spec of a TopDown release with a strategy of its own, in the folder of the country."""
    (folder / "strategy.toml").write_text(STRATEGY, encoding="utf-8")
    (folder / "topdown.toml").write_text(
        f'[release]\nname = "down"\nmechanism = "topdown"\n{DATA}\n'
        f'[geography]\nblock = "kommune"\nlevels = {COUNTRY_LEVELS}\n'
        f'[privacy]\nledger = "{LEDGER}"\nbudget = "4"\n'
        '[topdown]\nstrategy = "strategy.toml"\nroot = "country"\nspine = "plain"\nsplit_aian = false\n',
        encoding="utf-8",
    )
    return folder / "topdown.toml"


def open_ledger(folder: Path, budget: str = "100") -> None:
    """The account of the country."""
    if not (folder / LEDGER).exists():
        Ledger.open_new(folder / LEDGER, data_set="Norland", definition="zcdp", neighbours="change-one", budget=budget)


def seal_topdown(folder: Path) -> Path:
    """The TopDown release of the country; returns its folder of the run."""
    spec = topdown_spec(folder)
    open_ledger(folder)
    return confide.run(spec, insecure_key=KEY, processes=1).release.parent
