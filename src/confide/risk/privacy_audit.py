"""An audit from outside: a mechanism runs many times on made-up neighbours, and a test tells which of them it saw.

Two made-up files of records are neighbours k times over: in one there are k *twins*, records that are all alike; in the
other they were changed into other records, or are not there. The mechanism counts both files, then measures each of
them n times with fresh keys by the code that a release runs. Nothing else of it is believed. What is seen is turned
into one number, the logarithm of the likelihood ratio of both files under the noise that the plan states, summed over
all counts that the twins touch: no test tells better (Neyman & Pearson). It says "twins" above a threshold that was
fixed beforehand. With α the share of false alarms and β the power, both bounded by Clopper & Pearson (1934):

* *whatever the noise is.* ε-DP gives β ≤ e^{kε} α, (ε, δ)-DP β ≤ e^{kε} α + δ (e^{kε} − 1)/(e^ε − 1), and ρ-zCDP bounds
  the Rényi divergence of both answers, D_a(β ‖ α) ≤ a k² ρ for all a > 1 (group privacy: Dwork & Roth 2014, Theorem
  2.2; Bun & Steinke 2016, Proposition 27). Each is solved for its parameter.
* *in the form of the noise (f-DP).* Let R_c(α) be the largest power at α if all noise were c times narrower than the
  plan states. If β exceeds R_c(α), the noise is narrower than that. For Gaussian noise R_c(α) = Φ(Φ⁻¹(α) + cμ), so that
  μ ≥ Φ⁻¹(β) − Φ⁻¹(α) (Nasr et al. 2023, in Gaussian DP: Dong, Roth & Su 2022); here R_c is computed from the very laws,
  on the integers, by the distribution of their loss. Mahloujifar et al. (2024) say why this form is the tight one.
  The smallest c that is left gives ρ, or ε at δ, of one record.

Why twins: noise for one record alone may be so wide that only a million runs would tell anything. With k twins the two
files are k times as far apart, and a scale that is wrong by a factor is wrong by the same factor. k is chosen so that
the stated noise would give about one wrong answer in eleven. Where a release tells more than that of one record, the
measurements are judged in batches, each by a test of its own, and losses of batches are added: that takes their noise
to be independent, which ``confide audit noise`` looks at. Where asked for, every measurement is judged by itself too.

The bounds are lower bounds at a confidence of 95 %, all together. Nothing is proved by a low one: an audit finds noise
that is too small or a record that counts too often, never their absence. References: Jagielski, Ullman & Oprea (2020);
Steinke, Nasr & Jagielski (2023), whose audit needs one run where runs are dear: here they are not.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import beta as beta_distribution

from confide.answers import TypedAnswer
from confide.arrays import Floats, Integers
from confide.engines import Engine, LocalEngine, Source
from confide.engines.groups import private_folder
from confide.engines.protocol import Advance, GroupFunction
from confide.errors import ConfideError, ParameterError, Place, RunError
from confide.mechanisms import MECHANISMS, SPECS
from confide.noise import ReleaseKey, ReleaseNoise, TruncatedDistribution, TwoSidedGeometric
from confide.privacy import Definition, epsilons
from confide.releases.check import throwaway_workspace
from confide.releases.mechanism import Job, Mechanism, NoiseSource
from confide.releases.plan import Plan
from confide.releases.progress import Progress, Silent
from confide.releases.spec import LoadedSpec, find_sources, load_spec
from confide.releases.workspace import Workspace

RUNS = 250
"""How often each of the two made-up files is measured, for each number of twins."""
CONFIDENCE = Fraction(19, 20)
"""Of all bounds of an audit together. Where each measurement is judged by itself, half of the rest is for these."""
MOST_BLOCKS = 24
"""A longer block table is cut: noise is the same in all blocks, and a run has to be quick."""
MOST_TWINS = 1_000_000
WITHIN = 3
"""Single measurements that need up to so many times as many twins as others are judged with them."""

_WRONG = 0.09  # with enough twins the test errs about so often, on either side, if the noise is as stated
_SELDOM, _OFTEN = 0.06, 0.16  # where it would err less often than the first, too few errors would be left to count
_LARGEST = 50.0  # a single loss, where one of both files could not have given the count
_STEP, _FINE = 2.0**-7, 2.0**-15
_WIDE = 16.0  # from this variance on, discrete Gaussians add up to a Gaussian to 1/(24·16), a quarter of a per cent


# The distribution of the loss of two files that differ in some counts, and the power that it allows.

Component = tuple[ReleaseNoise, int, float]
"""A count: its stated noise, by how much both files differ in it, and by which factor the noise is narrower."""


def _log_weight(law: ReleaseNoise, factor: float, noise: Floats) -> Floats:
    """The logarithm of the probability of noise, up to a constant; the noise is narrower by a factor."""
    plain = law.untruncated if isinstance(law, TruncatedDistribution) else law
    parameter = float(plain.parameter)
    if isinstance(plain, TwoSidedGeometric):
        weight: Floats = -parameter * factor * np.abs(noise)
    else:
        weight = -((factor * noise) ** 2) / (2 * parameter)
    if isinstance(law, TruncatedDistribution):
        weight = np.where(np.abs(noise) <= _bound(law, factor), weight, -np.inf)
    return weight


def _bound(law: TruncatedDistribution, factor: float) -> int:
    """The bound of narrower noise stays; that of wider noise grows with it, or its edge would tell too much."""
    return law.bound if factor >= 1 else math.ceil(law.bound / factor)


@dataclass(frozen=True, eq=False)
class TwinLoss:
    """The loss ln P/Q under P, where P is one of two files and Q the other, on a grid; ``certain`` is the probability
    of what Q cannot give. Losses are spread to the grid so that no test gets weaker (mass and E[exp(−L)] are kept)."""

    losses: Floats
    mass: Floats
    certain: float

    @classmethod
    def of(cls, components: Mapping[Component, int], step: float = _STEP) -> TwinLoss:
        """Of counts with independent noise, each as often as its number says; no loss is off by more than a step."""
        parts, squares, log_possible = [], 0.0, 0.0
        for (law, difference, factor), number in components.items():
            plain = law.parameter
            if not isinstance(law, TruncatedDistribution | TwoSidedGeometric) and float(plain) >= _WIDE * factor**2:
                squares += number * (difference * factor) ** 2 / float(plain)
                continue
            losses, mass = _one_count(law, difference, factor)
            finite = np.isfinite(losses)
            inside = float(mass[finite].sum())
            log_possible += number * math.log(inside) if inside > 0 else -math.inf
            parts.append((losses[finite], mass[finite] / inside if inside > 0 else mass[finite], number))
        if squares > 0:
            deviation = np.linspace(-9, 9, 3601)
            density = np.exp(-(deviation**2) / 2)
            # The grid of a Gaussian keeps E[exp(−L)] = 1 to the last digits: the trapezoidal rule converges so fast.
            parts.append((squares / 2 + math.sqrt(squares) * deviation, density / density.sum(), 1))
        if not parts or log_possible == -math.inf:
            return cls(np.zeros(1), np.array([math.exp(log_possible)]), 1 - math.exp(log_possible))
        return cls._summed(parts, math.exp(log_possible), step)

    @classmethod
    def _summed(cls, parts: Sequence[tuple[Floats, Floats, int]], possible: float, step: float) -> TwinLoss:
        mean = sum(number * float(mass @ losses) for losses, mass, number in parts)
        variance = sum(
            number * (float(mass @ losses**2) - float(mass @ losses) ** 2 + step**2) for losses, mass, number in parts
        )
        reach = 12 * math.sqrt(variance) + 4
        low = min(mean - reach, 0.0) - 1
        width = max(mean + reach, 0.0) + 1 - low
        step = max(step, width / (1 << 21))
        size = 1 << max(10, math.ceil(math.log2(width / step)))
        if step > 1 / 16:
            raise ParameterError(
                "audit-too-large",
                "the loss of this release is too large for an audit",
                found=f"a mean of {mean:.3g}",
                expected="a release that leaves anything to tell",
                remedy="audit a release with a smaller budget",
            )
        spectrum = np.ones(size // 2 + 1, np.complex128)
        for losses, mass, number in parts:
            places = losses / step
            below = np.floor(places)
            upper = np.expm1(-(places - below) * step) / math.expm1(-step)
            placed = np.zeros(size)
            for points, weight in ((below, 1 - upper), (below + 1, upper)):
                placed += np.bincount(points.astype(np.int64) % size, weights=mass * weight, minlength=size)
            spectrum *= np.fft.rfft(placed) ** number
        first = math.floor(low / step)
        summed = np.maximum(np.roll(np.fft.irfft(spectrum, size), -first % size), 0.0)
        losses_of_grid: Floats = step * (first + np.arange(size, dtype=np.float64))
        return cls(losses_of_grid, possible * summed, 1 - possible)

    def power(self, level: float) -> float:
        """R(α): the largest power of a test with this share of false alarms."""
        false, right = self._curve
        return float(np.interp(level, false, right))

    def error(self) -> float:
        """The level at which the test that is best errs equally often on both sides."""
        false, right = self._curve
        return float(np.interp(0.0, false + right - 1, false))

    def threshold(self) -> float:
        """The loss above which that test decides for P."""
        false, right = self._curve
        return float(np.interp(0.0, false + right - 1, np.append(np.inf, self.losses[::-1]).clip(max=self.losses[-1])))

    def epsilon(self, delta: float) -> float:
        """The smallest ε with δ(ε) ≤ δ; infinite where no ε is enough."""
        if self.certain > delta:
            return math.inf
        low, high = 0.0, max(float(self.losses[-1]), 0.0)
        for _ in range(60):
            middle = (low + high) / 2
            above = self.losses > middle
            loss = self.certain + float(self.mass[above] @ -np.expm1(middle - self.losses[above]))
            low, high = (low, middle) if loss <= delta else (middle, high)
        return low

    @property
    def _curve(self) -> tuple[Floats, Floats]:
        """False alarms and power of every threshold, from none on."""
        mass, losses = self.mass[::-1], self.losses[::-1]
        false = np.append(0.0, np.cumsum(mass * np.exp(np.minimum(-losses, 700.0))))
        right = np.append(self.certain, self.certain + np.cumsum(mass))
        return np.minimum(false, 1.0), np.minimum(right, 1.0)


def _one_count(law: ReleaseNoise, difference: int, factor: float) -> tuple[Floats, Floats]:
    """The losses of one count, and their probabilities."""
    plain = law.untruncated if isinstance(law, TruncatedDistribution) else law
    scale = float(plain.parameter)
    reach = 40 / (scale * factor) if isinstance(plain, TwoSidedGeometric) else 9 * math.sqrt(scale) / factor
    if isinstance(law, TruncatedDistribution):
        reach = min(reach, _bound(law, factor))
    stride = max(1, math.floor(reach / 4000))
    steps = math.ceil(reach / stride)
    noise: Floats = stride * np.arange(-steps, steps + 1, dtype=np.float64)
    weight = _log_weight(law, factor, noise)
    with np.errstate(invalid="ignore"):
        losses: Floats = np.subtract(weight, _log_weight(law, factor, noise + difference))
    mass = np.exp(weight - weight.max())
    there = mass > 0
    return losses[there], mass[there] / mass.sum()


def share_bounds(times: int, of: int, error: float) -> tuple[float, float]:
    """Clopper & Pearson: what a probability is at least and at most, each wrongly with a probability of ``error``.

    >>> least, most = share_bounds(0, 100, 0.025)
    >>> least, round(most, 4)
    (0.0, 0.0362)
    """
    least = 0.0 if times == 0 else float(beta_distribution.ppf(error, times, of - times + 1))
    most = 1.0 if times == of else float(beta_distribution.ppf(1 - error, times + 1, of - times))
    return least, most


def narrower_by(components: Mapping[tuple[ReleaseNoise, int], int], power: float, level: float) -> float:
    """The smallest c with R_c(α) ≥ β: the noise is at least so many times narrower than stated.

    Args:
        components: How many counts have this stated noise and differ by so much.
        power: A lower bound of β.
        level: An upper bound of α.

    Returns:
        Above 1 the noise is not what was stated; 0 where nothing is known.

    >>> from confide.noise import DiscreteGaussian
    >>> from statistics import NormalDist
    >>> normal = NormalDist()
    >>> mu = normal.inv_cdf(0.9) - normal.inv_cdf(0.1)
    >>> abs(narrower_by({(DiscreteGaussian(100), 20): 1}, 0.9, 0.1) * 20 / 10 - mu) < 1e-2
    True
    """
    if power <= level:
        return 0.0

    def reached(factor: float) -> float:
        return TwinLoss.of({(law, gap, factor): n for (law, gap), n in components.items()}).power(level)

    low, high = 0.0, 1.0
    while reached(high) < power:
        low, high = high, 2 * high
        if high > 64:
            return low
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < power else (low, middle)
    return low


# The answer.


@dataclass(frozen=True)
class MeasurementBound:
    """What the test of one measurement came to."""

    level: str
    query: str
    twins: int
    narrower_by: float
    """The noise is at least so many times narrower than the plan states; above 1 something is wrong."""


@dataclass(frozen=True)
class PrivacyAudit(TypedAnswer):
    """A lower bound of what a release gives away, seen from outside, beside what its plan states."""

    mechanism: str
    definition: Definition
    neighbours: str
    delta: Fraction
    runs: int
    twins: int
    batches: int
    touched: int
    """How many noisy counts the change of one record touches, as far as they can be seen."""
    stated: Mapping[str, float]
    """``rho`` (zCDP) and ``epsilon`` (at ``delta``, except for pure differential privacy)."""
    at_least: Mapping[str, float]
    """The same of the noise that was seen, at 95 %, in the form of the stated noise."""
    whatever_the_noise: Mapping[str, float]
    """The same without a word about the form of the noise."""
    narrower_by: float
    """The noise of a batch is at least so many times narrower than the plan states; above 1 something is wrong."""
    measurements: tuple[MeasurementBound, ...]

    @property
    def too_narrow(self) -> tuple[MeasurementBound, ...]:
        """The measurements whose noise is narrower than the plan states."""
        return tuple(part for part in self.measurements if part.narrower_by > 1)

    @property
    def exceeded(self) -> bool:
        """Whether the release gives away more than it states, or one of its measurements does."""
        above = any(bound[name] > self.stated[name] for bound in self._bounds for name in self.stated)
        return above or self.narrower_by > 1 or bool(self.too_narrow)

    @property
    def _bounds(self) -> tuple[Mapping[str, float], ...]:
        return self.at_least, self.whatever_the_noise

    @property
    def in_words(self) -> tuple[str, ...]:
        """What was done, what came of it, and what it shows."""
        name = next(iter(self.stated))
        verdict = (
            "The empirical bound exceeds the stated loss, or the noise is narrower than planned: do not release "
            "anything with this code."
            if self.exceeded
            else "The empirical bound does not exceed the stated loss."
        )
        return (
            f"Made-up records were measured {2 * self.runs:,} times with fresh keys, {self.twins:,} of them alike in "
            f"one half of the runs, and a test had to tell the halves apart.",
            f"The noise that was seen allows {name} of at least {self.at_least[name]:.4g} (95 % confidence); "
            f"the plan states {self.stated[name]:.4g}.",
            verdict,
            "Such an audit finds noise that is too small, or a record that counts too often. It proves nothing if it "
            "finds none: errors that show in rare events, in other records or in other settings stay hidden, and the "
            "guarantee rests on its proof.",
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": not self.exceeded,
            "mechanism": self.mechanism,
            "definition": self.definition.value,
            "neighbours": self.neighbours,
            "delta": str(self.delta),
            "confidence": str(CONFIDENCE),
            "runs": self.runs,
            "twins": self.twins,
            "batches": self.batches,
            "touched_counts": self.touched,
            "loss": [
                {
                    "of": name,
                    "stated": stated,
                    "at_least": self.at_least[name],
                    "whatever_the_noise": self.whatever_the_noise[name],
                }
                for name, stated in self.stated.items()
            ],
            "narrower_by": self.narrower_by,
            "measurements": [
                {"level": part.level, "query": part.query, "twins": part.twins, "narrower_by": part.narrower_by}
                for part in self.measurements
            ],
            "in_words": list(self.in_words),
        }


def audit_privacy(
    spec: str | Path,
    *,
    runs: int = RUNS,
    by_measurement: bool = False,
    seed: int | None = None,
    progress: Progress | None = None,
) -> PrivacyAudit:
    """Runs the mechanism of a spec many times on made-up neighbours, and bounds its loss from below by what is seen.

    The office's records are not opened, no ledger is touched, and what is made is thrown away. The block table is read,
    and of a long one only some blocks are used.

    Args:
        spec: The spec file.
        runs: How often each of two made-up files is measured; 250 notice noise that is 30 % too narrow.
        by_measurement: Whether every measurement is judged by itself too, with as many twins as its noise needs: that
            takes some times as long, and notices one scale that is wrong among many.
        seed: For a trial that can be repeated: a number from which the keys follow. By default they are fresh.
        progress: Is told of stages; nobody by default.

    Returns:
        The lower bound beside the stated loss, for the release and for each measurement.
    """
    loaded = load_spec(Path(spec), SPECS)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    if not mechanism.accounted:
        raise RunError(
            "no-loss",
            "this mechanism states no privacy loss, so there is none to hold a bound against",
            where=loaded.place("release", "mechanism"),
            found=f"the mechanism {mechanism.name}",
            expected="a mechanism that promises differential privacy and spends a budget: "
            + ", ".join(name for name, mechanism in MECHANISMS.items() if mechanism.accounted),
            remedy="judge its releases by what an attacker gets out of them: confide attack, confide risk, confide "
            "audit suppression",
        )
    if runs < 20:
        raise ParameterError(
            "audit-runs",
            "so few runs tell nothing",
            where=Place(path="--runs"),
            found=str(runs),
            expected="at least 20",
            remedy="leave it out",
        )
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        bench = _Bench.of(loaded, mechanism, engine, scratch.root, seed, progress or Silent())
        return bench.audit(runs, by_measurement=by_measurement)


# The bench: made-up records, counted once, measured as often as it takes.


class _InProcess:
    """An engine that maps groups here and keeps the tables; files of counts are read once."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._rows: dict[tuple[Path, str, int], pa.Table] = {}
        self.mapped: dict[Path, list[pa.Table]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def map_groups(
        self,
        function: GroupFunction,
        rows: Path,
        key: str,
        groups: Sequence[int],
        into: Path,
        *,
        advance: Advance | None = None,  # noqa: ARG002 - nobody waits for a group of a trial
    ) -> list[Path]:
        for group in groups:
            if (rows, key, group) not in self._rows:
                self._rows[rows, key, group] = pq.read_table(rows, filters=[(key, "=", group)])
        self.mapped[into] = [function(group, self._rows[rows, key, group]) for group in groups]
        return []


Key = tuple[str, str]
"""The level and the query of a measurement."""
Outcome = dict[Key, list[tuple[Integers, Floats, ReleaseNoise]]]
"""What a trial gave of each measurement: coordinates, counts, and the stated law."""


@dataclass(frozen=True, eq=False)
class _TouchedCounts:
    """The counts of one measurement and law in which both files differ: coordinates, and both true counts."""

    law: ReleaseNoise
    places: Integers
    with_twins: Floats
    without: Floats

    @property
    def components(self) -> Counter[tuple[ReleaseNoise, int]]:
        return Counter((self.law, abs(int(gap))) for gap in self.with_twins - self.without)

    def loss(self, coordinates: Integers, counts: Floats) -> float:
        """The logarithm of the likelihood ratio of what is seen of them; what is not seen adds nothing."""
        place = np.searchsorted(coordinates, self.places)
        there = place < len(coordinates)
        there[there] = coordinates[place[there]] == self.places[there]
        seen = counts[place[there]]
        first, second = (_log_weight(self.law, 1.0, seen - true[there]) for true in (self.with_twins, self.without))
        with np.errstate(invalid="ignore"):
            losses = np.nan_to_num(first - second, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
        return float(losses.sum())


Touched = dict[Key, list[_TouchedCounts]]


def _components(parts: Iterable[_TouchedCounts]) -> Counter[tuple[ReleaseNoise, int]]:
    total: Counter[tuple[ReleaseNoise, int]] = Counter()
    for part in parts:
        total.update(part.components)
    return total


@dataclass(frozen=True, eq=False)
class _TwoFiles:
    """Both made-up files, counted: the jobs that measure them, and what the twins touch."""

    twins: int
    jobs: tuple[Job, Job]
    problems: tuple[Any, Any]
    touched: Touched


@dataclass(frozen=True, eq=False)
class _Bench:
    """A mechanism with its problem on a small frame, ready to count made-up records."""

    mechanism: Mechanism[Any]
    loaded: LoadedSpec
    problem: Any
    plan: Plan
    engine: Engine
    folder: Path
    seed: str
    progress: Progress

    @classmethod
    def of(
        cls,
        loaded: LoadedSpec,
        mechanism: Mechanism[Any],
        engine: Engine,
        folder: Path,
        seed: int | None,
        progress: Progress,
    ) -> _Bench:
        blank = folder / "blank.parquet"
        pq.write_table(pa.table({"nobody": pa.array([], pa.int64())}), blank)
        here = _with_data(loaded, records=str(blank))
        problem = mechanism.prepare(here, engine)
        plan = mechanism.plan(problem)
        cut = _cut_blocks(here, private_folder(folder / "frame"))
        if cut is not None:
            try:
                small = mechanism.prepare(cut, engine)
                small_plan = mechanism.plan(small)
            except ConfideError:
                small_plan = plan
            else:
                if small_plan.loss == plan.loss:
                    problem, plan, here = small, small_plan, cut
        chosen = secrets.token_hex(16) if seed is None else str(seed)
        return cls(mechanism, here, problem, plan, engine, folder, chosen, progress)

    def audit(self, runs: int, *, by_measurement: bool) -> PrivacyAudit:
        single = self._two_files(1)
        if not single.touched:
            raise RunError(
                "nothing-touched",
                "a change of a made-up record touches no count that is published",
                found="no such count",
                expected="at least one noisy count that a record counts in",
                remedy="look at the tables and levels of the spec: nothing depends on the records",
            )
        per_twin = {key: _components(parts) for key, parts in single.touched.items()}
        error = float(1 - CONFIDENCE) / (2 if by_measurement else 1)
        # The release: one test, or several where one record alone is told from another almost surely.
        twins, batches = _design(per_twin)
        files = self._two_files(twins)
        losses = self._losses(files, runs, "Measuring made-up records")
        factors, points = {}, []
        for batch in batches:
            factor, point = _judged(files.touched, batch, losses, error / len(batches))
            factors.update(dict.fromkeys(batch, factor))
            points.append(point)
        # Every measurement by itself, with as many twins as it takes.
        judged = self._single_measurements(per_twin, runs, error / len(per_twin)) if by_measurement else []
        delta = self.plan.delta or self.loaded.spec.privacy.delta
        stated = self._stated(delta)
        return PrivacyAudit(
            mechanism=self.mechanism.name,
            definition=self.plan.definition,
            neighbours=self.plan.neighbours.value,
            delta=delta,
            runs=runs,
            twins=twins,
            batches=len(batches),
            touched=sum(sum(parts.values()) for parts in per_twin.values()),
            stated=stated,
            at_least=_loss_of(self.plan.definition, per_twin, factors, delta),
            whatever_the_noise=_whatever(self.plan.definition, points, twins, delta),
            narrower_by=max(factors.values()),
            measurements=tuple(judged),
        )

    def _stated(self, delta: Fraction) -> dict[str, float]:
        parameters = {name: float(value) for name, value in self.plan.loss.parameters().items()}
        if self.plan.definition is Definition.ZCDP:
            (rho,) = self.plan.loss.parameters().values()
            return {"rho": parameters["rho"], "epsilon": _epsilon_of(rho, delta)}
        return {"epsilon": parameters["epsilon"]}

    def _single_measurements(
        self, per_twin: Mapping[Key, Counter[tuple[ReleaseNoise, int]]], runs: int, error: float
    ) -> list[MeasurementBound]:
        wanted = {key: _enough_twins(components) for key, components in per_twin.items()}
        judged = []
        while wanted:
            twins = min(wanted.values())
            now = [key for key, number in wanted.items() if number <= WITHIN * twins]
            twins = max(twins, math.floor(math.sqrt(twins * max(wanted[key] for key in now))))
            files = self._two_files(twins)
            losses = self._losses(files, runs, "Measuring single measurements")
            for key in now:
                factor, _point = _judged(files.touched, (key,), losses, error)
                judged.append(MeasurementBound(*key, twins, factor))
                del wanted[key]
        return judged

    def _two_files(self, twins: int) -> _TwoFiles:
        """Both made-up files, counted by the mechanism, and what is true of them by its own silent measurements."""
        jobs, problems, truths = [], [], []
        tables = self.mechanism.made_up_records(self.problem, twins)
        for name, table in zip(("with", "without"), tables, strict=True):
            workspace = Workspace(private_folder(self.folder / f"{twins}-{name}"))
            file = workspace.root / "made-up.parquet"
            pq.write_table(table, file)
            problem = self.mechanism.with_records(self.problem, Source(file, "parquet"))
            engine: Any = _InProcess(self.engine)
            job = Job(self.loaded, self.plan, engine, workspace, Silent())
            self.mechanism.count(problem, job)
            silent_problem, silent_plan = self.mechanism.silenced(problem, self.plan)
            silent = replace(job, plan=silent_plan)
            outcomes = [self._trial(silent_problem, silent, self._key("silent", name, n)) for n in range(2)]
            if not _same(*outcomes):
                raise RunError(
                    "not-as-planned",
                    "noise is drawn that does not follow the plan: the same question without noise has two answers",
                    found="answers that differ",
                    expected="true counts of made-up records, as the plan had no noise",
                    remedy="do not release anything with this code, and report it",
                )
            jobs.append(job)
            problems.append(problem)
            truths.append(outcomes[0])
        laws = {
            key: [law for _, _, law in parts] for key, parts in self._trial(problems[0], jobs[0], self._key()).items()
        }
        return _TwoFiles(twins, (jobs[0], jobs[1]), (problems[0], problems[1]), _touched(truths[0], truths[1], laws))

    def _losses(self, files: _TwoFiles, runs: int, title: str) -> dict[Key, tuple[Floats, Floats]]:
        """Of every measurement the loss that was seen in each run, with twins and without."""
        seen = {key: (np.zeros(runs), np.zeros(runs)) for key in files.touched}
        with self.progress.stage(title, 2 * runs) as advance:
            for run in range(runs):
                for side, (job, problem) in enumerate(zip(files.jobs, files.problems, strict=True)):
                    outcome = self._trial(problem, job, self._key(files.twins, side, run))
                    for key, parts in files.touched.items():
                        pairs = zip(parts, outcome[key], strict=True)
                        seen[key][side][run] = sum(part.loss(where, counts) for part, (where, counts, _) in pairs)
                    advance(1)
        return seen

    def _trial(self, problem: Any, job: Job, key: ReleaseKey) -> Outcome:
        """One set of measurements. What several tables show of one measurement is one count: their mean."""
        noise = NoiseSource(key, self.mechanism.fingerprint(problem), self.plan.hash, self.mechanism.name)
        engine: Any = job.engine
        outcome: Outcome = {}
        repeated: Counter[tuple[Key, ReleaseNoise]] = Counter()
        for part in self.mechanism.trial_counts(problem, job, noise, engine.mapped):
            key_of = (part.level, part.query)
            parts = outcome.setdefault(key_of, [])
            again = [
                place
                for place, (where, _, law) in enumerate(parts)
                if law == part.law and _equal(where, part.coordinates)
            ]
            if again:
                repeated[key_of, part.law] += 1
                times = repeated[key_of, part.law]
                where, counts, law = parts[again[0]]
                parts[again[0]] = (where, (counts * times + part.values) / (times + 1), law)
            else:
                parts.append((part.coordinates, part.values.astype(np.float64), part.law))
        return outcome

    def _key(self, *which: object) -> ReleaseKey:
        text = "/".join([self.seed, *map(str, which)])
        return ReleaseKey.choose(hashlib.sha256(text.encode()).hexdigest())


def _equal(one: Integers, other: Integers) -> bool:
    return len(one) > 0 and np.array_equal(one, other)


def _same(one: Outcome, other: Outcome) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
        for key in one
        for first, second in zip(one[key], other[key], strict=True)
    )


def _touched(with_twins: Outcome, without: Outcome, laws: Mapping[Key, Sequence[ReleaseNoise]]) -> Touched:
    touched: Touched = {}
    for key, parts in with_twins.items():
        for (places, counts, _), (other_places, other_counts, _), law in zip(
            parts, without[key], laws[key], strict=True
        ):
            common, here, there = np.intersect1d(places, other_places, return_indices=True)
            apart = np.flatnonzero(counts[here] != other_counts[there])
            counts_apart = _TouchedCounts(law, common[apart], counts[here][apart], other_counts[there][apart])
            touched.setdefault(key, []).append(counts_apart)
    return {key: parts for key, parts in touched.items() if any(len(part.places) for part in parts)}


def _scaled(components: Mapping[tuple[ReleaseNoise, int], int], twins: int) -> TwinLoss:
    return TwinLoss.of({(law, twins * gap, 1.0): number for (law, gap), number in components.items()})


def _enough_twins(components: Mapping[tuple[ReleaseNoise, int], int]) -> int:
    """The smallest number of twins for which the stated noise errs seldom enough."""
    low, high = 0, 1
    while _scaled(components, high).error() > _WRONG and high < MOST_TWINS:
        low, high = high, 2 * high
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if _scaled(components, middle).error() > _WRONG else (low, middle)
    # Whole numbers are far apart where they are small: one less may be nearer.
    return high - 1 if 1 < high < 4 and _scaled(components, high - 1).error() < _OFTEN else high


def _design(per_twin: Mapping[Key, Counter[tuple[ReleaseNoise, int]]]) -> tuple[int, list[tuple[Key, ...]]]:
    """How many twins, and which measurements are judged together.

    All of them, unless even so few twins are told too well; then as many together as are not.
    """
    twins = _enough_twins(sum(per_twin.values(), Counter()))
    batches: list[tuple[Key, ...]] = []
    for key in per_twin:
        for place, batch in enumerate(batches):
            if _scaled(sum((per_twin[member] for member in (*batch, key)), Counter()), twins).error() > _SELDOM:
                batches[place] = (*batch, key)
                break
        else:
            batches.append((key,))
    return twins, batches


def _judged(
    touched: Touched, keys: Sequence[Key], losses: Mapping[Key, tuple[Floats, Floats]], error: float
) -> tuple[float, tuple[float, float]]:
    """By how much the noise of some measurements is narrower at least, and bounds of power and false alarms."""
    components = _components(part for key in keys for part in touched[key])
    threshold = TwinLoss.of({(law, gap, 1.0): n for (law, gap), n in components.items()}).threshold()
    with_twins, without = (sum((losses[key][side] for key in keys), np.zeros(1)) for side in (0, 1))
    runs = len(with_twins)
    power, _ = share_bounds(int((with_twins > threshold).sum()), runs, error / 2)
    _, level = share_bounds(int((without > threshold).sum()), runs, error / 2)
    return narrower_by(components, power, level), (power, level)


def _loss_of(
    definition: Definition,
    per_twin: Mapping[Key, Counter[tuple[ReleaseNoise, int]]],
    factors: Mapping[Key, float],
    delta: Fraction,
) -> dict[str, float]:
    """The loss of one record if the noise of every measurement is narrower by its factor."""
    counts = [
        (law, gap, factors[key], number)
        for key, components in per_twin.items()
        for (law, gap), number in components.items()
    ]
    if definition is Definition.ZCDP:
        rho = sum(n * (gap * factor) ** 2 / (2 * float(law.parameter)) for law, gap, factor, n in counts)
        return {"rho": rho, "epsilon": _epsilon_of(Fraction(rho), delta)}
    if definition is Definition.PURE:
        return {"epsilon": sum(n * gap * factor * float(law.parameter) for law, gap, factor, n in counts)}
    scaled: Counter[Component] = Counter()
    for law, gap, factor, number in counts:
        if factor > 0:
            scaled[law, gap, factor] += number
    return {"epsilon": TwinLoss.of(scaled, _FINE).epsilon(float(delta)) if scaled else 0.0}


def _epsilon_of(rho: Fraction, delta: Fraction) -> float:
    return epsilons(rho, delta)["canonne_kamath_steinke"] if rho > 0 else 0.0


def _whatever(
    definition: Definition, points: Sequence[tuple[float, float]], twins: int, delta: Fraction
) -> dict[str, float]:
    """What group privacy says of the best of the tests, with no word about the form of the noise."""
    if definition is Definition.ZCDP:
        rho = max(_renyi(power, level) for power, level in points) / twins**2
        return {"rho": rho, "epsilon": _epsilon_of(Fraction(rho), delta)}
    allowed = float(delta) if definition is Definition.APPROXIMATE else 0.0
    return {"epsilon": max(_group_epsilon(power, level, twins, allowed) for power, level in points)}


def _renyi(power: float, level: float) -> float:
    """The smallest ρ with D_a(β ‖ α) ≤ aρ for all a > 1, the largest D_a / a."""
    if power <= level or level <= 0:
        return 0.0
    orders = 1 + np.geomspace(1e-6, 1e3, 400)
    logs = np.logaddexp(
        orders * math.log(power) + (1 - orders) * math.log(level),
        orders * math.log1p(-power) + (1 - orders) * math.log1p(-level) if power < 1 else -np.inf,
    )
    return max(0.0, float((logs / (orders - 1) / orders).max()))


def _group_epsilon(power: float, level: float, twins: int, delta: float) -> float:
    """The smallest ε with β ≤ e^{kε} α + δ (e^{kε} − 1)/(e^ε − 1)."""
    if power <= level:
        return 0.0
    low, high = 0.0, math.log(power / level) / twins
    for _ in range(60):
        middle = (low + high) / 2
        group = math.expm1(twins * middle) / math.expm1(middle) if middle > 0 else float(twins)
        enough = power <= math.exp(twins * middle) * level + delta * group
        low, high = (low, middle) if enough else (middle, high)
    return low


# The frame, cut to a few blocks.


def _with_data(loaded: LoadedSpec, **paths: str) -> LoadedSpec:
    """The spec with other files."""
    spec = loaded.spec
    return replace(loaded, value=spec.model_copy(update={"data": spec.data.model_copy(update=paths)}))


def _cut_blocks(loaded: LoadedSpec, folder: Path) -> LoadedSpec | None:
    """The spec with the first and the last rows of a long block table; none where it is short, or cannot be cut."""
    source = find_sources(loaded)[0].get("blocks")
    if source is None:
        return None
    file, half = folder / source.path.name, MOST_BLOCKS // 2
    if source.format == "parquet":
        blocks = pq.read_table(source.path)
        if blocks.num_rows <= MOST_BLOCKS:
            return None
        ends = pa.concat_tables([blocks.slice(0, half), blocks.slice(blocks.num_rows - half)])
        pq.write_table(ends, file)
        return _with_data(loaded, blocks=str(file))
    lines = source.path.read_bytes().splitlines(keepends=True)
    if len(lines) <= MOST_BLOCKS + 1 or any(b'"' in line for line in lines):
        return None
    file.write_bytes(b"".join([lines[0], *lines[1 : half + 1], *lines[-half:]]))
    return _with_data(loaded, blocks=str(file))
