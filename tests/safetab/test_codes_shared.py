"""The official code lists: counts, stability, and the mapping cases that the Census Bureau vetted."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.kits.safetab_codes import code_files

from confide.mechanisms.safetab.code_files import CodeFiles, read_code_lists
from confide.mechanisms.safetab.codes import CodeLists, iterations_of, stability, worst_case

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "safetab"
PRODUCTION = FOLDER / "safetab_p_production_spec"
UTILITIES = FOLDER / "safetab_utils_test"
KINDS = ("input_dir_zcdp", "input_dir_puredp")
TOYS = [FOLDER / program / kind for program in ("safetab_p_toy", "safetab_h_toy") for kind in KINDS]
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not PRODUCTION.exists(), reason="../shared/data/safetab is not there"),
]
REGIONS = [(level, large) for level in (1, 2) for large in (True, False)]


@pytest.fixture(scope="module")
def production() -> CodeLists:
    return read_code_lists(code_files(PRODUCTION))


def test_counts(production: CodeLists) -> None:
    """The paper's 2,996 iterations; below the states those that are not total-only."""
    assert (len(production.codes), len(production.iterations)) == (1_755, 2_996)
    assert [len(production.tabulated(level, large=large)) for level, large in REGIONS] == [52, 48, 2_944, 2_150]


def test_every_alone_iteration_has_a_partner(production: CodeLists) -> None:
    pairs = production.alone_pairs()
    alone = [number for number, item in enumerate(production.iterations) if item.kind == "race-alone"]
    assert pairs[:, 0].tolist() == alone
    assert len(set(pairs[:, 1].tolist())) == len(alone) == 1_481
    for one, other in pairs.tolist():
        name = production.iterations[one].name.replace("alone", "alone or in any combination")
        assert production.iterations[other].name == name


@pytest.mark.parametrize(
    "folder", [PRODUCTION, UTILITIES, *TOYS], ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
def test_stability(folder: Path) -> None:
    lists = read_code_lists(code_files(folder))
    for level, large in REGIONS:
        for most, expected in ((1, 3), (2, 3), (3, 4), (8, 9)):
            assert stability(lists, level, large=large, max_race_codes=most) == expected
            assert worst_case(lists, level, large=large, max_race_codes=most) <= expected


def test_stability_is_reached(production: CodeLists) -> None:
    assert {worst_case(production, level, large=large, max_race_codes=8) for level, large in REGIONS} == {9}


def cases() -> list[tuple[str, str, str, str]]:
    path = UTILITIES / "race_eth_codes_to_iterations_testcases.txt"
    lines = path.read_text().split("\n")[1:] if path.exists() else []
    return [tuple(line.split("|")) for line in lines if line]  # type: ignore[misc]


def test_the_twelve_cases() -> None:
    lists = read_code_lists(code_files(UTILITIES))
    rows = [[*(races.split(",") + ["Null"] * 8)[:8], span] for races, span, _, _ in cases()]
    names = [*(f"QRACE{number}" for number in range(1, 9)), "QSPAN"]
    patterns = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    found = iterations_of(lists, patterns, 3)
    pattern, iteration = (column.to_numpy() for column in found.columns)
    assert len(rows) == 12
    for number, (_, _, *expected) in enumerate(cases()):
        for large, codes in zip((True, False), expected, strict=True):
            kept = np.concatenate([lists.tabulated(level, large=large) for level in (1, 2)])
            mine = np.intersect1d(iteration[pattern == number], kept)
            assert {lists.iterations[at].code for at in mine} == set(codes.split(","))


def test_half_a_million_patterns(production: CodeLists) -> None:
    """Under two seconds on a quiet machine; the limit leaves room for a busy one."""
    generator = np.random.default_rng(7)
    codes = np.array([*production.codes, "Null"], dtype=object)

    def column(likely: float) -> pa.Array:
        drawn = generator.integers(0, len(production.codes), 500_000)
        return pa.array(codes[np.where(generator.random(500_000) < likely, drawn, len(codes) - 1)], pa.string())

    columns = {f"QRACE{number}": column(1 if number == 1 else 0.3) for number in range(1, 9)}
    patterns = pa.table(columns | {"QSPAN": column(1)})
    started = time.perf_counter()
    found = iterations_of(production, patterns, 8)
    assert time.perf_counter() - started < 10
    assert np.bincount(found.column("pattern").to_numpy()).max() <= 18


def test_files_in_other_forms(production: CodeLists, tmp_path: Path) -> None:
    """Whatever ends the lines, and whether a blank line follows, the lists are the same."""
    for path in PRODUCTION.glob("*.txt"):
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"\r\n", b"\n").rstrip(b"\n"))
    files: CodeFiles = code_files(tmp_path)
    assert read_code_lists(files).fingerprint == production.fingerprint
