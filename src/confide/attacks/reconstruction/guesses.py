"""What no figure of a unit tells: attributes of a record for which another value would do as well.

Two cells of a block that are counted by the very same figures can be exchanged, person by person, and nothing that was
published changes. Where such cells differ in an attribute, its value in a record is a guess. With whole tables there
are none; where figures were left out, or a group has a total alone, there are.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from confide.attacks.reconstruction.marginals import Integers
from confide.attacks.reconstruction.programme import Programme

_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def guessed(made: Programme) -> Integers:
    """For each variable the attributes that are a guess, as bits: 1 for the first axis of the space, 2 for the next."""
    bits = np.zeros(made.size, np.int64)
    shape = made.structure.space.shape
    if not made.size or not shape:
        return bits
    kind = _kinds(made)
    known, first = np.unique(kind, return_index=True)
    if len(known) == made.size:
        return bits
    for axis, place in enumerate(np.unravel_index(made.cell, shape)):
        several = np.zeros(len(known), bool)
        of_kind = np.searchsorted(known, kind)
        several[of_kind[place != place[first][of_kind]]] = True
        bits |= several[of_kind].astype(np.int64) << axis
    return bits


def _kinds(made: Programme) -> Integers:
    """A number for each variable, the same for those of a block that the same rows count.

    The rows of a variable are summed up as mixed 64-bit numbers; that two different sets of rows get the same sum has
    a chance of about 2^-64 for each pair.
    """
    rows = sparse.vstack([made.exact.matrix, made.noisy.matrix], format="csr").astype(np.uint64)
    mixed = np.arange(1, rows.shape[0] + 1, dtype=np.uint64) * _STEP
    mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX
    sums = rows.T @ (mixed ^ (mixed >> np.uint64(29)))
    sums[made.upper == 0] = 0
    _, kind = np.unique(np.stack([made.block.astype(np.uint64), sums]), axis=1, return_inverse=True)
    return np.asarray(kind, np.int64).reshape(-1)
