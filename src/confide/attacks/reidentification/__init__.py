"""Re-identification: from reconstructed records, and a file of people one knows, to what they keep to themselves
(in the United States: their race and ethnicity).

Start with :mod:`confide.attacks.reidentification.rates`, which does all of it; what the words mean is in
:mod:`confide.attacks.reidentification.linking` and in ``docs/concepts/reidentification.md``.
"""

from __future__ import annotations

from confide.attacks.reidentification.attacker_file import (
    AttackerSettings,
    attacker_settings,
    make_attacker,
    parse_attacker,
    with_person_ids,
)
from confide.attacks.reidentification.baselines import (
    RankedMatches,
    match_rates,
    modal_guesser,
    proportional_guesser,
    proportional_guesser_as_printed,
    proportional_guesser_of_others,
)
from confide.attacks.reidentification.columns import AgeBins, load_age_bins
from confide.attacks.reidentification.from_files import reidentify_files
from confide.attacks.reidentification.linking import Agreement, LinkageRates, size_labels
from confide.attacks.reidentification.matching import Matches, match
from confide.attacks.reidentification.people_files import (
    UNITED_STATES,
    LinkedAttributes,
    Role,
    linked_attributes,
    parse_columns,
    read_people,
)
from confide.attacks.reidentification.rates import (
    DivideBy,
    GuessFrom,
    Rates,
    Reidentification,
    reidentification_rates,
    reidentify,
)

__all__ = [
    "UNITED_STATES",
    "AgeBins",
    "Agreement",
    "AttackerSettings",
    "DivideBy",
    "GuessFrom",
    "LinkageRates",
    "LinkedAttributes",
    "Matches",
    "RankedMatches",
    "Rates",
    "Reidentification",
    "Role",
    "attacker_settings",
    "linked_attributes",
    "load_age_bins",
    "make_attacker",
    "match",
    "match_rates",
    "modal_guesser",
    "parse_attacker",
    "parse_columns",
    "proportional_guesser",
    "proportional_guesser_as_printed",
    "proportional_guesser_of_others",
    "read_people",
    "reidentification_rates",
    "reidentify",
    "reidentify_files",
    "size_labels",
    "with_person_ids",
]
