"""The audit of a spec: which mechanism it is, which of the ways is asked for, and the way by many runs on twins.

By many runs a mechanism measures two files, with twins in one of them, as often as it takes. The way in one run:
:mod:`confide.lab.risk.privacy_audit.canary_run`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide.arrays import Floats
from confide.engines import LocalEngine
from confide.errors import ParameterError, Place, RunError
from confide.lab.risk.privacy_audit import bench as privacy_audit_bench
from confide.lab.risk.privacy_audit import twin_loss
from confide.lab.risk.privacy_audit.canary_run import CanaryRun
from confide.mechanisms import MECHANISMS, SPECS
from confide.noise import ReleaseNoise
from confide.releases import LoadedSpec, Mechanism, Progress, Silent, load_spec
from confide.releases.check import throwaway_workspace
from confide.releases.noise_audit import NoiseAudit

MOST_TWINS = 1_000_000
WITHIN = 3
"""Single measurements that need up to so many times as many twins as others are judged with them."""
_WRONG = 0.09  # with enough twins the test errs about so often, on either side, if the noise is as stated
_SELDOM, _OFTEN = 0.06, 0.16  # where it would err less often than the first, too few errors would be left to count


@dataclass(frozen=True, eq=False)
class TwoFiles:
    """Both made-up files, counted, with twins and without, and what the twins touch."""

    twins: int
    files: tuple[privacy_audit_bench.CountedFile, privacy_audit_bench.CountedFile]
    touched: twin_loss.Touched


@dataclass(frozen=True, eq=False)
class TwinAudit:
    """Two files, one of them with twins, measured again and again."""

    bench: privacy_audit_bench.Bench

    def audit(self, runs: int, *, by_measurement: bool) -> privacy_audit_bench.PrivacyAudit:
        """See :func:`confide.lab.risk.privacy_audit.audit_privacy`."""
        bench, plan = self.bench, self.bench.plan
        single = self._two_files(1)
        if not single.touched:
            raise twin_loss.nothing_touched()
        per_twin = {key: twin_loss.components_of(parts) for key, parts in single.touched.items()}
        error = float(1 - privacy_audit_bench.CONFIDENCE) / (2 if by_measurement else 1)
        # The release: one test, or several where a test tells one record alone from another almost surely.
        twins, batches = _design(per_twin)
        files = self._two_files(twins)
        losses = self._losses(files, runs, "Measuring made-up records")
        draws = self._draws(files)
        factors, points = {}, []
        for batch in batches:
            factor, point = _judged(files.touched, batch, losses, error / len(batches))
            factors.update(dict.fromkeys(batch, factor))
            points.append(point)
        # Every measurement by itself, with as many twins as it takes.
        judged = self._single_measurements(per_twin, runs, error / len(per_twin)) if by_measurement else []
        return privacy_audit_bench.PrivacyAudit(
            mechanism=bench.mechanism.name,
            definition=plan.definition,
            neighbours=plan.neighbours.value,
            delta=bench.delta,
            runs=runs,
            twins=twins,
            batches=len(batches),
            touched=sum(sum(parts.values()) for parts in per_twin.values()),
            stated=bench.stated(),
            at_least=twin_loss.loss_of(plan.definition, per_twin, factors, bench.delta),
            whatever_the_noise=twin_loss.whatever_the_noise(plan.definition, points, twins, bench.delta),
            narrower_by=max(factors.values()),
            measurements=tuple(judged),
            draws=draws,
            power_of=lambda: twin_loss.power_of(
                twin_loss.least_noticed(_Noticing.of(files.touched, batches, runs, error / len(batches)).notices),
                draws,
                "The test",
            ),
        )

    def _draws(self, files: TwoFiles) -> NoiseAudit:
        """The draws of the first run with each file."""
        first = {
            name: (file, self.bench.trial(file.problem, file.job, self.bench.key(files.twins, side, 0)))
            for side, (name, file) in enumerate(zip(("with", "without"), files.files, strict=True))
        }
        return self.bench.noise_audit(**first)

    def _single_measurements(
        self, per_twin: Mapping[twin_loss.Key, Counter[tuple[ReleaseNoise, int]]], runs: int, error: float
    ) -> list[privacy_audit_bench.MeasurementBound]:
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
                judged.append(privacy_audit_bench.MeasurementBound(*key, twins, factor))
                del wanted[key]
        return judged

    def _two_files(self, twins: int) -> TwoFiles:
        tables = self.bench.audit.made_up_records(self.bench.problem, twins)
        with_twins, without = (
            self.bench.counted(table, f"{twins}-{side}", side)
            for side, table in zip(("with", "without"), tables, strict=True)
        )
        touched = twin_loss.touched_counts(with_twins.truth, without.truth, self.bench.laws(with_twins))
        return TwoFiles(twins, (with_twins, without), touched)

    def _losses(self, files: TwoFiles, runs: int, title: str) -> dict[twin_loss.Key, tuple[Floats, Floats]]:
        """Of every measurement the loss that was seen in each run, with twins and without."""
        seen = {key: (np.zeros(runs), np.zeros(runs)) for key in files.touched}
        with self.bench.progress.stage(title, 2 * runs) as advance:
            for run in range(runs):
                for side, file in enumerate(files.files):
                    outcome = self.bench.trial(file.problem, file.job, self.bench.key(files.twins, side, run))
                    for key, parts in files.touched.items():
                        pairs = zip(parts, outcome[key], strict=True)
                        seen[key][side][run] = sum(part.loss(where, counts) for part, (where, counts, _) in pairs)
                    advance(1)
        return seen


@dataclass(frozen=True, eq=False)
class _Noticing:
    """Made-up audits by the same test: of each batch what is touched, the threshold, and the power that is stated."""

    batches: tuple[tuple[Counter[tuple[ReleaseNoise, int]], float, twin_loss.TwinLoss], ...]
    runs: int
    error: float

    @classmethod
    def of(
        cls, touched: twin_loss.Touched, batches: Sequence[Sequence[twin_loss.Key]], runs: int, error: float
    ) -> _Noticing:
        designs = []
        for keys in batches:
            components = twin_loss.components_of(part for key in keys for part in touched[key])
            stated = twin_loss.TwinLoss.of({(law, gap, 1.0): n for (law, gap), n in components.items()})
            designs.append((components, stated.threshold(), stated))
        return cls(tuple(designs), runs, error)

    def notices(self, narrower: float, random: np.random.Generator) -> bool:
        """Whether an audit in which all noise is narrower by a factor says so."""
        return any(self._batch(*design, narrower, random) for design in self.batches)

    def _batch(
        self,
        components: Mapping[tuple[ReleaseNoise, int], int],
        threshold: float,
        stated: twin_loss.TwinLoss,
        narrower: float,
        random: np.random.Generator,
    ) -> bool:
        sums = [np.zeros(self.runs), np.zeros(self.runs)]
        for (law, gap), number in components.items():
            for side, shift in enumerate((0, -gap)):
                noise = twin_loss.narrow_draws(law, narrower, (self.runs, number), random) + shift
                with np.errstate(invalid="ignore"):
                    loss = twin_loss.log_weight(law, 1.0, noise) - twin_loss.log_weight(law, 1.0, noise + gap)
                sums[side] += np.nan_to_num(loss, nan=0.0, posinf=twin_loss.LARGEST, neginf=-twin_loss.LARGEST).sum(
                    axis=1
                )
        power, level = _shares(sums[0], sums[1], threshold, self.error)
        return power > level and stated.power(level) < power


def _shares(with_twins: Floats, without: Floats, threshold: float, error: float) -> tuple[float, float]:
    """Bounds of the power and of the share of false alarms that were seen."""
    runs = len(with_twins)
    power, _ = twin_loss.share_bounds(int((with_twins > threshold).sum()), runs, error / 2)
    _, level = twin_loss.share_bounds(int((without > threshold).sum()), runs, error / 2)
    return power, level


def loss_of_twins(components: Mapping[tuple[ReleaseNoise, int], int], twins: int) -> twin_loss.TwinLoss:
    return twin_loss.TwinLoss.of({(law, twins * gap, 1.0): number for (law, gap), number in components.items()})


def _enough_twins(components: Mapping[tuple[ReleaseNoise, int], int]) -> int:
    """The smallest number of twins for which the stated noise errs seldom enough."""
    low, high = 0, 1
    while loss_of_twins(components, high).error() > _WRONG and high < MOST_TWINS:
        low, high = high, 2 * high
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        low, high = (middle, high) if loss_of_twins(components, middle).error() > _WRONG else (low, middle)
    # Whole numbers are far apart where they are small: one less may be nearer.
    return high - 1 if 1 < high < 4 and loss_of_twins(components, high - 1).error() < _OFTEN else high


def _design(
    per_twin: Mapping[twin_loss.Key, Counter[tuple[ReleaseNoise, int]]],
) -> tuple[int, list[tuple[twin_loss.Key, ...]]]:
    """How many twins, and which measurements are judged together.

    All of them, unless a test tells even so few twins apart too well; then so many together that it does not.
    """
    twins = _enough_twins(sum(per_twin.values(), Counter()))
    batches: list[tuple[twin_loss.Key, ...]] = []
    for key in per_twin:
        for place, batch in enumerate(batches):
            if loss_of_twins(sum((per_twin[member] for member in (*batch, key)), Counter()), twins).error() > _SELDOM:
                batches[place] = (*batch, key)
                break
        else:
            batches.append((key,))
    return twins, batches


def _judged(
    touched: twin_loss.Touched,
    keys: Sequence[twin_loss.Key],
    losses: Mapping[twin_loss.Key, tuple[Floats, Floats]],
    error: float,
) -> tuple[float, tuple[float, float]]:
    """By how much the noise of some measurements is narrower at least, and bounds of power and false alarms."""
    components = twin_loss.components_of(part for key in keys for part in touched[key])
    threshold = twin_loss.TwinLoss.of({(law, gap, 1.0): n for (law, gap), n in components.items()}).threshold()
    with_twins, without = (sum((losses[key][side] for key in keys), np.zeros(1)) for side in (0, 1))
    power, level = _shares(with_twins, without, threshold, error)
    return twin_loss.narrower_by(components, power, level), (power, level)


# The audit of a spec.


RUNS = 250
"""How often each of the two made-up files is measured, for each number of twins."""
CANARIES = 300
BLOCKS_PER_CANARY = 4
"""A longer block table is cut."""


def audit_privacy(
    spec: str | Path,
    *,
    runs: int = RUNS,
    by_measurement: bool = False,
    seed: int | None = None,
    progress: Progress | None = None,
) -> privacy_audit_bench.PrivacyAudit:
    """Runs the mechanism of a spec many times on made-up neighbours, and bounds its loss from below by what is seen.

    The office's records are not opened, no ledger is touched, and what is made is thrown away. The block table is read,
    and of a long one only some blocks are used.

    Args:
        spec: The spec file.
        runs: How often each of two made-up files is measured; 250 notice noise that is 30 % too narrow.
        by_measurement: Whether every measurement is judged by itself too, with as many twins as its noise needs: that
            takes some times as long, and notices one scale that is wrong among many.
        seed: For a trial that can be repeated: a number from which the keys follow. By default they are fresh.
        progress: Receives stages; none by default.

    Returns:
        The lower bound beside the stated loss, for the release and for each measurement.

    >>> import confide
    >>> audit = confide.audit_privacy(project / "spec.toml", runs=20, seed=1)
    >>> audit.ok
    True
    """
    loaded, mechanism = _accounted(spec)
    if runs < 20:
        raise ParameterError("audit-runs", where=Place(path="--runs"), found=str(runs))
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        bench = privacy_audit_bench.Bench.of(loaded, mechanism, engine, scratch.root, seed, progress or Silent())
        return TwinAudit(bench).audit(runs, by_measurement=by_measurement)


def audit_canaries(
    spec: str | Path, *, canaries: int = CANARIES, seed: int | None = None, progress: Progress | None = None
) -> privacy_audit_bench.CanaryAudit:
    """Runs the mechanism of a spec once on made-up records with canaries, and bounds its loss from below by how many of
    their coins are guessed from what it measured.

    The office's records are not opened, no ledger is touched, and what is made is thrown away.

    Args:
        spec: The spec file.
        canaries: How many canaries; more give higher bounds, as far as schema and block table have room for them.
        seed: For a trial that can be repeated: a number from which coins and key follow. By default they are fresh.
        progress: Receives stages; none by default.

    Returns:
        The lower bound beside the stated loss. One run says much less than many: see :func:`audit_privacy`.

    >>> import confide
    >>> audit = confide.audit_canaries(project / "spec.toml", canaries=10, seed=1)
    >>> audit.as_dict()["canaries"]
    10
    """
    loaded, mechanism = _accounted(spec)
    if canaries < 10:
        raise ParameterError("audit-canaries", where=Place(path="--canaries"), found=str(canaries))
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        bench = privacy_audit_bench.Bench.of(
            loaded, mechanism, engine, scratch.root, seed, progress or Silent(), BLOCKS_PER_CANARY * canaries
        )
        return CanaryRun(bench, bench.audit.made_up_canaries(bench.problem, canaries)).audit()


def _accounted(spec: str | Path) -> tuple[LoadedSpec, Mechanism[Any]]:
    """A spec whose mechanism states a loss."""
    loaded = load_spec(Path(spec), SPECS)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    if not mechanism.accounted:
        raise RunError(
            "no-loss",
            where=loaded.place("release", "mechanism"),
            mechanism=mechanism.name,
            mechanisms=", ".join((name for name, mechanism in MECHANISMS.items() if mechanism.accounted)),
            has_truth=mechanism.has_truth,
        )
    return loaded, mechanism
