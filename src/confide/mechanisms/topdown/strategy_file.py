"""Reading a strategy file: TOML in, checked strategies out, every problem at once and at its line.

One file says everything of a product: schema, levels, shares, passes, constraints, for each root it can be used with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field

from confide.documents import FileKind, Loaded, SchemaFile, build_schema, codes_in, load_named, load_schema, load_text
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.exact import Exact, positive_within
from confide.mechanisms.topdown.constraints import Constraints, FrameBound, Invariant, Side, StructuralZero
from confide.mechanisms.topdown.strategy import (
    DELTA,
    TREE,
    Estimation,
    LevelStrategy,
    Pass,
    QueryShare,
    Strategy,
    StrategyAccount,
    account_of,
    cut,
    invariant_queries,
    normal_name,
    refine_together,
    refines,
    resolve,
    same_cells,
)
from confide.privacy import Definition, Neighbours
from confide.releases.spec import ExactNumber, KeyPath, Name, Part, Problem
from confide.schema import DETAILED, Query, Recode, Schema

# The form of a strategy file: its tables and keys, as models. What the keys mean together is for ``build``.
#
# ``[roots.NAME]`` is a table of shares, a column for each level and a row for each query; ``[derived.NAME]`` cuts a
# root at a lower level. See ``docs/concepts/strategy.md``.


NOT_MEASURED = "-"
BLOCK = "block"
"""What strategy files call the smallest places, whatever a spec calls them."""

QueryName = Annotated[str, AfterValidator(lambda text: "*".join(part.strip() for part in text.split("*")))]
LevelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]
Share = Annotated[ExactNumber | None, BeforeValidator(lambda value: None if value == NOT_MEASURED else value)]
"""An exact share, or ``-`` where the query is not measured."""


class PassPart(Part):
    """A least-squares pass."""

    queries: list[QueryName] = Field(min_length=1, description="The queries of the objective.")
    constrain: list[QueryName] = Field(default_factory=list, description="The answers that later passes keep.")


class EstimationPart(Part):
    """How the units of a level are estimated."""

    least_squares: list[PassPart] = Field(min_length=1, description="The least-squares passes in order.")
    rounding: list[list[QueryName]] = Field(
        min_length=1, description="The rounding passes, together a chain; without slack a chain for each pass."
    )
    slack: ExactNumber | None = Field(
        None, description="How far kept answers may move; without it each pass makes them whole before the next."
    )


class RootPart(Part):
    """Levels, shares and queries for one kind of root."""

    budget: ExactNumber = Field(description="The budget when the spec names none.")
    levels: list[LevelName] = Field(min_length=1, description="The levels, root first, `block` last.")
    shares: list[ExactNumber] = Field(description="The share of each level.")
    estimation: list[str] = Field(description="The name of the estimation of each level.")
    queries: dict[QueryName, list[Share]] = Field(description="For each query its share of each level, or -.")


class DerivedPart(Part):
    """A root that is a unit of a lower level of another root."""

    source: str = Field(alias="from", description="The root whose strategy is cut.")
    top: str = Field(description="The level that becomes the root.")
    estimation: str = Field(description="The name of the estimation of the new root.")
    renormalise: bool = Field(False, description="false: keep the noise, spend less; true: spend the whole budget.")


class InvariantPart(Part):
    """What is published without noise."""

    name: Name
    level: str = Field(description="The lowest level on which the figure is published.")
    query: QueryName | None = Field(None, description="The query whose answer it is.")
    frame: list[str] = Field(default_factory=list, description="The columns of the block table that it is.")


class BoundPart(Part):
    """A bound on the counts of the groups of a variable."""

    name: Name
    variable: str = Field(description="A variable of the schema.")
    side: Literal["lower", "upper"]
    per_unit: int = Field(ge=1, le=10**6, description="So many records for each unit that the frame counts.")
    frame: dict[str, str] = Field(min_length=1, description="Code of an attribute, or label of a group = column.")


class ZeroPart(Part):
    """Combinations that no record can have."""

    name: Name
    where: dict[str, list[int | str]] = Field(min_length=1, description="Attribute = codes, or ranges of codes.")


class StrategyFile(Part):
    """A strategy file."""

    id: Name
    title: str = Field(min_length=1, max_length=200)
    provenance: str = Field(min_length=1, description="One sentence: where the settings come from.")
    record: str = Field("person", pattern=r"^[a-z][a-z -]{0,40}$", description="What one record describes, in words.")
    schema_: str | SchemaFile = Field(alias="schema", description="A shipped name, a path, or the schema itself.")
    blocks_with: list[str] = Field(
        default_factory=list,
        description="Columns of the block table: where all are zero nobody is, and the block is not on the spine.",
    )
    apart: list[str] = Field(
        default_factory=list,
        description="Columns of the block table: a made block group has no blocks that differ in which are zero.",
    )
    bypass: Literal["by-level", "by-query"] = Field(
        "by-level",
        description="How a unit divides the share of its only child: as its own level does, or query by query.",
    )
    evidence: Literal["own", "tree"] = Field(
        "own",
        description="own: units are estimated from their own measurements, as in 2020; tree: from those below, too.",
    )
    definition: Literal["zcdp"] = Field(description="Noise is discrete Gaussian, accounted in zCDP.")
    neighbours: Literal["change-one", "add-remove"]
    root: str = Field(description="The root that is meant when none is named.")
    roots: dict[Name, RootPart] = Field(min_length=1)
    derived: dict[Name, DerivedPart] = Field(default_factory=dict)
    estimation: dict[Name, EstimationPart] = Field(min_length=1)
    invariants: list[InvariantPart] = Field(default_factory=list)
    bounds: list[BoundPart] = Field(default_factory=list)
    zeros: list[ZeroPart] = Field(default_factory=list)


class Notes:
    """What is wrong with a file, collected."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.problems: list[Problem] = []

    def wrong(self, path: KeyPath, key: str, seen: object, names: Iterable[str] = (), **facts: object) -> None:
        """Notes a problem with the texts of a key; ``names`` are those to choose from."""
        listed = ", ".join(names)
        self.problems.append(Problem.of(path, key, found=str(seen)[:200], names=listed, **facts))

    def passed_on(self, path: KeyPath, findings: Iterable[Finding]) -> None:
        """Notes what another part of Confide found."""
        for finding in findings:
            self.problems.append(Problem.passed_on(path, finding))

    def query(self, path: KeyPath, text: str) -> Query | None:
        """The query that ``text`` names; or nothing, and a problem."""
        try:
            query = resolve(self.schema, text)
        except ConfideError as error:
            self.passed_on(path, error.findings)
            return None
        if query.is_complete:
            return query
        self.wrong(path, "incomplete-recode/strategy", text, query=text)
        return None

    def name(self, text: str) -> str:
        """The one name of the query that ``text`` names; the text itself where it names none, which is noted where the
        query is used."""
        try:
            return normal_name(self.schema, text)
        except ConfideError:
            return text

    def names(self, texts: Iterable[str]) -> tuple[str, ...]:
        """The same for several."""
        return tuple(map(self.name, texts))


def written_places(text: str, query: Query) -> NDArray[np.int64]:
    """For each cell of a query its place among cells that are listed in the order of the words of ``text``.

    Args:
        text: The query as somebody wrote it, such as ``age*sex``.
        query: The same, with its variables in the order of the schema, such as ``sex*age``.
    """
    size = {variable.name: variable.size for variable in query.variables}
    words = [word.strip() for word in text.split("*")] if len(size) > 1 and text != DETAILED else list(size)
    places = np.arange(query.cells).reshape([size[word] for word in words])
    return places.transpose([words.index(name) for name in size]).ravel()


# From the constraints of a strategy file to constraints, with all that is wrong with them.


def make_constraints(values: StrategyFile, notes: Notes) -> Constraints:
    """The constraints of a file, and every problem with them."""
    before = len(notes.problems)
    for key, parts in (("invariants", values.invariants), ("bounds", values.bounds), ("zeros", values.zeros)):
        for name, times in Counter(part.name for part in parts).items():
            if times > 1:
                notes.wrong((key,), "repeated-name", name, kind=key, name=name)
    constraints = Constraints(
        tuple(_invariants(values, notes)), tuple(_bounds(values, notes)), tuple(_zeros(values, notes))
    )
    if len(notes.problems) > before:
        return constraints
    if constraints.zero_cells(notes.schema).all():
        notes.wrong(("zeros",), "constraints-clash/zeros", ", ".join(repr(zero.name) for zero in constraints.zeros))
    notes.passed_on(("bounds",), constraints.clashes(notes.schema))
    return constraints


def _invariants(values: StrategyFile, notes: Notes) -> Iterator[Invariant]:
    for position, part in enumerate(values.invariants):
        at: KeyPath = ("invariants", position)
        query = None if part.query is None else notes.query((*at, "query"), part.query)
        if part.query is None and not part.frame:
            notes.wrong(at, "empty-invariant", "neither", name=part.name)
        if query is not None and part.frame and len(part.frame) != query.cells:
            notes.wrong(
                (*at, "frame"),
                "row-length/invariant",
                len(part.frame),
                name=part.name,
                query=part.query,
                cells=query.cells,
            )
        if query is not None and query.variables and not part.frame:
            notes.wrong((*at, "query"), "invariant-query", part.query, name=part.name)
        if query is not None and part.frame and part.level != BLOCK:
            notes.wrong((*at, "level"), "invariant-level/frame", part.level, name=part.name, block=BLOCK)
        if part.query is not None and values.neighbours != Neighbours.CHANGE_ONE.value:
            notes.wrong(("neighbours",), "invariant-neighbours", values.neighbours, name=part.name)
        frame = tuple(part.frame)
        if query is None or part.query is None:
            yield Invariant(part.name, part.level, None, frame)
            continue
        if len(frame) == query.cells:
            # The columns are listed in the order of the query's words, and are kept in that of the schema.
            frame = tuple(frame[place] for place in written_places(part.query, query).tolist())
        yield Invariant(part.name, part.level, notes.name(part.query), frame)


def _bounds(values: StrategyFile, notes: Notes) -> Iterator[FrameBound]:
    for position, part in enumerate(values.bounds):
        at: KeyPath = ("bounds", position)
        variable = notes.schema.variables.get(part.variable)
        if variable is None:
            known, name = notes.schema.variables, part.variable
            notes.wrong((*at, "variable"), "unknown-variable/strategy", name, known, variable=name)
            continue
        keys = _group_keys(variable)
        for key in (key for key in part.frame if key not in keys):
            notes.wrong((*at, "frame", key), "unknown-group", key, keys, variable=part.variable, group=key)
        frame = {keys[key]: column for key, column in part.frame.items() if key in keys}
        yield FrameBound(part.name, variable, Side(part.side), part.per_unit, frame)


def _zeros(values: StrategyFile, notes: Notes) -> Iterator[StructuralZero]:
    attributes = {attribute.name: attribute for attribute in notes.schema.attributes}
    for position, part in enumerate(values.zeros):
        at: KeyPath = ("zeros", position, "where")
        where: dict[str, Any] = {}
        for name, codes in part.where.items():
            if name not in attributes:
                notes.wrong((*at, name), "unknown-attribute/strategy", name, attributes, attribute=name)
                continue
            listed = codes_in(attributes[name], codes)
            for code in (code for code in listed if code not in attributes[name].index):
                known = attributes[name].describe_codes()
                notes.wrong((*at, name), "unknown-code/strategy", code, attribute=name, code_there=code, codes=known)
            where[name] = tuple(code for code in listed if code in attributes[name].index)
        yield StructuralZero(part.name, where)


def _group_keys(variable: Recode) -> dict[str, int]:
    """What a bound calls the groups of a variable: the code of an attribute's level, or the label of a recode's."""
    if variable.name == variable.attribute.name:
        return {str(level.code): index for index, level in enumerate(variable.attribute.levels)}
    return {label: index for index, label in enumerate(variable.labels)}


# From a strategy file whose values are each of the right form to strategies, with all that is wrong with them.


def build(
    values: StrategyFile, schema: Schema, *, renormalise: bool | None = None
) -> tuple[dict[str, Strategy], list[Problem]]:
    """The strategy for each root of a file, and every problem. With a problem, the strategies are not to be used."""
    notes = Notes(schema)
    maker = _Maker(values, notes)
    strategies = {name: maker.root(name, part) for name, part in values.roots.items()}
    for name, strategy in strategies.items():
        maker.check_invariants(name, strategy)
    for name, part in values.derived.items():
        derived = maker.derived(name, strategies, part.renormalise if renormalise is None else renormalise)
        if derived is not None:
            strategies[name] = derived
    if values.root not in {*values.roots, *values.derived}:
        notes.wrong(("root",), "unknown-root/strategy", values.root, values.roots | values.derived)
    return strategies, notes.problems


class _Maker:
    """Makes strategies and collects what is wrong."""

    def __init__(self, values: StrategyFile, notes: Notes):
        self._values, self._notes, self._schema = values, notes, notes.schema
        self._estimations = {name: self._estimation(name, part) for name, part in values.estimation.items()}
        self._constraints = make_constraints(values, notes)
        self._check_limited()

    def root(self, name: str, part: RootPart) -> Strategy:
        """The strategy of a root that is in the file in full."""
        path: KeyPath = ("roots", name)
        self._check_levels(path, part)
        count = len(part.levels)
        for key, length in {"shares": len(part.shares), "estimation": len(part.estimation)}.items():
            if length != count:
                self._notes.wrong((*path, key), "row-length/levels", length, row=key, levels=count)
        self._check_sum((*path, "shares"), part.shares)
        queries: dict[str, Query] = {}
        for text, row in part.queries.items():
            query = self._notes.query((*path, "queries", text), text)
            if query is None:
                continue
            for other in (text_before for text_before in queries if same_cells(queries[text_before], query)):
                self._notes.wrong((*path, "queries", text), "repeated-query/same", text, query=text, other=other)
            queries[text] = query
            if len(row) != count:
                at = (*path, "queries", text)
                self._notes.wrong(at, "row-length/queries", len(row), query=text, levels=count)
        levels = []
        for position, level in enumerate(part.levels):
            column = {text: row[position] for text, row in part.queries.items() if position < len(row)}
            shares = {text: share for text, share in column.items() if share is not None}
            self._check_sum((*path, "queries"), shares.values(), level)
            query_shares = tuple(
                QueryShare(self._notes.name(text), queries[text], share)
                for text, share in shares.items()
                if text in queries
            )
            named = part.estimation[position] if position < len(part.estimation) else ""
            where: KeyPath = (*path, "estimation", position)
            share = part.shares[position] if position < len(part.shares) else Fraction(0)
            measured = self._notes.names(shares) if len(queries) == len(part.queries) else None
            levels.append(LevelStrategy(level, share, query_shares, self._named(where, named, level, measured)))
        return self._strategy(name, part.budget, tuple(levels))

    def derived(self, name: str, strategies: Mapping[str, Strategy], renormalise: bool) -> Strategy | None:
        """The strategy of a root that is cut from another."""
        part, path = self._values.derived[name], ("derived", name)
        if name in self._values.roots:
            self._notes.wrong(path, "repeated-root", name, root=name)
            return None
        if part.source not in self._values.roots:
            self._notes.wrong((*path, "from"), "unknown-root/strategy", part.source, self._values.roots)
            return None
        source = strategies[part.source]
        if part.top not in source.level_names:
            self._notes.wrong((*path, "top"), "unknown-level/strategy", part.top, source.level_names)
            return None
        estimation = self._estimations.get(part.estimation, Estimation(part.estimation, (), ()))
        if self._notes.problems:
            return None  # a cut of something wrong would repeat what is wrong
        try:
            strategy = cut(source, name, part.top, estimation, renormalise=renormalise)
        except ConfideError as error:
            self._notes.passed_on((*path, "top"), error.findings)
            return None
        self._named((*path, "estimation"), part.estimation, part.top, [a.name for a in strategy.levels[0].queries])
        return strategy

    def check_invariants(self, name: str, strategy: Strategy) -> None:
        """The invariants against the levels of a root, and what is measured at its top."""
        for position, invariant in enumerate(strategy.constraints.invariants):
            if invariant.level not in strategy.level_names:
                at: KeyPath = ("invariants", position, "level")
                self._notes.wrong(
                    at,
                    "unknown-level/invariant",
                    invariant.level,
                    strategy.level_names,
                    name=invariant.name,
                    root=strategy.root,
                )
        top = strategy.levels[0]
        invariants = invariant_queries(strategy.constraints, strategy.schema)
        for query_share in top.queries:
            if any(same_cells(query_share.query, query) for query in invariants):
                rows = self._values.roots[name].queries
                written = next(text for text in rows if self._notes.name(text) == query_share.name)
                at = ("roots", name, "queries", written)
                self._notes.wrong(at, "invariant-measured", query_share.share, query=query_share.name, level=top.name)

    def _strategy(self, name: str, budget: Fraction, levels: tuple[LevelStrategy, ...]) -> Strategy:
        values = self._values
        definition, neighbours = Definition(values.definition), Neighbours(values.neighbours)
        identity = (values.id, values.title, values.provenance, name)
        return Strategy(
            *identity,
            self._schema,
            definition,
            neighbours,
            budget,
            levels,
            self._constraints,
            values.record,
            tuple(values.blocks_with),
            tuple(values.apart),
            values.evidence,
            values.bypass,
        )

    def _check_levels(self, path: KeyPath, part: RootPart) -> None:
        for level, times in Counter(part.levels).items():
            if times > 1:
                self._notes.wrong((*path, "levels"), "repeated-level/strategy", level, level=level)
        if part.levels[-1] != BLOCK:
            self._notes.wrong((*path, "levels"), "no-blocks/strategy", part.levels[-1], block=BLOCK)

    def _check_sum(self, path: KeyPath, shares: Iterable[Fraction], level: str | None = None) -> None:
        """Shares of the queries on a level, or of the levels, sum to one."""
        total = sum(shares, Fraction(0))
        if total != 1:
            self._notes.wrong(
                path,
                "share-sum",
                total,
                of_queries=level is not None,
                level=level,
                short=total < 1,
                rest=abs(1 - total),
            )

    def _named(self, path: KeyPath, name: str, level: str, measured: Collection[str] | None) -> Estimation:
        """The estimation of that name. Its passes must cover exactly what is measured on the level, where known."""
        estimation = self._estimations.get(name)
        if estimation is None:
            if name:
                self._notes.wrong(path, "unknown-estimation", name, self._estimations, estimation=name)
            return Estimation(name, (), ())
        if measured is None:
            return estimation
        fitted = {query for step in estimation.least_squares for query in step.queries}
        for query in (query for query in measured if query not in fitted):
            self._notes.wrong(path, "unused-measurement", name, query=query, level=level, estimation=name)
        for query in sorted(fitted - set(measured)):
            self._notes.wrong(path, "not-measured", query, measured, query=query, level=level, estimation=name)
        return estimation

    def _estimation(self, name: str, part: EstimationPart) -> Estimation:
        path: KeyPath = ("estimation", name)
        names = self._notes.names
        passes = tuple(Pass(names(p.queries), names(p.constrain)) for p in part.least_squares)
        seen: set[str] = set()
        for position, step in enumerate(passes):
            at = (*path, "least_squares", position)
            for query in step.queries:
                if query in seen:
                    self._notes.wrong((*at, "queries"), "repeated-query/pass", query, query=query)
                seen.add(query)
            for query in step.constrain:
                if query not in seen:
                    self._notes.wrong((*at, "constrain"), "not-estimated", query, sorted(seen), query=query)
            if not step.constrain and position + 1 < len(passes):
                query = step.queries[0]
                self._notes.wrong((*at, "constrain"), "unused-measurement/pass", "nothing", step.queries, query=query)
        if passes[-1].constrain:
            at = (*path, "least_squares", len(passes) - 1, "constrain")
            self._notes.wrong(at, "no-later-pass", ", ".join(passes[-1].constrain))
        rounding = tuple(map(names, part.rounding))
        estimation = Estimation(name, passes, rounding, part.slack or Fraction(0))
        if estimation.interleaved:
            self._check_turns(path, estimation)
        else:
            self._check_chain(path, estimation, estimation.chain)
        return estimation

    def _check_turns(self, path: KeyPath, estimation: Estimation) -> None:
        """Passes and rounding in turns: a chain for each pass, made of what the pass keeps."""
        passes, lists = estimation.least_squares, estimation.rounding
        if len(passes) != len(lists):
            self._notes.wrong((*path, "rounding"), "bad-turns/lists", len(lists), lists=len(lists), passes=len(passes))
            return
        if self._values.evidence == TREE:
            self._notes.wrong(("evidence",), "bad-turns/evidence", TREE, estimation=estimation.name)
        held: list[Query] = []
        for number, step in enumerate(passes):
            last = number == len(passes) - 1
            at = (*path, "least_squares", number, "constrain")
            before, kept = tuple(held), [self._notes.query(at, text) for text in step.constrain]
            held += [query for query in kept if query is not None]
            chain = self._check_chain(path, estimation, lists[number], before=before, number=number, last=last)
            for place, text, query in () if last else chain:
                if not refine_together(held, query):
                    names = ", ".join(step.constrain)
                    self._notes.wrong(place, "bad-turns/finer", text, query=text, names=names)

    def _check_chain(
        self,
        path: KeyPath,
        estimation: Estimation,
        names: Sequence[str],
        *,
        before: Sequence[Query] = (),
        number: int | None = None,
        last: bool = True,
    ) -> list[tuple[KeyPath, str, Query]]:
        """Rounding queries that do not refine each other inside what is held ``before``; returns the queries. Of
        passes in turns it is the list of one pass by its number."""
        places: list[KeyPath] = [
            (*path, "rounding", i, j)
            for i, listed in enumerate(estimation.rounding)
            for j in range(len(listed))
            if number in (None, i)
        ]
        queries = [self._notes.query(at, text) for at, text in zip(places, names, strict=True)]
        chain = [(at, text, q) for at, text, q in zip(places, names, queries, strict=True) if q is not None]
        for (_, coarse, above), (at, fine, below) in pairwise(chain):
            if not refine_together((below, *before), above):
                self._notes.wrong(at, "not-a-chain/refine", fine, estimation=estimation.name, fine=fine, coarse=coarse)
        if last and not (chain and same_cells(chain[-1][2], resolve(self._schema, DETAILED))):
            self._notes.wrong(
                (*path, "rounding"),
                "not-a-chain/end",
                chain[-1][1] if chain else "nothing",
                estimation=estimation.name,
                detailed=DETAILED,
            )
        # Passes in turns look at limits until what is held refines them.
        for at, name, limited in self._limited():
            if before and refine_together(before, limited):
                continue
            for query in (query for query in before if not refines(limited, query)):
                at_name = query.name
                self._notes.wrong(at, "not-a-chain/nest", at_name, name=name, query=at_name, estimation=estimation.name)
            for _, text, query in chain:
                if not (refine_together((query, *before), limited) or refines(limited, query)):
                    self._notes.wrong(at, "not-a-chain/nest", text, name=name, query=text, estimation=estimation.name)
        return chain

    def _check_limited(self) -> None:
        """Limits are of one query: with those of a second, a parent may keep the sums of both and yet have counts that
        no children add up to (``docs/proofs/topdown.md``, section 5)."""
        (_, first, first_query), *others = [*self._limited()] or [((), "", Query(()))]
        for at, name, query in others:
            if not same_cells(query, first_query):
                self._notes.wrong(at, "several-limits", f"{first!r} and {name!r}", first=first, name=name)

    def _limited(self) -> Iterator[tuple[KeyPath, str, Query]]:
        """The queries that bounds and invariants of the frame limit in every unit."""
        for position, bound in enumerate(self._values.bounds):
            variable = self._schema.variables.get(bound.variable)
            if variable is not None:
                yield ("bounds", position, "variable"), bound.name, Query((variable,))
        for position, invariant in enumerate(self._values.invariants):
            if invariant.query is not None and invariant.frame:
                with suppress(ConfideError):  # what is wrong with it is noted where invariants are made
                    yield ("invariants", position, "query"), invariant.name, resolve(self._schema, invariant.query)


KIND = "strategies"
SMALLEST, LARGEST = Fraction(1, 10**50), Fraction(10**6)
STRATEGY = FileKind("strategy", unreadable="bad-strategy", shipped=KIND)


def load_strategy(
    name: str,
    base: Path = Path(),
    *,
    root: str | None = None,
    budget: Exact | None = None,
    renormalise: bool | None = None,
) -> Strategy:
    """The strategy shipped under ``name``, or in the file ``name`` relative to ``base``, for one of its roots.

    Args:
        name: A shipped strategy, such as ``pl94-persons``, or a TOML file.
        base: The folder that a file is relative to.
        root: The root to use; without it, the one the file names.
        budget: The budget (rho) in place of the file's; the shares stay.
        renormalise: Whether a derived root spends the whole budget, in place of the file's setting.

    Returns:
        The checked strategy. Raises a :class:`SpecError` with all findings.

    >>> strategy = load_strategy("pl94-persons", root="state")
    >>> strategy.level_names[0], strategy.level_names[-1]
    ('state', 'block')
    """
    strategies, default = load_strategies(name, base, renormalise=renormalise)
    chosen = default if root is None else root
    if chosen not in strategies:
        raise ParameterError(
            "unknown-root",
            where=Place(path="root"),
            found=repr(chosen),
            name=name,
            chosen=chosen,
            strategies=", ".join(strategies),
        )
    strategy = strategies[chosen]
    return strategy if budget is None else strategy.with_budget(budget)


def load_strategies(
    name: str, base: Path = Path(), *, renormalise: bool | None = None
) -> tuple[dict[str, Strategy], str]:
    """Every root of a strategy file, and the name of the default one."""
    return _strategies(load_named(name, base, StrategyFile, kind=STRATEGY), base, renormalise)


def parse_strategies(
    text: str, file: str, base: Path = Path(), *, renormalise: bool | None = None
) -> tuple[dict[str, Strategy], str]:
    """Every root of the strategy in the text of a TOML file, and the name of the default one."""
    return _strategies(load_text(text, file, StrategyFile, kind=STRATEGY), base, renormalise)


def _strategies(loaded: Loaded[StrategyFile], base: Path, renormalise: bool | None) -> tuple[dict[str, Strategy], str]:
    schema = _schema(loaded, base)
    strategies, problems = build(loaded.value, schema, renormalise=renormalise)
    loaded.refuse(problems)
    return strategies, loaded.value.root


def _schema(loaded: Loaded[StrategyFile], base: Path) -> Schema:
    """The schema that the file names, or has in itself."""
    given = loaded.value.schema_
    if isinstance(given, SchemaFile):
        schema, problems = build_schema(given)
        loaded.refuse(replace(problem, path=("schema", *problem.path)) for problem in problems)
        return schema
    # A rehearsal has its spec in a folder of its own: the schema then lies beside the strategy.
    folder = base if (base / given).is_file() else loaded.path.parent
    return load_schema(given, folder, lambda: loaded.place("schema"))


def account_strategy(
    name: str,
    *,
    root: str | None = None,
    budget: Exact | None = None,
    renormalise: bool | None = None,
    delta: Exact = DELTA,
) -> StrategyAccount:
    """The cost of a TopDown strategy, whole and in parts, and the variance of each of its measurements.

    Args:
        name: A strategy that ships, or the path of a strategy file.
        root: The root: of the shipped ones ``us``, ``pr``, or ``state`` for one state on its own.
        budget: A rho in place of the strategy's own; the shares stay.
        renormalise: For a root cut from another: whether to spend the whole budget, or to keep the noise and spend
            less.
        delta: The delta at which epsilon is stated.

    Returns:
        The loss exactly and as epsilon, by attribute and by move, and the variances.

    >>> account_strategy("pl94-persons").total.rho
    Fraction(293764, 114921)
    """
    amount = None if budget is None else positive_within(budget, "budget", SMALLEST, LARGEST)
    chosen = load_strategy(name, root=root, budget=amount, renormalise=renormalise)
    return account_of(chosen, positive_within(delta, "delta", SMALLEST, Fraction(1, 2)))
