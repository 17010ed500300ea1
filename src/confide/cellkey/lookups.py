"""What finds the noise of a count and a cell key: one small protocol for every kind of table.

* ``ess``, the European one: :class:`~confide.cellkey.ptables.PTable`, intervals of keys for each count. A table of the
  Office for National Statistics is one too: 256 or 4,096 keys, the last rows in turn, and a threshold.
* ``abs``, the Australian one: :class:`~confide.cellkey.abs_table.AbsTable`, 256 values made beforehand for a column.

All have sums of whole record keys as cell keys, so that the same members have the same noise, whatever the lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.cellkey.abs_table import AbsTable

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Lookup(Protocol):
    """A table in which noise is looked up. It belongs to the release and holds nothing of the records."""

    @property
    def whole(self) -> int:
        """Cell keys are sums of record keys modulo this."""

    @property
    def largest_noise(self) -> Fraction:
        """The bound of the noise, D."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a lookup."""

    def row_of(self, counts: npt.ArrayLike) -> Integers:
        """The place of the law that each count uses; zero for a count of zero."""

    def probabilities(self, place: int) -> dict[Fraction, Fraction]:
        """The law at a place: noise and probability, if all keys are equally likely."""

    def lookup(self, counts: npt.ArrayLike, keys: npt.ArrayLike) -> Integers:
        """The noise of counts with cell keys, element by element. A count of zero gets none."""


def expected_errors(lookup: Lookup, counts: Integers, threshold: int | None) -> tuple[Floats, Floats]:
    """For each true count the mean of \\|published − true\\|, and the probability that zero is published.

    Means are over keys. A threshold belongs to what is published: below it stands zero.
    """
    error, zero = np.zeros(len(counts)), np.zeros(len(counts))
    places = lookup.row_of(counts)
    for place in np.unique(places).tolist():
        at = np.flatnonzero(places == place)
        for noise, probability in lookup.probabilities(place).items():
            published = counts[at] + int(noise)
            published[published < (threshold or 0)] = 0
            error[at] += float(probability) * np.abs(published - counts[at])
            zero[at] += float(probability) * (published == 0)
    return error, zero


def facts(lookup: Lookup) -> Mapping[str, Any]:
    """How noise is looked up, as it stands in the plan."""
    if isinstance(lookup, AbsTable):
        return {"lookup": "abs", "big_n": lookup.big_n, "small_n": lookup.small_n, "columns": lookup.size}
    return {"lookup": "ess"}
