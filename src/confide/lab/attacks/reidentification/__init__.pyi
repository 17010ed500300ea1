from confide.lab.attacks.reidentification.baselines import RankedMatches as RankedMatches
from confide.lab.attacks.reidentification.baselines import match_rates as match_rates
from confide.lab.attacks.reidentification.baselines import modal_guesser as modal_guesser
from confide.lab.attacks.reidentification.baselines import proportional_guesser as proportional_guesser
from confide.lab.attacks.reidentification.baselines import (
    proportional_guesser_as_printed as proportional_guesser_as_printed,
)
from confide.lab.attacks.reidentification.baselines import (
    proportional_guesser_of_others as proportional_guesser_of_others,
)
from confide.lab.attacks.reidentification.from_files import reidentify_files as reidentify_files
from confide.lab.attacks.reidentification.linking import Agreement as Agreement
from confide.lab.attacks.reidentification.linking import LinkageRates as LinkageRates
from confide.lab.attacks.reidentification.linking import size_labels as size_labels
from confide.lab.attacks.reidentification.matching import Matches as Matches
from confide.lab.attacks.reidentification.matching import match as match
from confide.lab.attacks.reidentification.people_files import UNITED_STATES as UNITED_STATES
from confide.lab.attacks.reidentification.people_files import AgeBins as AgeBins
from confide.lab.attacks.reidentification.people_files import AttackerSettings as AttackerSettings
from confide.lab.attacks.reidentification.people_files import LinkedAttributes as LinkedAttributes
from confide.lab.attacks.reidentification.people_files import Role as Role
from confide.lab.attacks.reidentification.people_files import attacker_settings as attacker_settings
from confide.lab.attacks.reidentification.people_files import linked_attributes as linked_attributes
from confide.lab.attacks.reidentification.people_files import load_age_bins as load_age_bins
from confide.lab.attacks.reidentification.people_files import make_attacker as make_attacker
from confide.lab.attacks.reidentification.people_files import parse_attacker as parse_attacker
from confide.lab.attacks.reidentification.people_files import parse_columns as parse_columns
from confide.lab.attacks.reidentification.people_files import read_people as read_people
from confide.lab.attacks.reidentification.people_files import with_person_ids as with_person_ids
from confide.lab.attacks.reidentification.rates import DivideBy as DivideBy
from confide.lab.attacks.reidentification.rates import GuessFrom as GuessFrom
from confide.lab.attacks.reidentification.rates import Rates as Rates
from confide.lab.attacks.reidentification.rates import Reidentification as Reidentification
from confide.lab.attacks.reidentification.rates import reidentification_rates as reidentification_rates
from confide.lab.attacks.reidentification.rates import reidentify as reidentify
