"""Privacy definitions, accounting and what the numbers mean. Pure: no records, no files, no noise is drawn here."""

from confide.privacy.accountant import Accountant, Loss, price
from confide.privacy.calibration import (
    Distribution,
    gaussian_loss,
    gaussian_sigma2,
    geometric_epsilon,
    geometric_loss,
    geometric_zcdp_loss,
)
from confide.privacy.conversion import (
    bun_steinke_epsilon,
    cks_delta,
    cks_epsilon,
    cks_rho,
    gaussian_limit_delta,
    gaussian_limit_epsilon,
    to_approximate,
)
from confide.privacy.definitions import (
    ZCDP,
    ApproxDP,
    Definition,
    Neighbours,
    PrivacyLoss,
    PureDP,
    loss_from_dict,
)
from confide.privacy.events import (
    BoundedDegree,
    Event,
    Measurement,
    Parallel,
    Sequential,
    TruncatedMeasurement,
    event_from_dict,
)
from confide.privacy.moves import event_epsilon_bracket
from confide.privacy.pld import Bracket, NoisyCells, delta_bracket, epsilon_bracket, noisy_cells
from confide.privacy.sensitivity import Sensitivity, bounded_degree, partition_marginal
from confide.privacy.statements import Statement, factor, rounded_up, statements

__all__ = [
    "ZCDP",
    "Accountant",
    "ApproxDP",
    "BoundedDegree",
    "Bracket",
    "Definition",
    "Distribution",
    "Event",
    "Loss",
    "Measurement",
    "Neighbours",
    "NoisyCells",
    "Parallel",
    "PrivacyLoss",
    "PureDP",
    "Sensitivity",
    "Sequential",
    "Statement",
    "TruncatedMeasurement",
    "bounded_degree",
    "bun_steinke_epsilon",
    "cks_delta",
    "cks_epsilon",
    "cks_rho",
    "delta_bracket",
    "epsilon_bracket",
    "event_epsilon_bracket",
    "event_from_dict",
    "factor",
    "gaussian_limit_delta",
    "gaussian_limit_epsilon",
    "gaussian_loss",
    "gaussian_sigma2",
    "geometric_epsilon",
    "geometric_loss",
    "geometric_zcdp_loss",
    "loss_from_dict",
    "noisy_cells",
    "partition_marginal",
    "price",
    "rounded_up",
    "statements",
    "to_approximate",
]
