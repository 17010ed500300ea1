"""What bounded noise gives away in static programmes, and attacks to try it (Bach 2020).

F. Bach, *Differential privacy and noisy confidentiality concepts for European population statistics* (2020). Nothing
here reads records; attacks run on published numbers. Start with :mod:`confide.risk.bounded_noise.region`, which puts
all limits together.
"""

from __future__ import annotations

from confide.risk.bounded_noise.averaging import (
    Count,
    Mean,
    Optimum,
    Representations,
    Single,
    representations,
    riskiest,
    triples,
)
from confide.risk.bounded_noise.averaging_attack import Averaged, Representation, average, chosen_representations
from confide.risk.bounded_noise.bound import BoundRisk, bound_risk, largest_protected_variance
from confide.risk.bounded_noise.bound_attack import BoundAttack, attack_bound, estimate_bound
from confide.risk.bounded_noise.programme import Programme, Rule, load_programme
from confide.risk.bounded_noise.region import Question, Region
from confide.risk.bounded_noise.rows import NoiseRow, row_of, symmetric_row
from confide.risk.bounded_noise.small_areas import distortions, epsilon_for_bound
from confide.risk.bounded_noise.success import Model, laplace_epsilon, success_probability, variance_needed

__all__ = [
    "Averaged",
    "BoundAttack",
    "BoundRisk",
    "Count",
    "Mean",
    "Model",
    "NoiseRow",
    "Optimum",
    "Programme",
    "Question",
    "Region",
    "Representation",
    "Representations",
    "Rule",
    "Single",
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
