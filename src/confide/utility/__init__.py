"""What a release is worth: its error, measured where the truth may be used."""

from confide.utility.metrics import (
    SIZE_CLASSES,
    ErrorSums,
    ErrorTally,
    LargestGroup,
    LargestGroups,
    add_tallies,
    by_size_class,
    error_sums,
    largest_group,
    tally,
    tally_by,
)
from confide.utility.over_keys import OverKeys, combine, over_keys

__all__ = [
    "SIZE_CLASSES",
    "ErrorSums",
    "ErrorTally",
    "LargestGroup",
    "LargestGroups",
    "OverKeys",
    "add_tallies",
    "by_size_class",
    "combine",
    "error_sums",
    "largest_group",
    "over_keys",
    "tally",
    "tally_by",
]
