"""Cell suppression from tables to a safe pattern: primary rules, complementary cells, proof.

>>> import numpy as np
>>> tables = {"jobs": ([flat("area", ["north", "south"]), flat("job", ["yes", "no"])], [[2, 9], [8, 7]])}
>>> done = suppress_tables({name: (of, with_totals(of, np.array(inner))) for name, (of, inner) in tables.items()})
>>> done.published["jobs"].astype(int)
array([[1, 1, 1],
       [1, 0, 0],
       [1, 0, 0]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.errors import ConfideError, ParameterError
from confide.mechanisms.suppression import problem as suppression_problem
from confide.mechanisms.suppression.heuristic import Advance, Protection, open_unions, protect
from confide.mechanisms.suppression.joint import linked_people, longest_variable, people_behind
from confide.mechanisms.suppression.optimal import modular_protection, optimal
from confide.mechanisms.suppression.structure import JOINT, Dimension, Flags, LinkedTables, TableDimensions, flat, link
from confide.mechanisms.suppression.variables import Kinds

__all__ = ["Method", "SuppressionResult", "Zeros", "flat", "pose", "solve", "suppress_tables", "with_totals"]

Method = Literal["auto", "optimal", "modular", "heuristic"]
Zeros = Literal["published", "secondary", "primary"]

SMALL_TABLE = 120
"""Tables with at most so many cells are solved to optimality by ``auto``; with at most MEDIUM_TABLE, modularly."""

MEDIUM_TABLE = 600


@dataclass(frozen=True, eq=False, repr=False)
class SuppressionResult:
    """Which cells of which tables stay published, and the pattern behind it."""

    published: Mapping[str, Flags]
    """For each table a flag for every cell, in the shape of the table."""
    pattern: suppression_problem.Pattern
    problem: Confidential[suppression_problem.PatternProblem]
    """With the true counts: so the result can be neither pickled nor copied."""
    linked: LinkedTables

    @property
    def cells(self) -> int:
        """Distinct listed cells."""
        return int(self.linked.listed.sum())

    @property
    def suppressed(self) -> int:
        """Distinct listed cells that are suppressed."""
        return int((self.pattern.suppressed & self.linked.listed).sum())


def suppress_tables(
    tables: Mapping[str, tuple[Sequence[Dimension], npt.ArrayLike]],
    *,
    maximum: int = 3,
    zeros: Zeros = "secondary",
    weight: suppression_problem.Weights = "log",
    method: Method = "auto",
    singletons: bool = True,
    lower: int = 0,
) -> SuppressionResult:
    """Protects tables of counts together, by the threshold rule. Cells with the same codes in several tables are one
    cell.

    Args:
        tables: For each table, by its name, its dimensions and its counts with all totals: whole numbers in the shape
            of the dimensions, codes in their order (:func:`with_totals` adds the totals).
        maximum: Counts from 1 to this are primary.
        zeros: Whether zeros are always ``published``, may be suppressed to protect others (``secondary``), or are
            ``primary`` themselves.
        weight: What it costs to suppress a cell: ``constant``, its ``value``, or ``log`` (1 + value).
        method: ``optimal``, ``modular``, ``heuristic``, or ``auto`` by the number of cells.
        singletons: Whether somebody who is alone in a cell, and knows its count, is thought of.
        lower: How far below a primary count an attacker's interval must reach, as far as zero allows.

    Returns:
        For each table a flag for every cell, True where it is published; with the pattern and its problem.

    Raises:
        ParameterError: Tables do not fit their dimensions, disagree, or cannot be protected.

    >>> jobs = [flat("area", ["north", "south"]), flat("job", ["yes", "no"])]
    >>> result = suppress_tables({"jobs": (jobs, with_totals(jobs, [[2, 9], [8, 7]]))})
    >>> result.cells, result.suppressed
    (9, 4)
    """
    layouts = [TableDimensions(name, tuple(dimensions)) for name, (dimensions, _) in tables.items()]
    counts = [_shaped(layout, np.asarray(counts)) for layout, (_, counts) in zip(layouts, tables.values(), strict=True)]
    linked = linked_people(layouts)
    value = joined(linked, counts)
    if linked.joint:
        people = people_behind(linked, value)
        if people is None:
            linked = replace(link(layouts), beyond=(*(table.tables for table in linked.joint), *linked.beyond))
            value = joined(linked, counts)
        else:
            value[linked.own_cells :] = people
    levels = suppression_problem.threshold(value, maximum, zeros=zeros == "primary", lower=lower)
    single = (value == 1) if singletons else np.zeros(len(value), np.bool_)
    problem = pose(linked, value, levels, zeros=zeros, weight=weight, single=single)
    pattern = solve(problem, linked, method=method).pattern
    published = {
        layout.name: ~pattern.suppressed[numbers].reshape(layout.shape)
        for layout, numbers in zip(layouts, linked.numbers, strict=True)
    }
    return SuppressionResult(published, pattern, Confidential(problem), linked)


def pose(
    linked: LinkedTables,
    value: Integers,
    levels: suppression_problem.Levels,
    *,
    zeros: Zeros,
    weight: suppression_problem.Weights,
    single: Flags,
    keep: Flags | None = None,
    who: Integers | None = None,
    inhabited: Flags | None = None,
    base: Integers | None = None,
    contributors: suppression_problem.Contributors | None = None,
    union_rule: suppression_problem.UnionRule | None = None,
) -> suppression_problem.PatternProblem:
    """The problem of linked tables. Where zeros are always published, everybody knows that what is suppressed is not
    zero, and the attacker is given that bound. ``who`` is alone in a cell, and where somebody is at all
    (``inhabited``), is known from the records alone; so are the ``contributors`` of magnitudes, the rule for unions of
    cells, and ``base``, what everybody knows figures not to be below where that is not zero."""
    unlisted = ~linked.listed
    published = np.zeros(len(value), np.bool_) if keep is None else keep & ~levels.primary
    low = np.zeros(len(value), np.int64) if base is None else base.copy()
    if zeros == "published":
        published = published | ((value == 0) & ~unlisted)
        low[(value > 0) & ~unlisted] = 1
    on_list = suppression_problem.Levels(
        levels.primary & ~unlisted,
        np.where(unlisted, 0, levels.lower),
        np.where(unlisted, 0, levels.upper),
        np.where(unlisted, 0, levels.sliding),
    )
    single = (single & ~unlisted) | _alone(linked, single, value, who)
    return suppression_problem.PatternProblem(
        structure=linked.structure,
        value=value,
        levels=on_list,
        weight=suppression_problem.weights(value, weight),
        low=low,
        keep=published,
        unlisted=unlisted,
        single=single,
        who=who,
        inhabited=inhabited,
        kinds=Kinds(linked),
        along=longest_variable(linked),
        contributors=contributors,
        union_rule=union_rule,
    )


def _alone(linked: LinkedTables, single: Flags, value: Integers, who: Integers | None) -> Flags:
    """Kinds of people with one person, who is alone in a listed cell too: that person knows that nobody else is
    of the kind. (Others who are the only ones of their kind do not know that.) Without records, only where a cell of
    one person leaves a single kind that is in no cell of nobody."""
    alone = np.zeros(len(single), np.bool_)
    if not linked.joint:
        return alone
    people = slice(linked.own_cells, None)
    if who is not None:
        alone[people] = single[people] & np.isin(who[people], who[single & linked.listed])
        return alone
    structure = linked.structure
    own = structure.axis == JOINT
    of_cell = structure.matrix[own][:, people]
    possible = (of_cell.T @ (value[structure.total[own]] == 0).astype(np.float64)) == 0
    certain = (of_cell @ possible.astype(np.float64) == 1) & (single & linked.listed)[structure.total[own]]
    alone[people] = possible & (of_cell.T @ certain.astype(np.float64) > 0)
    return alone


@dataclass(frozen=True, eq=False, repr=False)
class ProvedPattern:
    """A pattern with its proof."""

    pattern: suppression_problem.Pattern
    protection: Protection


def solve(
    problem: suppression_problem.PatternProblem,
    linked: LinkedTables,
    *,
    method: Method = "auto",
    advance: Advance | None = None,
) -> ProvedPattern:
    """A safe pattern by one of the methods. What is returned was proved safe in whole numbers, cell by cell.

    Args:
        problem: Values, protection levels and costs of all distinct cells.
        linked: The tables that the cells belong to.
        method: How the pattern is looked for; ``auto``: by the number of listed cells.
        advance: Is told of every primary cell that is done.

    Returns:
        The pattern, and the feasible flows that prove it.

    Raises:
        ParameterError: Some cells cannot be protected, whatever else is suppressed.
        ConfideError: A pattern could not be proved safe.
    """
    problem = suppression_problem.in_steps(problem)
    cells = int(linked.listed.sum())
    chosen = method
    if method == "auto":
        chosen = "optimal" if cells <= SMALL_TABLE else "modular" if cells <= MEDIUM_TABLE else "heuristic"
    if chosen == "optimal":
        pattern = optimal(problem)
        protection = Protection(problem, pattern.suppressed)
        protection.complete(new=False, advance=advance)
    else:
        if chosen == "modular":
            protection = modular_protection(problem, linked, advance=advance)
        else:
            protection = protect(problem, advance=advance)
        pattern = suppression_problem.Pattern(protection.suppressed, problem.cost(protection.suppressed), chosen)
    protection = open_unions(protection)
    pattern = _opened(problem, pattern, protection)
    if not protection.safe():
        raise ConfideError("pattern-not-proved")
    return ProvedPattern(pattern, protection)


def _opened(
    problem: suppression_problem.PatternProblem, pattern: suppression_problem.Pattern, protection: Protection
) -> suppression_problem.Pattern:
    """The pattern after unions were opened: what no safe pattern costs less than is still that."""
    suppressed = protection.suppressed[: len(problem.value)]
    return (
        pattern
        if suppressed is protection.suppressed
        else replace(pattern, suppressed=suppressed, cost=problem.cost(suppressed))
    )


def with_totals(dimensions: Sequence[Dimension], inner: npt.ArrayLike) -> Integers:
    """A table with all totals out of its inner cells: the codes without parts of every dimension, in order.

    Args:
        dimensions: The variables with their hierarchies.
        inner: Whole numbers, one axis for each dimension, one entry for each code without parts.

    Returns:
        Whole numbers with one entry for each code, totals with them.

    >>> with_totals([flat("sex", ["f", "m"])], [3, 4])
    array([7, 3, 4])
    """
    table = np.zeros(tuple(dimension.size for dimension in dimensions), np.int64)
    leaves = []
    for dimension in dimensions:
        divided = {code for _, code, _ in dimension.divisions}
        leaves.append([at for at in range(dimension.size) if at not in divided])
    table[np.ix_(*leaves)] = np.asarray(inner)
    return add_up(dimensions, table)


def add_up(dimensions: Sequence[Dimension], table: Integers) -> Integers:
    """Every code with parts, in every dimension, as the sum of its parts."""
    for axis, dimension in enumerate(dimensions):
        turned = np.moveaxis(table, axis, 0)
        # A code that is divided in several ways is the same sum whichever is taken.
        parts = {code: children for _, code, children in reversed(dimension.divisions)}
        for at in sorted(parts, reverse=True):
            turned[at] = turned[list(parts[at])].sum(axis=0)
    return table


def joined(linked: LinkedTables, counts: Sequence[Integers], people: Integers | None = None) -> Integers:
    """The values of all distinct cells; tables must agree on cells that they share. ``people`` are those of joint
    tables."""
    value = np.zeros(linked.structure.cells, np.int64)
    if people is not None:
        value[linked.own_cells :] = people
    for numbers, of_table in zip(linked.numbers, counts, strict=True):
        value[numbers] = of_table.reshape(-1)
    for table, numbers, of_table in zip(linked.tables, linked.numbers, counts, strict=True):
        if not np.array_equal(value[numbers], of_table.reshape(-1)):
            raise ParameterError("tables-disagree/others", table=table.name)
    return value


def _shaped(layout: TableDimensions, counts: npt.NDArray[np.int64]) -> Integers:
    if counts.shape != layout.shape or counts.dtype.kind not in "iu":
        raise ParameterError("table-shape", found=str(counts.shape), layout=layout.name, shape=layout.shape)
    return counts.astype(np.int64)
