"""How fast the studio answers: ``python -m benchmarks.studio [--json]``.

- A change on the trade-off board of each mechanism: a programme of 12 tables on 4 levels, a made-up state of 200,000
  people with the strategy of 2020 for TopDown, the production levels of 2020 for SafeTab-P, and the contract's examples
  for the others. Any entry of the board is moved, with numbers that were not asked before, through the whole
  application. One person, then ten at once. `--rhode-island` takes a real state for TopDown, where ../shared has it.
- A page of a table of 100,000 rows: unfiltered, filtered, searched, sorted, and the last page.

Times are processor time of the server; for ten at once, until the last of the ten has its page. Bars: 100 ms at the
95th percentile for one person, 300 ms for ten at once, 250 ms for a page.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.contract.kit import EXAMPLES
from tests.kits.rhode_island import lay_out_as_published
from tests.kits.studio import Visitor, studio_of

from benchmarks.evidence import lay_out
from confide.lab.population import simulate
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.rehearsal import toml_text
from confide.studio.table_view import TableReader, View
from confide.trade_offs import opened_board

BOARDS = ("tables", "topdown", "safetab", "cellkey", "swapping", "suppression")
BARS = (
    {f"{name}_board_ms_95": 100.0 for name in BOARDS}
    | {f"{name}_board_ten_at_once_ms_95": 300.0 for name in BOARDS}
    | {"page_ms_95": 250.0}
)
TABLES, LEVELS, CHANGES, BATCHES = 12, ("country", "nuts2", "nuts3", "municipality"), 60, 20
_ROWS = 100_000


def office(folder: Path) -> str:
    """A spec with many tables."""
    simulate(folder, persons=2_000, seed=7, layout="eu-country")
    variables = ["sex", "age:five-year", "cas:main", "coc:broad", "edu"]
    pairs = [[a, b] for i, a in enumerate(variables) for b in variables[i + 1 :]] + [[each] for each in variables]
    tables = [
        {"name": f"t{place}", "variables": pair, "levels": list(LEVELS)} for place, pair in enumerate(pairs[:TABLES])
    ]
    levels = [{"name": "country", "digits": 0}, *({"name": name, "column": name} for name in LEVELS[1:3])]
    parts: dict[str, Any] = {
        "release": {"name": "bench", "mechanism": "tables"},
        "data": {"records": "persons.parquet", "blocks": "areas.csv", "schema": "eu-persons"},
        "geography": {"block": "lau", "smallest": "municipality", "levels": levels},
        "privacy": {"ledger": "none.ledger", "budget": "2"},
        "tables": tables,
    }
    (folder / "spec.toml").write_text(toml_text(parts), encoding="utf-8")
    return "spec.toml"


def specs(folder: Path, rhode_island: bool) -> dict[str, str]:
    """A spec for each board, by mechanism."""
    result = {}
    for name in BOARDS:
        own = folder / name
        if name == "tables":
            own.mkdir()
            office(own)
        elif name == "topdown":
            own.mkdir()
            lay_out_as_published(own) if rhode_island else lay_out(own)
        else:
            shutil.copytree(EXAMPLES / name, own)
        if name == "safetab":
            _with_all_levels(own / "spec.toml")
        result[name] = f"{name}/spec.toml"
    return result


def _with_all_levels(spec: Path) -> None:
    """The levels and budgets of 2020 in place of the example's."""
    text = spec.read_text(encoding="utf-8")
    settings = production_settings()
    levels = "".join(
        f'[[levels]]\nregion = "{each.region_type}"\niterations = "{ITERATION_LEVELS[each.iteration_level]}"\n'
        f'budget = "{each.budget}"\nthresholds = {list(each.thresholds)}\n\n'
        for each in settings.levels
    )
    head, _, rest = text.partition("[[levels]]")
    budget = head.replace('budget = "8"', f'budget = "{settings.total}"')
    spec.write_text(budget + levels + rest[rest.index("[output]") :], encoding="utf-8")


def change(visitor: Visitor, spec: str, draw: random.Random, entries: list[tuple[str, str]]) -> float:
    """One change of any entry and the page that follows, in seconds of this process."""
    asked = _asked(spec, draw, entries)
    begun = time.process_time()
    answer = visitor.get("/board", params=asked)
    taken = time.process_time() - begun
    assert answer.status_code == 200, answer.status_code
    return taken


def _asked(spec: str, draw: random.Random, entries: list[tuple[str, str]]) -> dict[str, str]:
    """An address with another number in any entry."""
    name, text = draw.choice(entries)
    return {"spec": spec, f"typed.{name}": _near(text, draw)}


def _near(text: str, draw: random.Random) -> str:
    """Another number near one."""
    if text.isdigit():
        return str(max(1, round(int(text) * draw.uniform(0.5, 2)) + draw.randrange(2)))
    return f"{float(text) * draw.uniform(0.5, 2):.6g}"


def boards(rhode_island: bool) -> dict[str, float]:
    """Percentiles of changes, in milliseconds."""
    figures = {}
    with tempfile.TemporaryDirectory() as own:
        named = specs(Path(own), rhode_island)
        visitor, door, _ = studio_of(Path(own))
        visitor.get("/", params={"token": door.new_token()})
        for name, spec in named.items():
            figures |= {f"{name}_{key}": value for key, value in _board(visitor, Path(own), spec).items()}
    return figures


def _board(visitor: Visitor, folder: Path, spec: str) -> dict[str, float]:
    entries = [
        (each.name, each.text)
        for each in opened_board(folder / spec).start.entries()
        if not each.options and each.text.replace(".", "", 1).isdigit() and float(each.text)
    ]
    draw = random.Random(3)
    change(visitor, spec, draw, entries)
    alone = [change(visitor, spec, draw, entries) for _ in range(CHANGES)]
    at_once = []
    for batch in range(BATCHES):
        asked = [_asked(spec, random.Random(100 * batch + person), entries) for person in range(10)]
        begun = time.process_time()
        answers = visitor.at_once("/board", asked)
        at_once.append(time.process_time() - begun)
        assert {answer.status_code for answer in answers} == {200}
    return {
        "board_ms_50": 1000 * float(np.quantile(alone, 0.5)),
        "board_ms_95": 1000 * float(np.quantile(alone, 0.95)),
        "board_ten_at_once_ms_50": 1000 * float(np.quantile(at_once, 0.5)),
        "board_ten_at_once_ms_95": 1000 * float(np.quantile(at_once, 0.95)),
    }


class LargeTable:
    """A table of many rows, as a release has it."""

    name, title, described = "large", "A large table", None

    def arrow(self) -> pa.Table:
        """Rows of 2,000 areas with 50 cells each."""
        areas = np.repeat(np.arange(_ROWS // 50), 50)
        draw = np.random.default_rng(5)
        return pa.table(
            {
                "area": pa.array([f"A{area:05d}" for area in areas]),
                "age": pa.array([f"{cell:02d}" for cell in np.tile(np.arange(50), _ROWS // 50)]),
                "count": draw.integers(0, 1000, _ROWS),
                "noise_margin": np.full(_ROWS, 14),
            }
        )


def pages() -> dict[str, float]:
    """The 95th percentile of a page of a large table, in milliseconds of processor time."""
    reader = TableReader(LargeTable())  # type: ignore[arg-type]
    views = [
        View(),
        View(search="a0123"),
        View((("age", "07"),)),
        View(order="count", descending=True),
        View(page=_ROWS // 100),
        View((("age", "07"), ("age", "08")), search="9", order="count"),
    ]
    taken = []
    for view in views * 8:
        begun = time.process_time()
        assert reader.page(view).rows
        taken.append(time.process_time() - begun)
    return {"page_ms_95": 1000 * float(np.quantile(taken, 0.95))}


def main() -> int:
    """Prints the figures beside their bars; the number of bars that are missed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--json", action="store_true")
    asked.add_argument("--rhode-island", action="store_true")
    given = asked.parse_args()
    as_json = given.json
    figures = boards(given.rhode_island) | pages()
    missed = {name: bar for name, bar in BARS.items() if figures[name] > bar}
    if as_json:
        print(json.dumps({"figures": figures, "bars": BARS, "missed": sorted(missed)}))
    else:
        for name, value in figures.items():
            bar = f"  (bar {BARS[name]:g})" if name in BARS else ""
            print(f"{name:36} {value:8.1f}{bar}{'  MISSED' if name in missed else ''}")
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
