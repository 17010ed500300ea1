"""Perturbation tables that are cut and shuffled: the same laws in a secret order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.kits.cellkey import figures, people, question_of, write_project

import confide
from confide.errors import SpecError
from confide.mechanisms.cellkey.keyed_records import CellKeyRehearsal
from confide.mechanisms.cellkey.mechanism import CellKey
from confide.mechanisms.cellkey.programme import shuffled
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.noise.ptables import PTable, count_settings, generate, same_distribution

SECRET = "5a" * 32


def with_cellkey(spec: Path, lines: str) -> Path:
    """The spec with more lines in its part [cellkey]."""
    spec.write_text(spec.read_text().replace("[cellkey]\n", f"[cellkey]\n{lines}\n", 1))
    return spec


def test_the_laws_are_the_same_and_the_order_is_another(tmp_path: Path) -> None:
    plain = question_of(with_cellkey(write_project(tmp_path / "plain"), 'shuffle = "none"'), tmp_path / "scratch")
    spec = with_cellkey(write_project(tmp_path / "cut"), f'pieces = "0.01"\nshuffle = "{SECRET}"')
    cut = question_of(spec, tmp_path / "scratch")
    assert same_distribution(plain.ptable, cut.ptable)
    assert cut.ptable.fingerprint != plain.ptable.fingerprint
    last = cut.ptable.rows[-1].noise
    assert list(last) != sorted(last), "noise does not rise with the key"


def test_figures_differ_by_the_order_and_agree_with_themselves(tmp_path: Path) -> None:
    records = people()
    lines = {
        "plain": 'shuffle = "none"',
        "default": "",
        "derived": 'shuffle = "derived"',
        "one": f'pieces = "0.01"\nshuffle = "{SECRET}"',
        "again": f'pieces = "0.01"\nshuffle = "{SECRET}"',
        "other": f'pieces = "0.01"\nshuffle = "{"a5" * 32}"',
    }
    found = {}
    for name, more in lines.items():
        spec = with_cellkey(write_project(tmp_path / name, records), more)
        release = confide.run(spec, processes=1).release
        assert confide.verify(release).ok
        found[name] = figures(release, "place-age")
    assert found["one"] == found["again"]
    assert found["one"] != found["other"]
    assert found["one"] != found["plain"]
    assert found["default"] == found["derived"]
    assert len({str(sorted(found[name].items())) for name in ("one", "other", "plain", "default")}) == 4


def information(table: PTable) -> float:
    """What the noise of two parts tells of that of their total, in bits: over all pairs of keys of the last row."""
    keys = np.arange(table.modulus)
    noise = table.lookup_rows(np.full(len(keys), len(table.rows) - 1), keys) + int(table.largest_noise)
    joint = np.zeros((noise.max() + 1,) * 3)
    for key in keys.tolist():
        np.add.at(joint, (noise[key], noise, noise[(key + keys) % table.modulus]), 1 / table.modulus**2)
    apart = joint.sum(2, keepdims=True) * joint.sum((0, 1), keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log2(joint[there] / apart[there])).sum())


def test_in_the_derived_order_the_noise_of_parts_tells_next_to_nothing_of_the_total() -> None:
    plain = generate(count_settings(5, 2)).table(400)
    assert information(plain) > 1.2
    assert information(shuffled(plain, CellKeyPart())) < 0.1


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('pieces = "0.01"\nshuffle = "none"', "cellkey"),
        ('shuffle = "derived"\nlookup = "abs"', "cellkey"),
        (f'pieces = "0.01"\nshuffle = "{SECRET}"\nlookup = "abs"', "cellkey"),
        ('pieces = "0.01"\nshuffle = "short"', "cellkey.shuffle"),
        (f'pieces = 0.01\nshuffle = "{SECRET}"', "cellkey.pieces"),
    ],
)
def test_half_a_setting_is_refused(tmp_path: Path, lines: str, key: str) -> None:
    spec = with_cellkey(write_project(tmp_path), lines)
    with pytest.raises(SpecError) as error:
        question_of(spec, tmp_path / "scratch")
    assert key in {finding.where.path for finding in error.value.findings}


def test_pieces_must_be_whole_numbers_of_keys(tmp_path: Path) -> None:
    spec = with_cellkey(write_project(tmp_path), f'pieces = "1/3"\nshuffle = "{SECRET}"')
    with pytest.raises(SpecError) as error:
        question_of(spec, tmp_path / "scratch")
    assert "whole" in str(error.value)


def test_a_secret_file_gives_the_order_that_the_spec_would_give(tmp_path: Path) -> None:
    inside = with_cellkey(write_project(tmp_path / "inside"), f'pieces = "0.01"\nshuffle = "{SECRET}"')
    spec = with_cellkey(write_project(tmp_path / "beside"), 'pieces = "0.01"\nshuffle_file = "order.secret"')
    order = spec.parent / "order.secret"
    order.write_text(SECRET + "\n")
    order.chmod(0o600)
    assert (
        question_of(spec, tmp_path / "scratch").ptable.fingerprint
        == question_of(inside, tmp_path / "scratch").ptable.fingerprint
    )
    order.chmod(0o644)
    with pytest.raises(SpecError, match="can be read by others"):
        question_of(spec, tmp_path / "scratch")
    order.write_text("5a" * 31)
    order.chmod(0o600)
    with pytest.raises(SpecError) as wrong:
        question_of(spec, tmp_path / "scratch")
    assert "5a5a" not in str(wrong.value)
    order.unlink()
    with pytest.raises(SpecError, match="cannot be read"):
        question_of(spec, tmp_path / "scratch")
    with_cellkey(spec, f'shuffle = "{SECRET}"')
    with pytest.raises(SpecError, match="is given twice"):
        question_of(spec, tmp_path / "scratch")


def test_a_rehearsal_does_not_use_the_secret_order(tmp_path: Path) -> None:
    spec = with_cellkey(write_project(tmp_path), f'pieces = "0.01"\nshuffle = "{SECRET}"')
    answer = confide.rehearse(spec, persons=200, processes=1)
    assert SECRET not in (answer.folder / "spec.toml").read_text()


def test_a_drawn_order_is_never_replaced(tmp_path: Path) -> None:
    confide.new("cellkey", tmp_path)
    order = (tmp_path / "order.secret").read_text()
    (tmp_path / "spec.toml").unlink()
    confide.new("cellkey", tmp_path)
    assert (tmp_path / "order.secret").read_text() == order


@pytest.mark.parametrize("part", [{"shuffle": "ab" * 32}, {"shuffle_file": "order.secret"}])
def test_a_rehearsal_has_an_order_of_its_own(part: dict[str, str]) -> None:
    """What is shown around must not have the secret order, which real figures have."""
    values = {"cellkey": dict(part)}
    CellKeyRehearsal(CellKey()).rehearsed(values)
    order = values["cellkey"]["shuffle"]
    assert re.fullmatch("[0-9a-f]{64}", order)
    assert order != part.get("shuffle")
    assert "shuffle_file" not in values["cellkey"]
    for public in ({}, {"shuffle": "derived"}, {"shuffle": "none"}):
        values = {"cellkey": dict(public)}
        CellKeyRehearsal(CellKey()).rehearsed(values)
        assert values == {"cellkey": public}
