"""A recorder in the place of the sampler: what meets which noise, on records and on neighbours of them.

Every mechanism adds noise to true counts at few places. Here the noise of a coordinate is an object that notes what it
is added to: the stream, the coordinate, the law, and the true count. On the first records the noisy counts are made up;
on a neighbour the noisy count of the same coordinate is the same, so that all that is decided by noisy counts is
decided alike, as adaptive composition has it. Then the loss of the pair is exactly what its coordinates lose, each by
its law and by how much the true counts differ, whatever plan and accountant say.

:func:`record` goes as far as the measurements; :func:`replay` goes on to the sealed folder, so that the releases of
neighbours can be compared as well: with equal measurements they are equal, or a truth has gone around the noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import confide
from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.lab.risk.privacy_audit.twin_loss import TwinLoss
from confide.mechanisms import MECHANISMS, SPECS
from confide.mechanisms.safetab import measure as safetab_measure
from confide.mechanisms.tables import programme as tables_programme
from confide.noise import DiscreteGaussian, NoiseDistribution, ReleaseKey, TwoSidedGeometric, draw_at, perturb
from confide.privacy import Definition
from confide.releases.mechanism import Job, NoiseSource
from confide.releases.plan import Plan
from confide.releases.spec import load_spec
from confide.releases.workspace import Silent, Workspace
from tests.contract.kit import NAMES, modules_of, tree

KEY_HEX = "5a" * 32
KEY = ReleaseKey.choose(KEY_HEX)
STEP = 2.0**-13
Name = tuple[str, str]
"""The level and the query that a stream was asked for."""


@dataclass
class Recorded:
    """What met which noise in one run, and what is wrong with it."""

    plan: Plan = field(init=False)
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
    """Stands in for the sampler during one run. ``noise`` gives what a law adds at coordinates of a stream, where the
    run before has not decided the noisy counts."""

    def __init__(self, before: Recorded | None, noise: Callable[[Any, Any, Any], Any]):
        self.record = Recorded()
        self._before = before
        self._names: dict[bytes, Name] = {}
        self._noise = noise

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Takes the place of the sampler wherever a mechanism adds noise."""
        stream = NoiseSource.stream

        def asked(source: NoiseSource, level: str, query: str) -> Any:
            derived = stream(source, level, query)
            known = self._names.setdefault(derived.word_key, (level, query))
            if known != (level, query):
                self.record.faults.append(f"{known} and {(level, query)} have one stream")
            return derived

        def added(counts: Any, law: Any, stream: Any, start: int = 0) -> Any:
            places = start + np.arange(np.size(counts))
            return self._meet(law, stream, places, np.array(counts).ravel()).reshape(np.shape(counts))

        def at(law: Any, stream: Any, places: Any) -> Meeting:
            return Meeting(lambda truth: self._meet(law, stream, np.array(places), truth))

        patch.setattr(NoiseSource, "stream", asked)
        patch.setattr(safetab_measure, "noise_at", at)
        for module, name, sampler in _places_of_noise():
            patch.setattr(module, name, {perturb: added, draw_at: at}[sampler])
        patch.setattr(safetab_measure, "draw_survivors", self._survivors)
        patch.setattr(tables_programme, "PART_CELLS", 24)

    def _meet(self, law: Any, stream: Any, places: Any, truth: Any) -> Any:
        name = self._names[stream.word_key]
        of_stream = self.record.met.setdefault(name, {})
        result = np.array(truth)
        drawn = self._noise(law, stream, places).tolist()
        for position, (place, count) in enumerate(zip(places.tolist(), truth.tolist(), strict=True)):
            known = of_stream.setdefault(place, (law, count))
            if known != (law, count):
                self.record.faults.append(f"{name} at {place} meets {known} and {(law, count)}")
            noisy = None if self._before is None else self._before.noisy.get((name, place))
            if noisy is None:
                noisy = self.record.noisy.get((name, place))
            if noisy is None:
                noisy = count + drawn[position]
            self.record.noisy[name, place] = result[position] = noisy
        return result

    def _survivors(self, _rule: Any, stream: Any, number: int) -> Any:
        self.record.empty[self._names[stream.word_key]] += number
        none = np.zeros(0, np.int64)
        return SimpleNamespace(places=none, levels=none, values=none)


def _places_of_noise() -> list[tuple[ModuleType, str, Callable[..., Any]]]:
    """Modules of mechanisms, and the names that the samplers have there. SafeTab asks for its noise at a place of its
    own, from which it goes on to the sampler."""
    return [
        (module, name, sampler)
        for mechanism in NAMES
        for module in modules_of(mechanism)
        if not module.__name__.startswith("confide.mechanisms.safetab.")
        for name, value in vars(module).items()
        for sampler in (perturb, draw_at)
        if value is sampler
    ]


def made_up(seed: int) -> Callable[[Any, Any, Any], Any]:
    """Noise of no law, which decides differently from what was drawn before."""
    random = np.random.default_rng(seed)
    return lambda _law, _stream, places: random.integers(-6, 7, len(places))


def none_at_all(_law: Any, _stream: Any, places: Any) -> Any:
    return np.zeros(len(places), np.int64)


def as_planned(law: Any, stream: Any, places: Any) -> Any:
    """The noise of the release."""
    if isinstance(law, NoiseDistribution):
        return draw_at(law, stream, places)
    return np.array([int(perturb(np.zeros(1, np.int64), law, stream, int(place))[0]) for place in places])


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
        recorder = Recorder(before, none_at_all if before else made_up(seed))
        recorder.record.plan = plan
        recorder.install(patch)
        mechanism.count(problem, job)
        mechanism.measure(problem, job, NoiseSource(KEY, mechanism.fingerprint(problem), plan.hash, mechanism.name))
    return recorder.record


def replay(spec: Path, *, before: Recorded | None = None) -> tuple[Recorded, dict[str, bytes]]:
    """A whole run of a spec with the recorder, and every file of its release: with noise of its own, or with the noisy
    counts of a run before. Empty groups are drawn one by one, so that each has a coordinate in both runs."""
    recorder = Recorder(before, as_planned)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safetab_measure, "is_sparse", lambda _: False)
        recorder.install(patch)
        result = confide.run(spec, processes=1, insecure_key=KEY_HEX)
    recorder.record.plan = result.plan
    return recorder.record, tree(result.release)


def not_as_planned(run: Recorded) -> list[str]:
    """Planned measurements that were not drawn as often as planned, by the public numbers of the plan."""
    planned: Counter[Name] = Counter()
    for measure in run.plan.measures:
        planned[measure.level, measure.query] += measure.units * measure.cells
    drawn = {name: len(places) for name, places in run.met.items()}
    if run.plan.mechanism == "safetab":
        return _groups_not_as_planned(run, planned, drawn)
    whole = run.plan.question.get("measurements", True)  # of what has measurements only where a spec asks for them
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
