"""Exact integer noise that is a pure function of a secret key and a coordinate.

* :mod:`~confide.noise.distributions`: the two noise laws, with exact parameters, probabilities, quantiles and noise
  margins;
* :mod:`~confide.noise.stream`: the release key and the keyed streams of bits;
* :mod:`~confide.noise.sample`: draws in bulk, :func:`add_noise` in place;
* :mod:`~confide.noise.lookup_table`, :mod:`~confide.noise.enclosure`, :mod:`~confide.noise.enclosure`: why it is exact;
* :mod:`~confide.noise.sparse`: the published ones among many empty groups, with :mod:`~confide.noise.inversion`,
  :mod:`~confide.noise.sparse` and :mod:`~confide.noise.sparse`;
* :mod:`~confide.noise.bounded`, :mod:`~confide.noise.bounded`: noise with a bound, which has no pure or zCDP loss;
* :mod:`~confide.noise.release_noise`: all of them behind one interface, with their (epsilon, delta);
* :mod:`~confide.noise.sample`: the textbook samplers, oracle of the tests and sampler of very wide laws.

Derivation: ``docs/proofs/noise.md``. For users: ``docs/concepts/noise.md``.
"""

from confide.noise.bounded import BoundedLaw, FiniteLaw, Truncated, TruncatedGaussian, TruncatedGeometric
from confide.noise.distributions import DiscreteGaussian, Enclosure, Law, TwoSidedGeometric
from confide.noise.lookup_table import Table, fits_table, table_for
from confide.noise.release_noise import (
    CountNoise,
    EpsilonDelta,
    ReleaseNoise,
    any_of,
    beyond_mass,
    delta_bounds,
    epsilon_delta,
    law_from_dict,
    outside_mass,
    perturb,
)
from confide.noise.sample import Tally, add_noise, check_width, draw, draw_at
from confide.noise.sparse import LAYOUT as SPARSE_LAYOUT
from confide.noise.sparse import Survivors, TwoStageRule, draw_subset, draw_survivors, rank_to_place
from confide.noise.stream import COORDINATES, SAMPLER, NoiseStream, ReleaseKey, WordSource, derive_stream

__all__ = [
    "COORDINATES",
    "SAMPLER",
    "SPARSE_LAYOUT",
    "BoundedLaw",
    "CountNoise",
    "DiscreteGaussian",
    "Enclosure",
    "EpsilonDelta",
    "FiniteLaw",
    "Law",
    "NoiseStream",
    "ReleaseKey",
    "ReleaseNoise",
    "Survivors",
    "Table",
    "Tally",
    "Truncated",
    "TruncatedGaussian",
    "TruncatedGeometric",
    "TwoSidedGeometric",
    "TwoStageRule",
    "WordSource",
    "add_noise",
    "any_of",
    "beyond_mass",
    "check_width",
    "delta_bounds",
    "derive_stream",
    "draw",
    "draw_at",
    "draw_subset",
    "draw_survivors",
    "epsilon_delta",
    "fits_table",
    "law_from_dict",
    "outside_mass",
    "perturb",
    "rank_to_place",
    "table_for",
]
