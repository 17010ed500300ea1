"""``confide tune SPEC --target`` for TopDown: the budget and the shares that targets need, before any is spent.

With given shares the least budget is a closed form; the best shares are a convex problem
(:mod:`confide.estimation.tree_design`). Both are for least squares on the whole tree, before non-negativity: runs on
people who are not confidential then say what becomes of it in records.

How many people areas have, and which group is the largest, comes from **people who are made up or published**: drawn
from schema and frame, an older census in a file, or public figures. The confidential records are never looked at, and a
file that is theirs is refused, by its path and by its fingerprint: shares that were chosen by them would give something
away that no budget pays for.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isfinite, pi, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from confide.arrays import Floats
from confide.engines import LocalEngine
from confide.errors import Finding, ParameterError, Place, RunError
from confide.estimation.tree_design import joined_counts
from confide.exact import Exact, positive, probability
from confide.file_system import write_text
from confide.geography import OUTSIDE, AreaSet
from confide.inference import tuning_answer
from confide.inference.replicates import counts_matrix
from confide.inference.tuning_people import MADE_UP, CountedPeople, PeopleForTuning
from confide.inputs.made_up import nobody, of_nobody
from confide.mechanisms import SPECS
from confide.mechanisms.topdown import targets as topdown_targets
from confide.mechanisms.topdown.evaluate import EvaluationGeography, geographies
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.made_up import release_of_people
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem, prepare
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.strategy import DELTA, OWN, TREE, Strategy
from confide.noise import ReleaseKey
from confide.releases import LoadedSpec, NoiseSource, Workspace, load_spec
from confide.releases.run import DEFAULT_MEMORY
from confide.schema import TOTAL

RUNS, MOST_RUNS = 2, 20
KEEP = Fraction(1, 100)
"""What part of its present share every query keeps, unless somebody says otherwise."""
PRICED = (1, 2, 5, 10, 20, 50, 100)
TOLERATED = 0.05
"""Runs that miss a target by less than this say nothing: they are few."""
MOST_CELLS = 300
"""Queries with more cells are not in the table of what else changes."""
MOST_AREAS = 300
"""Of a kind with more areas, so many, evenly spaced, stand for all in that table."""


def tune_topdown(
    spec: str | Path,
    targets: Sequence[str] = (),
    *,
    people: str | Path = MADE_UP,
    persons: int | None = None,
    margins: Sequence[str | Path] = (),
    optimise: bool = True,
    keep: Exact = KEEP,
    total: Exact | None = None,
    confirm: int | None = None,
    prices: str | None = None,
    delta: Exact = DELTA,
    out: str | Path | None = None,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
) -> tuning_answer.TopDownTuning:
    """The least budget for targets, with the present shares and with the best; nothing is spent, no record is read.

    Args:
        spec: A TopDown spec. Its records need not be there, and are not opened but to see that ``people`` is not them.
        targets: In words, such as ``total <= 5 in tract @95%``.
        people: ``made-up``; or a file: an older census with the columns of the records, or public figures with the
            columns geography, code, total and, if known, largest (the share of the largest group). Never the
            confidential records.
        persons: How many people are made up.
        margins: CSV files of public counts from which made-up people are drawn, as in ``confide rehearse``.
        optimise: Whether the best shares are looked for.
        keep: The part of its present share that every query keeps at least.
        total: A rho for the strategy that is written; by default the least that meets the targets.
        confirm: How many runs on made-up people confirm the answer; 0 for none. By default two where shares are
            proposed, and none where the present ones are kept.
        prices: A query in a kind of area, such as ``total in tract``: what margins cost there.
        delta: The delta at which epsilon is stated.
        out: A new file for the strategy with the best shares.
        processes: How many processes the runs use; by default one for each core.
        memory: The most memory that they use.

    Returns:
        The budgets, the best shares, binding areas, prices, and what else changes.
    """
    loaded = load_spec(Path(spec), SPECS)
    if not isinstance(loaded.spec, TopDownSpec):
        raise ParameterError("not-topdown", where=Place(path="tune"), found=str(spec))
    if not targets and prices is None:
        raise ParameterError("no-target/nothing", where=Place(path="tune"))
    optimise = optimise and bool(targets)
    if confirm is None:
        confirm = RUNS if optimise else 0
    if not 0 <= confirm <= MOST_RUNS:
        raise ParameterError("confirm", where=Place(path="tune"), found=str(confirm), most_runs=MOST_RUNS)
    kept = probability(keep, "keep") if keep != 0 else Fraction(0)
    if out is not None and Path(out).exists():
        raise RunError("there-already/name", where=Place(file=str(Path(out))))
    with (
        tempfile.TemporaryDirectory(prefix="confide-tune-") as scratch,
        LocalEngine(Path(scratch) / "engine", processes=processes, memory=memory) as engine,
    ):
        tuner = _Tuner(loaded, Path(scratch), engine, people, persons, tuple(map(Path, margins)))
        return tuner.tuned(
            tuple(targets),
            optimise=optimise,
            keep=kept,
            budget=None if total is None else positive(total, "total"),
            confirm=confirm if targets else 0,
            prices=prices,
            delta=positive(delta, "delta"),
            out=None if out is None else Path(out),
        )


@dataclass(eq=False)
class _Tuner:
    """Everything of one question."""

    loaded: LoadedSpec
    scratch: Path
    engine: LocalEngine
    asked: str | Path
    persons: int | None
    margins: tuple[Path, ...]

    @cached_property
    def blank(self) -> LoadedSpec:
        """The spec without its records."""
        return self.loaded.with_data(records=str(nobody(self.scratch)))

    @cached_property
    def problem(self) -> TopDownProblem:
        """The problem without its records."""
        with of_nobody():
            return prepare(self.blank, self.engine)

    @cached_property
    def shares(self) -> topdown_targets.ShareDesign:
        """Its shares as unknowns."""
        return topdown_targets.ShareDesign(self.problem)

    @cached_property
    def own(self) -> topdown_targets.OwnDesign | None:
        """The noise of figures that learn nothing from below, where the strategy has such."""
        return topdown_targets.OwnDesign(self.problem) if self.problem.strategy.evidence == OWN else None

    def limited(
        self, targets: Sequence[topdown_targets.Target], people: topdown_targets.KnownPeople | None
    ) -> tuple[list[topdown_targets.LimitedCounts], list[Floats]]:
        """What targets limit, and the variances of that with the present shares and a budget of one, by the estimator
        that the strategy has."""
        if self.own is not None:
            of_own = topdown_targets.limited_counts(self.problem, self.own, targets, people)
            return of_own, [self.own.variances(each) for each in of_own]
        limited = topdown_targets.limited_counts(self.problem, self.shares.design, targets, people)
        return limited, self.shares.variances(self.problem.strategy, *(each.counts for each in limited))

    @cached_property
    def people(self) -> PeopleForTuning:
        """Who stands for the people of the areas."""
        where = (self.loaded, self.blank, self.problem, self.engine, self.scratch)
        return PeopleForTuning(*where, self.asked, self.persons, self.margins)

    # Answers.

    def tuned(
        self,
        texts: tuple[str, ...],
        *,
        optimise: bool,
        keep: Fraction,
        budget: Fraction | None,
        confirm: int,
        prices: str | None,
        delta: Fraction,
        out: Path | None,
    ) -> tuning_answer.TopDownTuning:
        """The whole answer."""
        now = self.problem.strategy
        targets = topdown_targets.parse_targets(texts, self.problem)
        known = self.people.known if confirm or any(target.needs_people for target in targets) else None
        limited, variances = self.limited(targets, known) if targets else ([], [])
        priced = tuple(self._prices(prices)) if prices is not None else ()
        answer = tuning_answer.TopDownTuning(self.loaded.path, now, self.people.said, delta, prices=priced)
        if not limited:
            return answer
        present = topdown_targets.budget_above(_least(limited, variances))
        problems = {"now": self.problem, "present": replace(self.problem, strategy=now.with_budget(present))}
        answer = replace(answer, present=present, targets=_tuned_targets(limited, variances))
        if optimise:
            # The best shares are for estimates that learn from below, which is what is written with them.
            on_tree = topdown_targets.limited_counts(self.problem, self.shares.design, targets, known)
            counts = joined_counts([each.counts for each in on_tree])
            best = self.shares.best(counts, np.concatenate([each.limits for each in on_tree]), keep)
            strategy = self.shares.with_shares(best.shares, Fraction(1))
            after = self.shares.variances(strategy, *(each.counts for each in on_tree))
            needed = topdown_targets.budget_above(_least(on_tree, after))
            strategy = self._named(replace(strategy, budget=budget or needed), targets, out)
            file = out or self.scratch / "strategy.toml"
            write_text(file, topdown_targets.text_beside(strategy, self.loaded, file))
            problems["best"] = self._problem_with(strategy, file)
            rows = _with_best(answer.targets, on_tree, after, best.multipliers, needed)
            answer = replace(answer, targets=rows, best=strategy, needed=needed, bound=best.bound, written=out)
        answer = replace(answer, errors=tuple(self._errors(targets, problems)))
        if confirm:
            confirmed, errors = self._confirm(limited, problems, confirm, answer.errors)
            answer = replace(answer, confirmed=confirmed, errors=errors)
        missed = [
            Finding.of(
                "missed-target",
                where=Place(path="--target"),
                severity="warning",
                strategy=row.strategy,
                target_text=row.target.text,
                kind=row.kind,
                met=100 * row.met,
                runs=row.runs,
                chance=100 * float(row.target.chance),
                best=row.strategy == "best",
                own=now.evidence == OWN,
            )
            for row in answer.confirmed
            if row.met < float(row.target.chance) - TOLERATED
        ]
        return replace(answer, people=self.people.said, warnings=(*self.people.warnings, *missed))

    def _prices(self, text: str) -> list[Mapping[str, Any]]:
        """What margins cost for one query in one kind of area: alone, and with the present shares."""
        targets = [_at(text, margin) for margin in PRICED]
        parsed = topdown_targets.parse_targets(targets, self.problem)
        rows: list[Mapping[str, Any]] = []
        for target, alone in zip(parsed, topdown_targets.price_list(PRICED), strict=True):
            (limited,), (variances,) = self.limited([target], None)
            present = _needed(limited, variances)
            rows.append({"query": target.query, "kind": target.kinds[0]} | dict(alone) | {"rho_present": present})
        return rows

    def _named(self, best: Strategy, targets: Sequence[topdown_targets.Target], out: Path | None) -> Strategy:
        name = best.id if out is None else _identifier(out.stem)
        wanted = "; ".join(target.text for target in targets)
        title = f"{best.title}, tuned"[:200]
        provenance = f"Shares found by confide tune from those of {best.id} for: {wanted}. Sizes: {self.people.said}."
        return replace(best, id=name, title=title, provenance=provenance)

    def _problem_with(self, strategy: Strategy, file: Path) -> TopDownProblem:
        """The problem with the strategy that was written, read back from its file."""
        spec = self.blank.spec
        assert isinstance(spec, TopDownSpec)
        part = spec.topdown.model_copy(update={"strategy": str(file.resolve()), "root": strategy.root})
        privacy = spec.privacy.model_copy(update={"budget": strategy.budget})
        changed = replace(self.blank, value=spec.model_copy(update={"topdown": part, "privacy": privacy}))
        return prepare(changed, self.engine)

    def _errors(
        self, targets: Sequence[topdown_targets.Target], problems: Mapping[str, TopDownProblem]
    ) -> Iterator[tuning_answer.ExpectedChange]:
        """Expected absolute errors of totals, attributes and the targets' queries in all kinds of area: of what the
        release of each problem would state."""
        schema = self.problem.strategy.schema
        # With the present shares all errors change alike: the totals say by how much.
        attributes = [attribute.name for attribute in schema.attributes] if "best" in problems else []
        names = dict.fromkeys((TOTAL, *attributes, *(target.query for target in targets)))
        now = self.problem.strategy
        groups = {name: now.grouping(name) for name in names if now.query(name).cells <= MOST_CELLS}
        noise = {key: TopDownNoise(problem) for key, problem in problems.items()}
        for geography in geographies(self.problem):
            area = geography.unit_of_block[self.problem.spine.rows]
            there = np.unique(area[area != OUTSIDE])
            if not len(there):
                continue
            some = there[np.unique(np.linspace(0, len(there) - 1, MOST_AREAS).round().astype(np.int64))]
            areas = AreaSet.some(geography.name, geography.codes, geography.unit_of_block, some)
            for name, grouping in groups.items():
                expected = {key: _expected(each.variances(grouping, areas)) for key, each in noise.items()}
                if isfinite(expected["now"]):
                    yield tuning_answer.ExpectedChange(
                        geography.name, len(there), name, expected["now"], expected["present"], expected.get("best")
                    )

    def _confirm(
        self,
        limited: Sequence[topdown_targets.LimitedCounts],
        problems: Mapping[str, TopDownProblem],
        runs: int,
        expected: Sequence[tuning_answer.ExpectedChange],
    ) -> tuple[tuple[tuning_answer.ConfirmedTarget, ...], tuple[tuning_answer.ExpectedChange, ...]]:
        """Runs with the present and with the best shares, each with the budget that it needs: what became of the
        targets, and the expected errors with those of records beside them."""
        people, kinds = self.people.counted, {each.name: each for each in geographies(self.problem)}
        confirmed: list[tuning_answer.ConfirmedTarget] = []
        for name, problem in problems.items():
            if name == "now":
                continue
            plan = plan_problem(problem)
            within: list[list[tuple[float, float, float]]] = [[] for _ in limited]
            of_records = np.zeros(len(expected))
            for number in range(runs):
                key = ReleaseKey.choose(hashlib.sha256(f"confide/tune/{name}/{number}".encode()).hexdigest())
                noise = NoiseSource(key, hashlib.sha256(self.people.said.encode()).hexdigest(), plan.hash, "tuning")
                workspace = Workspace(self.scratch / f"run-{name}-{number}")
                released = release_of_people(problem, plan, people.histogram, noise, self.engine, workspace)
                counts = counts_matrix(problem, released)
                for place, each in enumerate(limited):
                    within[place].append(_realised(each, people, counts))
                of_records += [_mean_error(people, kinds[row.kind], row.query, counts) for row in expected]
            for each, rows in zip(limited, within, strict=True):
                met, error, of_totals = np.mean(np.array(rows), axis=0).tolist()
                budget = problem.strategy.budget
                row = (each.target, each.geography.name, name, budget, runs, met, error, of_totals)
                confirmed.append(tuning_answer.ConfirmedTarget(*row))
            means = (of_records / runs).tolist()
            expected = [each.with_records(name, mean) for each, mean in zip(expected, means, strict=True)]
        return tuple(confirmed), tuple(expected)


def _mean_error(people: CountedPeople, geography: EvaluationGeography, query: str, counts: Any) -> float:
    """The mean absolute error of a cell of a query, over the areas of a kind that have blocks on the spine."""
    area = geography.unit_of_block[people.problem.spine.rows]
    off = people.figures(geography, query, counts) - people.figures(geography, query)
    return float(np.abs(off[np.unique(area[area != OUTSIDE])]).mean())


def _realised(limited: topdown_targets.LimitedCounts, people: CountedPeople, counts: Any) -> tuple[float, float, float]:
    """The share of areas within the limit, and mean absolute errors of the target's figures and of totals."""
    target, geography = limited.target, limited.geography
    areas = np.unique(limited.areas)
    truth, figures = (people.figures(geography, target.query, each)[areas] for each in (None, counts))
    totals = np.abs(figures.sum(axis=1) - truth.sum(axis=1))
    size = np.maximum(truth.sum(axis=1), 1.0)
    if target.of_share:
        largest = truth.argmax(axis=1)
        row = np.arange(len(areas))
        shares = figures[row, largest] / np.maximum(figures.sum(axis=1), 1.0)
        errors = np.abs(shares - truth[row, largest] / size)[:, None]
    else:
        errors = np.abs(figures - truth)
    limit = float(target.limit) * (size[:, None] if target.relative else 1.0)
    return float((errors <= limit + 1e-12).mean()), float(errors.mean()), float(totals.mean())


def _needed(limited: topdown_targets.LimitedCounts, variances: Floats) -> float:
    """The least budget with which every variance is within its limit, from those with a budget of one."""
    return float((variances / limited.limits).max())


def _least(limited: Sequence[topdown_targets.LimitedCounts], variances: Sequence[Floats]) -> float:
    """The least budget for all targets; refused where every budget is enough."""
    needed = max(_needed(each, own) for each, own in zip(limited, variances, strict=True))
    if not isfinite(needed):
        worst = next(each for each, own in zip(limited, variances, strict=True) if not isfinite(_needed(each, own)))
        raise ParameterError("undetermined", where=Place(path="tune"), target_text=worst.target.text, tree=TREE)
    if needed < topdown_targets.NOTHING:
        raise ParameterError("nothing-needed", where=Place(path="tune"), needed=needed)
    return needed


def _on_average(limited: topdown_targets.LimitedCounts, variances: Floats) -> float:
    """The least budget with which figures are within the limit with the target's probability on average over areas."""
    normal, z = NormalDist(), limited.target.quantile
    ratio = np.maximum(variances / limited.limits, 1e-300)
    low, high = float(ratio.max()) * 1e-8, float(ratio.max())
    for _ in range(60):
        middle = sqrt(low * high)
        mean = float(np.mean([2 * normal.cdf(min(z * sqrt(middle / each), 40.0)) - 1 for each in ratio.tolist()]))
        low, high = (middle, high) if mean < float(limited.target.chance) else (low, middle)
    return high


def _budget_of(limited: topdown_targets.LimitedCounts, variances: Floats) -> tuning_answer.NeededBudget:
    rho, place = _needed(limited, variances), limited.binding(variances)
    size = float(limited.people[place])
    sd = sqrt(float(variances[place]) / rho) if rho > 0 else 0.0
    binding = tuning_answer.BindingArea(limited.code(place), size if np.isfinite(size) else None, sd)
    return tuning_answer.NeededBudget(rho, _on_average(limited, variances) if rho > 0 else 0.0, binding)


def _tuned_targets(
    limited: Sequence[topdown_targets.LimitedCounts], variances: Sequence[Floats]
) -> tuple[tuning_answer.TunedTarget, ...]:
    return tuple(
        tuning_answer.TunedTarget(each.target, each.geography.name, len(np.unique(each.areas)), _budget_of(each, now))
        for each, now in zip(limited, variances, strict=True)
    )


def _with_best(
    rows: Sequence[tuning_answer.TunedTarget],
    limited: Sequence[topdown_targets.LimitedCounts],
    variances: Sequence[Floats],
    multipliers: Floats,
    needed: Fraction,
) -> tuple[tuning_answer.TunedTarget, ...]:
    """The targets with what they need with the best shares."""
    result, first = [], 0
    for row, each, own in zip(rows, limited, variances, strict=True):
        elasticity = float(multipliers[first : first + len(each.limits)].sum())
        first += len(each.limits)
        scale = 100 if each.target.of_share or each.target.relative else 1
        price = 2 * elasticity * float(needed) / (float(each.target.limit) * scale)
        result.append(replace(row, best=_budget_of(each, own), elasticity=elasticity, price=price))
    return tuple(result)


def _expected(variances: Floats) -> float:
    """The mean absolute error of normal noise with these variances; NaN where nothing determines a figure."""
    return float(np.sqrt(variances).mean() * sqrt(2 / pi))


def _at(text: str, margin: int) -> str:
    query, word, kind = text.partition(" in ")
    if not word:
        raise ParameterError("bad-target/prices", where=Place(path="tune"), found=text)
    return f"{query} <= {margin} in {kind}"


def _identifier(stem: str) -> str:
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in stem.lower()).strip("-")
    return name if name and name[0].isalpha() else f"tuned-{name}".rstrip("-")
