"""Exact integer noise that is a pure function of a secret key and a coordinate.

* :mod:`~confide.noise.laws`: the two noise laws, with exact parameters, probabilities, quantiles and noise margins;
* :mod:`~confide.noise.stream`: the release key and the keyed streams of bits;
* :mod:`~confide.noise.sample`: draws in bulk, :func:`add_noise` in place;
* :mod:`~confide.noise.table`, :mod:`~confide.noise.enclosure`, :mod:`~confide.noise.gaussian_sums`: why it is exact;
* :mod:`~confide.noise.reference`: the textbook samplers, oracle of the tests and sampler of very wide laws.

Derivation: ``docs/proofs/noise.md``. For users: ``docs/concepts/noise.md``.
"""

from confide.noise.laws import DiscreteGaussian, Enclosure, Law, TwoSidedGeometric
from confide.noise.sample import Tally, add_noise, check_width, draw, draw_at
from confide.noise.stream import COORDINATES, SAMPLER, NoiseStream, ReleaseKey, WordSource, derive_stream
from confide.noise.table import Table, fits_table, table_for

__all__ = [
    "COORDINATES",
    "SAMPLER",
    "DiscreteGaussian",
    "Enclosure",
    "Law",
    "NoiseStream",
    "ReleaseKey",
    "Table",
    "Tally",
    "TwoSidedGeometric",
    "WordSource",
    "add_noise",
    "check_width",
    "derive_stream",
    "draw",
    "draw_at",
    "fits_table",
    "table_for",
]
