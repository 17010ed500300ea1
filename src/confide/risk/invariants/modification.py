"""What it really costs to change several records: ρ of a modification, from the measurements themselves.

If D becomes D', a measurement with discrete Gaussian noise of parameter σ² in every cell tells them apart at
‖Q(D) − Q(D')‖²/(2σ²) in zCDP, and a release at the sum over its measurements. For k records this is never more than
k²ρ, and k²ρ is reached only if all k leave the same cells and come to the same cells. Records that change between
different cells cost kρ at most; records that exchange places cost nothing in any unit that contains both places.
Derivation: ``docs/proofs/invariants.md``, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from confide.errors import Finding, ParameterError
from confide.noise import DiscreteGaussian
from confide.privacy.definitions import nonnegative
from confide.privacy.sensitivity import whole
from confide.runs.plan import Plan
from confide.schema import NO_GROUP, Code, Query, Schema


@dataclass(frozen=True)
class Record:
    """A record as measurements see it: its unit on every level, the root first, and its codes by attribute.

    ``path`` says which kind of path its block lies on, where a plan has several.
    """

    units: tuple[str, ...]
    values: Mapping[str, Code]
    path: int = 0


@dataclass(frozen=True)
class Measured:
    """A query measured in every unit of a level (a place in ``Record.units``), with its noise.

    ``paths`` are the kinds of paths whose records take part; None for all.
    """

    level: int
    query: Query
    sigma2: Fraction
    paths: frozenset[int] | None = None

    def cell(self, record: Record) -> tuple[object, ...] | None:
        """The cell that a record counts in: the unit and the group of every variable; None if it does not count."""
        if self.paths is not None and record.path not in self.paths:
            return None
        groups = [int(v.assignment[v.attribute.index[record.values[v.attribute.name]]]) for v in self.query.variables]
        return None if NO_GROUP in groups else (record.units[self.level], *groups)


def rho_of_modification(measured: Iterable[Measured], before: Sequence[Record], after: Sequence[Record]) -> Fraction:
    """The ρ between the data with the records ``before`` and the same data with ``after`` in their place, exactly."""
    total = Fraction(0)
    for measurement in measured:
        change: dict[tuple[object, ...], int] = {}
        for records, step in ((before, -1), (after, 1)):
            for record in records:
                cell = measurement.cell(record)
                if cell is not None:
                    change[cell] = change.get(cell, 0) + step
        total += Fraction(sum(number**2 for number in change.values())) / (2 * measurement.sigma2)
    return total


def measured_by(plan: Plan, schema: Schema) -> list[Measured]:
    """The measurements of a plan with discrete Gaussian noise, for :func:`rho_of_modification`."""
    found = []
    for number, measure in enumerate(plan.measures):
        if not isinstance(measure.law, DiscreteGaussian) or measure.level not in plan.spine:
            raise _not_on_a_spine(f"{measure.level} {measure.query}: {type(measure.law).__name__}")
        everything = measure.query == "detailed"
        query = schema.query("*".join(a.name for a in schema.attributes) if everything else measure.query)
        paths = frozenset(n for n, path in enumerate(plan.paths) if number in path) if plan.paths else None
        found.append(Measured(plan.spine.index(measure.level), query, measure.law.sigma2, paths))
    return found


def exchange_rho(plan: Plan, within: str | None = None) -> Fraction:
    """At most what it costs that two records exchange their places, exactly: the blocks being in one unit of ``within``
    (None: anywhere) and in different ones below.

    Above, nothing changes. Below, on each of the two paths one record leaves and one comes: two cells of every query.
    """
    first = 0 if within is None else plan.spine.index(within) + 1
    below = set(plan.spine[first:])
    paths = plan.paths or (tuple(range(len(plan.measures))),)
    return 2 * max(
        sum((_precision(plan, n) for n in path if plan.measures[n].level in below), Fraction(0)) for path in paths
    )


def worst_rho(rho: Fraction, records: int) -> Fraction:
    """k²ρ: what k records cost at most, whatever they are changed into."""
    return whole(records, "records") ** 2 * nonnegative(rho, "rho")


def distinct_rho(rho: Fraction, records: int) -> Fraction:
    """kρ: what k records cost at most if no two leave, or come to, the same cell."""
    return whole(records, "records") * nonnegative(rho, "rho")


def _precision(plan: Plan, number: int) -> Fraction:
    measure = plan.measures[number]
    if not isinstance(measure.law, DiscreteGaussian):
        raise _not_on_a_spine(f"{measure.level} {measure.query}: {type(measure.law).__name__}")
    return 1 / measure.law.sigma2


def _not_on_a_spine(found: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="not-on-a-spine",
            what="the cost of a modification is worked out for Gaussian measurements on the levels of a spine",
            found=found,
            expected="discrete Gaussian noise, on a level that nests",
            remedy="use the worst case, k² times the loss",
        )
    )
