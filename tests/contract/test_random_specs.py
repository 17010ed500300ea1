"""Random specs of each mechanism: refused with findings, or sealed and verified; never charged without a release."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import confide
from confide.errors import ConfideError
from confide.releases.ledger import Ledger
from tests.contract.kit import accounted, charged_once, findings_of
from tests.kits.random_specs import LEDGER, MAKERS, measured

FEW, MANY = 30, 300
"""How many are tried in ``make test``, and in ``make test-all``."""
KNOWN_LATE = {
    "nobody-moved": "whether anybody is selected for a swap is drawn",
    "cannot-protect": "whether cells can be hidden is what the solver finds out",
}
"""What is known when the work is done, of mechanisms that charge nothing: codes, and why ``check`` cannot say them."""
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
fuzzed = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None, phases=PHASES)


def ends_well(mechanism: str, data: st.DataObject) -> str:
    """What a random spec comes to: ``sealed``, or the code of the first finding that it is refused with."""
    folder = Path(mkdtemp())
    try:
        spec = MAKERS[mechanism](data.draw, folder / "project")
        try:
            result = confide.run(spec, processes=1)
        except ConfideError as error:
            return refused(mechanism, spec, error)
        ledger = spec.parent / LEDGER if accounted(mechanism) else None
        verified = confide.verify(result.release, ledger=ledger)
        assert verified.ok, [check for check in verified.checks if not check.ok]
        if ledger is not None:
            assert [entry.kind for entry in Ledger(ledger).history()] == charged_once(mechanism)
        return "sealed"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refused(mechanism: str, spec: Path, refusal: ConfideError) -> str:
    """The code of what a spec is refused with, after nothing was charged and nothing released, as ``check`` says it."""
    folder = spec.parent
    errors = [finding for finding in refusal.findings if finding.severity == "error"]
    assert errors, "an error without a finding"
    assert all(finding.remedy for finding in errors), errors
    if accounted(mechanism):
        assert [entry.kind for entry in Ledger(folder / LEDGER).history()] == ["open"], refusal
    assert not list(folder.parent.rglob("release")), refusal
    said = findings_of(lambda: confide.check(spec, processes=1).ready())
    if accounted(mechanism) or errors[0].code not in KNOWN_LATE:
        assert errors[0].code in {finding.code for finding in said}, (errors, said)
    return errors[0].code


def outcomes_of(mechanism: str, number: int, start: int | None = None) -> Counter[str]:
    """What so many random specs come to: always the same ones, or, without a start, those that the profile draws."""
    outcomes: Counter[str] = Counter()

    @settings(fuzzed, max_examples=number)
    @given(st.data())
    def tried(data: Any) -> None:
        outcomes[ends_well(mechanism, data)] += 1

    (tried if start is None else seed(start)(tried))()
    return outcomes


@pytest.mark.parametrize("mechanism", sorted(MAKERS))
def test_whatever_check_lets_through_ends_in_a_release(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "SOURCES", 6)
    outcomes = outcomes_of(mechanism, FEW, start=7)
    assert outcomes.total() >= FEW
    assert outcomes["sealed"] > FEW / 6, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(MAKERS))
def test_so_do_many_more(mechanism: str) -> None:
    outcomes = outcomes_of(mechanism, MANY)
    assert 0.4 * outcomes.total() < outcomes["sealed"] < outcomes.total(), outcomes
