"""An office with a schema that nobody has seen: codes of its own, semicolons, columns under other names."""

from __future__ import annotations

from pathlib import Path

SCHEMA = """
id = "norland"
provenance = "made up for tests"
[attributes.kjonn]
levels = [["M", "male"], ["F", "female"], ["U", "not stated"]]
[attributes.alder]
range = [0, 104]
[attributes.alder.recodes.group]
groups = { young = "0..17", adult = "18..66", old = "67..104" }
[attributes.yrke]
levels = [["A1", "farming"], ["B2", "industry"], ["-", "none"]]
"""
SPEC = """
[release]
name = "norland"
mechanism = "tables"
[data]
records = "people.csv"
blocks = "areas.csv"
schema = "schema.toml"
delimiter = ";"
columns = { municipality = "mun" }
[geography]
block = "municipality"
levels = [{ name = "country", digits = 0 }, { name = "region", column = "region" }]
[privacy]
ledger = "norland.ledger"
budget = "1/2"
[[tables]]
name = "people"
variables = ["kjonn", "alder:group"]
levels = ["country", "region", "block"]
"""


def lay_out(folder: Path) -> Path:
    """The spec of the office, with its schema and areas: neither records nor a ledger."""
    rows = [f"{'' if number % 3 else '0'}{number}A;R{number // 4};{100 + number}" for number in range(12)]
    (folder / "areas.csv").write_text("mun;region;population\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC)
    return folder / "spec.toml"
