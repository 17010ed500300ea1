"""Demographic and housing characteristics, from records to a verified release: ``python -m benchmarks.dhc``.

Made-up people with relationships and types of quarters through the spec that ``confide new topdown --product
dhc-persons`` writes, at the settings of 2020, timed as ``benchmarks.topdown`` times its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.topdown import measure, report
from confide import drafting
from confide.lab.population import simulate

PRODUCT = "dhc-persons"


def lay_out(folder: Path, persons: int) -> Path:
    """Made-up people, the draft of the product, and a ledger with its budget."""
    simulate(folder, persons=persons, seed=7, layout="us-dhc")
    return drafting.new("topdown", folder, product=PRODUCT, open_ledger=True, facilities="yes").spec


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc", description="Time of the DHC of persons.")
    parser.add_argument("--persons", type=int, default=100_000, help="how many people to make up (default 100,000)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="confide-bench-") as folder:
        figures = measure(lay_out(Path(folder), options.persons), options.processes)
    print(json.dumps(figures, indent=2) if options.json else report(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
