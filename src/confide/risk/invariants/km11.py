"""The example in which invariants give everybody away (Kifer & Machanavajjhala 2011; Ashmead et al. 2019, section 5).

n numbers R_1, …, R_n between 0 and k. Each is published with Laplace noise of scale k/ε, which is ε-differentially
private; and all sums R_i + R_{i+1} are published exactly. Then R_1 = s_j ± R_j for every j, with known s_j, so there
are n independent unbiased estimates of R_1, each of variance 2k²/ε², and their mean has the variance 2k²/(nε²). This
remains so if R_1 itself is replaced before the noise is added: the mean square error is at most k²/n² + 2k²/(nε²). So
one record cannot be hidden, and the group that would have to be replaced is everybody: a factor of exp(2nε).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from confide.exact import Exact, positive
from confide.privacy.sensitivity import whole

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """``n`` records with values up to ``k``, each noisy at ``epsilon``, with all sums of neighbours exact."""

    n: int
    k: Fraction
    epsilon: Fraction

    @property
    def single_variance(self) -> Fraction:
        """2k²/ε²: of one noisy value."""
        return 2 * self.k**2 / self.epsilon**2

    @property
    def mean_variance(self) -> Fraction:
        """2k²/(nε²): of the mean of the n estimates."""
        return self.single_variance / self.n

    @property
    def counterfactual_error(self) -> Fraction:
        """k²/n² + 2k²/(nε²): at most the mean square error if the first record was replaced before noise was added."""
        return self.k**2 / self.n**2 + self.mean_variance

    @property
    def median_variance(self) -> Fraction:
        """k²/(nε²): of the sample median, for large n; 1/(4n f(0)²) with the Laplace density f(0) = ε/(2k)."""
        return self.k**2 / (self.n * self.epsilon**2)

    @property
    def group(self) -> int:
        """The smallest group: a change of one record forces one of every other, so everybody."""
        return self.n

    @property
    def multiplier(self) -> int:
        """The multiple of ε in the exponent of the bound."""
        return 2 * self.group


def chain(n: int, k: Exact, epsilon: Exact) -> Chain:
    """The example for given n, k and ε."""
    return Chain(whole(n, "n"), positive(k, "k"), positive(epsilon, "epsilon"))


def estimates(noisy: Floats, sums: Floats) -> Floats:
    """The estimates of the first value: one from every noisy value, along the last axis.

    With s_1 = 0 and s_{j+1} = s_j + (−1)^{j+1}(R_j + R_{j+1}), R_1 = s_j + (−1)^{j+1} R_j.
    """
    signs = np.where(np.arange(noisy.shape[-1]) % 2 == 0, 1.0, -1.0)
    start = np.zeros((*sums.shape[:-1], 1))
    offsets = np.concatenate([start, np.cumsum(signs[:-1] * sums, axis=-1)], axis=-1)
    return np.asarray(offsets + signs * noisy, np.float64)
