"""Solution variability: how different a block's records could be, given the same tables.

For a solution x of a block of N people, with h its histogram over the cells that block tables tell apart,

    solvar = 100 · max over solutions x' of ‖h(x) − h(x')‖₁ / (2 N) ,

the largest share of people, in per cent, whom another solution has otherwise. **Zero means that the solution is the
only one.** Both histograms have N people, so that ‖h − h'‖₁ = 2 (N − Σ min(h_i, h'_i)): Σ min is minimised, and only
cells with h_i > 0 take part, at most N of them. With the upper bound u_i of a cell,

- if u_i ≤ h_i, min(h_i, h'_i) is h'_i itself;
- if h_i = 1, it is a binary z with h'_i ≤ u_i z;
- otherwise it is m with m ≥ h_i z and m ≥ h'_i − u_i z.

Derivation: ``docs/proofs/reconstruction.md``, 2. The measure is that of the Census Bureau's experiment (Abowd and
others, 2025, supplement, section 4). As there, tables of coarser levels are kept as *at most*, which can only enlarge
the variability: zero still proves uniqueness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from confide.attacks.reconstruction.marginals import Floats, Integers
from confide.attacks.reconstruction.propagation import Reduced
from confide.attacks.reconstruction.solving import Answer, minimise

VariabilityStatus = Literal["proven", "time limit"]
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Variability:
    """The solution variability of a block in per cent.

    ``proven``: it is ``at_most``, and ``at_least`` the same. ``time limit``: it lies between the two.
    """

    status: VariabilityStatus
    at_least: float
    at_most: float

    @property
    def unique(self) -> bool:
        """Whether it is proven that there is no other solution."""
        return self.at_most == 0.0


UNIQUE = Variability("proven", 0.0, 0.0)


def variability(histogram: Integers, left: Reduced, seconds: float) -> Variability:
    """The solution variability of a block whose solution is ``histogram``, one count for each variable."""
    people = int(histogram.sum())
    if left.determined or not people:
        return UNIQUE
    fixed = people - int(histogram[left.free].sum())
    answer = _least_in_common(histogram[left.free].astype(float), left, seconds)
    in_common = people if answer.values is None else fixed + round(answer.objective)
    fewest = fixed + max(0, int(np.ceil(answer.bound - _TOLERANCE))) if np.isfinite(answer.bound) else fixed
    fewest = in_common if answer.status == "solved" else min(fewest, in_common)
    status: VariabilityStatus = "proven" if fewest == in_common else "time limit"
    return Variability(status, _share(people - in_common, people), _share(people - fewest, people))


def _share(different: int, people: int) -> float:
    return 100.0 * different / people


def _least_in_common(here: Floats, left: Reduced, seconds: float) -> Answer:
    """Minimises Σ min(h_i, h'_i) over the free variables."""
    size = len(left.free)
    low, high = left.lower[left.free], left.upper[left.free]
    direct = (here > 0) & (high <= here)
    single = np.flatnonzero((here == 1) & ~direct)
    several = np.flatnonzero((here > 1) & ~direct)
    ones, many = len(single), len(several)
    cost = np.concatenate([direct.astype(float), np.ones(ones), np.zeros(many), np.ones(many)])
    lower = np.concatenate([low, np.zeros(ones + many), np.minimum(low[several], here[several])])
    upper = np.concatenate([high, np.ones(ones + many), here[several]])
    whole = np.concatenate([np.ones(size + ones + many), np.zeros(many)])

    def pick(which: Integers, value: Any) -> Any:
        return sparse.csr_array(
            (np.broadcast_to(value, len(which)), (np.arange(len(which)), which)), (len(which), size)
        )

    def diagonal(values: Floats) -> Any:
        return sparse.diags_array(values, format="csr")

    def nothing(rows: int, columns: int) -> Any:
        return sparse.csr_array((rows, columns))

    rows = left.matrix.shape[0]
    parts = [
        sparse.hstack([left.matrix, nothing(rows, ones + 2 * many)]),
        sparse.hstack([pick(single, 1.0), diagonal(-high[single]), nothing(ones, 2 * many)]),
        sparse.hstack([nothing(many, size + ones), diagonal(here[several]), diagonal(-np.ones(many))]),
        sparse.hstack([pick(several, 1.0), nothing(many, ones), diagonal(-high[several]), diagonal(-np.ones(many))]),
    ]
    matrix = sparse.vstack(parts, format="csc")
    extra = ones + 2 * many
    least = np.concatenate([left.least, np.full(extra, -np.inf)])
    most = np.concatenate([left.most, np.zeros(extra)])
    return minimise(cost, matrix, least, most, lower, upper, whole, seconds)
