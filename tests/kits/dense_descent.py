"""What the errors of a descent with own evidence are, by matrices of all cells: an oracle for small problems.

Every unit is estimated by least squares from its own measurements, given that it adds up to its parent:
E_c = ε_c + C_c (Σ C)⁻¹ (E_u − Σ ε), whatever the covariances C_c are. An only child is its parent.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from confide.arrays import Floats
from confide.mechanisms.topdown.figure_noise import variance_of
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import law_of


class DenseDescent:
    """The errors of all blocks, as sums of independent ones: those of the units by themselves."""

    def __init__(self, problem: TopDownProblem):
        self._problem = problem
        self._own: list[Floats] = []
        """The covariance that a unit would have by itself."""
        above: list[dict[int, Floats]] = []
        for place, level in enumerate(problem.spine.levels):
            alone = [self._alone(place, unit) for unit in range(level.units)]
            if not place:
                above = [{self._noted(alone[0]): np.eye(problem.cells)}]
                continue
            errors: list[dict[int, Floats]] = [{} for _ in range(level.units)]
            for parent, error in enumerate(above):
                children = np.flatnonzero(level.parent == parent).tolist()
                if len(children) == 1:
                    errors[children[0]] = error
                    continue
                together = np.linalg.pinv(sum(alone[child] for child in children))
                names = {child: self._noted(alone[child]) for child in children}
                for child in children:
                    part = alone[child] @ together
                    of_child = {name: part @ matrix for name, matrix in error.items()}
                    of_child |= {name: (other == child) * np.eye(len(part)) - part for other, name in names.items()}
                    errors[child] = of_child
            above = errors
        self._blocks = above

    def variances(self, query: str, blocks: Iterable[int]) -> Floats:
        """The variance of each cell of a query in some blocks of the spine together."""
        summed: dict[int, Floats] = {}
        for block in blocks:
            for name, matrix in self._blocks[block].items():
                summed[name] = summed.get(name, 0) + matrix
        asked = self._matrix(query)
        covariance = sum(matrix @ self._own[name] @ matrix.T for name, matrix in summed.items())
        return np.asarray(np.diag(asked @ covariance @ asked.T))

    def _noted(self, covariance: Floats) -> int:
        self._own.append(covariance)
        return len(self._own) - 1

    def _alone(self, place: int, unit: int) -> Floats:
        strategy, level = self._problem.levels()[place]
        share = level.shares[unit]
        information = np.zeros((self._problem.cells, self._problem.cells))
        for query in strategy.queries if share else ():
            asked = self._matrix(query.name)
            information += asked.T @ asked / variance_of(law_of(self._problem.strategy, strategy, query, share))
        return np.asarray(np.linalg.pinv(information))

    def _matrix(self, query: str) -> Floats:
        """Which cells of the histogram each cell of a query adds up."""
        groups = self._problem.groups(query)
        matrix = np.zeros((int(groups.max()) + 1, len(groups)))
        matrix[groups, np.arange(len(groups))] = 1
        return matrix
