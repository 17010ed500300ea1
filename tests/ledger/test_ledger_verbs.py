"""The verbs: what is charged when, what is refused, and that a refusal writes nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.ledger import MANIFEST, PLAN, RECORDS, START, HandClock, new_ledger, reserve, rows, sha

from confide.errors import BudgetExceededError, LedgerError, ParameterError
from confide.releases.ledger import Ledger
from confide.releases.ledger.entries import shown, written


def test_a_run_from_reservation_to_destroyed_key(ledger: Ledger) -> None:
    assert reserve(ledger).state == "reserved"
    assert ledger.mark_measured("run-1").state == "measured"
    sealed = ledger.mark_sealed("run-1", MANIFEST)
    assert (sealed.state, sealed.manifest_sha256, sealed.key_destroyed) == ("sealed", MANIFEST, False)
    assert ledger.mark_key_destroyed("run-1").key_destroyed
    assert [entry.kind for entry in ledger.history()] == ["open", "reserve", "measured", "sealed", "key-destroyed"]
    account = ledger.account()
    assert (account.budget, account.spent, account.reserved, account.left) == (1, Fraction(1, 4), 0, Fraction(3, 4))


def test_the_account_as_json_is_exact_and_without_the_fingerprint(ledger: Ledger) -> None:
    reserve(ledger, cost="1/3")
    text = json.dumps(ledger.account().as_dict())
    assert '"left": "2/3"' in text
    assert '"budget": "1/1"' in text
    assert RECORDS not in text
    assert RECORDS not in repr(ledger.account())
    assert RECORDS not in repr(ledger.history())


def test_everything_but_void_is_charged(ledger: Ledger) -> None:
    for run_id in ("reserved", "measured", "sealed", "void"):
        reserve(ledger, run_id, "1/8")
    ledger.mark_measured("measured")
    ledger.mark_measured("sealed")
    ledger.mark_sealed("sealed", MANIFEST)
    ledger.void("void", "the frame was wrong")
    assert ledger.account().spent == Fraction(3, 8)
    assert ledger.account().reserved == Fraction(1, 8)
    assert ledger.status("void").void_reason == "the frame was wrong"
    assert ledger.status("void").charged == 0


def test_the_last_part_of_a_budget_can_be_spent_and_no_more(ledger: Ledger) -> None:
    for number in range(3):
        reserve(ledger, f"third-{number}", "1/3")
    assert ledger.account().left == 0
    before = rows(ledger.path)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, "tiny", "1e-300")
    assert rows(ledger.path) == before


def test_the_delta_of_a_budget_is_spent_like_its_epsilon_and_comes_back_with_a_void(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "delta.ledger", 10, definition="approximate", delta="1e-6")
    for number in range(3):
        reserve(ledger, f"third-{number}", 1, delta=Fraction(1, 3 * 10**6))
    assert (ledger.account().left, ledger.account().left_delta) == (7, 0)
    before = rows(ledger.path)
    with pytest.raises(BudgetExceededError):
        reserve(ledger, "tiny", 1, delta="1e-300")
    assert rows(ledger.path) == before
    assert reserve(ledger, "without", 1).delta == 0
    ledger.void("third-0", "the frame was wrong")
    assert ledger.account().left_delta == Fraction(1, 3 * 10**6)


def test_budget_exceeded_says_asked_left_spent_and_total(ledger: Ledger) -> None:
    reserve(ledger, "one", "2/3")
    before = rows(ledger.path)
    with pytest.raises(BudgetExceededError) as caught:
        reserve(ledger, "two", "0.5")
    finding = caught.value.findings[0]
    assert finding.found is not None
    parts = finding.found.split("; ")
    assert parts[0] == "asked 1/2 (about 0.5)"
    assert parts[1] == "left 1/3 (about 0.333333)"
    assert parts[2] == "spent 2/3 (about 0.666667)"
    assert parts[3].startswith("total 1 ")
    assert finding.where.file == str(ledger.path)
    assert finding.expected
    assert "void" in (finding.remedy or "")
    assert rows(ledger.path) == before


def test_voiding_frees_the_cost_and_the_run_id_is_not_used_again(ledger: Ledger) -> None:
    reserve(ledger, "one", "1")
    ledger.void("one", "not needed")
    reserve(ledger, "two", "1")
    with pytest.raises(LedgerError, match="is in the ledger already, and is void"):
        reserve(ledger, "one", "1")


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_reserving_again_returns_the_reservation_at_no_cost(ledger: Ledger, steps: int) -> None:
    first = reserve(ledger, cost="1")
    if steps >= 1:
        ledger.mark_measured("run-1")
    if steps == 2:
        ledger.mark_sealed("run-1", MANIFEST)
    before = rows(ledger.path)
    again = reserve(Ledger(ledger.path), cost=Decimal("1.0"))
    assert again.reservation_hash == first.reservation_hash
    assert again.state == ("reserved", "measured", "sealed")[steps]
    assert rows(ledger.path) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"plan_hash": sha("other plan")}, "plan"),
        ({"records_fingerprint": sha("other records")}, "records"),
        ({"cost": "1/5"}, "cost"),
        ({"release": "households"}, "release"),
    ],
)
def test_the_same_run_with_other_inputs_is_refused(ledger: Ledger, change: dict[str, str], named: str) -> None:
    reserve(ledger)
    before = rows(ledger.path)
    with pytest.raises(LedgerError) as caught:
        reserve(ledger, **change)
    assert caught.value.findings[0].code == "ledger-run-differs"
    assert f"another {named}" in str(caught.value)
    assert RECORDS not in str(caught.value)
    assert sha("other records") not in str(caught.value)
    assert rows(ledger.path) == before


def test_asking_again_after_each_step_writes_nothing(ledger: Ledger) -> None:
    reserve(ledger, "kept")
    reserve(ledger, "dropped")
    for step in (
        lambda: ledger.mark_measured("kept"),
        lambda: ledger.mark_sealed("kept", MANIFEST),
        lambda: ledger.mark_key_destroyed("kept"),
        lambda: ledger.void("dropped", "a reason"),
    ):
        first = step()
        before = rows(ledger.path)
        assert step() == first
        assert rows(ledger.path) == before


def test_steps_out_of_order_are_refused_and_write_nothing(ledger: Ledger) -> None:
    for run_id in ("reserved", "measured", "sealed", "void"):
        reserve(ledger, run_id, "1/8")
    for run_id in ("measured", "sealed"):
        ledger.mark_measured(run_id)
    ledger.mark_sealed("sealed", MANIFEST)
    ledger.void("void", "a reason")
    before = rows(ledger.path)
    for run_id in ("measured", "sealed"):
        with pytest.raises(LedgerError, match="not reserved"):
            ledger.void(run_id, "a reason")
    for run_id in ("sealed", "void"):
        with pytest.raises(LedgerError, match="not reserved"):
            ledger.mark_measured(run_id)
    for run_id in ("reserved", "void"):
        with pytest.raises(LedgerError, match="not measured"):
            ledger.mark_sealed(run_id, MANIFEST)
    with pytest.raises(LedgerError, match="not measured"):
        ledger.mark_sealed("sealed", sha("another manifest"))
    for run_id in ("reserved", "measured"):
        with pytest.raises(LedgerError, match="sealed or void"):
            ledger.mark_key_destroyed(run_id)
    for step in (ledger.mark_measured, ledger.mark_key_destroyed, ledger.status):
        with pytest.raises(LedgerError, match="no such run"):
            step("nobody")
    assert rows(ledger.path) == before


def test_floats_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="floating-point"):
        reserve(ledger, cost=0.25)
    with pytest.raises(ParameterError, match="floating-point"):
        new_ledger(tmp_path / "other", budget=1.0)
    assert not (tmp_path / "other").exists()
    assert len(rows(ledger.path)) == 1


@pytest.mark.parametrize("cost", [0, "-1/4", Fraction(-1), "nan", "1/0", True, None, "1e-1001", 10**1000, "1e-9999"])
def test_costs_that_are_not_positive_exact_numbers_are_refused(ledger: Ledger, cost: object) -> None:
    with pytest.raises(ParameterError):
        reserve(ledger, cost=cost)
    assert len(rows(ledger.path)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"plan_hash": "abc"},
        {"plan_hash": PLAN.upper()},
        {"plan_hash": None},
        {"records_fingerprint": "12 persons in block 7"},
        {"release": ""},
        {"release": "two\nlines"},
        {"release": "x" * 201},
        {"release": "\udcff"},
    ],
)
def test_names_and_hashes_are_checked(ledger: Ledger, change: dict[str, str]) -> None:
    with pytest.raises(ParameterError) as caught:
        reserve(ledger, **change)
    assert "persons in block" not in str(caught.value)
    assert len(rows(ledger.path)) == 1


@pytest.mark.parametrize(
    "change",
    [{"definition": "approximate"}, {"neighbours": "add"}, {"data_set": " "}, {"budget": 0}, {"note": "\x00"}],
)
def test_an_opening_is_checked_before_anything_is_made(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(ParameterError):
        new_ledger(tmp_path / "census.ledger", **change)
    assert list(tmp_path.iterdir()) == []


def test_a_void_needs_a_reason(ledger: Ledger) -> None:
    reserve(ledger)
    with pytest.raises(ParameterError, match="reason"):
        ledger.void("run-1", "  ")


def test_numbers_are_written_as_numerator_and_denominator(ledger: Ledger) -> None:
    reserve(ledger, cost=Decimal("0.250"))
    assert '"budget":"1/1"' in rows(ledger.path)[0][3]
    assert '"cost":"1/4"' in rows(ledger.path)[1][3]


def test_long_sums_are_exact_and_can_be_shown(ledger: Ledger) -> None:
    costs = [Fraction(1, 10**999 + offset) for offset in (7, 9, 21, 33, 57, 61)]
    for number, cost in enumerate(costs):
        reserve(ledger, f"run-{number}", cost)
    assert ledger.account().spent == sum(costs)
    assert len(ledger.account().as_dict()["spent"]) > 5000
    with pytest.raises(BudgetExceededError) as caught:
        reserve(ledger, "last", "1")
    assert "spent about 6E-999" in str(caught.value)


def test_numbers_for_people() -> None:
    assert shown(Fraction(293764, 114921)) == "293764/114921 (about 2.55623)"
    assert shown(Fraction(3)) == "3"
    assert shown(Fraction(0)) == "0"
    assert shown(Fraction(1, 10**12)) == "1/1000000000000 (about 1E-12)"
    assert written(Fraction(10**20)) == "1" + "0" * 20 + "/1"


def test_a_clock_set_back_is_refused_and_nothing_is_written(ledger: Ledger, clock: HandClock) -> None:
    before = rows(ledger.path)
    clock.now = START - timedelta(hours=1)
    with pytest.raises(LedgerError) as caught:
        reserve(ledger)
    finding = caught.value.findings[0]
    assert finding.code == "ledger-clock"
    assert "2020-04-01T11:00:01" in (finding.found or "")
    assert "2020-04-01T12:00:01" in (finding.expected or "")
    assert rows(ledger.path) == before
    assert ledger.account().left == 1  # reading needs no clock


def test_a_small_skew_is_recorded_as_the_last_time(ledger: Ledger, clock: HandClock) -> None:
    opened = ledger.history()[0].time
    clock.now = opened - timedelta(seconds=61)  # the clock shows one second more: exactly a minute behind
    reserve(ledger, "minute")
    assert ledger.history()[-1].time == opened
    clock.now = opened - timedelta(seconds=61, microseconds=1)
    with pytest.raises(LedgerError, match="clock"):
        reserve(ledger, "more")


def test_a_wider_tolerance_helps_after_a_clock_that_ran_ahead(ledger: Ledger, clock: HandClock) -> None:
    clock.now = START + timedelta(days=3650)
    reserve(ledger, "future")
    patient = Ledger(ledger.path, clock=HandClock(), clock_tolerance=timedelta(days=4000))
    reserve(patient, "now")
    assert patient.history()[-1].time == patient.history()[-2].time


def test_a_clock_without_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="time zone"):
        new_ledger(tmp_path / "census.ledger", clock=lambda: START.replace(tzinfo=None))
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans(), st.booleans()), min_size=1, max_size=8)
)
def test_records_are_charged_beside_others_only_if_somebody_says_so(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool, bool]]
) -> None:
    """Any order of reservations and voids: what is charged stands for whose ledger it is."""
    ledger = new_ledger(tmp_path_factory.mktemp("ledger") / "l")
    charged: list[str] = []
    for number, (records, accept, void) in enumerate(steps):
        known = not charged or records in charged
        assert bool(ledger.unseen(sha(records))) != known
        asked = {"records_fingerprint": sha(records), "accept_records": accept}
        if known or accept:
            reserve(ledger, f"run-{number}", "1/100", **asked)
            charged.append(records)
            reserve(ledger, f"run-{number}", "1/100", **asked | {"accept_records": False})  # it goes on
            if void:
                ledger.void(f"run-{number}", "not made")
                charged.pop()
        else:
            before = ledger.history()
            with pytest.raises(LedgerError, match="charged for other records"):
                reserve(ledger, f"run-{number}", "1/100", **asked)
            assert ledger.history() == before
