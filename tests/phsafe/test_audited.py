"""`confide audit privacy` of PHSafe: made-up households that lose a child and whose unit becomes another."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from tests.contract.kit import EXAMPLES

from confide.lab.risk.privacy_audit import audit_privacy
from confide.mechanisms.phsafe import measure
from confide.noise import DiscreteGaussian


def office(folder: Path) -> Path:
    copied = shutil.copytree(EXAMPLES / "phsafe", folder / "office")
    for name in ("persons.csv", "units.csv"):
        (copied / name).unlink()
    return copied / "spec.toml"


@pytest.mark.statistical
def test_the_bound_is_below_the_price_without_a_record(tmp_path: Path) -> None:
    """The seed is fixed: nothing is left to chance."""
    answer = audit_privacy(office(tmp_path), runs=40, seed=1)
    assert not answer.exceeded
    assert 0 < answer.at_least["rho"] < answer.stated["rho"]
    assert answer.touched > 5


@pytest.mark.statistical
def test_noise_with_a_third_of_its_scale_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan states the price of noise that is three times as wide. The seed is fixed."""
    right = measure.perturb

    def narrow(truth, law, stream):  # type: ignore[no-untyped-def]
        parameter = law.parameter
        return right(truth, DiscreteGaussian(Fraction(parameter) / 9) if parameter > 1 else law, stream)

    monkeypatch.setattr(measure, "perturb", narrow)
    answer = audit_privacy(office(tmp_path), runs=60, seed=1)
    assert answer.exceeded
