"""Stability: in how many groups of one population group level a person can be, for any codes whatever.

Adding or removing one person changes at most that many groups of a level, each by one: noise is scaled to it, so this
is a privacy claim. It is derived from the lists, never assumed. Write k for ``max_race_codes``, and keep only the
iterations of one level that one kind of region tabulates. Every code c then has at most one group a(c) alone, one b(c)
in combination and one e(c) of ethnicity (:class:`~confide.safetab.codes.lists.CodeLists` cannot hold more).

*What the bound is.* Let R be a set of 1 to k codes. Either its codes do not share an alone group; then only their
groups b(c) count, which are at most k, and at most as many as there are (D). Or all lie in one alone group a; then a
counts, and the b(c) of codes within a, at most k and at most D(a), the number of in-combination groups that the codes
of a meet. The ethnicity code is free to be any code and adds at most h_e ∈ {0, 1}. Hence no person is in more than

    w = max( min(k, D),  max_a 1 + min(k, D(a)) ) + h_e

groups, and some person is in w: one code out of each of min(k, D) or min(k, D(a)) groups, or any code of a, does it.

*Against the published rule* s = max(h_alone, h_combination) · max(2, k) + h_e (SafeTab-H; SafeTab-P takes h_alone for
the maximum), where each h is 1 if any code has such a group and else 0. For k = 1 always w ≤ s. For k ≥ 2 we have
w ≤ s unless D(a) ≥ k for some a, when w = s + 1: k codes of one alone group that lie in k different in-combination
groups make a person that is in k + 1 race groups. The official lists pair each alone group with one in-combination
group, so D(a) ≤ 1; but no rule for the files demands it. The Bureau's program would cut such a person's groups
down to s; we let the noise cover them all.
"""

from __future__ import annotations

import numpy as np

from confide.safetab.codes.lists import NONE, CodeLists, IterationKind
from confide.safetab.codes.mapping import check_race_codes


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
