"""Exact integer noise that is a pure function of a secret key and a coordinate.

* :mod:`~confide.noise.laws`: the two noise laws, with exact parameters, probabilities, quantiles and noise margins;
* :mod:`~confide.noise.stream`: the release key and the keyed streams of bits;
* :mod:`~confide.noise.sample`: draws in bulk, :func:`add_noise` in place;
* :mod:`~confide.noise.table`, :mod:`~confide.noise.enclosure`, :mod:`~confide.noise.gaussian_sums`: why it is exact;
* :mod:`~confide.noise.sparse`: the published ones among many empty groups, with :mod:`~confide.noise.inversion`,
  :mod:`~confide.noise.binomial` and :mod:`~confide.noise.subset`;
* :mod:`~confide.noise.reference`: the textbook samplers, oracle of the tests and sampler of very wide laws.

Derivation: ``docs/proofs/noise.md``. For users: ``docs/concepts/noise.md``.
"""

from confide.noise.laws import DiscreteGaussian, Enclosure, Law, TwoSidedGeometric
from confide.noise.sample import Tally, add_noise, check_width, draw, draw_at
from confide.noise.sparse import LAYOUT as SPARSE_LAYOUT
from confide.noise.sparse import Survivors, TwoStageRule, draw_survivors
from confide.noise.stream import COORDINATES, SAMPLER, NoiseStream, ReleaseKey, WordSource, derive_stream
from confide.noise.subset import draw_subset, rank_to_place
from confide.noise.table import Table, fits_table, table_for

__all__ = [
    "COORDINATES",
    "SAMPLER",
    "SPARSE_LAYOUT",
    "DiscreteGaussian",
    "Enclosure",
    "Law",
    "NoiseStream",
    "ReleaseKey",
    "Survivors",
    "Table",
    "Tally",
    "TwoSidedGeometric",
    "TwoStageRule",
    "WordSource",
    "add_noise",
    "check_width",
    "derive_stream",
    "draw",
    "draw_at",
    "draw_subset",
    "draw_survivors",
    "fits_table",
    "rank_to_place",
    "table_for",
]
