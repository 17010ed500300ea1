"""From race and ethnicity codes to characteristic iterations.

With the set R of a person's race codes, the ethnicity code h, and for a code c the iterations A[c] (race alone), B[c]
(race alone or in any combination) and E[c] (ethnicity) that it counts in, the person is in

    ( ∩_{c ∈ R} A[c] )  ∪  ( ∪_{c ∈ R} B[c] )  ∪  E[h] .

So a person is in an "alone" group only if every race code lies in it: whoever reports two European races is regionally
European alone, but in no detailed group alone. Reference: Haney et al. 2024, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.safetab.codes.lists import KINDS, LEVELS, NONE, CodeLists, IterationKind
from confide.safetab.settings import MOST_RACE_CODES

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
        raise ParameterError(
            Finding(
                "codes.max-race-codes",
                "the number of race codes to look at is out of range",
                found=str(max_race_codes),
                expected=f"1 to {MOST_RACE_CODES}",
                remedy="correct max_race_codes",
            )
        )


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
    found = pc.index_in(column, value_set=pa.array([*lists.codes, NO_CODE], type=pa.string()))
    if found.null_count:
        raise InputError(
            Finding(
                "codes.unknown-code",
                "records have a code that is not in the list of codes",
                Place(column=name),
                CONFIDENTIAL,
                f"a code of the list, or {NO_CODE}",
                "correct the records, or add the code to the list",
            )
        )
    numbers: _Array = found.to_numpy().astype(np.int64)
    numbers[numbers == len(lists.codes)] = -1
    return numbers


def _distinct(keys: _Array) -> _Array:
    """The distinct keys, sorted."""
    keys.sort()
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
