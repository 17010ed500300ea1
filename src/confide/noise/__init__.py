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
* :mod:`~confide.noise.sample`, :mod:`~confide.noise.distributions`: why it is exact;
* :mod:`~confide.noise.sparse`: the published ones among many empty groups, with :mod:`~confide.noise.stream`.

Derivation: ``docs/proofs/noise.md``. For users: ``docs/concepts/noise.md``.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
