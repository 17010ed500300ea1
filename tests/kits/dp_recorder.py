"""A recorder in the place of the sampler: what meets which noise, on records and on neighbours of them.

Every mechanism adds noise to true counts at few places. Here the noise of a coordinate is an object that notes what it
is added to: the stream, the coordinate, the law, and the true count. On the first records the noisy counts are made up;
on a neighbour the noisy count of the same coordinate is the same, so that all that is decided by noisy counts is
decided alike, as adaptive composition has it. Then the loss of the pair is exactly what its coordinates lose, each by
its law and by how much the true counts differ, whatever plan and accountant say.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.mechanisms import MECHANISMS, SPECS
from confide.mechanisms.safetab import measure as safetab_measure
from confide.mechanisms.tables import mechanism as tables_mechanism
from confide.mechanisms.tables import programme as tables_programme
from confide.mechanisms.topdown import measure as topdown_measure
from confide.noise import DiscreteGaussian, ReleaseKey, TwoSidedGeometric
from confide.privacy import Definition
from confide.releases.mechanism import Job, NoiseSource
from confide.releases.plan import Plan
from confide.releases.progress import Silent
from confide.releases.spec import load_spec
from confide.releases.workspace import Workspace
from confide.risk.privacy_audit import TwinLoss

KEY = ReleaseKey.choose("5a" * 32)
STEP = 2.0**-13
Name = tuple[str, str]
"""The level and the query that a stream was asked for."""


@dataclass
class Recorded:
    """What met which noise in one run, and what is wrong with it."""

    plan: Plan
    met: dict[Name, dict[int, tuple[Any, int]]] = field(default_factory=dict)
    """For each stream and coordinate: the law and the true count."""
    noisy: dict[tuple[Name, int], int] = field(default_factory=dict)
    empty: Counter[Name] = field(default_factory=Counter)
    """For streams of empty groups: how many groups there are."""
    faults: list[str] = field(default_factory=list)


class Meeting:
    """Noise that notes what it is added to."""

    def __init__(self, note: Any):
        self._note = note

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, out: Any = None) -> Any:
        assert (ufunc, method) == (np.add, "__call__"), "noise is added and nothing else"
        (truth,) = [each for each in given if each is not self]
        noisy = self._note(np.array(truth))
        if out is not None:
            out[0][...] = noisy
            return out[0]
        return noisy

    def __radd__(self, truth: Any) -> Any:
        return self._note(np.array(truth))


class Recorder:
    """Stands in for the sampler during one run."""

    def __init__(self, plan: Plan, before: Recorded | None, seed: int):
        self.record = Recorded(plan)
        self._before = before
        self._names: dict[bytes, Name] = {}
        self._random = np.random.default_rng(seed)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Takes the place of the sampler wherever a mechanism adds noise."""
        stream = NoiseSource.stream

        def asked(source: NoiseSource, level: str, query: str) -> Any:
            derived = stream(source, level, query)
            known = self._names.setdefault(derived.word_key, (level, query))
            if known != (level, query):
                self.record.faults.append(f"{known} and {(level, query)} have one stream")
            return derived

        def perturb(counts: Any, law: Any, stream: Any, start: int = 0) -> Any:
            places = start + np.arange(np.size(counts))
            return self._meet(law, stream, places, np.array(counts).ravel()).reshape(np.shape(counts))

        def at(law: Any, stream: Any, places: Any) -> Meeting:
            return Meeting(lambda truth: self._meet(law, stream, np.array(places), truth))

        patch.setattr(NoiseSource, "stream", asked)
        patch.setattr(tables_mechanism, "perturb", perturb)
        patch.setattr(topdown_measure, "draw_at", at)
        patch.setattr(safetab_measure, "noise_at", at)
        patch.setattr(safetab_measure, "draw_survivors", self._survivors)
        patch.setattr(tables_programme, "PART_CELLS", 24)

    def _meet(self, law: Any, stream: Any, places: Any, truth: Any) -> Any:
        name = self._names[stream.word_key]
        of_stream = self.record.met.setdefault(name, {})
        result = np.array(truth)
        for position, (place, count) in enumerate(zip(places.tolist(), truth.tolist(), strict=True)):
            known = of_stream.setdefault(place, (law, count))
            if known != (law, count):
                self.record.faults.append(f"{name} at {place} meets {known} and {(law, count)}")
            noisy = None if self._before is None else self._before.noisy.get((name, place))
            if noisy is None:
                noisy = self.record.noisy.get((name, place))
            if noisy is None:
                noisy = count + (int(self._random.integers(-6, 7)) if self._before is None else 0)
            self.record.noisy[name, place] = result[position] = noisy
        return result

    def _survivors(self, _rule: Any, stream: Any, number: int) -> Any:
        self.record.empty[self._names[stream.word_key]] += number
        none = np.zeros(0, np.int64)
        return SimpleNamespace(places=none, levels=none, values=none)


def record(spec: Path, folder: Path, *, before: Recorded | None = None, seed: int = 0) -> Recorded | None:
    """A run of a spec from its files to its measurements, with the recorder; None where the spec is refused."""
    try:
        loaded = load_spec(spec, SPECS)
    except ConfideError:
        return None
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    workspace = Workspace(folder)
    with LocalEngine(workspace.scratch, processes=1, memory="1GiB") as engine, pytest.MonkeyPatch.context() as patch:
        try:
            problem = mechanism.prepare(loaded, engine)
            plan = mechanism.plan(problem)
        except ConfideError:
            return None
        job = Job(loaded, plan, engine, workspace, Silent())
        if any(finding.severity == "error" for finding in mechanism.check(problem, job)):
            return None
        recorder = Recorder(plan, before, seed)
        recorder.install(patch)
        mechanism.count(problem, job)
        mechanism.measure(problem, job, NoiseSource(KEY, mechanism.fingerprint(problem), plan.hash, mechanism.name))
    return recorder.record


def not_as_planned(run: Recorded) -> list[str]:
    """Planned measurements that were not drawn as often as planned, by the public numbers of the plan."""
    planned: Counter[Name] = Counter()
    for measure in run.plan.measures:
        planned[measure.level, measure.query] += measure.units * measure.cells
    drawn = {name: len(places) for name, places in run.met.items()}
    if run.plan.mechanism == "safetab":
        return _groups_not_as_planned(run, planned, drawn)
    whole = run.plan.mechanism == "tables" or run.plan.question["measurements"]
    wrong = [name for name in planned.keys() | drawn.keys() if drawn.get(name, 0) > planned[name]]
    wrong += [name for name in planned if whole and drawn.get(name, 0) < planned[name]]
    return [f"{name}: {drawn.get(name, 0)} of {planned[name]}" for name in wrong]


def _groups_not_as_planned(run: Recorded, planned: Counter[Name], drawn: dict[Name, int]) -> list[str]:
    """Every group has one total alone; or one choice of a table and then one table, drawn in all its cells."""
    wrong = []
    for region, query in planned:
        if query.endswith("table") and "choice" not in query:
            continue
        kind, _, what = query.partition(":")
        empty = sum(number for (where, text), number in run.empty.items() if where == region and text.startswith(kind))
        number = drawn.get((region, query), 0) + (empty if "choice" in what else 0)
        if number != planned[region, query]:
            wrong.append(f"{region} {query}: {number} of {planned[region, query]}")
        if "choice" in what:
            cells = {"T01001": 1, "T02001": 8, "T02002": 18, "T02003": 46}
            tables = {table: run.met.get((region, f"{kind}: table {table}"), {}) for table in cells}
            groups = Counter(place // cells[table] for table, places in tables.items() for place in places)
            chosen = run.met.get((region, query), {})
            if groups.keys() != chosen.keys() or not set(groups.values()) <= set(cells.values()):
                wrong.append(f"{region} {kind}: other groups have a table than have a choice")
            if sum(groups.values()) != sum(map(len, tables.values())):
                wrong.append(f"{region} {kind}: a group has two tables")
    return wrong


@dataclass(frozen=True)
class TrueLoss:
    """What a pair of neighbours loses, and what was stated."""

    true: float | Fraction
    stated: Fraction
    faults: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return float(self.true / self.stated)


def true_loss(one: Recorded, other: Recorded) -> TrueLoss:
    """The loss of what the coordinates of both runs have met: exact, but for approximate differential privacy."""
    faults = [*one.faults, *other.faults]
    if one.plan.hash != other.plan.hash:
        faults.append("the plans differ")
    sparse = {name.split(",")[0].partition(":")[0] + region for region, name in one.empty}
    differing: Counter[tuple[Any, int]] = Counter()
    for name in one.met.keys() | other.met.keys():
        first, second = one.met.get(name, {}), other.met.get(name, {})
        # An empty group that is not drawn one by one is as if its count were zero.
        as_zero = name[1].partition(":")[0] + name[0] in sparse
        for place in first.keys() | second.keys():
            here, there = first.get(place), second.get(place)
            if here is None or there is None:
                known = here or there
                assert known is not None
                here, there = here or (known[0], 0), there or (known[0], 0)
                if not as_zero:
                    faults.append(f"{name} at {place} is asked of one of both only")
            if here[0] != there[0]:
                faults.append(f"{name} at {place} has two laws")
            if here[1] != there[1]:
                differing[here[0], abs(here[1] - there[1])] += 1
    return TrueLoss(_total(one.plan, differing), next(iter(one.plan.loss.parameters().values())), tuple(faults))


def _total(plan: Plan, differing: Counter[tuple[Any, int]]) -> float | Fraction:
    if plan.definition is Definition.APPROXIMATE:
        assert plan.delta is not None
        # On the grid a loss is at most a step above the true one, for each count.
        twins = TwinLoss.of({(law, gap, 1.0): number for (law, gap), number in differing.items()}, STEP)
        return max(0.0, twins.epsilon(float(plan.delta)) - STEP * differing.total())
    total = Fraction(0)
    for (law, gap), number in differing.items():
        if plan.definition is Definition.ZCDP:
            assert isinstance(law, DiscreteGaussian)
            total += number * Fraction(gap**2) / (2 * law.sigma2)
        else:
            assert isinstance(law, TwoSidedGeometric)
            total += number * gap * law.epsilon
    return total


# Odd specs, made at random: as many corners as fit, so that some are refused and the others have to be priced rightly.


@dataclass(frozen=True)
class OddProject:
    """A random project, and the rows of its records in neighbouring versions."""

    spec: Path
    records: Path
    header: str
    people: Sequence[str]
    neighbours: Sequence[Sequence[str]]

    def write(self, people: Sequence[str]) -> Path:
        self.records.write_text("\n".join([self.header, *people]) + "\n")
        return self.spec


def _neighbours(rng: random.Random, people: list[str], relation: str, another: Any, number: int) -> list[list[str]]:
    versions = []
    for _ in range(number):
        place = rng.randrange(len(people))
        if relation == "change-one":
            versions.append([*people[:place], another(), *people[place + 1 :]])
        else:
            versions.append(rng.choice([[*people, another()], people[:place] + people[place + 1 :]]))
    return versions


def _shares(rng: random.Random, number: int) -> list[Fraction]:
    weights = [rng.randint(1, 6) for _ in range(number)]
    return [Fraction(weight, sum(weights)) for weight in weights]


def odd_tables(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Recodes that overlap, areas with and without ``within``, pooled or not, every law, both relations."""
    rng = random.Random(seed)
    attributes = {name: [str(c) for c in range(rng.randint(2, 4))] for name in ("a", "b", "c")[: rng.randint(1, 3)]}
    schema = ['id = "odd"', 'provenance = "Made up for a test."']
    variables = []
    for name, codes in attributes.items():
        levels = ", ".join(f'["{code}", "{name}{code}"]' for code in codes)
        schema += [f"[attributes.{name}]", f"levels = [{levels}]"]
        variables.append(name)
        for recode in ("p", "q")[: rng.randint(0, 2)]:
            cut = rng.randint(1, len(codes) - 1)
            halves = (codes[:cut], codes[cut:]) if rng.random() < 0.95 else (codes[:cut],)
            schema.append(f"[attributes.{name}.recodes.{recode}.groups]")
            schema += [f'"{recode}{n}" = {[str(code) for code in half]}' for n, half in enumerate(halves)]
            variables.append(f"{name}:{recode}")
    blocks = sorted({f"{rng.randint(1, 2)}{rng.randint(0, 2)}{rng.randint(0, 9)}" for _ in range(rng.randint(2, 14))})
    rows = [f"{block},{rng.choice('xyz9')}" for block in blocks]
    names = ["land", "county", "tract"][rng.randint(0, 2) :]
    digits = {"land": 0, "county": 1, "tract": 2}
    geography = [f'[[geography.levels]]\nname = "{name}"\ndigits = {digits[name]}' for name in names]
    if rng.random() < 0.6:
        inside = f'within = "{names[0]}"\n' if rng.random() < 0.5 else ""
        nothing = 'none = "9"\n' if rng.random() < 0.7 else ""
        geography.append(f'[[geography.areas]]\nname = "place"\ncolumn = "place"\n{inside}{nothing}')
        names.append("place")
    definition, relation = rng.choice(["zcdp", "pure", "approximate"]), rng.choice(["change-one", "add-remove"])
    noise = ""
    if definition == "approximate":
        law = rng.choice(["two-sided-geometric", "discrete-gaussian"])
        cut_off = rng.choice(["", "truncated-"])
        bound = f"\nbound = {rng.randint(400, 900)}" if cut_off and rng.random() < 0.3 else ""
        noise = f'[noise]\nlaw = "{cut_off}{law}"{bound}'
    elif rng.random() < 0.2:
        noise = f'[noise]\nvariance = "{rng.randint(2000, 9000)}"'
    tables = []
    for number in range(rng.randint(1, 3)):
        chosen = rng.sample(variables, rng.randint(1, min(3, len(variables))))
        if rng.random() < 0.9:  # one variable of an attribute: two are refused
            chosen = list({variable.split(":")[0]: variable for variable in chosen}.values())
        on = rng.sample([*names, "block"], rng.randint(1, min(3, len(names) + 1)))
        margins, weight = rng.choice(["all", "none"]), Fraction(rng.randint(1, 5), 2)
        tables.append(
            f'[[tables]]\nname = "t{number}"\nvariables = {chosen}\nlevels = {on}\n'
            f'margins = "{margins}"\nweight = "{weight}"'
        )
    weights = f'level_weights = {{ block = "{Fraction(rng.randint(1, 5), 3)}" }}'
    budget = Fraction(rng.randint(1, 40), 10)
    text = f"""[release]
name = "odd"
mechanism = "tables"
[data]
records = "people.csv"
blocks = "blocks.csv"
schema = "schema.toml"
[privacy]
ledger = "none.ledger"
definition = "{definition}"
neighbours = "{relation}"
budget = "{budget}"
delta = "1e-7"
{noise}
[programme]
repeated = "{rng.choice(["pooled", "independent"])}"
{weights}
"""
    (folder / "blocks.csv").write_text("geocode,place\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text("\n".join(schema) + "\n")
    (folder / "spec.toml").write_text(text + "\n".join([*geography, *tables]) + "\n")

    def person() -> str:
        return ",".join([rng.choice(blocks), *(rng.choice(codes) for codes in attributes.values())])

    people = [person() for _ in range(rng.randint(2, 30))]
    others = _neighbours(rng, people, relation, person, versions)
    return OddProject(folder / "spec.toml", folder / "people.csv", ",".join(["geocode", *attributes]), people, others)


def odd_topdown(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Strategies with shares, queries and levels at random, only children, with and without a known total."""
    rng = random.Random(seed)
    queries = ["total", "kind", "trait", "trait:two", "kind*trait:two", "detailed"]
    levels = ["land", "county", "tract", "block"] if rng.random() < 0.6 else ["land", "tract", "block"]
    listed: dict[str, list[str]] = {query: ["-"] * len(levels) for query in queries}
    for place in range(len(levels)):
        chosen = sorted({"detailed", *rng.sample(queries, rng.randint(1, 4))}, key=lambda _: rng.random())
        if place == 0 and "total" in chosen and rng.random() < 0.5:
            chosen.remove("total")
        for query, share in zip(chosen, _shares(rng, len(chosen)), strict=True):
            listed[query][place] = str(share)
    order = rng.sample(queries, len(queries))
    rows = "\n".join(f'"{query}" = {listed[query]}' for query in order if any(s != "-" for s in listed[query]))
    shares = [str(share) for share in _shares(rng, len(levels))]
    estimation = "".join(
        f"[estimation.{name}]\nleast_squares = [{{ queries = {[q for q in order if listed[q][place] != '-']} }}]\n"
        'rounding = [["detailed"]]\n'
        for place, name in enumerate(levels)
    )
    known = '[[invariants]]\nname = "people"\nlevel = "land"\nquery = "total"\n' if rng.random() < 0.6 else ""
    budget = Fraction(rng.randint(1, 30), 10)
    strategy = f"""id = "odd"
title = "Odd"
provenance = "Made up for a test."
definition = "zcdp"
neighbours = "change-one"
root = "land"
[schema]
id = "odd"
provenance = "Made up for a test."
[schema.attributes.kind]
range = [0, {rng.randint(1, 3)}]
[schema.attributes.trait]
levels = [["a", "A"], ["b", "B"], ["c", "C"]]
[schema.attributes.trait.recodes.two.groups]
"A" = "a"
"B or C" = ["b", "c"]
[roots.land]
budget = "{budget}"
levels = {levels}
shares = {shares}
estimation = {levels}
[roots.land.queries]
{rows}
{estimation}{known}"""
    kinds = int(strategy.split("range = [0, ")[1].split("]")[0])
    blocks = sorted({f"{rng.randint(1, 3)}{rng.randint(0, 2)}{rng.randint(0, 3)}" for _ in range(rng.randint(3, 12))})
    digits = {"land": 0, "county": 1, "tract": 2}
    geography = ", ".join(f'{{ name = "{name}", digits = {digits[name]} }}' for name in levels[:-1])
    text = f"""[release]
name = "odd"
mechanism = "topdown"
[data]
records = "people.csv"
blocks = "blocks.csv"
[geography]
levels = [{geography}]
[privacy]
ledger = "none.ledger"
budget = "{budget}"
[topdown]
strategy = "strategy.toml"
spine = "plain"
[output]
measurements = {"true" if rng.random() < 0.5 else "false"}
"""
    (folder / "blocks.csv").write_text("geocode\n" + "\n".join(blocks) + "\n")
    (folder / "strategy.toml").write_text(strategy)
    (folder / "spec.toml").write_text(text)

    def person() -> str:
        return f"{rng.choice(blocks)},{rng.randint(0, kinds)},{rng.choice('abc')}"

    people = [person() for _ in range(rng.randint(2, 30))]
    others = _neighbours(rng, people, "change-one", person, versions)
    return OddProject(folder / "spec.toml", folder / "people.csv", "geocode,kind,trait", people, others)


def odd_safetab(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Levels, budgets and thresholds at random, both definitions, dense and sparse, one to eight race codes."""
    from confide.official_safetab import convert
    from tests.kits.safetab import ALL, CODES, GEOGRAPHY, PERSON_HEADER, budget_key, config, person, write_input

    rng = random.Random(seed)
    chosen: dict[str, Any] = {"privacy_defn": rng.choice(["zcdp", "puredp"])}
    for region in ALL:
        for level in (1, 2):
            chosen[budget_key(region, level)] = rng.choice([0, 0, 0.05, 0.5, 2.5])
    chosen[budget_key("COUNTY", 2)] = 0.5
    chosen["thresholds_p"] = {
        f"({region}, {level})": sorted(rng.randint(-3, 12) for _ in range(3)) for region in ALL for level in (1, 2)
    }
    chosen["max_race_codes"] = rng.randint(1, 8)
    chosen["run_pr"] = rng.random() < 0.6
    chosen["privacy_budget_p_stage_1_fraction"] = rng.choice([0.1, 0.25, 0.5])
    if rng.random() < 0.7:
        chosen["zero_suppression_chance"] = rng.choice([0.5, 0.99, 0.99999])

    def somebody() -> str:
        codes = rng.sample(CODES, rng.randint(1, 4))
        return person(
            rng.choice(GEOGRAPHY[1:]),
            *codes,
            age=str(rng.randint(0, 115)),
            sex=rng.choice("12"),
            span=rng.choice(CODES),
        )

    people = [somebody() for _ in range(rng.randint(2, 25))]
    spec = convert(*write_input(folder, config(**chosen), people=people), folder / "spec")
    others = _neighbours(rng, people, "add-remove", somebody, versions)
    others[0] = [*people, _in_most_groups(spec, folder / "scratch")]
    return OddProject(spec, folder / "data" / "person-records.txt", PERSON_HEADER, people, others)


def _in_most_groups(spec: Path, scratch: Path) -> str:
    """A person who counts in as many groups of a spec as can be."""
    with LocalEngine(scratch, processes=1, memory="1GiB") as engine:
        mechanism = MECHANISMS["safetab"]
        problem = mechanism.prepare(load_spec(spec, SPECS), engine)
    _, without = mechanism.made_up_records(problem, 1)
    return "|".join(without.slice(0, 1).to_pylist()[0].values())


ODD = {"tables": odd_tables, "topdown": odd_topdown, "safetab": odd_safetab}
"""For each accounted mechanism, what makes an odd project from a seed."""
