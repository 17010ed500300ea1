"""Exact integer noise that is a pure function of a secret key and a coordinate.

>>> import numpy as np
>>> from confide.noise import DiscreteGaussian, NoiseStream, perturb
>>> noise = DiscreteGaussian("2.5")                      # P(X = x) proportional to exp(-x**2 / (2 * 2.5)); exact
>>> noise.noise_margin("0.95"), round(noise.variance(), 6)
(3, 2.5)
>>> perturb(np.array([120, 0, 7]), noise, NoiseStream.fresh("my study"))   # the same for the same words
array([119,  -2,   7])

* :mod:`~confide.noise.distributions`: the two distributions without a bound, with exact parameters, probabilities,
  quantiles and noise margins; :mod:`~confide.noise.bounded`: those with a bound;
* :mod:`~confide.noise.max_entropy`: noise of largest entropy, which is the truncated discrete Gaussian and the row of a
  perturbation table; :mod:`~confide.noise.ptables`: such tables; :mod:`~confide.noise.fitting`: noise of a wanted size;
* :mod:`~confide.noise.release_noise`: all of them behind one interface, with their (epsilon, delta);
* :mod:`~confide.noise.stream`: the release key and the keyed streams of bits;
* :mod:`~confide.noise.sample`: draws in bulk, :func:`add_noise` in place; and the textbook samplers, oracle of the
  tests and sampler of very wide distributions;
* :mod:`~confide.noise.sample`, :mod:`~confide.noise.enclosure`: why it is exact;
* :mod:`~confide.noise.sparse`: the published ones among many empty groups, with :mod:`~confide.noise.stream`.

Derivation: ``docs/proofs/noise.md``. For users: ``docs/concepts/noise.md``.
"""

from confide.noise.bounded import BoundedDistribution as BoundedDistribution
from confide.noise.bounded import FiniteDistribution as FiniteDistribution
from confide.noise.bounded import TruncatedDistribution as TruncatedDistribution
from confide.noise.bounded import TruncatedGaussian as TruncatedGaussian
from confide.noise.bounded import TruncatedGeometric as TruncatedGeometric
from confide.noise.distributions import Bounds as Bounds
from confide.noise.distributions import DiscreteGaussian as DiscreteGaussian
from confide.noise.distributions import NoiseDistribution as NoiseDistribution
from confide.noise.distributions import TwoSidedGeometric as TwoSidedGeometric
from confide.noise.release_noise import CountNoise as CountNoise
from confide.noise.release_noise import EpsilonDelta as EpsilonDelta
from confide.noise.release_noise import ReleaseNoise as ReleaseNoise
from confide.noise.release_noise import any_of as any_of
from confide.noise.release_noise import beyond_mass as beyond_mass
from confide.noise.release_noise import delta_bounds as delta_bounds
from confide.noise.release_noise import distribution_from_dict as distribution_from_dict
from confide.noise.release_noise import epsilon_delta as epsilon_delta
from confide.noise.release_noise import outside_mass as outside_mass
from confide.noise.release_noise import perturb as perturb
from confide.noise.sample import LookupTable as LookupTable
from confide.noise.sample import Tally as Tally
from confide.noise.sample import add_noise as add_noise
from confide.noise.sample import check_width as check_width
from confide.noise.sample import draw as draw
from confide.noise.sample import draw_at as draw_at
from confide.noise.sample import fits_table as fits_table
from confide.noise.sample import table_for as table_for
from confide.noise.sparse import SPARSE_LAYOUT as SPARSE_LAYOUT
from confide.noise.sparse import Survivors as Survivors
from confide.noise.sparse import TwoStageRule as TwoStageRule
from confide.noise.sparse import draw_subset as draw_subset
from confide.noise.sparse import draw_survivors as draw_survivors
from confide.noise.sparse import rank_to_place as rank_to_place
from confide.noise.stream import COORDINATES as COORDINATES
from confide.noise.stream import SAMPLER as SAMPLER
from confide.noise.stream import NoiseStream as NoiseStream
from confide.noise.stream import ReleaseKey as ReleaseKey
from confide.noise.stream import WordSource as WordSource
from confide.noise.stream import derive_stream as derive_stream
