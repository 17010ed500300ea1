"""A strategy of TopDown for the tables of any programme: what a comparison judges is measured on every level.

Levels share the budget alike, and so do the queries of a level: the total, every table, and the histogram. The
population of the whole territory is published as it is. Nothing is tuned; an office that has a strategy names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from confide.comparison.common_tables import CommonTables
from confide.schema import DETAILED, TOTAL

ROOT, BELOW = "root", "below"


def strategy_text(programme: CommonTables, levels: Sequence[str], schema: str) -> str:
    """The strategy as the text of a TOML file.

    Args:
        programme: The tables.
        levels: The levels of the spine, that of the whole territory first, ``block`` the last.
        schema: The name of the schema file.
    """
    attributes = [attribute.name for attribute in programme.schema.attributes]
    complete = {"*".join(attributes), DETAILED}
    tables = [table.query.name for table in programme.tables if table.query.variables]
    queries = [name for name in dict.fromkeys(tables) if name not in complete]
    share = Fraction(1, len(levels))
    at_root, below = Fraction(1, len(queries) + 1), Fraction(1, len(queries) + 2)
    lines = [
        'id = "made-for-a-comparison"',
        f'title = "{TOTAL.capitalize()}, tables and histogram of the comparison"',
        'provenance = "Made by confide compare: equal shares for every level and query, never tuned."',
        f'schema = "{schema}"',
        'definition = "zcdp"',
        'neighbours = "change-one"',
        f'root = "{levels[0]}"',
        "",
        f"[roots.{levels[0]}]",
        'budget = "1"',
        f"levels = {_texts(levels)}",
        f"shares = {_texts([str(share)] * len(levels))}",
        f"estimation = {_texts([ROOT] + [BELOW] * (len(levels) - 1))}",
        "",
        f"[roots.{levels[0]}.queries]",
        f'"{TOTAL}" = {_texts(["-"] + [str(below)] * (len(levels) - 1))}',
    ]
    measured = [*queries, DETAILED]
    lines += [f'"{name}" = {_texts([str(at_root)] + [str(below)] * (len(levels) - 1))}' for name in measured]
    lines += [
        "",
        f"[estimation.{ROOT}]",
        f"least_squares = [{{ queries = {_texts(measured)} }}]",
        f"rounding = [{_texts([TOTAL, DETAILED])}]",
        "",
        f"[estimation.{BELOW}]",
        'slack = "1/100"',
        f"least_squares = [{{ queries = {_texts([TOTAL])}, constrain = {_texts([TOTAL])} }}, "
        f"{{ queries = {_texts(measured)} }}]",
        f"rounding = [{_texts([TOTAL])}, {_texts([DETAILED])}]",
        "",
        "[[invariants]]",
        'name = "population"',
        f'level = "{levels[0]}"',
        f'query = "{TOTAL}"',
    ]
    if programme.part.blocks_with:
        place = lines.index(f'root = "{levels[0]}"') + 1
        lines.insert(place, f"blocks_with = {_texts(programme.part.blocks_with)}")
    return "\n".join(lines) + "\n"


def _texts(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
