"""A small spec of each kind of noise for audits from outside, and scales that are too small."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from confide.mechanisms.safetab import measure as safetab_measure
from confide.mechanisms.tables import mechanism as tables_mechanism
from confide.mechanisms.topdown import measure as topdown_measure
from confide.noise import DiscreteGaussian, TruncatedGaussian, TruncatedGeometric, TwoSidedGeometric

SCHEMA = """id = "few"
provenance = "Made up for a test."
[attributes.sex]
levels = [["m", "m"], ["f", "f"]]
[attributes.age]
range = [0, 9]
"""
SPEC = """[release]
name = "few"
mechanism = "tables"
[data]
records = "not-there.csv"
blocks = "blocks.csv"
schema = "schema.toml"
[[geography.levels]]
name = "county"
digits = 1
[privacy]
ledger = "not-there.ledger"
definition = "{definition}"
neighbours = "{neighbours}"
budget = "{budget}"
delta = "1e-6"
{noise}
[[tables]]
name = "people"
variables = ["sex", "age"]
levels = ["county", "block"]
margins = "{margins}"
"""
KINDS = {
    "zcdp": ("zcdp", "change-one", "1/10", ""),
    "zcdp-add": ("zcdp", "add-remove", "1/1000", ""),
    "pure": ("pure", "change-one", "1/2", ""),
    "truncated-geometric": ("approximate", "change-one", "1", ""),
    "truncated-gaussian": ("approximate", "add-remove", "1", '[noise]\nlaw = "truncated-discrete-gaussian"'),
    "geometric": ("approximate", "change-one", "1/2", '[noise]\nlaw = "two-sided-geometric"'),
    "gaussian": ("approximate", "change-one", "1", '[noise]\nlaw = "discrete-gaussian"'),
}


def write_spec(folder: Path, kind: str, margins: str = "none") -> Path:
    definition, neighbours, budget, noise = KINDS[kind]
    (folder / "blocks.csv").write_text("geocode\n" + "\n".join(f"{c}{b}" for c in range(3) for b in range(4)) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    text = SPEC.format(definition=definition, neighbours=neighbours, budget=budget, noise=noise, margins=margins)
    (folder / "spec.toml").write_text(text)
    return folder / "spec.toml"


def narrower(law: Any, by: Fraction = Fraction(7, 10)) -> Any:
    """The same law with a scale that is too small."""
    match law:
        case DiscreteGaussian():
            return DiscreteGaussian(law.sigma2 * by**2)
        case TwoSidedGeometric():
            return TwoSidedGeometric(law.epsilon / by)
        case TruncatedGaussian():
            return TruncatedGaussian(law.parameter * by**2, law.bound)
        case _:
            return TruncatedGeometric(law.parameter / by, law.bound)


def plant(mechanism: str, patch: pytest.MonkeyPatch, by: Fraction = Fraction(7, 10)) -> None:
    """The scale 30 % too small where truth and noise meet, or by more; plan and price stay right."""
    if mechanism == "tables":
        real = vars(tables_mechanism)["perturb"]
        patch.setattr(
            tables_mechanism,
            "perturb",
            lambda counts, law, stream, start=0: real(counts, narrower(law, by), stream, start),
        )
    elif mechanism == "topdown":
        drawn = vars(topdown_measure)["draw_at"]
        patch.setattr(topdown_measure, "draw_at", lambda law, *where: drawn(narrower(law, by), *where))
    else:
        noise = safetab_measure.noise_at
        patch.setattr(safetab_measure, "noise_at", lambda law, *where: noise(narrower(law, by), *where))


FAULTS = ("missing", "half", "shared")


def plant_fault(mechanism: str, patch: pytest.MonkeyPatch, fault: str) -> None:
    """No noise, half of its scale, or one draw for two counts where truth and noise meet; the plan stays right."""
    if fault == "half":
        plant(mechanism, patch, Fraction(1, 2))
        return

    def wrong(noise: np.ndarray) -> np.ndarray:
        flat = np.array(noise).ravel()
        if fault == "missing":
            return np.zeros_like(noise)
        flat[1::2] = flat[: len(flat) - 1 : 2]
        return flat.reshape(np.shape(noise))

    if mechanism == "tables":
        real = vars(tables_mechanism)["perturb"]
        patch.setattr(
            tables_mechanism,
            "perturb",
            lambda counts, law, stream, start=0: counts + wrong(real(np.zeros_like(counts), law, stream, start)),
        )
    elif mechanism == "topdown":
        drawn = vars(topdown_measure)["draw_at"]
        patch.setattr(topdown_measure, "draw_at", lambda law, *where: wrong(drawn(law, *where)))
    else:
        noise_at = safetab_measure.noise_at
        patch.setattr(safetab_measure, "noise_at", lambda law, *where: wrong(noise_at(law, *where)))
