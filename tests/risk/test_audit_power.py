"""Every audit says what it would have found, and finds it: missing noise, half of it, draws that two counts share.

An audit that would not notice missing noise does not say that all is well.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from tests.kits.privacy_audit import FAULTS, plant, plant_fault, write_spec
from typer.testing import CliRunner

from confide.answers import NO_POWER, OK, WRONG
from confide.cli.main import app
from confide.inputs.made_up import MeasuredCells, RecordForm
from confide.lab.risk.privacy_audit import audit_canaries, audit_privacy
from confide.lab.risk.privacy_audit.canary_run import excluded, level_of_epsilon
from confide.lab.risk.privacy_audit.of_mechanisms import canary_places
from confide.lab.risk.privacy_audit.twin_loss import least_noticed, narrower_by
from confide.noise import DiscreteGaussian, FiniteDistribution, NoiseStream, TwoSidedGeometric, draw
from confide.releases.noise_audit import NoiseAudit, audit
from confide.releases.plan import Plan
from confide.releases.replay import Residuals
from confide.schema import Attribute, Group, Level, Recode, identity

EXAMPLES = Path(__file__).parents[1] / "contract" / "examples"
SMALL = {"tables": 60, "topdown": 40, "safetab": 10}


def spec_of(mechanism: str, folder: Path) -> Path:
    return write_spec(folder, "zcdp") if mechanism == "tables" else EXAMPLES / mechanism / "spec.toml"


# --- Audits from outside, for every accounted mechanism ---


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mechanism", SMALL)
def test_one_run_finds_every_fault(mechanism: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_fault(mechanism, monkeypatch, fault)
    answer = audit_canaries(spec_of(mechanism, tmp_path), canaries=SMALL[mechanism], seed=1)
    assert answer.verdict == WRONG, answer.as_dict()
    assert not answer.as_dict()["ok"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mechanism", SMALL)
def test_many_runs_find_every_fault(
    mechanism: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_fault(mechanism, monkeypatch, fault)
    answer = audit_privacy(spec_of(mechanism, tmp_path), runs=20, seed=1)
    assert answer.verdict == WRONG, answer.as_dict()


@pytest.mark.parametrize("mechanism", SMALL)
def test_right_code_passes_and_its_audit_has_power(mechanism: str, tmp_path: Path) -> None:
    answer = audit_canaries(spec_of(mechanism, tmp_path), canaries=SMALL[mechanism], seed=1)
    assert answer.verdict == OK, answer.as_dict()
    assert answer.power.missing
    assert answer.power.least is not None
    assert answer.own >= 1, "who has no count to itself has no coin"


@pytest.mark.parametrize("kind", ["pure", "truncated-gaussian", "geometric"])
def test_missing_noise_shows_in_the_guesses_alone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are guessed, so that missing noise is told by the bound, whatever the laws say of the draws."""
    plant_fault("tables", monkeypatch, "missing")
    answer = audit_canaries(write_spec(tmp_path, kind), canaries=60, seed=1)
    assert answer.guesses == answer.correct == answer.canaries
    assert answer.narrower_by > 1
    assert answer.whatever_the_noise["epsilon"] > answer.stated["epsilon"]


def _guesses_notice(answer: Any) -> bool:
    above = any(answer.whatever_the_noise[name] > answer.stated[name] for name in answer.stated)
    return bool(answer.narrower_by > 1 or above)


def test_the_stated_power_of_guesses_is_what_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault of the stated size is found in nine of ten audits: of 8 in 5 at least (a probability of 0.995). One of
    a third of that size is not found as often, or the stated one is not the least."""
    spec = write_spec(tmp_path, "zcdp")
    power = audit_canaries(spec, canaries=60, seed=1).power
    words = power.words
    percent = float(words.split("less than ")[1].split(" %")[0])
    factor = Fraction(100) / Fraction(str(percent))
    with monkeypatch.context() as patch:
        plant("tables", patch, 1 / factor)
        found = sum(_guesses_notice(audit_canaries(spec, canaries=60, seed=seed)) for seed in range(8))
    assert found >= 5
    with monkeypatch.context() as patch:
        plant("tables", patch, 3 / factor)
        seldom = sum(_guesses_notice(audit_canaries(spec, canaries=60, seed=seed)) for seed in range(4))
    assert seldom <= 3


def test_the_stated_power_of_many_runs_is_what_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_spec(tmp_path, "zcdp")
    words = audit_privacy(spec, runs=60, seed=1).power.words
    percent = float(words.split("less than ")[1].split(" %")[0])
    plant("tables", monkeypatch, Fraction(str(percent)) / 100)
    found = sum(_guesses_notice(audit_privacy(spec, runs=60, seed=seed)) for seed in range(12))
    assert found >= 8  # of nine in ten: a probability of 0.995


def test_an_audit_without_power_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten canaries, and no draws to hold against their laws: no verdict, and exit code 1."""
    empty = audit({"none": (Plan.without_loss("tables", {}), [])})
    monkeypatch.setattr("confide.lab.risk.privacy_audit.bench.Bench.noise_audit", lambda self, **trials: empty)
    spec = write_spec(tmp_path, "zcdp")
    text = spec.read_text().replace('budget = "1/10"', 'budget = "20"')
    spec.write_text(text)
    shown = CliRunner().invoke(app, ["audit", "privacy", str(spec), "--canaries", "10", "--seed", "1", "--json"])
    assert shown.exit_code == 1
    plain = json.loads(shown.output)
    assert (plain["ok"], plain["verdict"], plain["power"]["finds_missing"]) == (False, NO_POWER, False)
    words = " ".join(plain["in_words"])
    assert "No verdict." in words
    assert "not have noticed even missing noise" in words
    assert "does not exceed" not in words


def test_a_test_that_is_hardly_better_than_chance_says_something() -> None:
    """Power a little above the level: the factor is that of the Gaussian formula, and never zero."""
    normal = NormalDist()
    for level, power in ((0.1, 0.11), (0.1, 0.15), (0.1, 0.19), (0.4, 0.45), (0.02, 0.03)):
        mu = normal.inv_cdf(power) - normal.inv_cdf(level)
        assert narrower_by({(DiscreteGaussian(100), 20): 1}, power, level) == pytest.approx(mu / 2, rel=0.02, abs=2e-3)
    assert narrower_by({(DiscreteGaussian(100), 20): 1}, 0.1, 0.1) == 0


def test_the_choice_of_how_many_are_guessed_is_paid_for() -> None:
    """Two numbers of guesses, one release: alarms of a mechanism at its stated epsilon stay below 5 %."""
    from confide.lab.risk.privacy_audit.canary_run import GUESSED, _excluded, _right

    random, number, epsilon = np.random.default_rng(11), 60, 1.0
    level, chance, alarms = level_of_epsilon(epsilon), math.e / (1 + math.e), 0
    for _ in range(400):
        coins = random.integers(0, 2, number).astype(bool)
        # Randomised response; ratios are as good as they can be, and some a little better known than others.
        right = random.random(number) < chance
        ratios = np.where(right == coins, 1.0, -1.0) * (1 + random.random(number))
        alarms += _excluded(level, number, _right(ratios, coins), 0.05 / len(GUESSED))
    assert alarms <= 20 + 4 * math.sqrt(400 * 0.05 * 0.95)
    assert any(excluded(level, number, number, v, 0.025) for v in range(number))


def test_each_number_of_guesses_has_its_part_of_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together no more than 5 %: what an audit asks of the bound is asked at half of it."""
    from confide.lab.risk.privacy_audit import canary_run

    asked: list[float] = []
    real = canary_run.excluded
    monkeypatch.setattr(
        canary_run,
        "excluded",
        lambda *question: asked.append(question[-1]) or real(*question),  # type: ignore[func-returns-value]
    )
    audit_canaries(write_spec(tmp_path, "zcdp"), canaries=20, seed=1)
    assert asked
    assert sum({0.05 / len(canary_run.GUESSED)}) * len(canary_run.GUESSED) == pytest.approx(0.05)
    assert max(asked) <= 0.05 / len(canary_run.GUESSED) * (1 + 1e-12)


def test_the_least_factor_is_searched_for() -> None:
    assert least_noticed(lambda factor, random: factor >= 3) == 3
    assert least_noticed(lambda factor, random: math.isinf(factor)) == math.inf
    assert least_noticed(lambda factor, random: False) is None
    assert least_noticed(lambda factor, random: factor >= 2 and random.random() < 0.8) is None


# --- Canaries are placed by what is measured ---


@pytest.mark.parametrize("seed", range(30))
def test_every_canary_has_a_measured_count_to_itself(seed: int) -> None:
    random = np.random.default_rng(seed)
    attributes = tuple(
        Attribute(name, name, tuple(Level(f"{name}{n}", f"{n}") for n in range(random.integers(2, 7))))
        for name in "абв"
    )

    def coarse(attribute: Attribute) -> Recode:
        return identity(attribute) if random.random() < 0.5 else _halves(attribute)

    blocks = [f"b{n}" for n in range(random.integers(4, 12))]
    measured = [
        MeasuredCells(
            random.integers(-1 if level else 0, 3, len(blocks)) if level < 2 else np.arange(len(blocks)),
            tuple(coarse(attribute) for attribute in attributes if random.random() < 0.6),
        )
        for level in range(3)
    ]
    form = RecordForm(attributes, block="b", blocks=blocks, measured=measured)
    room = max(each.units * each.cells for each in measured)
    number = int(random.integers(1, room + 1))
    places = canary_places(form, number)
    assert len(places) == number

    def owned(each: MeasuredCells) -> bool:
        counts = set()
        for place in places:
            unit = int(each.unit[blocks.index(place["b"])])
            groups = [int(v.assignment[v.attribute.index[place[v.attribute.name]]]) for v in each.variables]
            counts.add((unit, *groups))
        return len(counts) == number and all(count[0] >= 0 for count in counts)

    enough = [each for each in measured if each.units * each.cells >= number]
    assert owned(min(enough, key=lambda each: each.units * each.cells))


def _halves(attribute: Attribute) -> Recode:
    codes = [level.code for level in attribute.levels]
    half = len(codes) // 2
    groups = (Group("one", tuple(codes[:half])), Group("two", tuple(codes[half:])))
    return Recode(f"{attribute.name}:halves", attribute, groups)


# --- The noise audit ---


LAWS: dict[str, Any] = {
    "gaussian": DiscreteGaussian(40),
    "small": DiscreteGaussian(1),
    "geometric": TwoSidedGeometric(Fraction(1, 4)),
    "listed": FiniteDistribution((-2, -1, 0, 1, 2), tuple(Fraction(n, 10) for n in (1, 2, 4, 2, 1))),
}


def audited(law: Any, noise: Any) -> NoiseAudit:
    return audit({"study": (Plan.without_loss("study", {}), [Residuals("block", "age", noise, (law,), "measured")])})


def drawn(law: Any, size: int) -> Any:
    if isinstance(law, FiniteDistribution):
        chances = [float(p) for p in law.probabilities]
        return np.random.default_rng(5).choice(law.values, size, p=chances)
    return draw(law, NoiseStream.fresh("study"), 0, size)


@pytest.mark.parametrize("name", LAWS)
def test_the_noise_audit_finds_every_fault_that_it_says_it_finds(name: str) -> None:
    law, size = LAWS[name], 6_000
    right = audited(law, drawn(law, size).reshape(-1, 4))
    assert right.verdict == OK
    assert right.power.missing
    shared = drawn(law, size)
    shared[1::2] = shared[::2]
    for noise in (np.zeros(size, np.int64), drawn(law, size) // 2, shared):
        assert audited(law, noise.reshape(-1, 4)).verdict == WRONG


@pytest.mark.parametrize("name", LAWS)
def test_few_draws_are_no_verdict_and_enough_are_one(name: str) -> None:
    """Whether missing noise would show is worked out from the draws that there are, and is true of just those."""
    law = LAWS[name]
    verdicts = []
    for size in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        noise = drawn(law, size).reshape(-1, 1)
        missing = audited(law, np.zeros((size, 1), np.int64))
        answer = audited(law, noise)
        assert answer.finds_missing == any(not check.ok for check in missing.checks[:4])
        verdicts.append(answer.verdict)
    assert verdicts[0] == NO_POWER
    assert verdicts[-1] == OK
    assert verdicts == sorted(verdicts, key=[NO_POWER, OK].index)


# --- Suppressed tables ---


def test_a_table_without_suppressed_cells_is_not_called_safe(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("area,count,status\n_T,10,p\nN,3,p\nS,7,p\n")
    (tmp_path / "jobs.toml").write_text('[variables.area]\n[[tables]]\nstatus = "status"\nhidden = 0\n')
    shown = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path / "jobs.csv"), "--json"])
    plain = json.loads(shown.stdout)
    assert (shown.exit_code, plain["ok"], plain["verdict"]) == (1, False, NO_POWER)
    assert plain["suppressed"] == 0


def test_a_suppressed_table_is_judged_as_far_as_it_says(tmp_path: Path) -> None:
    """One hidden cell follows from its total: found. Two do not: nothing is known, and the audit would have seen it."""
    for hidden, verdict in ((1, WRONG), (2, OK)):
        rows = ["_T,10,p", "N,3,p", *(f"{area},,c" for area in "SW"[:hidden])]
        rows += ["W,1,p"] if hidden == 1 else []
        (tmp_path / "jobs.csv").write_text("\n".join(["area,count,status", *rows]) + "\n")
        shown = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path / "jobs.csv"), "--json"])
        plain = json.loads(shown.stdout)
        assert (plain["verdict"], plain["power"]["finds_missing"]) == (verdict, True)
        assert "no interval that is merely too narrow" in plain["power"]["in_words"]
