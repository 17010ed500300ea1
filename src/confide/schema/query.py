"""Queries: marginals of recodes. Each histogram cell adds to at most one cell of the answer, with coefficient one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import prod

from confide.schema.recode import NO_GROUP, Recode

TOTAL = "total"
"""The name of the query without variables, which counts everybody."""


@dataclass(frozen=True)
class Query:
    """The cross-classification of some recodes, cells in C order (the last variable runs fastest)."""

    variables: tuple[Recode, ...]

    @property
    def name(self) -> str:
        """``hispanic*cenrace``, or ``total`` for the query without variables."""
        return "*".join(variable.name for variable in self.variables) or TOTAL

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each variable."""
        return tuple(variable.size for variable in self.variables)

    @property
    def cells(self) -> int:
        """The number of cells of the answer."""
        return prod(self.shape)

    def margins(self) -> Iterable[Query]:
        """All sub-queries, itself first and the total last: the power set P(A) of Bach (2021), Eq. 6."""
        for kept in range(len(self.variables), -1, -1):
            for subset in combinations(self.variables, kept):
                yield Query(subset)

    @property
    def is_complete(self) -> bool:
        """Whether every record falls into some cell."""
        return all((variable.assignment != NO_GROUP).all() for variable in self.variables)
