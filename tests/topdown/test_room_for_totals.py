"""Limits of the frame beside known totals: what ``check`` lets through ends in a release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.kits.own_strategy import bound, lay_out, released_by_block, seal

import confide
from confide.errors import RunError
from confide.mechanisms.topdown import descent
from confide.mechanisms.topdown.constraints import NO_LIMIT, narrowed
from confide.releases.ledger import Ledger
from confide.releases.workspace import Progress

# Blocks that are all households, or all quarters: prisons and dormitories.
PURE = [[25, 0], [0, 30], [25, 0], [0, 40], [12, 0], [0, 3], [0, 60], [25, 0]]
UNITS = {"houses": [int(a > 0) for a, _ in PURE], "quarters": [int(b > 0) for _, b in PURE]}


@pytest.mark.parametrize("number", range(3))
def test_a_total_of_blocks_beside_bounds_that_leave_blocks_no_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    bounds = bound("most", "upper", 99, {0: "houses", 1: "quarters"}) + bound("least", "lower", 1, {1: "quarters"})
    notes: list[str] = []
    monkeypatch.setattr(Progress, "note", lambda _, text: notes.append(text))
    release = seal(lay_out(tmp_path, PURE, UNITS, bounds, level="block"), key=f"{number:02x}" * 32)
    # There is one solution, the truth: invariants and bounds together tell every block.
    blocks = [f"9{n // 4}{n:02d}" for n in range(len(PURE))]
    assert released_by_block(release) == {
        block: {kind: n for kind, n in enumerate(of_block) if n} for block, of_block in zip(blocks, PURE, strict=True)
    }


def test_four_kinds_that_could_not_be_shared_out(tmp_path: Path) -> None:
    """Two counties; only the first has quarters of the kinds 1 and 2, each with room for everybody of it."""
    people = [[5, 6, 5, 0]] * 4 + [[12, 0, 0, 4]] * 4
    columns = {"some": [1] * 4 + [0] * 4, "other": [0] * 4 + [1] * 4, "houses": [1] * 8}
    bounds = bound("most", "upper", 500, {0: "houses", 1: "some", 2: "some", 3: "other"})
    spec = lay_out(tmp_path, people, columns, bounds, level="county", budget="1/100000")
    counted = released_by_block(seal(spec))
    for county, expected in (("90", 64), ("91", 64)):
        assert sum(n for block, kinds in counted.items() if block[:2] == county for n in kinds.values()) == expected


def test_two_bounds_of_one_side_from_different_columns(tmp_path: Path) -> None:
    """At most so many as beds, and as rooms: one is the smaller here, the other there."""
    people = [[5, 3], [5, 3], [5, 3], [5, 3]]
    columns = {"beds": [10, 3, 10, 3], "rooms": [3, 10, 3, 10]}
    bounds = bound("beds", "upper", 1, {1: "beds"}) + bound("rooms", "upper", 1, {1: "rooms"})
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        spec = lay_out(folder, people, columns, bounds, budget="1/2000")
        counted = released_by_block(seal(spec, f"{number:02x}" * 32))
        assert all(kinds.get(1, 0) <= 3 for kinds in counted.values())


def test_a_run_that_narrows_its_limits_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = bound("most", "upper", 99, {0: "houses", 1: "quarters"})
    for name in ("once", "stopped"):
        (tmp_path / name).mkdir()
    once = seal(lay_out(tmp_path / "once", PURE, UNITS, bounds, level="block"))
    spec = lay_out(tmp_path / "stopped", PURE, UNITS, bounds, level="block")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(descent, "_leaving_room", stop)
        with pytest.raises(KeyboardInterrupt):
            confide.run(spec, processes=1, insecure_key="1f" * 32)
    assert (tmp_path / "stopped/own/confidential/measured" / descent.NARROWED).exists()
    again = confide.run(spec, processes=1, insecure_key="1f" * 32).release
    assert released_by_block(once) == released_by_block(again)


# Narrowed limits against linear programs: whatever keeps their sums can be shared out.

GROUPS = st.tuples(st.integers(0, 3), st.integers(0, 5) | st.none())
UNITS_OF_GROUPS = st.integers(1, 5).flatmap(
    lambda groups: st.lists(st.lists(GROUPS, min_size=groups, max_size=groups), min_size=1, max_size=4)
)


@given(UNITS_OF_GROUPS, st.data())
def test_whatever_keeps_narrowed_limits_can_be_shared_out(
    units: list[list[tuple[int, int | None]]], data: st.DataObject
) -> None:
    least = np.array([[low for low, _ in unit] for unit in units])
    largest = np.array([[NO_LIMIT if more is None else low + more for low, more in unit] for unit in units])
    most = np.minimum(largest, 20).sum(axis=1)
    totals = np.array(
        [data.draw(st.integers(int(low), int(high))) for low, high in zip(least.sum(axis=1), most, strict=True)]
    )
    low, high = narrowed(least, largest, totals)
    assert ((least <= low) & (low <= high) & (high <= largest)).all()
    assert ((low.sum(axis=1) <= totals) & (totals <= high.sum(axis=1))).all()
    # A corner of what keeps the sums: groups in some order have as much as they can.
    parent, room = low.sum(axis=0), int(totals.sum() - low.sum())
    for group in data.draw(st.permutations(range(least.shape[1]))):
        more = min(room, int(high.sum(axis=0)[group] - parent[group]))
        parent[group] += more
        room -= more
    assert room == 0
    count, groups = least.shape
    rows = [np.kron(np.ones(count), np.eye(groups)), np.kron(np.eye(count), np.ones(groups))]
    limits = np.stack([least.ravel(), np.minimum(largest.ravel(), 1000)], axis=1)
    right = np.concatenate([parent, totals])
    assert linprog(np.zeros(count * groups), A_eq=np.vstack(rows), b_eq=right, bounds=limits).status == 0


# Structural zeros beside numbers that the frame tells.

TOLD = '\n[[invariants]]\nname = "told"\nlevel = "block"\nquery = "kind"\nframe = ["houses", "quarters"]\n'
NOBODY = '\n[[zeros]]\nname = "nobody"\nwhere = { kind = [1] }\n'


def test_records_that_the_frame_tells_and_structural_zeros_forbid_are_refused(tmp_path: Path) -> None:
    people = [[2, 0], [1, 0], [0, 3]]
    spec = lay_out(tmp_path, people, {"houses": [2, 1, 0], "quarters": [0, 0, 3]}, TOLD + NOBODY)
    with pytest.raises(RunError) as refusal:
        confide.run(spec, processes=1)
    (finding,) = refusal.value.findings
    assert (finding.code, finding.where.row) == ("constraints-clash", 3)
    assert "'told'" in finding.what
    assert "'nobody'" in str(finding.found)
    assert [entry.kind for entry in Ledger(tmp_path / "people.ledger").history()] == ["open"]


def test_so_many_as_nobody_may_be_told_of_a_kind_that_is_forbidden(tmp_path: Path) -> None:
    spec = lay_out(tmp_path, [[2, 0], [1, 0]], {"houses": [2, 1], "quarters": [0, 0]}, TOLD + NOBODY)
    assert released_by_block(seal(spec)) == {"9000": {0: 2}, "9001": {0: 1}}
