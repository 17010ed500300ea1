"""The small release of tables that many tests make: its spec, and the key of its trials."""

from __future__ import annotations

SPEC = """
[release]
name = "small"
mechanism = "tables"
title = "A small release"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"
schema = "persons"

[geography]
block = "geocode"
levels = [{ name = "state", digits = 2 }, { name = "county", digits = 5 }, { name = "tract", digits = 11 }]
areas = [{ name = "place", column = "place", none = "99999" }]

[privacy]
ledger = "people.ledger"
budget = "1/2"

[[tables]]
name = "age-by-sex"
variables = ["sex", "age:broad"]
levels = ["state", "tract", "place"]
weight = 2

[[tables]]
name = "sex"
variables = ["sex"]
levels = ["county", "block"]
"""

KEY = "0f" * 32
