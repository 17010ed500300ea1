"""Reading a strategy file: TOML in, checked strategies out, every problem at once and at its line.

One file says everything of a product: schema, levels, shares, passes, constraints, for each root it can be used with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BeforeValidator, Field

from confide.documents import FileKind, Loaded, SchemaFile, build_schema, load_named, load_schema, load_text
from confide.errors import ConfideError, ParameterError, Place
from confide.exact import Exact, positive_within
from confide.mechanisms.topdown.constraints import Constraints, FrameBound, Invariant, Side, StructuralZero
from confide.mechanisms.topdown.strategy import (
    DELTA,
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
    rounding: list[list[QueryName]] = Field(min_length=1, description="The rounding passes; together a chain.")
    slack: ExactNumber | None = Field(None, description="How far kept answers may move in later passes.")


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
    where: dict[str, list[int | str]] = Field(min_length=1, description="Attribute = codes.")


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

    def wrong(
        self, path: KeyPath, code: str, what: str, found: object, expected: str | Iterable[str], remedy: str = ""
    ) -> None:
        """Notes a problem. ``expected`` is a sentence, or the names to choose from."""
        sentence = expected if isinstance(expected, str) else "one of " + ", ".join(expected)
        remedy = remedy or "correct the strategy file"
        self.problems.append(Problem(path, code, what, sentence, str(found)[:200], remedy))

    def passed_on(self, path: KeyPath, error: ConfideError) -> None:
        """Notes what another part of Confide found."""
        for f in error.findings:
            self.wrong(path, f.code, f.what, f.found, f.expected or "another value", f.remedy or "")

    def query(self, path: KeyPath, text: str) -> Query | None:
        """The query that ``text`` names; or nothing, and a problem."""
        try:
            query = resolve(self.schema, text)
        except ConfideError as error:
            self.passed_on(path, error)
            return None
        if query.is_complete:
            return query
        self.wrong(path, "incomplete-recode", f"{text!r} leaves levels out", text, "a group for every level")
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
                notes.wrong((key,), "repeated-name", f"two {key} have the name {name!r}", name, "names that differ")
    constraints = Constraints(
        tuple(_invariants(values, notes)), tuple(_bounds(values, notes)), tuple(_zeros(values, notes))
    )
    if len(notes.problems) > before:
        return constraints
    if constraints.zero_cells(notes.schema).all():
        what, names = "structural zeros forbid every record", ", ".join(repr(zero.name) for zero in constraints.zeros)
        remedy = "drop one of them: estimates without anybody are no release"
        notes.wrong(
            ("zeros",), "constraints-clash", what, names, "a combination of codes that records can have", remedy
        )
    for finding in constraints.clashes(notes.schema):
        notes.wrong(
            ("bounds",), finding.code, finding.what, finding.found, finding.expected or "", finding.remedy or ""
        )
    return constraints


def _invariants(values: StrategyFile, notes: Notes) -> Iterator[Invariant]:
    for position, part in enumerate(values.invariants):
        at: KeyPath = ("invariants", position)
        query = None if part.query is None else notes.query((*at, "query"), part.query)
        if part.query is None and not part.frame:
            notes.wrong(at, "empty-invariant", f"{part.name!r} says nothing", "neither", "a query, frame, or both")
        if query is not None and part.frame and len(part.frame) != query.cells:
            what = f"the invariant {part.name!r} has not one column for each cell of {part.query!r}"
            notes.wrong((*at, "frame"), "row-length", what, len(part.frame), str(query.cells))
        if query is not None and query.variables and not part.frame:
            what = f"the invariant {part.name!r} publishes an answer other than the number of records as it is"
            expected = '"total"; or the columns of the frame that tell the answer'
            notes.wrong((*at, "query"), "invariant-query", what, part.query, expected)
        if query is not None and part.frame and part.level != BLOCK:
            what = f"the invariant {part.name!r} is told by the frame, which tells it for every block"
            notes.wrong((*at, "level"), "invariant-level", what, part.level, BLOCK)
        if part.query is not None and values.neighbours != Neighbours.CHANGE_ONE.value:
            what = f"the invariant {part.name!r} gives away whether a record is there"
            expected = "neighbours = change-one, or no invariant counts of records"
            notes.wrong(("neighbours",), "invariant-neighbours", what, values.neighbours, expected)
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
            what = f"the schema has no variable {part.variable!r}"
            notes.wrong((*at, "variable"), "unknown-variable", what, part.variable, notes.schema.variables)
            continue
        keys = _group_keys(variable)
        for key in (key for key in part.frame if key not in keys):
            what = f"{part.variable!r} has no group {key!r}"
            notes.wrong((*at, "frame", key), "unknown-group", what, key, keys)
        frame = {keys[key]: column for key, column in part.frame.items() if key in keys}
        yield FrameBound(part.name, variable, Side(part.side), part.per_unit, frame)


def _zeros(values: StrategyFile, notes: Notes) -> Iterator[StructuralZero]:
    attributes = {attribute.name: attribute for attribute in notes.schema.attributes}
    for position, part in enumerate(values.zeros):
        at: KeyPath = ("zeros", position, "where")
        where: dict[str, Any] = {}
        for name, codes in part.where.items():
            if name not in attributes:
                what = f"the schema has no attribute {name!r}"
                notes.wrong((*at, name), "unknown-attribute", what, name, attributes)
                continue
            for code in (code for code in codes if code not in attributes[name].index):
                expected = attributes[name].describe_codes()
                notes.wrong((*at, name), "unknown-code", f"{name!r} has no code {code!r}", code, expected)
            where[name] = tuple(code for code in codes if code in attributes[name].index)
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
        notes.wrong(("root",), "unknown-root", "there is no such root", values.root, values.roots | values.derived)
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
                what = f"{key} has not one value for each level"
                self._notes.wrong((*path, key), "row-length", what, length, str(count))
        self._check_sum((*path, "shares"), "the shares of the levels", part.shares)
        queries: dict[str, Query] = {}
        for text, row in part.queries.items():
            query = self._notes.query((*path, "queries", text), text)
            if query is None:
                continue
            for other in (text_before for text_before in queries if same_cells(queries[text_before], query)):
                what = f"{text!r} and {other!r} are the same query"
                self._notes.wrong((*path, "queries", text), "repeated-query", what, text, "each query once")
            queries[text] = query
            if len(row) != count:
                what = f"the row of {text!r} has not one value for each level"
                self._notes.wrong(
                    (*path, "queries", text), "row-length", what, len(row), f"{count}, or - where not measured"
                )
        levels = []
        for position, level in enumerate(part.levels):
            column = {text: row[position] for text, row in part.queries.items() if position < len(row)}
            shares = {text: share for text, share in column.items() if share is not None}
            self._check_sum((*path, "queries"), f"the shares of the queries on {level!r}", shares.values())
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
            self._notes.wrong(path, "repeated-root", f"there are two roots {name!r}", name, "names that differ")
            return None
        if part.source not in self._values.roots:
            self._notes.wrong((*path, "from"), "unknown-root", "there is no such root", part.source, self._values.roots)
            return None
        source = strategies[part.source]
        if part.top not in source.level_names:
            self._notes.wrong((*path, "top"), "unknown-level", "there is no such level", part.top, source.level_names)
            return None
        estimation = self._estimations.get(part.estimation, Estimation(part.estimation, (), ()))
        if self._notes.problems:
            return None  # a cut of something wrong would repeat what is wrong
        try:
            strategy = cut(source, name, part.top, estimation, renormalise=renormalise)
        except ConfideError as error:
            self._notes.passed_on((*path, "top"), error)
            return None
        self._named((*path, "estimation"), part.estimation, part.top, [a.name for a in strategy.levels[0].queries])
        return strategy

    def check_invariants(self, name: str, strategy: Strategy) -> None:
        """The invariants against the levels of a root, and what is measured at its top."""
        for position, invariant in enumerate(strategy.constraints.invariants):
            if invariant.level not in strategy.level_names:
                what = f"the invariant {invariant.name!r} is on a level that the root {strategy.root!r} has not"
                at: KeyPath = ("invariants", position, "level")
                self._notes.wrong(at, "unknown-level", what, invariant.level, strategy.level_names)
        top = strategy.levels[0]
        invariants = invariant_queries(strategy.constraints, strategy.schema)
        for query_share in top.queries:
            if any(same_cells(query_share.query, query) for query in invariants):
                what = f"{query_share.name!r} is measured on {top.name!r}, where an invariant tells its answer"
                rows = self._values.roots[name].queries
                written = next(text for text in rows if self._notes.name(text) == query_share.name)
                at = ("roots", name, "queries", written)
                self._notes.wrong(
                    at, "invariant-measured", what, str(query_share.share), 'not measured: "-"', 'write "-" there'
                )

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
                self._notes.wrong(
                    (*path, "levels"), "repeated-level", f"{level!r} stands twice", level, "each level once"
                )
        if part.levels[-1] != BLOCK:
            what = "the last level is not the blocks"
            self._notes.wrong((*path, "levels"), "no-blocks", what, part.levels[-1], f"{BLOCK!r} as the last level")

    def _check_sum(self, path: KeyPath, what: str, shares: Iterable[Fraction]) -> None:
        total = sum(shares, Fraction(0))
        if total != 1:
            remedy = f"the rest is {1 - total}" if total < 1 else f"{total - 1} is too much"
            self._notes.wrong(path, "share-sum", f"{what} do not sum to one", total, "exactly 1", remedy)

    def _named(self, path: KeyPath, name: str, level: str, measured: Collection[str] | None) -> Estimation:
        """The estimation of that name. Its passes must cover exactly what is measured on the level, where known."""
        estimation = self._estimations.get(name)
        if estimation is None:
            if name:
                self._notes.wrong(
                    path, "unknown-estimation", f"there is no estimation {name!r}", name, self._estimations
                )
            return Estimation(name, (), ())
        if measured is None:
            return estimation
        fitted = {query for step in estimation.least_squares for query in step.queries}
        for query in (query for query in measured if query not in fitted):
            what = f"{query!r} is measured on {level!r}, and no pass of {name!r} uses it"
            self._notes.wrong(path, "unused-measurement", what, name, f"a pass with {query!r}")
        for query in sorted(fitted - set(measured)):
            what = f"a pass of {name!r} uses {query!r}, which is not measured on {level!r}"
            self._notes.wrong(path, "not-measured", what, query, measured)
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
                    self._notes.wrong(
                        (*at, "queries"), "repeated-query", f"{query!r} stands twice", query, "each query once"
                    )
                seen.add(query)
            for query in step.constrain:
                if query not in seen:
                    what = f"{query!r} is to be kept before it was estimated"
                    self._notes.wrong((*at, "constrain"), "not-estimated", what, query, sorted(seen))
            if not step.constrain and position + 1 < len(passes):
                what = "a pass keeps no answer for later passes, so that what it measures has no effect"
                remedy = f'write constrain = ["{step.queries[0]}"], or move its queries to the next pass'
                wrong = ((*at, "constrain"), "unused-measurement", what, "nothing", list(step.queries), remedy)
                self._notes.wrong(*wrong)
        if passes[-1].constrain:
            at = (*path, "least_squares", len(passes) - 1, "constrain")
            found = ", ".join(passes[-1].constrain)
            self._notes.wrong(at, "no-later-pass", "the last pass keeps answers for no later one", found, "nothing")
        if any(step.constrain for step in passes) and part.slack is None:
            what = "answers are kept between passes, and it is not said how exactly"
            self._notes.wrong((*path, "slack"), "missing-key", what, "nothing", 'slack = "1/100"')
        rounding = tuple(map(names, part.rounding))
        estimation = Estimation(name, passes, rounding, part.slack or Fraction(0))
        self._check_chain(path, estimation)
        return estimation

    def _check_chain(self, path: KeyPath, estimation: Estimation) -> None:
        places: list[KeyPath] = [
            (*path, "rounding", i, j) for i, names in enumerate(estimation.rounding) for j in range(len(names))
        ]
        queries = [self._notes.query(at, text) for at, text in zip(places, estimation.chain, strict=True)]
        chain = [(at, text, q) for at, text, q in zip(places, estimation.chain, queries, strict=True) if q is not None]
        for (_, coarse, above), (at, fine, below) in pairwise(chain):
            if not refines(below, above):
                what = f"the rounding chain of {estimation.name!r} does not refine: {fine!r} after {coarse!r}"
                expected = f"a query that splits the cells of {coarse!r}"
                remedy = "order the chain from coarse to fine, so that rounding has whole solutions"
                self._notes.wrong(at, "not-a-chain", what, fine, expected, remedy)
        if not chain or not same_cells(chain[-1][2], resolve(self._schema, DETAILED)):
            what = f"the rounding chain of {estimation.name!r} does not end with the histogram"
            self._notes.wrong((*path, "rounding"), "not-a-chain", what, chain[-1][1] if chain else "nothing", DETAILED)
        for at, name, limited in self._limited():
            for _, text, query in chain:
                if not (refines(query, limited) or refines(limited, query)):
                    what = f"what {name!r} limits does not nest with {text!r}"
                    expected = f"a rounding chain of {estimation.name!r} that goes through it"
                    self._notes.wrong(at, "not-a-chain", what, text, expected)

    def _check_limited(self) -> None:
        """Limits are of one query: with those of a second, a parent may keep the sums of both and yet have counts that
        no children add up to (``docs/proofs/topdown.md``, section 5)."""
        (_, first, first_query), *others = [*self._limited()] or [((), "", Query(()))]
        for at, name, query in others:
            if not same_cells(query, first_query):
                what = f"{first!r} and {name!r} limit the counts of different queries"
                expected = "bounds and invariants of the frame on one query"
                remedy = "put both on the same variable, or drop one"
                self._notes.wrong(at, "several-limits", what, f"{first!r} and {name!r}", expected, remedy)

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
    return load_schema(given, folder, loaded.place("schema"))


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
