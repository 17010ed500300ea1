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
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import CONFIDENTIAL, InputError, ParameterError, Place
from confide.mechanisms.safetab.settings import ITERATION_LEVELS, LARGE_REGIONS, MOST_RACE_CODES
from confide.schema import TOTAL_CODE

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
    the official files; :mod:`~confide.mechanisms.safetab.codes` rests on it, and the form of the table
    enforces it.
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
            raise ParameterError("codes.invalid/two-iterations-same")
        for iteration_code, code in pairs:
            if iteration_code not in number_of or code not in code_number:
                raise ParameterError("codes.invalid/pair")
            number, at = number_of[iteration_code], code_number[code]
            iteration = ordered[number]
            for region, large in enumerate((True, False)):
                if not iteration.tabulated(large=large):
                    continue
                slot = (KINDS.index(iteration.kind), LEVELS.index(iteration.level), region, at)
                if table[slot] not in (NONE, number):
                    raise ParameterError("codes.invalid/counts")
                table[slot] = number
        table.setflags(write=False)
        return cls(codes, MappingProxyType(dict(names)), ordered, table, _fingerprint(codes, ordered, table))

    def groups(self, kind: IterationKind, level: int, *, large: bool) -> npt.NDArray[np.int64]:
        """For every code the number of the iteration of this kind and level that it counts in, or :data:`NONE`."""
        groups: npt.NDArray[np.int64] = self.table[KINDS.index(kind), LEVELS.index(level), 0 if large else 1]
        return groups

    def tabulated(self, level: int, *, large: bool) -> npt.NDArray[np.int64]:
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


# Iterations as plans of the second layout list them, so that releases can be read with them alone.


@dataclass(frozen=True)
class PlannedIteration:
    """A race or ethnicity group as plans of the second layout list it."""

    code: str
    label: str
    """Its name, with its code where another one has the same name."""
    level: int
    total_only: bool
    coarse_only: bool

    def tabulated(self, region_type: str) -> bool:
        """Whether areas of a type have it."""
        return not (self.coarse_only if region_type in LARGE_REGIONS else self.total_only)


def planned_iterations(iterations: Sequence[Iteration]) -> list[dict[str, Any]]:
    """The iterations of the code lists as a plan has them."""
    names = [iteration.name for iteration in iterations]
    both = [f"{each.name} ({each.code})" for each in iterations]
    times = Counter([*names, *both])
    plain = [times[name] == 1 and name not in ("", TOTAL_CODE) for name in names]
    return [
        {**vars(PlannedIteration(each.code, name if alone else pair, each.level, each.total_only, each.coarse_only))}
        for each, name, pair, alone in zip(iterations, names, both, plain, strict=True)
    ]


def read_iterations(question: Mapping[str, Any]) -> tuple[PlannedIteration, ...]:
    """The iterations of a plan of the second layout."""
    return tuple(PlannedIteration(**values) for values in question["iterations"])


# From race and ethnicity codes to characteristic iterations.
#
# With the set R of a person's race codes, the ethnicity code h, and for a code c the iterations A[c] (race alone),
# B[c] (race alone or in any combination) and E[c] (ethnicity) that it counts in, the person is in
#
#     ( ∩_{c ∈ R} A[c] )  ∪  ( ∪_{c ∈ R} B[c] )  ∪  E[h] .
#
# So a person is in an "alone" group only if every race code lies in it: whoever reports two European races is
# regionally European alone, but in no detailed group alone. Reference: Haney et al. 2024, section 3.


RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, MOST_RACE_CODES + 1))
ETHNICITY_COLUMN = "QSPAN"
NO_CODE = "Null"

_Array = npt.NDArray[np.int64]


def iterations_of(lists: CodeLists, patterns: pa.Table, max_race_codes: int) -> pa.Table:
    """The iterations of each distinct tuple of codes: columns ``pattern`` (row of ``patterns``) and ``iteration``.

    ``patterns`` has the text columns QRACE1 to QRACE8 and QSPAN, with ``Null`` for no code. Of the race codes only the
    first ``max_race_codes`` are looked at, also for the "alone" test. The rows are distinct, and sorted by both.

    Iterations of both levels and all regions are given. Those of a level in a kind of region are the ones in its
    ``kept`` set K, because K ∩ (∩ A[c]) = ∩ (K ∩ A[c]) for R not empty, and likewise for unions: to restrict the
    result is to restrict the maps. The loop below uses it the other way round: it restricts the maps to the iterations
    that large regions tabulate, then to the coarse-only ones, and in each part a code has at most one of a kind.
    """
    check_race_codes(max_race_codes)
    races = [_numbers(lists, patterns, name) for name in RACE_COLUMNS[:max_race_codes]]
    ethnicity = _numbers(lists, patterns, ETHNICITY_COLUMN)
    rows = np.arange(patterns.num_rows, dtype=np.int64)
    width = max(1, len(lists.iterations))
    keys: list[_Array] = []

    def put(iterations: _Array) -> None:
        """Keep (row, iteration) as one number."""
        there = iterations != NONE
        keys.append(rows[there] * width + iterations[there])

    for level in LEVELS:
        for coarse_only in (False, True):
            alone, in_combination, of_ethnicity = (_part(lists, kind, level, coarse_only) for kind in KINDS)
            if (in_combination != NONE).any():
                wanted = _looked_up(in_combination)
                for codes in races:
                    put(wanted[codes])
            if (alone != NONE).any():
                put(_common(alone, races))
            if (of_ethnicity != NONE).any():
                put(_looked_up(of_ethnicity)[ethnicity])
    pattern, iteration = np.divmod(_distinct(np.concatenate([np.empty(0, dtype=np.int64), *keys])), width)
    return pa.table({"pattern": pattern, "iteration": iteration})


def check_race_codes(max_race_codes: int) -> None:
    """Refuse a number of race codes that is not 1 to 8."""
    if not 1 <= max_race_codes <= MOST_RACE_CODES:
        raise ParameterError("codes.max-race-codes", found=str(max_race_codes), most_race_codes=MOST_RACE_CODES)


def _part(lists: CodeLists, kind: IterationKind, level: int, coarse_only: bool) -> _Array:
    """For every code the iteration of large regions, or the coarse-only one: that of others if it is not the same."""
    of_large = lists.groups(kind, level, large=True)
    if not coarse_only:
        return of_large
    of_others = lists.groups(kind, level, large=False)
    part: _Array = np.where(of_others == of_large, NONE, of_others)
    return part


def _looked_up(groups: _Array, no_code: int = NONE) -> _Array:
    """``groups`` with one more entry, which the number -1 of a missing code finds."""
    return np.append(groups, no_code)


def _common(groups: _Array, races: Sequence[_Array]) -> _Array:
    """The one group that all codes of a row are in, or none.

    All codes share a group if the least and the greatest group number are the same and not NONE, where a missing code
    counts as more than every number for the first, and as less for the second.
    """
    above, below = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    lowest, highest = _looked_up(groups, above), _looked_up(groups, below)
    least, greatest = lowest[races[0]], highest[races[0]]
    for codes in races[1:]:
        np.minimum(least, lowest[codes], out=least)
        np.maximum(greatest, highest[codes], out=greatest)
    common: _Array = np.where(least == greatest, least, NONE)
    return common


def _numbers(lists: CodeLists, patterns: pa.Table, name: str) -> _Array:
    """The numbers of the codes of a column, with -1 for ``Null``. Any other text is an error."""
    column = patterns.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    column = column.cast(pa.string())
    index = pc.index_in(column, value_set=pa.array([*lists.codes, NO_CODE], type=pa.string()))
    if index.null_count:
        raise InputError("codes.unknown-code", where=Place(column=name), found=CONFIDENTIAL, no_code=NO_CODE)
    numbers: _Array = index.to_numpy().astype(np.int64)
    numbers[numbers == len(lists.codes)] = -1
    return numbers


def _distinct(keys: _Array) -> _Array:
    """The distinct keys, sorted."""
    keys.sort()
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


# Stability: in how many groups of one population group level a person can be, for any codes whatever.
#
# Adding or removing one person changes at most that many groups of a level, each by one: noise is scaled to it, so
# this is a privacy claim. It is derived from the lists, never assumed. Write k for ``max_race_codes``, and keep only
# the iterations of one level that one kind of region tabulates. Every code c then has at most one group a(c) alone,
# one b(c) in combination and one e(c) of ethnicity (:class:`~confide.mechanisms.safetab.codes.CodeLists`
# cannot hold more).
#
# *What the bound is.* Let R be a set of 1 to k codes. Either its codes do not share an alone group; then only their
# groups b(c) count, which are at most k, and at most as many as there are (D). Or all lie in one alone group a; then
# a counts, and the b(c) of codes within a, at most k and at most D(a), the number of in-combination groups that the
# codes of a meet. The ethnicity code is free to be any code and adds at most h_e ∈ {0, 1}. Hence no person is in more
# than
#
#     w = max( min(k, D),  max_a 1 + min(k, D(a)) ) + h_e
#
# groups, and some person is in w: one code out of each of min(k, D) or min(k, D(a)) groups, or any code of a, does
# it.
#
# *Against the published rule* s = max(h_alone, h_combination) · max(2, k) + h_e (SafeTab-H; SafeTab-P takes h_alone
# for the maximum), where each h is 1 if any code has such a group and else 0. For k = 1 always w ≤ s. For k ≥ 2 we
# have w ≤ s unless D(a) ≥ k for some a, when w = s + 1: k codes of one alone group that lie in k different in-
# combination groups make a person that is in k + 1 race groups. The official lists pair each alone group with one in-
# combination group, so D(a) ≤ 1; but no rule for the files demands it. The Bureau's program would cut such a person's
# groups down to s; we let the noise cover them all.


def worst_case(lists: CodeLists, level: int, *, large: bool, max_race_codes: int) -> int:
    """The largest number w of groups of an iteration level that any tuple of codes puts a person in; exact."""
    check_race_codes(max_race_codes)
    alone = lists.groups("race-alone", level, large=large)
    in_combination = lists.groups("race-combination", level, large=large)
    met = int(np.unique(in_combination[in_combination != NONE]).size)
    race = min(max_race_codes, met)
    groups = np.unique(alone[alone != NONE])
    if groups.size:
        both = (alone != NONE) & (in_combination != NONE)
        meetings = np.unique(np.column_stack([alone[both], in_combination[both]]), axis=0)
        most = int(np.bincount(meetings[:, 0]).max()) if len(meetings) else 0
        race = max(race, 1 + min(max_race_codes, most))
    return race + _any(lists, "ethnicity", level, large)


def published_rule(lists: CodeLists, level: int, *, large: bool, max_race_codes: int) -> int:
    """The rule of SafeTab-H: max(h_alone, h_combination) · max(2, k) + h_e."""
    check_race_codes(max_race_codes)
    race = max(_any(lists, "race-alone", level, large), _any(lists, "race-combination", level, large))
    return race * max(2, max_race_codes) + _any(lists, "ethnicity", level, large)


def stability(lists: CodeLists, level: int, *, large: bool, max_race_codes: int) -> int:
    """The number s that the noise of a level is scaled with: the published rule, or the worst case where that is more.

    It is 9 for the official lists and 8 race codes. It is never less than 1, so that groups have noise of a positive
    scale even where no code counts in any of them.
    """
    return max(
        1,
        published_rule(lists, level, large=large, max_race_codes=max_race_codes),
        worst_case(lists, level, large=large, max_race_codes=max_race_codes),
    )


def _any(lists: CodeLists, kind: IterationKind, level: int, large: bool) -> int:
    """How many iterations of a kind a code can count in: 1, or 0 if no code has any."""
    return int((lists.groups(kind, level, large=large) != NONE).any())
