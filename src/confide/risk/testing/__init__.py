"""What someone who tests one hypothesis about a record against another can find out: the guarantee as curves.

J. M. Abowd & M. B. Hawes, *Confidentiality protection in the 2020 US Census of Population and Housing* (2023), sections
4, 5 and 7, with L. Wasserman & S. Zhou (2010), B. Balle et al. (2020) and J. Dong, A. Roth & W. J. Su (2022). Nothing
here reads records. Start with :mod:`confide.risk.testing.curve`; the question of a user is :func:`confide.risk.curve`.

>>> f"{zcdp_power('2.56', '0.05'):.4f} {gaussian_power('2.56', '0.05'):.4f}"
'0.9343 0.7317'
"""

from __future__ import annotations

from confide.risk.testing.curve import (
    DifferenceKind,
    EpsilonPoint,
    GuaranteePart,
    PowerPoint,
    epsilon_curve,
    parts_of,
    power_curve,
)
from confide.risk.testing.level_power import (
    PosteriorFactor,
    approximate_power,
    gaussian_power,
    posterior_factor,
    pure_power,
)
from confide.risk.testing.loss_test import LossTest, zcdp_power
from confide.risk.testing.trade_off import (
    advantage,
    bayes_risk,
    gaussian_advantage,
    gaussian_trade_off,
    pure_advantage,
    pure_trade_off,
    zcdp_advantage,
    zcdp_trade_off,
)

__all__ = [
    "DifferenceKind",
    "EpsilonPoint",
    "GuaranteePart",
    "LossTest",
    "PosteriorFactor",
    "PowerPoint",
    "advantage",
    "approximate_power",
    "bayes_risk",
    "epsilon_curve",
    "gaussian_advantage",
    "gaussian_power",
    "gaussian_trade_off",
    "parts_of",
    "posterior_factor",
    "power_curve",
    "pure_advantage",
    "pure_power",
    "pure_trade_off",
    "zcdp_advantage",
    "zcdp_power",
    "zcdp_trade_off",
]
