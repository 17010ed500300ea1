"""Matching without replacement: against the scan that defines it, and against the largest possible matching."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from confide.errors import ParameterError
from confide.lab.attacks.reidentification import match
from confide.lab.attacks.reidentification.matching import combine


def scan(passes, left_order, right_order):
    """The definition, word by word."""
    left, right, pairs = list(left_order), list(right_order), []
    for number, (left_keys, right_keys) in enumerate(passes):
        for row in list(left):
            for other in right:
                if left_keys[row] >= 0 and left_keys[row] == right_keys[other]:
                    pairs.append((row, other, number))
                    left.remove(row)
                    right.remove(other)
                    break
    return pairs


def found(matches):
    return sorted(zip(matches.left.tolist(), matches.right.tolist(), matches.passed.tolist(), strict=True))


def test_by_hand():
    """Ages 30 31 31 33 against 31 33 34 40, groups of five. Years: the first 31 with 31, 33 with 33. What is left, 30
    and 31 against 34 and 40: groups 30-34, so 30, which comes first, takes 34; 31 and 40 stay alone."""
    left, right = np.array([30, 31, 31, 33]), np.array([31, 33, 34, 40])
    pairs = match([(left, right), (left // 5, right // 5)])
    assert found(pairs) == [(0, 2, 1), (1, 0, 0), (3, 1, 0)]
    assert len(pairs) == 3


def test_orders_say_who_comes_first():
    keys = np.array([7, 7, 7])
    assert found(match([(keys, keys[:1])], np.array([2, 0, 1]))) == [(2, 0, 0)]
    assert found(match([(keys[:1], keys)], None, np.array([1, 2, 0]))) == [(0, 1, 0)]


def test_unknown_keys_match_nothing():
    assert found(match([(np.array([-1, -1, 4]), np.array([-1, 4, -1]))])) == [(2, 1, 0)]


ages = st.lists(st.integers(-1, 14), max_size=25)


@settings(max_examples=200, deadline=None)
@given(ages, ages, st.randoms(use_true_random=False))
def test_is_the_scan_and_is_maximum(left, right, random):
    left, right = np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)
    orders = [random.sample(range(len(side)), len(side)) for side in (left, right)]
    binned = [np.where(side < 0, -1, side // 5) for side in (left, right)]
    passes = [(left, right), tuple(binned)]
    pairs = match(passes, *(np.array(order, dtype=np.int64) for order in orders))
    assert found(pairs) == sorted(scan(passes, *orders))
    # Years nest in groups, so the two passes together match as many as groups alone could.
    if len(left) and len(right):
        same = (binned[0][:, None] == binned[1][None, :]) & (binned[0][:, None] >= 0)
        assert len(pairs) == (maximum_bipartite_matching(csr_array(same.astype(int)), perm_type="column") >= 0).sum()


def test_a_tolerance_would_not_be_maximum():
    """Ages 30 31 against 31 32, years first and then "within one year". The year takes 31 with 31, and 30 and 32 are
    two apart: one pair. Yet 30 with 31 and 31 with 32 are two. Groups nest and cannot do this; a tolerance can."""
    near = np.abs(np.array([30, 31])[:, None] - np.array([31, 32])[None, :]) <= 1
    most = (maximum_bipartite_matching(csr_array(near.astype(int)), perm_type="column") >= 0).sum()
    exact = match([(np.array([30, 31]), np.array([31, 32]))])
    left = [row for row in range(2) if row not in exact.left]
    right = [row for row in range(2) if row not in exact.right]
    assert len(exact) + int(near[np.ix_(left, right)].any()) == 1 < most == 2


def test_combined_keys():
    key = combine((np.array([0, 1, 1, -1]), 2), (np.array([2, 0, -1, 1]), 3))
    assert key.tolist() == [2, 3, -1, -1]
    with pytest.raises(ParameterError, match="combinations"):
        combine(*[(np.array([0]), 1 << 22)] * 3)


def test_no_pass_is_refused():
    with pytest.raises(ParameterError, match="needs a pass"):
        match([])
