"""The risk of a whole release of the TopDown algorithm, from its plan and public files.

* :mod:`~confide.risk.releases.reading`: plan, strategy and spine of a sealed release;
* :mod:`~confide.risk.releases.effective`: the effective rho of every count, by generalised least squares;
* :mod:`~confide.risk.releases.posterior`: what it does to beliefs;
* :mod:`~confide.risk.releases.published`: small published counts, and where protection is least;
* :mod:`~confide.risk.releases.report`: all of it together.

Derivations: ``docs/proofs/release-risk.md``. For users: ``docs/concepts/release-risk.md``.
"""

from __future__ import annotations

from confide.risk.releases.effective import Effective, LevelEffective, rho_from_covariance
from confide.risk.releases.posterior import expected_posterior
from confide.risk.releases.published import Published, least_protected
from confide.risk.releases.reading import ReadRelease, open_release
from confide.risk.releases.report import PRIORS, ReleaseRisk, release_risk

__all__ = [
    "PRIORS",
    "Effective",
    "LevelEffective",
    "Published",
    "ReadRelease",
    "ReleaseRisk",
    "expected_posterior",
    "least_protected",
    "open_release",
    "release_risk",
    "rho_from_covariance",
]
