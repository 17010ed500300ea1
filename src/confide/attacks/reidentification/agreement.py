"""Agreement: how much of the truth a reconstruction has right, person by person.

Records are matched without replacement on block, sex, age, race and ethnicity, on the year of age first and on its
group what is left. The agreement rate is matched records over all records of the truth, so that a reconstruction that
leaves people out does not look better for it (Abowd and Hawes 2023, Table 1).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from confide.attacks.reidentification.ages import Integers
from confide.attacks.reidentification.coding import Coding
from confide.attacks.reidentification.matching import Matches, match
from confide.attacks.reidentification.traits import NOT_THERE, Traits

EXACT, BINNED = 0, 1
"""The passes: on the year of age, then on its group."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Records of the truth in a universe, and how many of them the reconstruction has."""

    universe: str
    records: int
    agree: int
    agree_on_exact_age: int

    @property
    def rate(self) -> float | None:
        return self.agree / self.records if self.records else None

    @property
    def exact_age_rate(self) -> float | None:
        return self.agree_on_exact_age / self.records if self.records else None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"rate": self.rate, "exact_age_rate": self.exact_age_rate}


def agree(coding: Coding, reconstructed_order: Integers, truth_order: Integers) -> Matches:
    """The reconstruction (left) matched with the truth (right) on everything."""
    ours, truth = coding.reconstructed, coding.truth
    return match(
        [
            (coding.exact_key(ours, with_group=True), coding.exact_key(truth, with_group=True)),
            (coding.bin_key(ours, with_group=True), coding.bin_key(truth, with_group=True)),
        ],
        reconstructed_order,
        truth_order,
    )


def agreements(matches: Matches, truth: Traits) -> tuple[Agreement, ...]:
    """The agreement in every universe of the truth."""
    exact = matches.right[matches.passed == EXACT]
    return tuple(
        Agreement(name, int(mask.sum()), int(mask[matches.right].sum()), int(mask[exact].sum()))
        for name, mask in truth.universes().items()
        if name != NOT_THERE
    )
