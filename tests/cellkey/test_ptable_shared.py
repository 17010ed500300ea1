"""Reference tables of the R package and sample tables of tau-ARGUS: agreement to 1e-6, and the same bytes again."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from confide.noise.ptables import Design, count_settings, export_text, generate, magnitude_settings, read_table

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "ptable"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FOLDER.exists(), reason="../shared/data/ptable is not there"),
]
COUNTS = re.compile(r"cnt_D(?P<D>\d+)_V(?P<V>[\d.]+?)(_js(?P<js>\d+))?(_pstay(?P<pstay>[\d.]+))?(?P<rest>_.*)?\.csv")
GRID = re.compile(r"num_D(?P<D>\d+)_V(?P<V>[\d.]+)_step(?P<step>\d+)_icat(?P<icat>[\d-]+)\.csv")
REFERENCE = sorted(path for pattern in ("cnt_*.csv", "num_*.csv") for path in FOLDER.glob(pattern))
SAMPLES = sorted(FOLDER.glob("*.txt"))


def design_of(path: Path) -> Design:
    """The table that the name of a file asks for."""
    if found := GRID.fullmatch(path.name):
        rows = [int(i) for i in found["icat"].split("-")]
        return generate(magnitude_settings(int(found["D"]), found["V"], step=int(found["step"]), icat=rows))
    found = COUNTS.fullmatch(path.name)
    if found is None or found["rest"]:
        pytest.skip(f"{path.name} names settings that this test does not know")
    return generate(count_settings(int(found["D"]), found["V"], int(found["js"] or 0), pstay=found["pstay"]))


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.name)
def test_reference_tables(path: Path) -> None:
    design = design_of(path)
    with path.open(encoding="utf-8") as file:
        lines: list[dict[str, Any]] = list(csv.DictReader(file))
    found = [(row.i, float(v), p) for row in design.rows for v, p in zip(row.noise, row.p, strict=True)]
    assert [(int(line["i"]), float(line["v"])) for line in lines] == [(i, v) for i, v, _ in found]
    # Rounding to eight decimals and a floor of 1e-8 are theirs.
    assert [p for *_, p in found] == pytest.approx([float(line["p_raw"]) for line in lines], abs=1e-6)


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.name)
def test_reference_tables_are_read(path: Path) -> None:
    table = read_table(path).table
    made = design_of(path).table()
    assert [row.i for row in table.rows] == [row.i for row in made.rows]
    assert (table.modulus, table.step) == (made.modulus, made.step)
    for one, other in zip(table.rows, made.rows, strict=True):
        assert one.noise == other.noise
        assert max(abs(a - b) for a, b in zip(one.bounds, other.bounds, strict=True)) <= 100


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_samples_come_back_byte_by_byte(path: Path) -> None:
    back = read_table(path)
    assert back.text().encode() == path.read_bytes()
    assert back.findings == ()


def test_our_export_has_their_layout() -> None:
    path = FOLDER / "export_tauargus_D5_V3_js2.txt"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    ours = export_text(generate(count_settings(5, 3, 2)).table()).splitlines()
    theirs = path.read_text(encoding="utf-8").splitlines()
    assert ours[0] == theirs[0]
    shapes = [[re.sub(r"\d", "9", line) for line in lines] for lines in (ours, theirs)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    ("name", "asked", "closeness"),
    [
        ("tauargus_sample_ptab_freq.txt", {"D": 5, "V": 3, "js": 2, "pstay": "1/2"}, 1e-7),
        ("tauargus_sample_tau_testW_ptable.txt", {"D": 7, "V": 4, "js": 2, "equality": True}, 1e-6),
    ],
)
def test_samples_are_ours(name: str, asked: dict[str, Any], closeness: float) -> None:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    table = read_table(path).table
    design = generate(count_settings(**asked))
    for place, row in enumerate(design.rows):
        law = table.probabilities(place)
        assert list(law) == list(row.noise)
        assert [float(p) for p in law.values()] == pytest.approx(row.p, abs=closeness)
