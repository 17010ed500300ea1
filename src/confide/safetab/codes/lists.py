"""Code lists as the mechanism uses them: iterations by number, and for every code the iterations it counts in.

A *characteristic iteration* is a race or ethnicity group: of a race alone, of a race alone or in any combination, or of
an ethnicity; regional (level 1) or detailed (level 2). Major races (level 0) are never tabulated and not kept here.

=========== ================================ ==========================================
iteration   in the nation and states (large) in counties, tracts, places, AIANNH areas
=========== ================================ ==========================================
common      yes                              yes
total-only  a total and nothing else         no
coarse-only no                               yes
=========== ================================ ==========================================

Reference: Haney et al. 2024, section 3; the files' flags ``DETAILED_ONLY`` and ``COARSE_ONLY``.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from confide.errors import Finding, ParameterError
from confide.safetab.settings import ITERATION_LEVELS

IterationKind = Literal["race-alone", "race-combination", "ethnicity"]
KINDS: tuple[IterationKind, ...] = ("race-alone", "race-combination", "ethnicity")
LEVELS = tuple(ITERATION_LEVELS)
NONE = -1
"""Stands for no iteration where a number of one is expected."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """A characteristic iteration of level 1 or 2."""

    code: str
    name: str
    level: int
    kind: IterationKind
    total_only: bool
    coarse_only: bool

    def tabulated(self, *, large: bool) -> bool:
        """Whether it is tabulated in large regions (nation, states), or in the others."""
        return not (self.coarse_only if large else self.total_only)


@dataclass(frozen=True, eq=False)
class CodeLists:
    """The codes, the iterations of levels 1 and 2, and the map between them. Make it with :meth:`build`.

    ``codes`` and ``iterations`` are sorted by code, and a position in them is the number of the code or iteration
    everywhere. ``table[kind, level, region, code]`` is the number of the one iteration of that kind and level that
    the code counts in, in large regions (0) or in others (1), or :data:`NONE`. That there is at most one is a rule of
    the official files; :mod:`~confide.safetab.codes.stability` rests on it, and the form of the table enforces it.
    """

    codes: tuple[str, ...]
    names: Mapping[str, str]
    iterations: tuple[Iteration, ...]
    table: npt.NDArray[np.int64]
    fingerprint: str

    @classmethod
    def build(
        cls, names: Mapping[str, str], iterations: Iterable[Iteration], pairs: Iterable[tuple[str, str]]
    ) -> CodeLists:
        """Code lists of codes with their names, iterations, and pairs (iteration code, race or ethnicity code)."""
        codes = tuple(sorted(names))
        ordered = tuple(sorted(iterations, key=lambda iteration: iteration.code))
        number_of = {iteration.code: number for number, iteration in enumerate(ordered)}
        code_number = {code: number for number, code in enumerate(codes)}
        table = np.full((len(KINDS), len(LEVELS), 2, len(codes)), NONE, dtype=np.int64)
        if len(number_of) != len(ordered):
            raise _invalid("two iterations have the same code")
        for iteration_code, code in pairs:
            if iteration_code not in number_of or code not in code_number:
                raise _invalid("a pair names an iteration or a code that is not listed")
            number, at = number_of[iteration_code], code_number[code]
            iteration = ordered[number]
            for region, large in enumerate((True, False)):
                if not iteration.tabulated(large=large):
                    continue
                slot = (KINDS.index(iteration.kind), LEVELS.index(iteration.level), region, at)
                if table[slot] not in (NONE, number):
                    raise _invalid("a code counts in two iterations of the same kind and level in the same regions")
                table[slot] = number
        table.setflags(write=False)
        return cls(codes, MappingProxyType(dict(names)), ordered, table, _fingerprint(codes, ordered, table))

    def groups(self, kind: IterationKind, level: int, *, large: bool) -> npt.NDArray[np.int64]:
        """For every code the number of the iteration of this kind and level that it counts in, or :data:`NONE`."""
        groups: npt.NDArray[np.int64] = self.table[KINDS.index(kind), LEVELS.index(level), 0 if large else 1]
        return groups

    def kept(self, level: int, *, large: bool) -> npt.NDArray[np.int64]:
        """The numbers of the iterations of a level that are tabulated in large regions, or in others; sorted."""
        numbers = [
            number
            for number, iteration in enumerate(self.iterations)
            if iteration.level == level and iteration.tabulated(large=large)
        ]
        return np.array(numbers, dtype=np.int64)

    def alone_pairs(self) -> npt.NDArray[np.int64]:
        """Pairs (alone, alone or in any combination) of iterations of the same race group, one in each row; sorted.

        The same group means the same level and the same set of codes, which must not be empty; nothing is taken from
        names. Two iterations are a pair only if some region tabulates both. Where an iteration has two partners, one
        is total-only and the other coarse-only, since no code counts twice in the same region: within a region the
        partner is unique.
        """
        members: dict[int, list[int]] = defaultdict(list)
        for number, code in _pairs(self.table).tolist():
            members[number].append(code)
        in_combination: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
        for number, codes in members.items():
            if self.iterations[number].kind == "race-combination":
                in_combination[self.iterations[number].level, tuple(codes)].append(number)
        pairs = [
            (number, other)
            for number, codes in members.items()
            if self.iterations[number].kind == "race-alone"
            for other in in_combination.get((self.iterations[number].level, tuple(codes)), ())
            if self._meet(number, other)
        ]
        return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)

    def _meet(self, one: int, other: int) -> bool:
        """Whether some region tabulates both iterations."""
        first, second = self.iterations[one], self.iterations[other]
        return any(first.tabulated(large=large) and second.tabulated(large=large) for large in (True, False))


def _invalid(what: str) -> ParameterError:
    return ParameterError(Finding("codes.invalid", what, remedy="check the lists with read_code_lists first"))


def _pairs(table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The distinct pairs (iteration, code) of a table, sorted."""
    flat = table.reshape(-1, table.shape[-1])
    row, code = np.nonzero(flat != NONE)
    pairs: npt.NDArray[np.int64] = np.unique(np.column_stack([flat[row, code], code]), axis=0)
    return pairs


def _fingerprint(codes: tuple[str, ...], iterations: tuple[Iteration, ...], table: npt.NDArray[np.int64]) -> str:
    """SHA-256 of the codes, the iterations with their names and the pairs, whatever the order of rows was.

    The names of codes are not in it: no figure and no label of a release depends on them.
    """
    digest = hashlib.sha256(b"confide/code-lists/v1")
    texts = [str(len(codes)), *codes, str(len(iterations))]
    for item in iterations:
        texts += [item.code, item.name, str(item.level), item.kind, str(item.total_only), str(item.coarse_only)]
    for text in texts:
        digest.update(len(text.encode()).to_bytes(4, "big") + text.encode())
    digest.update(_pairs(table).astype("<i8").tobytes())
    return digest.hexdigest()
