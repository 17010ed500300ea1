"""What figures that are published without noise do to the promise of noisy ones (Ashmead et al. 2019)."""

from confide.risk.invariants.groups import Group, Mode, Situation, group_size, groups
from confide.risk.invariants.km11 import Chain, chain
from confide.risk.invariants.language import ANY, Attribute, Bound, Count, Grouping, Invariants, Never, Records
from confide.risk.invariants.modification import (
    Measured,
    Record,
    distinct_rho,
    exchange_rho,
    measured_by,
    rho_of_modification,
    worst_rho,
)
from confide.risk.invariants.reading import combine, load_invariants, parse_invariants
from confide.risk.invariants.single_record import Answer, Status, single_record
from confide.risk.invariants.statements import Concentrated, Loss, concentrated, explain

__all__ = [
    "ANY",
    "Answer",
    "Attribute",
    "Bound",
    "Chain",
    "Concentrated",
    "Count",
    "Group",
    "Grouping",
    "Invariants",
    "Loss",
    "Measured",
    "Mode",
    "Never",
    "Record",
    "Records",
    "Situation",
    "Status",
    "chain",
    "combine",
    "concentrated",
    "distinct_rho",
    "exchange_rho",
    "explain",
    "group_size",
    "groups",
    "load_invariants",
    "measured_by",
    "parse_invariants",
    "rho_of_modification",
    "single_record",
    "worst_rho",
]
