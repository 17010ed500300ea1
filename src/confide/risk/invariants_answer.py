"""What figures without noise do to the promise of the others: the answers of ``confide risk invariants``.

The mathematics is that of :mod:`confide.privacy.invariants`; sets of invariants are those of
:mod:`confide.risk.invariant_sets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.answers import TypedAnswer
from confide.documents import load_shipped, shipped
from confide.errors import ParameterError
from confide.exact import Exact
from confide.privacy.invariants.group_statements import DELTA, RecordLoss, explain, numbers
from confide.privacy.invariants.indistinguishable import Mode, RecordGroup, record_groups
from confide.privacy.invariants.language import Invariants
from confide.privacy.invariants.single_record import Answer, single_record
from confide.risk.invariant_sets import KIND, load_invariants


@dataclass(frozen=True)
class InvariantsAnswer(TypedAnswer):
    """What invariants do to the promise: for one record, and for the smallest group that hides what they fix."""

    invariants: Invariants
    single_record: Mapping[str, Answer]
    """For each attribute, geolevel and grouping: what one record can be changed to."""
    groups: Mapping[Mode, RecordGroup]
    """For each meaning of "left open": the smallest group of records that leaves open what is fixed."""
    loss: RecordLoss
    sentences: tuple[str, ...]
    """The same in plain sentences."""
    explained: bool = False
    """Whether the sentences are part of the plain values."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, with the bounds in numbers where a loss was given."""
        loss = self.loss

        def bounds(multiplier: int | None) -> dict[str, Any]:
            if multiplier is None or (loss.epsilon is None and loss.rho is None):
                return {}
            return {"loss": numbers(multiplier, epsilon=loss.epsilon, rho=loss.rho, delta=loss.delta)}

        values: dict[str, Any] = {
            "invariants": list(self.invariants.names),
            "records": self.invariants.records.id,
            "single_record": {name: a.as_dict() | bounds(a.multiplier) for name, a in self.single_record.items()},
            "group": {mode.value: group.as_dict() | bounds(group.multiplier) for mode, group in self.groups.items()},
        }
        if loss.rho is not None:
            values["delta"] = str(loss.delta)
        if self.explained:
            values["explain"] = list(self.sentences)
        return values


@dataclass(frozen=True)
class ShippedInvariants:
    """A set of invariants that ships: its name, what is published without noise, and about which records."""

    name: str
    title: str
    records: str

    def as_dict(self) -> dict[str, str]:
        """Plain values."""
        return {"name": self.name, "title": self.title, "records": self.records}


def invariants(
    names: Sequence[str],
    *,
    epsilon: Exact | None = None,
    rho: Exact | None = None,
    delta: Exact = DELTA,
    base: str | Path | None = None,
    explained: bool = False,
) -> InvariantsAnswer:
    """What invariants do to the promise of a release. No records are read.

    Args:
        names: Sets of invariants that ship, or paths of TOML files; they hold together.
        epsilon: The loss of the release in pure differential privacy, if the bounds are wanted in numbers.
        rho: Or its loss in zCDP.
        delta: The delta at which a rho is stated as an epsilon.
        base: The folder that paths are relative to; without it, the working folder.
        explained: Whether :meth:`InvariantsAnswer.as_dict` has the sentences too.

    Returns:
        What holds for one record, the smallest groups, and sentences about both.

    >>> answer = invariants(["C1"], epsilon=1)
    >>> {mode.value: group.size for mode, group in answer.groups.items()}["pairwise"]
    2
    """
    if epsilon is not None and rho is not None:
        raise ParameterError(
            "two-losses",
            "a release has one loss, and two are given",
            found="--epsilon and --rho",
            expected="--epsilon for pure differential privacy, --rho for zCDP",
            remedy="give one of them",
        )
    chosen = load_invariants(names, None if base is None else Path(base))
    answers, smallest, loss = single_record(chosen), record_groups(chosen), RecordLoss(epsilon, rho, delta)
    return InvariantsAnswer(chosen, answers, smallest, loss, tuple(explain(answers, smallest, loss)), explained)


def shipped_invariants() -> tuple[ShippedInvariants, ...]:
    """The sets of invariants that ship with Confide.

    Returns:
        Name, title and form of records of each set.

    >>> [item.name for item in shipped_invariants()][:3]
    ['2020', 'C1', 'C2']
    """
    listed = ((name, load_shipped(KIND, name)) for name in shipped(KIND))
    return tuple(ShippedInvariants(name, values["title"], values["records"]) for name, values in listed)
