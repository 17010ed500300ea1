"""The audit from outside: its mathematics against closed forms, right code below its price, wrong scales caught.

Keys follow from a seed, so every audit here gives the same numbers each time. For right code a bound above the stated
loss has a probability of at most 5 %; the seeds are the first that were tried.
"""

from __future__ import annotations

import json
import math
import shutil
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.kit import EXAMPLES
from tests.kits.privacy_audit import KINDS, narrower, plant, write_spec
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError, RunError
from confide.lab.risk.privacy_audit import audit_privacy
from confide.lab.risk.privacy_audit.twin_loss import TwinLoss, narrower_by, share_bounds
from confide.mechanisms.tables import mechanism as tables_mechanism
from confide.noise import DiscreteGaussian, TruncatedGaussian, TruncatedGeometric, TwoSidedGeometric, delta_bounds

NORMAL = NormalDist()


# The mathematics


@settings(max_examples=40)
@given(st.integers(20, 400), st.integers(1, 40), st.floats(0.02, 0.4), st.integers(1, 5))
def test_gaussian_noise_has_the_closed_form(sigma2: int, gap: int, level: float, number: int) -> None:
    """R(α) = Φ(Φ⁻¹(α) + μ), of the rounded law; rounding is the only difference."""
    mu = gap * math.sqrt(number / sigma2)
    if mu > 6:
        return
    loss = TwinLoss.of({(DiscreteGaussian(sigma2), gap, 1.0): number})
    assert loss.power(level) == pytest.approx(NORMAL.cdf(NORMAL.inv_cdf(level) + mu), abs=2e-3)
    assert loss.error() == pytest.approx(NORMAL.cdf(-mu / 2), abs=2e-3)


@pytest.mark.parametrize(
    "law",
    [DiscreteGaussian(3), TwoSidedGeometric("1/3"), TruncatedGaussian(3, 6), TruncatedGeometric("1/2", 8)],
    ids=lambda law: law.name,
)
def test_delta_is_that_of_the_noise(law: Any) -> None:
    """One count that differs by one: δ(ε) of the exact laws; on the grid it is above, and hardly."""
    loss = TwinLoss.of({(law, 1, 1.0): 1})
    for delta in (0.2, 0.05, 0.01):
        epsilon = loss.epsilon(delta)
        if math.isinf(epsilon):
            assert float(delta_bounds(law, 100)[0]) > delta
            continue
        assert float(delta_bounds(law, Fraction(epsilon))[1]) <= delta + 1e-9
        if epsilon > 0.02:
            assert float(delta_bounds(law, Fraction(epsilon) - Fraction(1, 50))[0]) >= delta - 1e-9


def test_geometric_noise_of_many_counts_is_the_convolution_of_its_losses() -> None:
    """Four counts that differ by two, by brute force over all outcomes."""
    a, gap = 0.4, 2
    noise = np.arange(-60, 61)
    mass = np.exp(-a * np.abs(noise))
    single = dict.fromkeys(np.round(a * (np.abs(noise + gap) - np.abs(noise)), 9), 0.0)
    for loss, weight in zip(np.round(a * (np.abs(noise + gap) - np.abs(noise)), 9), mass / mass.sum(), strict=True):
        single[loss] += weight
    summed = {0.0: 1.0}
    for _ in range(4):
        together: dict[float, float] = {}
        for one, p in summed.items():
            for other, q in single.items():
                at = round(one + other, 9)
                together[at] = together.get(at, 0.0) + p * q
        summed = together
    computed = TwinLoss.of({(TwoSidedGeometric("2/5"), gap, 1.0): 4})
    for threshold in (-1.0, 0.05, 0.7, 1.9):
        right = sum(p for loss, p in summed.items() if loss > threshold)
        false = sum(p * math.exp(-loss) for loss, p in summed.items() if loss > threshold)
        assert right <= computed.power(false) + 1e-9
        assert computed.power(false) == pytest.approx(right, abs=3e-3)


def test_shares_are_covered() -> None:
    """Clopper & Pearson by the sum of binomial probabilities."""
    least, most = share_bounds(7, 40, 0.025)

    def tail(p: float, times: range) -> float:
        return sum(math.comb(40, k) * p**k * (1 - p) ** (40 - k) for k in times)

    assert tail(least, range(7, 41)) == pytest.approx(0.025, rel=1e-6)
    assert tail(most, range(8)) == pytest.approx(0.025, rel=1e-6)
    assert share_bounds(40, 40, 0.025)[1] == 1.0


def test_the_factor_is_found() -> None:
    """Noise that is c times narrower reaches R_c(α), and c comes back; without an error of sampling."""
    for law in (DiscreteGaussian(50), TwoSidedGeometric("1/5"), TruncatedGeometric("1/5", 60)):
        for factor in (0.8, 1.0, 1.4):
            power = TwinLoss.of({(law, 9, factor): 3}).power(0.1)
            assert narrower_by({(law, 9): 3}, power, 0.1) == pytest.approx(factor, abs=2e-3)
    assert narrower_by({(DiscreteGaussian(50), 9): 3}, 0.2, 0.3) == 0.0


# Right code, and a scale that is 30 % too small


def test_the_bound_of_right_code_is_below_its_price_and_near_it(tmp_path: Path) -> None:
    answer = audit_privacy(write_spec(tmp_path, "zcdp"), runs=150, seed=1)
    assert not answer.exceeded
    assert 0.5 * answer.stated["rho"] < answer.at_least["rho"] < answer.stated["rho"] == 0.1
    assert 0 < answer.whatever_the_noise["rho"] < answer.at_least["rho"]
    assert answer.touched == 4
    assert sorted(file.name for file in tmp_path.iterdir()) == ["blocks.csv", "schema.toml", "spec.toml"]


@pytest.mark.parametrize("kind", ["zcdp", "pure", "truncated-geometric"])
def test_a_scale_that_is_too_small_is_caught(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant("tables", monkeypatch)
    answer = audit_privacy(write_spec(tmp_path, kind), runs=250, seed=1)
    assert answer.exceeded
    assert answer.at_least["epsilon"] > answer.stated["epsilon"]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("margins", ["none", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_law_of_tables(
    tmp_path: Path, kind: str, margins: str, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wrong:
        plant("tables", monkeypatch)
    answer = audit_privacy(write_spec(tmp_path, kind, margins), seed=1)
    assert answer.exceeded == wrong, answer.as_dict()
    if not wrong:
        assert answer.at_least["epsilon"] > 0.3 * answer.stated["epsilon"]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("mechanism", ["tables", "topdown", "safetab"])
def test_every_accounted_mechanism(
    tmp_path: Path, mechanism: str, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of each mechanism, without its records: they are not looked for."""
    shutil.copytree(EXAMPLES / mechanism, tmp_path / "copy")
    for file in (tmp_path / "copy").glob("person*"):
        file.unlink()
    if wrong:
        plant(mechanism, monkeypatch)
    answer = audit_privacy(tmp_path / "copy" / "spec.toml", seed=1)
    assert answer.exceeded == wrong, answer.as_dict()
    assert answer.at_least["rho"] > answer.stated["rho"] / 2
    assert (answer.at_least["rho"] > answer.stated["rho"]) == wrong


def test_noise_that_is_too_wide_is_no_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scale that is 30 % too large is a mistake, but gives nothing away: the bound is lower, and that is all."""
    spec = write_spec(tmp_path, "zcdp")
    right = audit_privacy(spec, runs=100, seed=1)
    plant("tables", monkeypatch, Fraction(13, 10))
    wide = audit_privacy(spec, runs=100, seed=1)
    assert not wide.exceeded
    assert wide.at_least["rho"] < right.at_least["rho"]


@pytest.mark.slow
def test_false_alarms_are_rarer_than_stated(tmp_path: Path) -> None:
    """Sixty audits of right code: at 5 % each, ten or more alarms have a probability of 0.1 %."""
    spec = write_spec(tmp_path, "zcdp")
    alarms = sum(audit_privacy(spec, runs=40, seed=seed).exceeded for seed in range(60))
    assert alarms < 10


def test_one_wrong_scale_among_many_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tables_mechanism.MeasurePart.__call__

    def wrong(self: Any, first: int, rows: Any) -> Any:
        margins = tuple(
            margin
            if margin.cells != 2
            else tables_mechanism.MeasuredMargin(
                margin.summed_axes, margin.cells, narrower(margin.law, Fraction(1, 2)), margin.stream
            )
            for margin in self.margins
        )
        return real(tables_mechanism.MeasurePart(self.shape, self.units, self.units_per_part, margins), first, rows)

    monkeypatch.setattr(tables_mechanism.MeasurePart, "__call__", wrong)
    answer = audit_privacy(write_spec(tmp_path, "zcdp", "all"), runs=150, by_measurement=True, seed=1)
    assert {part.query for part in answer.too_narrow} == {"people/sex"}
    assert {part.level for part in answer.too_narrow} == {"county", "block"}
    assert len(answer.measurements) == 8


def test_a_record_that_counts_twice_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and price are right; the counts are not: everybody is counted twice."""
    real = tables_mechanism.dense_counts
    monkeypatch.setattr(tables_mechanism, "dense_counts", lambda *given: 2 * real(*given))
    answer = audit_privacy(write_spec(tmp_path, "zcdp"), runs=100, seed=1)
    assert answer.exceeded
    assert answer.at_least["rho"] > 2 * answer.stated["rho"]


def test_noise_that_follows_no_plan_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise in the plan the same question has one answer; noise from elsewhere gives it two."""
    real, more = tables_mechanism.perturb, iter(range(10**6))
    monkeypatch.setattr(tables_mechanism, "perturb", lambda *given, **named: real(*given, **named) + next(more))
    with pytest.raises(RunError, match="does not follow the plan"):
        audit_privacy(write_spec(tmp_path, "zcdp"), runs=20, seed=1)


def test_a_price_that_is_too_low_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The accountant is not asked: a plan that leaves out half of its price does not make the noise wider."""
    from confide.privacy import ZCDP
    from confide.releases.plan import Plan

    monkeypatch.setattr(Plan, "loss", property(lambda _: ZCDP("1/30")))
    assert audit_privacy(write_spec(tmp_path, "zcdp"), runs=100, seed=1).exceeded


# The command


def test_the_command_says_it_in_words_and_in_json(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "zcdp")
    shown = CliRunner().invoke(app, ["audit", "privacy", str(spec), "--runs", "20", "--seed", "1"])
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.output.split())
    assert "The empirical bound does not exceed the stated loss." in words
    assert "the guarantee rests on its proof" in words
    plain = CliRunner().invoke(app, ["audit", "privacy", str(spec), "--runs", "20", "--seed", "1", "--json"])
    answer = confide.audit_privacy(spec, runs=20, seed=1)
    assert json.loads(plain.output) == json.loads(json.dumps(answer.as_dict()))
    assert "<table>" in answer._repr_html_()


@pytest.mark.parametrize("mechanism", ["cellkey", "swapping", "suppression", "postprocess"])
def test_a_mechanism_without_a_loss_says_why(mechanism: str) -> None:
    with pytest.raises(ConfideError) as refusal:
        audit_privacy(EXAMPLES / mechanism / "spec.toml")
    (finding,) = refusal.value.findings
    assert finding.code == "no-loss"
    assert mechanism in finding.found
    assert ("the run that measured" in finding.remedy) == (mechanism == "postprocess")


def test_too_few_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfideError, match="show nothing"):
        audit_privacy(write_spec(tmp_path, "zcdp"), runs=3)
