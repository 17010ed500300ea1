"""Sets of invariants from their files, and what they do to the promise: the answers of ``confide risk invariants``.

Shipped sets have names, the user's own have paths, and several can be put together. The mathematics is that of
:mod:`confide.privacy.invariants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.arrays import Floats
from confide.documents import FileKind, KeyPath, Loaded, Part, Problem, load_named, load_shipped, load_values, shipped
from confide.errors import ParameterError
from confide.exact import Exact, integer, positive
from confide.privacy.invariants import Answer, Status, group_statements, language, single_record
from confide.privacy.statements import factor, rounded_up

KIND = "invariants"
RECORDS = "invariants/records"
FILE = FileKind(
    "invariants", code="bad-invariants", own_codes=False, shipped=KIND, remedy="correct the file of invariants"
)
_MOST_LEVELS = 1000

Codes = Annotated[int, Field(ge=1)]
"""How many codes a level stands for."""
Members = str | list[str]
"""Names of levels and groups."""


class AttributeOfRecords(Part):
    """``[attributes.NAME]``: levels as a number, a list, or names with numbers of codes."""

    title: str | None = None
    levels: int | list[str | int] | dict[str, Codes]
    groups: dict[str, list[str | int]] = Field(default_factory=dict)
    residence: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """The levels, and how many codes each stands for."""
        if isinstance(self.levels, int):
            return {"any": self.levels}
        return self.levels if isinstance(self.levels, dict) else dict.fromkeys(map(str, self.levels), 1)


class GroupingPart(Part):
    """``[groupings.NAME]``."""

    title: str | None = None
    of: str
    groups: dict[str, Members]


class RecordsFile(Part):
    """What a record says: a file of its own, or part of a file of invariants."""

    id: str | None = None
    title: str = ""
    provenance: str = ""
    geography: list[str] = Field(default_factory=lambda: ["block"])
    attributes: dict[str, AttributeOfRecords] = Field(default_factory=dict)
    groupings: dict[str, GroupingPart] = Field(default_factory=dict)


class CountPart(Part):
    """One of ``[[counts]]``."""

    by: str = "all"
    where: dict[str, Members] = Field(default_factory=dict)


class BoundOfFrame(Part):
    """One of ``[[bounds]]``."""

    name: str | None = None
    by: str
    attribute: str
    units: dict[str, str] = Field(min_length=1)
    at_least: int = Field(0, ge=0)
    at_most: int | Literal["any"] | None = None
    when_least: str | None = None
    when_full: str | None = None


class NeverPart(Part):
    """One of ``[[never]]``."""

    where: dict[str, Members]


class InvariantsFile(RecordsFile):
    """The whole file."""

    records: str | None = None
    counts: list[CountPart] = Field(default_factory=list)
    bounds: list[BoundOfFrame] = Field(default_factory=list)
    never: list[NeverPart] = Field(default_factory=list)


def load_invariants(
    names: Iterable[str], base: Path | None = None, own: Mapping[str, Mapping[str, Any]] | None = None
) -> language.Invariants:
    """The invariants of all these names together; a name that does not ship is the path of a TOML file, or one of
    ``own``, which has the values of such files."""
    listed, given = list(names), own or {}
    if not listed:
        raise ParameterError("no-invariants", kind=", ".join(shipped(KIND)))
    folder = base or Path()
    return combine(
        parse_invariants(given[name], name) if name in given else _load(name, folder) for name in dict.fromkeys(listed)
    )


def combine(parts: Iterable[language.Invariants]) -> language.Invariants:
    """Several sets of invariants about the same records as one."""
    first, *rest = parts
    for other in rest:
        if other.records != first.records:
            raise ParameterError(
                "other-records/invariants",
                names=", ".join(first.names),
                records=first.records.id,
                names_found=", ".join(other.names),
                records_id=other.records.id,
            )
    every = [first, *rest]
    return language.Invariants(
        tuple(name for part in every for name in part.names),
        first.records,
        tuple(count for part in every for count in part.counts),
        tuple(bound for part in every for bound in part.bounds),
        tuple(never for part in every for never in part.never),
    )


def parse_invariants(values: Mapping[str, Any], file: str) -> language.Invariants:
    """A set of invariants from the values of its file.

    :raises SpecError: with every finding.
    """
    return _invariants(load_values(values, file, InvariantsFile, kind=FILE))


def _load(name: str, base: Path) -> language.Invariants:
    return _invariants(load_named(name, base, InvariantsFile, kind=FILE))


def _invariants(loaded: Loaded[InvariantsFile]) -> language.Invariants:
    file = loaded.value
    builder = _Builder()
    written: RecordsFile = file
    if file.records is not None:
        if file.records not in shipped(RECORDS):
            expected = f"one of {', '.join(shipped(RECORDS))}"
            raise loaded.error(
                builder.problem(("records",), "there are no records of this name", file.records, expected)
            )
        written = load_named(file.records, Path(), RecordsFile, kind=replace(FILE, shipped=RECORDS)).value
    records = builder.records(written, loaded.file)
    loaded.refuse(builder.problems)
    records = replace(records, groupings=builder.groupings(written, records))
    counts = tuple(builder.count(part, ("counts", n), records) for n, part in enumerate(file.counts))
    bounds = tuple(
        bound for n, part in enumerate(file.bounds) for bound in builder.bounds(part, ("bounds", n), records)
    )
    never = tuple(
        language.Never(builder.where(part.where, ("never", n, "where"), records)) for n, part in enumerate(file.never)
    )
    loaded.refuse(builder.problems)
    name = (Path(loaded.file).stem if file.id is None else file.id).strip()
    return language.Invariants((name,), records, counts, bounds, never)


class _Builder:
    """Makes the parts of a set of invariants and collects what is wrong."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @staticmethod
    def problem(path: KeyPath, what: str, value: object, expected: str) -> Problem:
        return Problem.of(
            path, "bad-invariants", what=what, seen=str(value)[:80], expected=expected, remedy=FILE.remedy
        )

    def _wrong(self, path: KeyPath, what: str, value: object, expected: str) -> None:
        self.problems.append(
            Problem.of(path, "bad-invariants", what=what, seen=str(value)[:80], expected=expected, remedy=FILE.remedy)
        )

    def records(self, written: RecordsFile, file: str) -> language.Records:
        """The records without their groupings."""
        if not written.geography or len(set(written.geography)) < len(written.geography):
            expected = 'such as ["state", "block"]'
            self._wrong(("geography",), "this is no list of geolevels", written.geography, expected)
        if not written.attributes:
            expected = "records = NAME, or tables [attributes.X]"
            self._wrong(("attributes",), "records have attributes", "nothing", expected)
        attributes = tuple(self._attribute(name, part) for name, part in written.attributes.items())
        for name in (name for name in written.attributes if name in written.geography):
            self._wrong(("attributes", name), "a geolevel has this name", name, "another name")
        return language.Records(file if written.id is None else written.id, tuple(written.geography), attributes)

    def _attribute(self, name: str, part: AttributeOfRecords) -> language.InvariantAttribute:
        path: KeyPath = ("attributes", name)
        sizes = part.sizes
        if not 0 < len(sizes) <= _MOST_LEVELS or min(sizes.values()) < 1:
            expected = "a number, a list, or names with numbers"
            self._wrong((*path, "levels"), "these are no levels", part.levels, expected)
        groups = {group: frozenset(map(str, members)) for group, members in part.groups.items()}
        for group in (group for group, members in groups.items() if not members <= set(sizes)):
            what, members = "a group is a list of levels", part.groups[group]
            self._wrong((*path, "groups", group), what, members, "names of levels")
        title = (name if part.title is None else part.title).strip()
        return language.InvariantAttribute(name, title, sizes, groups, residence=part.residence)

    def groupings(self, written: RecordsFile, records: language.Records) -> tuple[language.LevelGrouping, ...]:
        """Coarser looks at attributes."""
        return tuple(self._grouping(name, part, records) for name, part in written.groupings.items())

    def _grouping(self, name: str, part: GroupingPart, records: language.Records) -> language.LevelGrouping:
        path: KeyPath = ("groupings", name)
        groups = {group: self._levels(part.of, members, path, records) for group, members in part.groups.items()}
        known = {attribute.name: attribute for attribute in records.attributes}
        levels = sorted(level for group in groups.values() for level in group)
        if part.of in known and levels != sorted(known[part.of].levels):
            what, expected = "the groups do not divide the attribute", "every level in one group"
            self._wrong(path, what, ", ".join(groups), expected)
        return language.LevelGrouping(name, (name if part.title is None else part.title).strip(), part.of, groups)

    def count(self, part: CountPart, path: KeyPath, records: language.Records) -> language.InvariantCount:
        """What is published exactly."""
        if part.by != "all" and part.by not in records.geography:
            expected = f"all, {', '.join(records.geography)}"
            self._wrong((*path, "by"), "there is no such geolevel", part.by, expected)
        return language.InvariantCount(
            None if part.by == "all" else part.by, self.where(part.where, (*path, "where"), records)
        )

    def where(self, where: Mapping[str, Members], path: KeyPath, records: language.Records) -> language.Where:
        """Levels or groups by attribute."""
        return {name: self._levels(name, members, (*path, name), records) for name, members in where.items()}

    def _levels(self, name: str, members: Members, path: KeyPath, records: language.Records) -> frozenset[str]:
        attribute = next((item for item in records.attributes if item.name == name), None)
        if attribute is None:
            known = ", ".join(item.name for item in records.attributes)
            self._wrong(path, "records have no such attribute", name, f"one of {known}")
            return frozenset()
        levels: set[str] = set()
        for member in members if isinstance(members, list) else [members]:
            if member not in attribute.levels and member not in attribute.groups:
                known = ", ".join([*attribute.groups, *attribute.levels])
                self._wrong(path, "the attribute has no such level or group", member, f"some of {known}")
            else:
                levels |= attribute.named(member)
        return frozenset(levels)

    def bounds(self, part: BoundOfFrame, path: KeyPath, records: language.Records) -> list[language.InvariantBound]:
        """A bound for each of the levels or groups whose units the frame counts."""
        if part.by not in records.geography:
            expected = f"one of {', '.join(records.geography)}"
            self._wrong((*path, "by"), "there is no such geolevel", part.by, expected)
        if isinstance(part.at_most, int) and part.at_most < max(part.at_least, 1):
            what, expected = "this is no number of records per unit", 'a number, or "any"'
            self._wrong((*path, "at_most"), what, part.at_most, expected)
        name = (f"bounds.{int(path[1]) + 1}" if part.name is None else part.name).strip()
        least = f"{name}: no more than there must be" if part.when_least is None else part.when_least.strip()
        full = f"{name}: no room for more" if part.when_full is None else part.when_full.strip()
        return [
            language.InvariantBound(
                name,
                part.by,
                {part.attribute: self._levels(part.attribute, member, (*path, "units", member), records)},
                units,
                part.at_least,
                part.at_most,
                least,
                full,
            )
            for member, units in part.units.items()
        ]


# The example in which invariants give everybody away (Kifer & Machanavajjhala 2011; Ashmead et al. 2019, section 5).
#
# n numbers R_1, …, R_n between 0 and k. Each is published with Laplace noise of scale k/ε, which is ε-differentially
# private; and all sums R_i + R_{i+1} are published exactly. Then R_1 = s_j ± R_j for every j, with known s_j, so
# there are n independent unbiased estimates of R_1, each of variance 2k²/ε², and their mean has the variance
# 2k²/(nε²). This remains so if R_1 itself is replaced before the noise is added: the mean square error is at most
# k²/n² + 2k²/(nε²). So one record cannot be hidden, and the group that would have to be replaced is everybody: a
# factor of exp(2nε).


@dataclass(frozen=True)
class Chain:
    """``n`` records with values up to ``k``, each noisy at ``epsilon``, with all sums of neighbours exact."""

    n: int
    k: Fraction
    epsilon: Fraction

    @property
    def single_variance(self) -> Fraction:
        """2k²/ε²: of one noisy value."""
        return 2 * self.k**2 / self.epsilon**2

    @property
    def mean_variance(self) -> Fraction:
        """2k²/(nε²): of the mean of the n estimates."""
        return self.single_variance / self.n

    @property
    def counterfactual_error(self) -> Fraction:
        """k²/n² + 2k²/(nε²): at most the mean square error if the first record was replaced before noise was added."""
        return self.k**2 / self.n**2 + self.mean_variance

    @property
    def median_variance(self) -> Fraction:
        """k²/(nε²): of the sample median, for large n; 1/(4n f(0)²) with the Laplace density f(0) = ε/(2k)."""
        return self.k**2 / (self.n * self.epsilon**2)

    @property
    def group(self) -> int:
        """The smallest group: a change of one record forces one of every other, so everybody."""
        return self.n

    @property
    def multiplier(self) -> int:
        """The multiple of ε in the exponent of the bound."""
        return 2 * self.group


def chain(n: int, k: Exact, epsilon: Exact) -> Chain:
    """The example for given n, k and ε."""
    return Chain(integer(n, "n"), positive(k, "k"), positive(epsilon, "epsilon"))


def estimates(noisy: Floats, sums: Floats) -> Floats:
    """The estimates of the first value: one from every noisy value, along the last axis.

    With s_1 = 0 and s_{j+1} = s_j + (−1)^{j+1}(R_j + R_{j+1}), R_1 = s_j + (−1)^{j+1} R_j.
    """
    signs = np.where(np.arange(noisy.shape[-1]) % 2 == 0, 1.0, -1.0)
    start = np.zeros((*sums.shape[:-1], 1))
    offsets = np.concatenate([start, np.cumsum(signs[:-1] * sums, axis=-1)], axis=-1)
    return np.asarray(offsets + signs * noisy, np.float64)


# What figures without noise do to the promise of the others.


@dataclass(frozen=True)
class InvariantsAnswer(TypedAnswer):
    """What invariants do to the promise: for one record, and for the smallest group that hides what they fix."""

    invariants: language.Invariants
    single_record: Mapping[str, Answer]
    """For each attribute, geolevel and grouping: what one record can be changed to."""
    groups: Mapping[group_statements.Mode, group_statements.RecordGroup]
    """For each meaning of "left open": the smallest group of records that leaves open what is fixed."""
    loss: group_statements.RecordLoss
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
            return {"loss": group_statements.numbers(multiplier, epsilon=loss.epsilon, rho=loss.rho, delta=loss.delta)}

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

    def described(self) -> Iterator[AnswerPart]:
        """One record, the smallest groups, and the sentences if they were asked for."""
        yield from _single_record_described(self)
        yield ""
        yield from _groups_described(self)
        yield "\nWhat the invariants give away by themselves is not limited by these numbers."
        for sentence in self.sentences if self.explained else ():
            yield ""
            yield sentence


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
    delta: Exact = group_statements.DELTA,
    base: str | Path | None = None,
    explained: bool = False,
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> InvariantsAnswer:
    """What invariants do to the promise of a release. No records are read.

    Args:
        names: Sets of invariants that ship, or paths of TOML files; they hold together.
        epsilon: The loss of the release in pure differential privacy, if the bounds are wanted in numbers.
        rho: Or its loss in zCDP.
        delta: The delta at which a rho is stated as an epsilon.
        base: The folder that paths are relative to; without it, the working folder.
        explained: Whether :meth:`InvariantsAnswer.as_dict` has the sentences too.
        own: The values of files that are not written yet, by the names that stand for them.

    Returns:
        What holds for one record, the smallest groups, and sentences about both.

    >>> answer = invariants(["C1"], epsilon=1)
    >>> {mode.value: group.size for mode, group in answer.groups.items()}["pairwise"]
    2
    """
    if epsilon is not None and rho is not None:
        raise ParameterError("two-losses")
    chosen = load_invariants(names, None if base is None else Path(base), own)
    answers, smallest, loss = (
        single_record(chosen),
        group_statements.record_groups(chosen),
        group_statements.RecordLoss(epsilon, rho, delta),
    )
    return InvariantsAnswer(
        chosen, answers, smallest, loss, tuple(group_statements.explain(answers, smallest, loss)), explained
    )


def records_of(name: str) -> language.Records:
    """What records of a form that ships say: the levels of geography, and the attributes.

    Args:
        name: Such as ``census-persons``.

    >>> records_of("census-persons").geography
    ('block',)
    """
    return parse_invariants({"records": name}, name).records


def shipped_invariants() -> tuple[ShippedInvariants, ...]:
    """The sets of invariants that ship with Confide.

    Returns:
        Name, title and form of records of each set.

    >>> [item.name for item in shipped_invariants()][:3]
    ['2020', 'C1', 'C2']
    """
    listed = ((name, load_shipped(KIND, name)) for name in shipped(KIND))
    return tuple(ShippedInvariants(name, values["title"], values["records"]) for name, values in listed)


# The answer in sentences and tables.


STATUS = {
    Status.FREE: "free",
    Status.COARSE: "inside a cell",
    Status.DATA: "depends on the data",
    Status.FIXED: "fixed",
}


def _single_record_described(answer: InvariantsAnswer) -> Iterator[AnswerPart]:
    names, records = answer.invariants.names, answer.invariants.records.id
    yield Said("Published without noise:", f" {', '.join(names)}; records {records}.\n")
    rows = []
    for item in answer.single_record.values():
        bound = "not quantified" if item.multiplier is None else f"{item.multiplier} ε"
        cells = "; ".join(item.cells) if item.status is not Status.FREE else ""
        rows.append((item.title, STATUS[item.status], bound, cells))
    yield ShownTable(
        ["one record's", "is", "protected at", "cells that cannot be left"], rows, title="One record changed"
    )
    situations = dict.fromkeys(words for item in answer.single_record.values() for words in item.depends_on)
    if situations:
        yield "\nFewer values are possible where " + "; or ".join(situations) + "."


def _groups_described(answer: InvariantsAnswer) -> Iterator[AnswerPart]:
    epsilon, rho, delta = answer.loss.epsilon, answer.loss.rho, answer.loss.delta
    columns = ["group that leaves open what is fixed", "records ", "protected at "]
    lines = []
    for mode, group in answer.groups.items():
        line = [mode.value, str(group.size), f"{group.multiplier} ε"]
        if epsilon is not None:
            line.append(factor(group.multiplier * positive(epsilon, "--epsilon")))
        if rho is not None:
            worst, distinct = group_statements.group_concentration(group.size, rho, delta)
            line += [rounded_up(worst.rho), rounded_up(worst.epsilon, 2), factor(worst.log_factor)]
            line += [rounded_up(distinct.rho), rounded_up(distinct.epsilon, 2)]
        lines.append(line)
    columns += ["factor at most "] if epsilon is not None else []
    columns += ["k²ρ ", "ε at δ ", "factor, but for 2δ ", "kρ ", "ε at δ "] if rho is not None else []
    yield ShownTable(columns, lines, title="The smallest group")
    for mode, group in answer.groups.items():
        for when, size in group.exceptions:
            if size > group.size:
                yield f"{mode.value}: {size} records, {2 * size} ε, where {' and '.join(when)}."
