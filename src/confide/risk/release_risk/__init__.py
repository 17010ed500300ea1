"""The risk of a whole release of the TopDown algorithm, from its plan and public files.

* :mod:`~confide.risk.release_risk.released_plan`: plan, strategy and spine of a sealed release;
* :mod:`~confide.risk.release_risk.released_plan`: the effective rho of every count, by generalised least squares;
* :mod:`~confide.risk.release_risk.report`: what it does to beliefs, small published counts, where protection is least,
  and all of it together.

Derivations: ``docs/proofs/release-risk.md``. For users: ``docs/concepts/release-risk.md``.
"""

from __future__ import annotations

from confide.risk.release_risk.released_plan import (
    EffectiveRho,
    LevelRho,
    ReleasedPlan,
    open_release,
    rho_from_covariance,
)
from confide.risk.release_risk.report import (
    PRIORS,
    PublishedRecords,
    ReleaseRisk,
    expected_posterior,
    least_protected,
    release_risk,
)

__all__ = [
    "PRIORS",
    "EffectiveRho",
    "LevelRho",
    "PublishedRecords",
    "ReleaseRisk",
    "ReleasedPlan",
    "expected_posterior",
    "least_protected",
    "open_release",
    "release_risk",
    "rho_from_covariance",
]
