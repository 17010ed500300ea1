"""Programmes in the CPLEX LP format: a small one by hand, and those of two tracts that the Census Bureau published."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.attacks.lp_files import read_lp, read_solution

from confide.errors import InputError
from confide.lab.attacks.reconstruction.integer_program import NoSolution

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "recon2010_0solvar" / "lp"

SMALL = """\\* by hand *\\
Minimize
goal: 2 x + 3 y - z
Subject To
first: x + y
  + z = 4.0
second: x - y >= 1
third: 2 z <= 3
Bounds
 y <= 5
 0 <= x <= 9
Generals
x y z
End
"""


def test_a_small_programme(tmp_path: Path) -> None:
    (tmp_path / "small.lp").write_text(SMALL)
    assert read_lp(tmp_path / "small.lp").solve() == {"x": 3, "z": 1}
    (tmp_path / "small.sol").write_text("# a comment\nx 3\ny 0\nz 1.0\n")
    assert read_solution(tmp_path / "small.sol") == {"x": 3, "z": 1}


def test_what_cannot_be_read_or_solved(tmp_path: Path) -> None:
    (tmp_path / "bad.lp").write_text(SMALL.replace("third: 2 z <= 3", "third: 2 z"))
    with pytest.raises(InputError):
        read_lp(tmp_path / "bad.lp")
    (tmp_path / "max.lp").write_text(SMALL.replace("Minimize", "Maximize"))
    with pytest.raises(InputError):
        read_lp(tmp_path / "max.lp")
    (tmp_path / "none.lp").write_text(SMALL.replace("third: 2 z <= 3", "third: x + y + z <= 3"))
    with pytest.raises(NoSolution):
        read_lp(tmp_path / "none.lp").solve()


@pytest.mark.shared
@pytest.mark.skipif(not FOLDER.exists(), reason="../shared/data has no programmes of 2010")
@pytest.mark.parametrize(("tract", "people", "variables"), [("29183980000", 1, 641), ("29165030307", 11, 8_321)])
def test_the_programmes_of_two_tracts_have_their_known_solutions(tract: str, people: int, variables: int) -> None:
    programme = read_lp(FOLDER / f"model_{tract}.lp.gz")
    assert len(programme.names) == variables
    solution = programme.solve()
    assert solution == read_solution(FOLDER / f"model_{tract}.sol.gz")
    assert len(solution) == people
