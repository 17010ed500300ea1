"""What the published columns of one cell leave of its true count: nothing is excluded, by proof and by trial."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.cellkey import people, write_project
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.lab.attacks.arithmetic import attack_arithmetic, candidates
from confide.mechanisms.cellkey.keyed_records import in_steps, scaled
from confide.mechanisms.cellkey.programme import counts_behind, least_candidates
from confide.mechanisms.cellkey.spec import weighted_step
from confide.noise.ptables import count_settings, generate

WEIGHTED = 'weight = "weight"'


def sums_of(support: list[int], members: int) -> set[int]:
    """Every sum of so many weights."""
    sums = {0}
    for _ in range(members):
        sums = {total + weight for total in sums for weight in support}
    return sums


def excluded(support: list[int], bound: int, members: int, weight: int, published: int) -> list[int]:
    """The counts within the noise of a published one for which no sum of weights gives the weighted figure: tried out,
    weight by weight, by somebody who knows all weights that occur."""
    gap = max([1, *(after - before for before, after in pairwise(support))])
    step = int(weighted_step(Fraction(bound), Fraction(gap)))

    def figure(total: int, number: int) -> int:
        return int(in_steps(scaled(np.array([published]), np.array([total]), np.array([number])), step)[0])

    shown, counts = figure(weight, members), range(max(1, published - bound), published + bound + 1)
    return [n for n in counts if all(figure(total, n) != shown for total in sums_of(support, n))]


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True),
    st.integers(1, 4),
    st.integers(1, 7),
    st.data(),
)
def test_every_count_within_the_noise_has_weights_that_fit(
    support: list[int], bound: int, members: int, data: st.DataObject
) -> None:
    support = sorted(support)
    weight = sum(data.draw(st.lists(st.sampled_from(support), min_size=members, max_size=members)))
    published = data.draw(st.integers(max(1, members - bound), members + bound))
    assert excluded(support, bound, members, weight, published) == []


def test_two_records_of_unlike_weights_have_counts_that_fit() -> None:
    """Two records of the weights 0 and 10, published without noise: steps of one gap would exclude a count."""
    assert excluded([0, 10], 1, 2, 10, 2) == []


@given(
    st.integers(1, 10**6), st.integers(0, 10**9), st.integers(1, 9), st.sampled_from([1, 500_000, 5_000_000]), st.data()
)
def test_the_attacker_never_excludes_the_truth(
    members: int, units: int, bound: int, step: int, data: st.DataObject
) -> None:
    unit = data.draw(st.sampled_from([1, 1_000, 10**6]))
    published = data.draw(st.integers(max(1, members - bound), members + bound))
    figure = in_steps(scaled(np.array([published]), np.array([units * unit]), np.array([members])), step)
    (row,) = candidates(np.array([published]), figure, bound, step, unit)
    assert row[members - published + bound]


def test_figures_with_all_their_digits_give_most_counts_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where figures are not rounded to a step, the attack has power."""
    monkeypatch.setattr("confide.mechanisms.cellkey.programme.weighted_step", lambda *_: Fraction(1, 10**6))
    release = confide.run(write_project(tmp_path, people(), data=WEIGHTED), processes=1).release
    attack = attack_arithmetic(release)
    cells = sum(row[1] for row in attack.tables)
    assert attack.known > cells / 2
    assert not attack.ok
    assert attack.power is not None
    assert attack.power[0] > cells / 2
    assert CliRunner().invoke(app, ["attack", "arithmetic", str(release)]).exit_code == 1


def test_a_release_leaves_every_count_within_the_noise(tmp_path: Path) -> None:
    records = people()
    for name, gap in (("fine", "0.1"), ("plain", "1")):
        spec = write_project(tmp_path / name, records, data=f'{WEIGHTED}\nweight_gap = "{gap}"')
        run = confide.run(spec, processes=1)
        shown = CliRunner().invoke(app, ["attack", "arithmetic", str(run.release), "--json"])
        answer = json.loads(shown.stdout)
        assert shown.exit_code == 0, shown.stdout
        assert (answer["ok"], answer["known"], answer["figures"]) == (True, 0, ["count", "weighted"])
        assert answer["least_candidates"] >= answer["proved"] >= 6
        assert answer["power"]["known"] > answer["power"]["cells"] / 3
        assert f"at least {answer['proved']} true counts" in (run.release / "statement.html").read_text()
        assert answer["proved"] == run.plan.question["candidates"]


def test_without_weights_the_attack_says_that_it_has_no_power(tmp_path: Path) -> None:
    attack = attack_arithmetic(confide.run(write_project(tmp_path, people()), processes=1).release)
    assert (attack.ok, attack.power, attack.known) == (True, None, 0)
    assert "no power" in attack.in_words


@pytest.mark.parametrize(("bound", "variance", "js"), [(1, "0.3", 0), (4, "2", 1), (5, "2", 0), (3, "2", 2)])
def test_the_candidates_of_a_table_are_counted_as_they_are(bound: int, variance: str, js: int) -> None:
    table = generate(count_settings(bound, variance, js)).table()
    behind = counts_behind(table, 60)
    assert least_candidates(table, 1) == min(behind[p] for p in range(1, 50) if p in behind)
    assert least_candidates(table, 1) > 1
    for threshold in (*range(2, 40), 10**9):
        least = least_candidates(table, threshold)
        assert least == min(behind[p] for p in range(min(threshold, 40), 50) if p in behind), threshold


def test_a_threshold_of_any_size_takes_no_time(tmp_path: Path) -> None:
    """Nobody counts up to it."""
    spec = write_project(tmp_path, people())
    text = spec.read_text(encoding="utf-8").replace("[cellkey]", f"[cellkey]\nthreshold = {10**12}")
    assert text.count("threshold") == 1
    spec.write_text(text, encoding="utf-8")
    assert confide.check(spec, processes=1).plan is not None


def codes_of(spec: Path) -> list[str]:
    try:
        return [finding.code for finding in confide.check(spec).errors]
    except ConfideError as error:
        return [finding.code for finding in error.findings]


def test_weights_that_are_farther_apart_than_said_are_refused(tmp_path: Path) -> None:
    records = people()
    assert codes_of(write_project(tmp_path / "a", records, data=WEIGHTED)) == []
    thousandths = np.array([round(float(text) * 1000) for text in records.column("weight").to_pylist()])
    assert np.diff(np.unique(thousandths)).max() < 50
    fine = f'{WEIGHTED}\nweight_gap = "0.001"'
    assert codes_of(write_project(tmp_path / "b", records, data=fine)) == ["weight-gap"]
    far = np.where(np.arange(len(thousandths)) == 3, 9_000, thousandths)
    place = records.column_names.index("weight")
    apart = records.set_column(place, "weight", pa.array([f"{n // 1000}.{n % 1000:03d}" for n in far.tolist()]))
    assert codes_of(write_project(tmp_path / "c", apart, data=WEIGHTED)) == ["weight-gap"]
    assert codes_of(write_project(tmp_path / "d", apart, data=f"{WEIGHTED}\nweight_gap = 6")) == []


@pytest.mark.parametrize("data", ["weight_gap = 1", f'{WEIGHTED}\nweight_gap = "1/3"'])
def test_a_gap_that_means_nothing_is_refused(tmp_path: Path, data: str) -> None:
    assert codes_of(write_project(tmp_path, people(), data=data)) == ["weight-gap"]


def test_a_table_by_which_a_figure_tells_its_count_is_refused(tmp_path: Path) -> None:
    rows = ["i;v;p_int_ub", "0;0;1", "1;0;1", "2;-1;0.5", "2;1;1"]
    (tmp_path / "p").mkdir()
    spec = write_project(tmp_path / "p", people())
    text = spec.read_text()
    (tmp_path / "p" / "noise.csv").write_text("\n".join(rows) + "\n")
    changed = [line for line in text.splitlines() if not line.startswith(("D =", "V =", "js ="))]
    at = changed.index("[cellkey]")
    spec.write_text("\n".join([*changed[: at + 1], 'ptable = "noise.csv"', *changed[at + 1 :]]))
    assert "one-candidate" in codes_of(spec), codes_of(spec)
