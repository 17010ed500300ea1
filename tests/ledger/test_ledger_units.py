"""Accounts that are kept in persons or households: what is charged, what is said, and what stays as it was."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from tests.contract.kit import LEDGER, lay_out
from tests.kits.ledger import new_ledger, reserve, rows

import confide
from confide.answers import html_of
from confide.errors import ParameterError, RunError
from confide.privacy import (
    ZCDP,
    BoundedDegree,
    Definition,
    Event,
    Measurement,
    Neighbours,
    PrivacyUnit,
    PureDP,
    price,
    price_for,
)
from confide.releases.ledger import Ledger
from confide.releases.ledger.entries import Opened, Reserved, encode

ADD, CHANGE = Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE
HALF = Measurement.discrete_gaussian(1)
"""rho 1/2 for a household that comes or goes."""


@pytest.mark.parametrize(
    ("one", "unit", "neighbours", "rho"),
    [
        (PrivacyUnit.RECORD, PrivacyUnit.HOUSEHOLD, ADD, "1/2"),
        (PrivacyUnit.HOUSEHOLD, PrivacyUnit.HOUSEHOLD, ADD, "1/2"),
        (PrivacyUnit.HOUSEHOLD, PrivacyUnit.HOUSEHOLD, CHANGE, 1),
        (PrivacyUnit.PERSON, PrivacyUnit.PERSON, ADD, "1/2"),
        (PrivacyUnit.PERSON, PrivacyUnit.HOUSEHOLD, ADD, 1),
        (PrivacyUnit.PERSON, PrivacyUnit.HOUSEHOLD, CHANGE, 4),
    ],
)
def test_what_a_release_costs_an_account(
    one: PrivacyUnit, unit: PrivacyUnit, neighbours: Neighbours, rho: str | int
) -> None:
    """One person changes one row of the households in any way; who may have moved changes two, the same way."""
    assert price_for(one, HALF, unit, neighbours, Definition.ZCDP) == ZCDP(rho)


def test_pure_losses_of_a_person_who_may_have_moved_add_up() -> None:
    event = Measurement.geometric("1/2")
    assert price_for(PrivacyUnit.PERSON, event, PrivacyUnit.HOUSEHOLD, ADD, Definition.PURE) == PureDP(1)
    assert price_for(PrivacyUnit.PERSON, event, PrivacyUnit.HOUSEHOLD, CHANGE, Definition.PURE) == PureDP(2)


@pytest.mark.parametrize(
    ("one", "unit"), [(PrivacyUnit.HOUSEHOLD, PrivacyUnit.PERSON), (PrivacyUnit.PERSON, PrivacyUnit.RECORD)]
)
def test_what_has_no_price_is_refused(one: PrivacyUnit, unit: PrivacyUnit) -> None:
    with pytest.raises(ParameterError) as error:
        price_for(one, HALF, unit, ADD, Definition.ZCDP)
    assert error.value.findings[0].code == "unit-of-account"


def test_groups_of_two_have_no_approximate_price() -> None:
    with pytest.raises(ParameterError, match="moved"):
        price_for(PrivacyUnit.PERSON, HALF, PrivacyUnit.HOUSEHOLD, CHANGE, Definition.APPROXIMATE, "1e-6")


def level(share: str | Fraction, members: int = 1) -> Event:
    """A level of groups of which a household is in at most nine, with its rho."""
    group = Measurement.discrete_gaussian(9 * members / (2 * Fraction(share)))
    return BoundedDegree([group], 9, [100])


def test_the_2020_census_costs_one_person_as_much_as_the_specification_says() -> None:
    """P 4.944, H 2 x 8.895302, PHSafe 1.257281: sums of events."""
    of_p = [level(share) for share in 5 * ["0.008"] + 2 * ["2.134"] + 4 * ["0.159"]]
    of_h = [level(share) for share in 2 * (5 * ["0.006915"] + 2 * ["1.9208"] + 4 * ["0.142869"])]
    costs = {
        "P": sum((price(event, ADD, Definition.ZCDP).rho for event in of_p), Fraction()),  # type: ignore[union-attr]
        "H": sum((price(event, ADD, Definition.ZCDP).rho for event in of_h), Fraction()),  # type: ignore[union-attr]
    }
    assert costs == {"P": Fraction("4.944"), "H": Fraction("8.895302")}
    to_person = sum(
        (price_for(PrivacyUnit.PERSON, event, PrivacyUnit.HOUSEHOLD, ADD, Definition.ZCDP).rho for event in of_h),  # type: ignore[union-attr]
        Fraction(),
    )
    assert costs["P"] + to_person + Fraction("1.257281") == Fraction("23.991885")


def test_entries_of_before_have_the_form_they_always_had(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "old.ledger")
    reserve(ledger)
    assert not any("unit" in row[3] for row in rows(ledger.path))
    assert "unit" not in str(ledger.account().as_dict())
    assert ledger.account().unit == "record"
    assert "protects one" not in html_of(ledger.account().described(), "")


def test_a_unit_is_written_once_and_for_ever(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "persons.ledger", budget=24, unit="person")
    reserve(ledger, "h", "17.790604", unit="household")
    reserve(ledger, "p", "4.944", unit="person")
    account = Ledger(ledger.path).account()
    assert account.unit == account.as_dict()["unit"] == "person"
    assert [run.unit for run in account.runs.values()] == ["household", "person"]
    said = html_of(account.described(), "")
    assert "in persons" in said
    assert "charged what it costs one person" in said
    with pytest.raises(ParameterError, match="unit"):
        new_ledger(tmp_path / "other.ledger", unit="flat")
    for event in (entry.event for entry in ledger.history()):
        assert isinstance(event, Opened | Reserved)
        assert '"unit"' in encode(event)


@pytest.fixture
def households(tmp_path: Path) -> Path:
    """Tables of made-up records that are households, by what their spec says."""
    project = lay_out("tables", tmp_path / "project")
    spec = project.spec.read_text(encoding="utf-8")
    spec = spec.replace('definition = "zcdp"', 'definition = "zcdp"\nunit = "household"')
    project.spec.write_text(spec.replace('neighbours = "change-one"', 'neighbours = "add-remove"'), encoding="utf-8")
    (project.folder / LEDGER).unlink()
    return project.spec


def opened(spec: Path, unit: str) -> Ledger:
    return new_ledger(spec.parent / LEDGER, budget=10, unit=unit)


def test_a_release_of_households_is_charged_to_persons_as_what_one_person_can_change(households: Path) -> None:
    ledger = opened(households, "person")
    checked = confide.check(households, processes=1)
    assert checked.cost is not None
    assert checked.plan is not None
    assert checked.cost.amount == 2 * checked.plan.loss.rho == 3  # type: ignore[union-attr]
    assert "charged what it costs one person" in html_of(checked.described(), "")
    result = confide.run(households, processes=1, insecure_key="ab" * 32)
    account = ledger.account()
    assert (account.spent, [run.unit for run in account.runs.values()]) == (3, ["household"])
    manifest = confide.open_release(result.release).manifest
    assert manifest["plan"]["unit"] == "household"
    assert manifest["privacy"]["unit"]["cost_of_one_person"] == {"definition": "zcdp", "rho": "3"}
    page = (result.release / "certificate.html").read_text(encoding="utf-8")
    assert "rho of at most 3" in page
    assert confide.verify(result.release).ok


@pytest.mark.parametrize(("unit", "cost"), [("household", "3/2"), ("record", "3/2")])
def test_other_accounts_take_the_loss_of_the_release(households: Path, unit: str, cost: str) -> None:
    opened(households, unit)
    checked = confide.check(households, processes=1)
    assert checked.cost is not None
    assert checked.cost.amount == Fraction(cost)
    assert [finding.severity for finding in checked.findings if finding.code == "unit-of-account"] == (
        ["warning"] if unit == "record" else []
    )


def test_an_account_of_households_takes_no_release_of_persons(households: Path) -> None:
    opened(households, "household")
    households.write_text(households.read_text().replace('unit = "household"', 'unit = "person"'))
    checked = confide.check(households, processes=1)
    assert {finding.code for finding in checked.errors} == {"unit-of-account"}
    with pytest.raises(RunError):
        confide.run(households, processes=1)
    assert Ledger(households.parent / LEDGER).account().spent == 0


def test_tables_in_memory_are_of_persons(tmp_path: Path) -> None:
    people = {"sex": ["f", "m"]}
    for unit, fits in (("person", True), ("household", False)):
        path = tmp_path / f"{unit}.ledger"
        new_ledger(path, budget=1, unit=unit)
        if fits:
            account = confide.tabulate(people, by={"sex": ["f", "m"]}, rho="1/2", ledger=path).account
            assert account is not None
            assert [run.unit for run in account.runs.values()] == ["person"]
        else:
            with pytest.raises(ParameterError, match="one unit"):
                confide.tabulate(people, by={"sex": ["f", "m"]}, rho="1/2", ledger=path)
