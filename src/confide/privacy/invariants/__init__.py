"""What figures that are published without noise do to the promise of noisy ones (Ashmead et al. 2019)."""

from confide.privacy.invariants.group_statements import (
    Concentrated,
    Loss,
    Measured,
    Record,
    concentrated,
    distinct_rho,
    exchange_rho,
    explain,
    measured_by,
    rho_of_modification,
    worst_rho,
)
from confide.privacy.invariants.groups import Group, Mode, Situation, group_size, groups
from confide.privacy.invariants.language import ANY, Attribute, Bound, Count, Grouping, Invariants, Never, Records
from confide.privacy.invariants.single_record import Answer, Status, single_record

__all__ = [
    "ANY",
    "Answer",
    "Attribute",
    "Bound",
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
    "concentrated",
    "distinct_rho",
    "exchange_rho",
    "explain",
    "group_size",
    "groups",
    "measured_by",
    "rho_of_modification",
    "single_record",
    "worst_rho",
]
