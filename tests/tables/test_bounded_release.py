"""Static programmes protected by any noise with a price: risk-driven and utility-driven, on a ledger with a delta."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.kits.small import KEY

import confide
from confide import api
from confide.errors import LedgerError, ParameterError, RunError, SpecError
from confide.lab.attacks.reconstruction import read_source
from confide.mechanisms.tables import mechanism as measuring
from confide.noise import TruncatedDistribution, perturb
from confide.privacy import ZCDP, ApproxDP
from confide.releases.ledger import Ledger
from confide.releases.plan import Plan, read_plan

DELTA = Fraction(1, 10**6)
KINDS = ["two-sided-geometric", "discrete-gaussian", "truncated-two-sided-geometric", "truncated-discrete-gaussian"]
BOUNDED = KINDS[2:]


@pytest.fixture
def bounded(project: Path) -> Path:
    """The small project with an approximate ledger beside it."""
    text = (project / "spec.toml").read_text()
    text = text.replace('budget = "1/2"', 'budget = "8"\ndefinition = "approximate"\ndelta = "1e-6"')
    (project / "spec.toml").write_text(text)
    (project / "people.ledger").unlink()
    open_ledger(project, "10", "1e-5")
    return project


def open_ledger(project: Path, budget: str, delta: str) -> None:
    Ledger.open_new(
        project / "people.ledger",
        data_set="people",
        definition="approximate",
        neighbours="change-one",
        budget=budget,
        delta=delta,
    )


def add(project: Path, noise: str) -> None:
    spec = project / "spec.toml"
    spec.write_text(spec.read_text() + f"\n[noise]\n{noise}\n")


def plan_of(project: Path) -> Plan:
    plan = confide.check(project / "spec.toml").plan
    assert plan is not None
    return plan


@pytest.mark.parametrize("kind", KINDS)
def test_any_noise_protects_the_same_programme_at_the_same_risk(bounded: Path, kind: str) -> None:
    add(bounded, f'law = "{kind}"')
    result = confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    loss = result.plan.loss
    assert isinstance(loss, ApproxDP)
    assert ApproxDP("15/2", 0) < loss <= ApproxDP(8, DELTA)  # what was asked for is used, and not exceeded
    assert {measure.law.name for measure in result.plan.measures} == {kind}
    largest = {m.bound.largest if m.bound else None for m in read_source(result.release).marginals}
    assert largest <= {measure.law.bound for measure in result.plan.measures}  # what an attacker makes of it
    assert (largest == {None}) == (kind not in BOUNDED)
    assert all(check.ok for check in confide.verify(result.release).checks)
    account = result.account
    assert account is not None
    assert (account.spent, account.spent_delta) == (loss.epsilon, loss.delta)
    assert read_plan(json.loads(json.dumps(result.plan.as_dict()))) == result.plan


@pytest.mark.parametrize("kind", BOUNDED)
def test_no_noise_passes_its_bound(bounded: Path, kind: str) -> None:
    add(bounded, f'law = "{kind}"\nvariance = 4\nbound = 6')
    text = (bounded / "spec.toml").read_text()
    (bounded / "spec.toml").write_text(text.replace('budget = "8"', 'budget = "500"').replace('"1e-6"', '"0.9"'))
    (bounded / "people.ledger").unlink()
    open_ledger(bounded, "500", "0.99")
    result = confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    table = pq.read_table(next((result.release / "tables").glob("sex.*parquet"))).to_pylist()
    blocks = [row for row in table if row["level"] == "block"]
    true = {}
    for row in pq.read_table(bounded / "persons.parquet").to_pylist():
        true[row["geocode"]] = true.get(row["geocode"], 0) + 1
    noise = [row["count"] - true.get(row["area"], 0) for row in blocks if row["sex"] == "_T"]
    assert max(map(abs, noise)) <= 6
    assert len(set(noise)) > 3


@pytest.mark.parametrize("kind", BOUNDED)
def test_a_wanted_variance_is_kept_and_its_price_follows(bounded: Path, kind: str) -> None:
    add(bounded, f'law = "{kind}"\nvariance = 100\nbound = 400')
    plan = plan_of(bounded)
    for measure in plan.measures:
        assert isinstance(measure.law, TruncatedDistribution)
        assert 99.9 < measure.law.variance() <= 100
    assert plan.loss <= ApproxDP(8, DELTA)


def test_a_wanted_margin_is_kept(bounded: Path) -> None:
    add(bounded, 'law = "truncated-discrete-gaussian"\nmargin = 12\nbound = 200')
    plan = plan_of(bounded)
    assert {measure.law.noise_margin("0.95") for measure in plan.measures} == {12}


def test_a_variance_can_be_asked_for_in_zcdp_too(project: Path) -> None:
    add(project, 'variance = "81"')
    plan = plan_of(project)
    assert plan.loss == sum((measure.loss for measure in plan.measures), start=ZCDP(0))
    assert plan.loss < ZCDP("1/2")
    assert all(80.9 < measure.law.variance() <= 81 for measure in plan.measures)


def test_noise_that_costs_more_than_the_budget_is_refused_and_nothing_is_spent(bounded: Path) -> None:
    add(bounded, 'law = "truncated-discrete-gaussian"\nvariance = 2\nbound = 200')
    with pytest.raises(RunError) as error:
        confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    assert "noise-too-small" in {finding.code for finding in error.value.findings}
    assert Ledger(bounded / "people.ledger").account().spent == 0


def test_a_bound_that_gives_away_too_much_is_refused(bounded: Path) -> None:
    add(bounded, 'law = "truncated-two-sided-geometric"\nbound = 3')
    codes = {finding.code for finding in confide.check(bounded / "spec.toml").errors}
    assert codes & {"noise-too-small", "delta-too-small"}


@pytest.mark.parametrize(
    ("noise", "code"),
    [
        ('law = "discrete-gaussian"\nbound = 4', "no-bound"),
        ('law = "truncated-discrete-gaussian"\nvariance = 4', "no-bound"),
        ('law = "truncated-discrete-gaussian"\nvariance = 4\nmargin = 3\nbound = 9', "noise-twice"),
    ],
)
def test_noise_that_cannot_be_is_refused(bounded: Path, noise: str, code: str) -> None:
    add(bounded, noise)
    with pytest.raises(SpecError) as error:
        api.load(bounded / "spec.toml")
    assert code in {finding.code for finding in error.value.findings}


def test_bounded_noise_wants_the_approximate_definition(project: Path) -> None:
    add(project, 'law = "truncated-discrete-gaussian"')
    with pytest.raises(SpecError) as error:
        api.load(project / "spec.toml")
    assert "law-of-definition" in {finding.code for finding in error.value.findings}


def test_a_ledger_without_a_delta_takes_no_bounded_noise(bounded: Path) -> None:
    (bounded / "people.ledger").unlink()
    Ledger.open_new(bounded / "people.ledger", data_set="p", definition="zcdp", neighbours="change-one", budget=9)
    findings = confide.check(bounded / "spec.toml").errors
    assert [finding.code for finding in findings] == ["ledger-definition"]


def test_a_zcdp_release_can_be_paid_from_an_approximate_ledger(project: Path) -> None:
    (project / "people.ledger").unlink()
    open_ledger(project, "20", "1e-5")
    checked = confide.check(project / "spec.toml")
    assert checked.errors == ()
    assert checked.cost is not None
    assert checked.cost.delta == Fraction(1, 10**10)
    assert float(checked.cost.amount) == pytest.approx(6.83933, abs=1e-5)  # epsilon of rho = 1/2 at 1e-10


def test_the_certificate_states_both_numbers(bounded: Path) -> None:
    add(bounded, 'law = "truncated-two-sided-geometric"')
    result = confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    manifest = json.loads((result.release / "manifest.json").read_text())
    page = api.MECHANISMS["tables"].documents(manifest)["certificate.html"]
    loss = result.plan.loss
    assert isinstance(loss, ApproxDP)
    assert f"<code>{loss.epsilon}</code>" in page
    assert f"<code>{loss.delta}</code>" in page
    assert "<b>δ = " in page
    assert "approximate differential privacy" in page


@pytest.mark.process
def test_one_process_and_two_draw_the_same_noise(bounded: Path) -> None:
    add(bounded, 'law = "truncated-discrete-gaussian"')
    tables = []
    for processes in (1, 2):
        result = confide.run(bounded / "spec.toml", insecure_key=KEY, processes=processes)
        tables.append({file.name: file.read_bytes() for file in (result.release / "tables").iterdir()})
        shutil.rmtree(bounded / "small")
        (bounded / "people.ledger").unlink()
        open_ledger(bounded, "10", "1e-5")
    assert tables[0] == tables[1]


def test_stopped_in_the_middle_it_goes_on_with_the_same_noise_for_one_charge(bounded: Path) -> None:
    add(bounded, 'law = "truncated-two-sided-geometric"')
    drawn = 0

    def failing(*arguments: object, **named: object) -> object:
        nonlocal drawn
        drawn += 1
        if drawn > 4:
            raise RuntimeError("the power went off")
        return perturb(*arguments, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "perturb", failing)
        with pytest.raises(RuntimeError, match="power"):
            confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    charged = Ledger(bounded / "people.ledger").account()
    assert charged.spent > 0
    whole = confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    assert whole.account is not None
    assert (whole.account.spent, whole.account.spent_delta) == (charged.spent, charged.spent_delta)
    tables = {file.name: file.read_bytes() for file in (whole.release / "tables").iterdir()}
    shutil.rmtree(bounded / "small")
    (bounded / "people.ledger").unlink()
    open_ledger(bounded, "10", "1e-5")
    again = confide.run(bounded / "spec.toml", insecure_key=KEY, processes=1)
    assert tables == {file.name: file.read_bytes() for file in (again.release / "tables").iterdir()}


class TestLedgerWithADelta:
    """The second number of the budget is kept as strictly as the first."""

    def reserve(self, ledger: Ledger, run: str, cost: str, delta: str) -> None:
        ledger.reserve(run, release=run, plan_hash="a" * 64, records_fingerprint="b" * 64, cost=cost, delta=delta)

    def opened(self, folder: Path) -> Ledger:
        return Ledger.open_new(
            folder / "l", data_set="d", definition="approximate", neighbours="change-one", budget=3, delta="1e-6"
        )

    def test_either_number_can_be_used_up(self, tmp_path: Path) -> None:
        ledger = self.opened(tmp_path)
        self.reserve(ledger, "one", "1", "9e-7")
        with pytest.raises(LedgerError, match="does not fit") as error:
            self.reserve(ledger, "two", "1", "2e-7")
        assert "1/10000000" in str(error.value)
        self.reserve(ledger, "three", "1", "1e-7")
        account = Ledger(tmp_path / "l").account()
        assert (account.left, account.left_delta) == (1, 0)
        ledger.void("three", "not made")
        assert ledger.account().left_delta == Fraction(1, 10**7)
        assert ledger.account().as_dict()["spent_delta"] == "9/10000000"

    def test_asked_again_with_another_delta_it_is_another_run(self, tmp_path: Path) -> None:
        ledger = self.opened(tmp_path)
        self.reserve(ledger, "one", "1", "1e-7")
        self.reserve(ledger, "one", "1", "1e-7")
        with pytest.raises(LedgerError, match="with another cost"):
            self.reserve(ledger, "one", "1", "2e-7")

    def test_a_ledger_of_one_number_takes_no_delta(self, tmp_path: Path) -> None:
        ledger = Ledger.open_new(tmp_path / "z", data_set="d", definition="zcdp", neighbours="change-one", budget=3)
        with pytest.raises(LedgerError, match="does not fit"):
            self.reserve(ledger, "one", "1", "1e-9")

    @pytest.mark.parametrize(("definition", "delta"), [("approximate", 0), ("zcdp", "1e-9"), ("approximate", 1)])
    def test_a_delta_belongs_to_approximate_ledgers(self, tmp_path: Path, definition: str, delta: str | int) -> None:
        with pytest.raises(ParameterError, match="delta"):
            Ledger.open_new(
                tmp_path / "x",
                data_set="d",
                definition=definition,  # type: ignore[arg-type]
                neighbours="change-one",
                budget=3,
                delta=delta,
            )
        assert not (tmp_path / "x").exists()

    def test_a_delta_of_zero_is_not_written(self, tmp_path: Path) -> None:
        ledger = Ledger.open_new(tmp_path / "z", data_set="d", definition="pure", neighbours="change-one", budget=3)
        self.reserve(ledger, "one", "1", "0")
        assert all("delta" not in str(entry.row()) for entry in ledger.history())
