"""Ages: single years, the groups that tables are published in, and what is known of an age that is not exact.

Groups are given by their first years a₀ = 0 < a₁ < … < aₖ; group j is [aⱼ, aⱼ₊₁), the last one is open. Every single
year lies in exactly one group, so that matching on groups is coarser than matching on years, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, ParameterError, Place
from confide.inputs.shipped import load_shipped

Integers: TypeAlias = NDArray[np.int64]

UNKNOWN = -1
OLDEST = 200
"""No age is larger. The upper end of an open group."""

_LABEL = re.compile(r"\s*(\d{1,3})\s*(?:(\+|and over|and older)|(?:-|–|to)\s*(\d{1,3}))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AgeBins:
    """Groups of ages, by their first years."""

    name: str
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.starts, self.starts[1:], strict=False))
        if not self.starts or self.starts[0] != 0 or not rising or self.starts[-1] > OLDEST:
            raise ParameterError(
                Finding(
                    code="bad-age-bins",
                    what="these are not groups of ages",
                    where=Place(path="age_bins"),
                    found=", ".join(map(str, self.starts))[:120] or "nothing",
                    expected=f"first years that rise from 0 and do not exceed {OLDEST}",
                    remedy="write the first year of each group, such as 0,5,10,18,65",
                )
            )

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, ages: Integers) -> Integers:
        """The group of each age; :data:`UNKNOWN` where the age is."""
        groups = np.searchsorted(np.asarray(self.starts), ages, side="right") - 1
        return np.where(ages < 0, UNKNOWN, groups).astype(np.int64)

    def of_ranges(self, low: Integers, high: Integers) -> Integers:
        """The group that holds all years from ``low`` to ``high``; :data:`UNKNOWN` where they lie in several."""
        first, last = self.of(low), self.of(high)
        return np.where(first == last, first, UNKNOWN).astype(np.int64)

    @property
    def labels(self) -> tuple[str, ...]:
        """Each group in words, such as ``4``, ``22-24``, ``85+``."""
        ends = [start - 1 for start in self.starts[1:]]
        closed = [str(a) if a == b else f"{a}-{b}" for a, b in zip(self.starts, ends, strict=False)]
        return (*closed, f"{self.starts[-1]}+")


def load_age_bins(name: str | Sequence[int] = "sf1-block") -> AgeBins:
    """The groups that ship under ``name``, or those with the first years given (``"0,18,65"`` or numbers)."""
    if not isinstance(name, str):
        return AgeBins("own", tuple(int(start) for start in name))
    known = {key: value for key, value in load_shipped("attacks", "age-bins").items() if isinstance(value, dict)}
    if name in known:
        return AgeBins(name, tuple(known[name]["starts"]))
    parts = [part.strip() for part in name.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        raise ParameterError(
            Finding(
                code="no-age-bins",
                what="there are no groups of ages of this name",
                where=Place(path="age_bins"),
                found=name[:60],
                expected=f"one of {', '.join(sorted(known))}, or first years such as 0,5,10,18,65",
                remedy="correct the name, or write the first years",
            )
        )
    return AgeBins("own", tuple(map(int, parts)))


def range_of_label(label: str) -> tuple[int, int] | None:
    """The first and last year of a label such as ``4``, ``22-24``, ``22 - 24``, ``85+``; None if it is no such label.

    >>> range_of_label("22 - 24"), range_of_label("85+"), range_of_label("old")
    ((22, 24), (85, 200), None)
    """
    found = _LABEL.fullmatch(label)
    if not found:
        return None
    low = int(found.group(1))
    high = OLDEST if found.group(2) else int(found.group(3) or low)
    return (low, high) if low <= high else None
