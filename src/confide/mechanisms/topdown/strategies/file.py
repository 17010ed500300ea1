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

from confide.documents import FileKind, Loaded, SchemaFile, build_schema, load_named, load_schema, load_text
from confide.errors import ConfideError, ParameterError, Place
from confide.exact import Exact
from confide.mechanisms.topdown.strategies.form import (
    BLOCK,
    EstimationPart,
    Notes,
    RootPart,
    StrategyFile,
    make_constraints,
)
from confide.mechanisms.topdown.strategies.strategy import (
    DETAILED,
    Estimation,
    LevelStrategy,
    Pass,
    QueryShare,
    Strategy,
    cut,
    invariant_queries,
    refines,
    resolve,
    same_cells,
)
from confide.privacy import Definition, Neighbours
from confide.releases.draft import LEDGER
from confide.releases.spec import KeyPath, Problem
from confide.report.render import render
from confide.schema import Query, Schema

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
        """The strategy of a root that stands in the file in full."""
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
            for other in (known for known in queries if same_cells(queries[known], query)):
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
            asked = {text: share for text, share in column.items() if share is not None}
            self._check_sum((*path, "queries"), f"the shares of the queries on {level!r}", asked.values())
            made = tuple(QueryShare(text, queries[text], share) for text, share in asked.items() if text in queries)
            named = part.estimation[position] if position < len(part.estimation) else ""
            where: KeyPath = (*path, "estimation", position)
            share = part.shares[position] if position < len(part.shares) else Fraction(0)
            measured = asked if len(queries) == len(part.queries) else None
            levels.append(LevelStrategy(level, share, made, self._named(where, named, level, measured)))
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
            made = cut(source, name, part.top, estimation, renormalise=renormalise)
        except ConfideError as error:
            self._notes.passed_on((*path, "top"), error)
            return None
        self._named((*path, "estimation"), part.estimation, part.top, [a.name for a in made.levels[0].queries])
        return made

    def check_invariants(self, name: str, strategy: Strategy) -> None:
        """The invariants against the levels of a root, and what is measured at its top."""
        for position, invariant in enumerate(strategy.constraints.invariants):
            if invariant.level not in strategy.level_names:
                what = f"the invariant {invariant.name!r} is on a level that the root {strategy.root!r} has not"
                at: KeyPath = ("invariants", position, "level")
                self._notes.wrong(at, "unknown-level", what, invariant.level, strategy.level_names)
        top = strategy.levels[0]
        known = invariant_queries(strategy.constraints, strategy.schema)
        for asked in top.queries:
            if any(same_cells(asked.query, query) for query in known):
                what = f"{asked.name!r} is measured on {top.name!r}, where an invariant tells its answer"
                at = ("roots", name, "queries", asked.name)
                self._notes.wrong(
                    at, "invariant-measured", what, str(asked.share), 'not measured: "-"', 'write "-" there'
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
        passes = tuple(Pass(tuple(p.queries), tuple(p.constrain)) for p in part.least_squares)
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
        if passes[-1].constrain:
            at = (*path, "least_squares", len(passes) - 1, "constrain")
            found = ", ".join(passes[-1].constrain)
            self._notes.wrong(at, "no-later-pass", "the last pass keeps answers for no later one", found, "nothing")
        if any(step.constrain for step in passes) and part.slack is None:
            what = "answers are kept between passes, and it is not said how exactly"
            self._notes.wrong((*path, "slack"), "missing-key", what, "nothing", 'slack = "1/100"')
        rounding = tuple(tuple(names) for names in part.rounding)
        made = Estimation(name, passes, rounding, part.slack or Fraction(0))
        self._check_chain(path, made)
        return made

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
        (_, first, known), *others = [*self._limited()] or [((), "", Query(()))]
        for at, name, query in others:
            if not same_cells(query, known):
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

    ``budget`` replaces the one of the file; the shares stay. ``renormalise`` replaces the setting of a derived root.
    Raises a :class:`SpecError` with all findings.
    """
    strategies, default = load_strategies(name, base, renormalise=renormalise)
    chosen = default if root is None else root
    if chosen not in strategies:
        raise ParameterError(
            "unknown-root",
            f"the strategy {name!r} has no root {chosen!r}",
            where=Place(path="root"),
            found=repr(chosen),
            expected="one of " + ", ".join(strategies),
            remedy="name one of these roots",
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
    return load_schema(given, base, loaded.place("schema"))


# The draft of a spec for a strategy that ships.


PRODUCTS = {"pl94-persons": "persons", "pl94-units": "units"}
"""The products of ``topdown``: strategies that ship, and what they are about."""
QUARTERS = tuple(f"gq{kind}" for kind in range(1, 8))


def topdown_spec(strategy: Strategy, file: str, *, facilities: str = "", **values: str) -> str:
    """The text of a spec of a product.

    Args:
        strategy: The strategy of the product.
        file: The name that the spec will have.
        facilities: Whether the block table counts facilities (group quarters) by kind.
        values: What differs from the draft: ``name``, ``title``.

    Returns:
        A commented TOML file.
    """
    about = PRODUCTS[strategy.id]
    return render(
        "topdown.toml.j2",
        **{"name": about, "title": strategy.title} | values,
        strategy=strategy,
        attributes=["geocode", *(attribute.name for attribute in strategy.schema.attributes)],
        counted=about == "units",
        facilities=facilities,
        quarters=QUARTERS,
        ledger=LEDGER,
        budget=str(strategy.budget),
        file=file,
    )
