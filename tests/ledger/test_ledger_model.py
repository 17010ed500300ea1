"""The ledger against a model that is too simple to be wrong: a dictionary and a sum."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.kits.ledger import MANIFEST, RECORDS, HandClock, new_ledger, reserve, sha

from confide.errors import BudgetExceededError, LedgerError
from confide.releases.ledger import Ledger

RUNS = st.sampled_from(["a", "b", "c", "d", "e"])
COSTS = st.sampled_from([Fraction(1, 7), Fraction(1, 3), Fraction(1, 2), Fraction(6, 7)])
PLANS = st.sampled_from([sha("plan 1"), sha("plan 2")])


class LedgerMachine(RuleBasedStateMachine):
    @initialize(budget=st.sampled_from([Fraction(1), Fraction(41, 21), Fraction(1, 2)]))
    def open(self, budget: Fraction) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = HandClock()
        self.ledger = new_ledger(Path(self.folder.name) / "census.ledger", budget=budget, clock=self.clock)
        self.budget = budget
        self.states: dict[str, str] = {}
        self.asked: dict[str, tuple[Fraction, str]] = {}
        self.length = 1

    def spent(self) -> Fraction:
        return sum((self.asked[run][0] for run, state in self.states.items() if state != "void"), Fraction(0))

    @rule(run=RUNS, cost=COSTS, plan=PLANS)
    def reserve(self, run: str, cost: Fraction, plan: str) -> None:
        def ask() -> str:
            return reserve(self.ledger, run, cost, plan_hash=plan, records_fingerprint=RECORDS).state

        if run in self.states:
            if self.asked[run] == (cost, plan) and self.states[run] != "void":
                assert ask() == self.states[run]
            else:
                with pytest.raises(LedgerError):
                    ask()
        elif self.spent() + cost > self.budget:
            with pytest.raises(BudgetExceededError):
                ask()
        else:
            assert ask() == "reserved"
            self.states[run], self.asked[run] = "reserved", (cost, plan)
            self.length += 1

    @rule(run=RUNS, step=st.sampled_from([("reserved", "measured"), ("measured", "sealed"), ("reserved", "void")]))
    def go_on(self, run: str, step: tuple[str, str]) -> None:
        before, after = step
        verb = {
            "measured": lambda: self.ledger.mark_measured(run),
            "sealed": lambda: self.ledger.mark_sealed(run, MANIFEST),
            "void": lambda: self.ledger.void(run, "a reason"),
        }[after]
        if self.states.get(run) == before:
            self.length += 1
            self.states[run] = after
        if self.states.get(run) == after:
            assert verb().state == after
        else:
            with pytest.raises(LedgerError):
                verb()

    @rule()
    def another_process(self) -> None:
        self.ledger = Ledger(self.ledger.path, clock=self.clock)

    @rule(seconds=st.integers(1, 90))
    def clock_behind(self, seconds: int) -> None:
        """A little is tolerated; more is refused, and the clock is set right again."""
        last = self.ledger.history()[-1].time
        self.clock.now = last - timedelta(seconds=seconds + 1)
        open_runs = [run for run, state in self.states.items() if state == "reserved"]
        if open_runs and seconds > 60:
            with pytest.raises(LedgerError, match="clock"):
                self.ledger.mark_measured(open_runs[0])
        elif open_runs:
            self.ledger.mark_measured(open_runs[0])
            self.states[open_runs[0]] = "measured"
            self.length += 1
        self.clock.now = last

    @invariant()
    def agrees(self) -> None:
        account = self.ledger.account()
        assert {run: held.state for run, held in account.runs.items()} == self.states
        assert account.spent == self.spent() <= self.budget
        assert account.left == self.budget - self.spent()
        assert len(self.ledger.history()) == self.length
        assert self.ledger.verify().sequence == self.length

    def teardown(self) -> None:
        self.folder.cleanup()


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestLedgerAgainstModel = LedgerMachine.TestCase
