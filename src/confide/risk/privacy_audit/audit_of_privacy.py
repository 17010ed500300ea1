"""The audit of a spec: which mechanism it is, and which of the ways is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confide.engines import LocalEngine
from confide.errors import ParameterError, Place, RunError
from confide.mechanisms import MECHANISMS, SPECS
from confide.releases.check import throwaway_workspace
from confide.releases.mechanism import Mechanism
from confide.releases.progress import Progress, Silent
from confide.releases.spec import LoadedSpec, load_spec
from confide.risk.privacy_audit.bench import Bench
from confide.risk.privacy_audit.canary_run import CanaryRun
from confide.risk.privacy_audit.privacy_audit_answer import CanaryAudit, PrivacyAudit
from confide.risk.privacy_audit.twins import TwinAudit

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
    loaded, mechanism = _accounted(spec)
    if runs < 20:
        raise ParameterError(
            "audit-runs",
            "so few runs show nothing",
            where=Place(path="--runs"),
            found=str(runs),
            expected="at least 20",
            remedy="leave it out",
        )
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        bench = Bench.of(loaded, mechanism, engine, scratch.root, seed, progress or Silent())
        return TwinAudit(bench).audit(runs, by_measurement=by_measurement)


def audit_canaries(
    spec: str | Path, *, canaries: int = CANARIES, seed: int | None = None, progress: Progress | None = None
) -> CanaryAudit:
    """Runs the mechanism of a spec once on made-up records with canaries, and bounds its loss from below by how many of
    their coins are guessed from what it measured.

    The office's records are not opened, no ledger is touched, and what is made is thrown away.

    Args:
        spec: The spec file.
        canaries: How many canaries; more give higher bounds, as far as schema and block table have room for them.
        seed: For a trial that can be repeated: a number from which coins and key follow. By default they are fresh.
        progress: Is told of stages; nobody by default.

    Returns:
        The lower bound beside the stated loss. One run says much less than many: see :func:`audit_privacy`.
    """
    loaded, mechanism = _accounted(spec)
    if canaries < 10:
        raise ParameterError(
            "audit-canaries",
            "so few canaries show nothing",
            where=Place(path="--canaries"),
            found=str(canaries),
            expected="at least 10",
            remedy="ask for some hundreds",
        )
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        bench = Bench.of(
            loaded, mechanism, engine, scratch.root, seed, progress or Silent(), BLOCKS_PER_CANARY * canaries
        )
        return CanaryRun(bench, mechanism.made_up_canaries(bench.problem, canaries)).audit()


def _accounted(spec: str | Path) -> tuple[LoadedSpec, Mechanism[Any]]:
    """A spec whose mechanism states a loss."""
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
            remedy="judge its releases by what an attacker can learn from them: confide attack, confide risk, confide "
            "audit suppression"
            if mechanism.has_truth
            else "audit the spec of the run that measured: what is made of published measurements loses nothing more",
        )
    return loaded, mechanism
