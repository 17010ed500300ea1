"""Rhode Island 2010: what the five-point rule needs with production shares and with the best, and how long it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.kits.descent import PRODUCTION
from tests.kits.rhode_island import NEEDED, lay_out_with_presence

from confide.inference.tuning import tune_topdown

pytestmark = [*NEEDED, pytest.mark.process]

RULE = "share of the largest hispanic*cenrace group <= 5pp in {} >= 500 @95%"
ON_THE_SPINE = "cousub, tract, place, made block_group"

MEASURED = """
import sys, time
from confide import tune_topdown
tune_topdown(sys.argv[1], ["total<=5 in tract @95%"], optimise=False, confirm=0)
print(time.process_time())
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state with a spine around county subdivisions and places, and its people as those of an older census."""
    folder = tmp_path_factory.mktemp("state")
    path = lay_out_with_presence(folder, PRODUCTION)
    path.write_text(path.read_text() + 'around = ["cousub", "place"]\n')
    pq.write_table(pq.read_table(folder / "persons.parquet"), folder / "older.parquet", compression="zstd")
    (folder / "persons.parquet").unlink()
    return path


def test_what_the_five_point_rule_needs_with_production_shares(spec: Path) -> None:
    people = spec.parent / "older.parquet"
    answer = tune_topdown(spec, [RULE.format(ON_THE_SPINE)], people=people, optimise=False, confirm=0)
    assert [round(row.present.rho, 4) for row in answer.targets] == [0.0228, 0.0228, 0.0357, 0.0587]
    assert [round(row.present.rho_on_average, 4) for row in answer.targets] == [0.0006, 0.0019, 0.0112, 0.0155]


def test_the_best_shares_for_the_spine_and_for_official_block_groups(spec: Path) -> None:
    people = spec.parent / "older.parquet"
    on = tune_topdown(spec, [RULE.format(ON_THE_SPINE)], people=people, confirm=0)
    assert on.needed is not None
    assert on.bound is not None
    assert on.bound <= float(on.needed) <= 0.0217
    off = tune_topdown(spec, [RULE.format(f"{ON_THE_SPINE}, block_group")], people=people, confirm=0)
    assert off.present is not None
    assert off.needed is not None
    assert 244 <= float(off.present) <= 245
    assert float(off.needed) <= 0.42


def test_a_single_target_with_given_shares_takes_seconds(spec: Path) -> None:
    arguments = [sys.executable, "-c", MEASURED, str(spec)]
    assert float(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout) <= 5
