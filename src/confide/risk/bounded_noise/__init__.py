"""What bounded noise gives away in static programmes, and attacks to try it (Bach 2020).

F. Bach, *Differential privacy and noisy confidentiality concepts for European population statistics* (2020). Nothing
here reads records; attacks run on published numbers. Start with :mod:`confide.risk.bounded_noise.withstanding`,
which puts all limits together; the questions of a user are in :mod:`confide.risk.bounded_noise.programme_risks`.

>>> bound_risk(5, 2).m > 1_000_000
True
"""

from __future__ import annotations

from confide.noise.max_entropy import NoiseRow
from confide.risk.bounded_noise.averaging import (
    AveragingEstimate,
    CountingScheme,
    Mean,
    Optimum,
    Representation,
    Representations,
    Single,
    average,
    chosen_representations,
    representations,
    riskiest,
    triples,
)
from confide.risk.bounded_noise.bound import (
    BoundAttack,
    BoundRisk,
    attack_bound,
    bound_risk,
    estimate_bound,
    largest_protected_variance,
)
from confide.risk.bounded_noise.noise_rows import (
    Model,
    distortions,
    epsilon_for_bound,
    laplace_epsilon,
    row_of,
    success_probability,
    symmetric_row,
    variance_needed,
)
from confide.risk.bounded_noise.static_programme import BreakdownRule, StaticProgramme, load_programme
from confide.risk.bounded_noise.withstanding import ProtectedRegion, RegionQuestion

__all__ = [
    "AveragingEstimate",
    "BoundAttack",
    "BoundRisk",
    "BreakdownRule",
    "CountingScheme",
    "Mean",
    "Model",
    "NoiseRow",
    "Optimum",
    "ProtectedRegion",
    "RegionQuestion",
    "Representation",
    "Representations",
    "Single",
    "StaticProgramme",
    "attack_bound",
    "average",
    "bound_risk",
    "chosen_representations",
    "distortions",
    "epsilon_for_bound",
    "estimate_bound",
    "laplace_epsilon",
    "largest_protected_variance",
    "load_programme",
    "representations",
    "riskiest",
    "row_of",
    "success_probability",
    "symmetric_row",
    "triples",
    "variance_needed",
]
