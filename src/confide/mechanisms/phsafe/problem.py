"""What is asked of the files: the universe of areas, from the addresses alone, the queries, their noise and price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.engines import Engine, Source
from confide.errors import ConfideError, Finding, SpecError
from confide.inputs.records import fingerprint_of_files
from confide.mechanisms.phsafe.records import COLUMNS, check_columns, check_files
from confide.mechanisms.phsafe.settings import NATION, NATION_CODE, STATE, CountQuery, PHSafeSettings, iterations_of
from confide.mechanisms.phsafe.spec import PHSafeSpec
from confide.mechanisms.phsafe.tabulate import HouseholdFiles, housing_units
from confide.privacy import Neighbours, PrivacyUnit, budget_of
from confide.releases import Job, Plan, PlannedMeasurement
from confide.releases.spec import LoadedSpec, find_sources
from confide.releases.tabular import noting


@dataclass(frozen=True, eq=False)
class PHSafeProblem:
    """A spec with everything public that it refers to."""

    spec: PHSafeSpec
    settings: PHSafeSettings
    files: HouseholdFiles
    states: tuple[str, ...]
    """Those of the release with at least one housing unit: the universe, with the nation."""

    @property
    def records(self) -> Source:
        """The persons."""
        return self.files.persons

    @property
    def queries(self) -> tuple[CountQuery, ...]:
        """What is measured."""
        return tuple(self.settings.queries)

    def areas(self, level: str) -> tuple[str, ...]:
        """The codes of the areas of a level."""
        return (NATION_CODE,) if level == NATION else self.states

    def cells(self, query: CountQuery) -> int:
        """How many counts an area has in a query."""
        return len(iterations_of(query.iteration_level)) * len(query.counted.interior)


def find_files(loaded: LoadedSpec) -> tuple[HouseholdFiles | None, list[Finding]]:
    """The three files of a spec, and what is wrong with their names."""
    sources, findings = find_sources(loaded)
    if findings:
        return None, findings
    return HouseholdFiles(sources["records"], sources["units"], sources["blocks"]), []


def prepare(loaded: LoadedSpec, engine: Engine) -> PHSafeProblem:
    """What the spec and the addresses say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, PHSafeSpec)
    files, findings = find_files(loaded)
    settings = spec.settings
    if files is None:
        raise SpecError(findings)
    geo = files.geo
    states = noting(findings, lambda: housed_states(engine, geo, settings.states))
    if states is None or not states:
        for source, name in ((files.persons, "persons"), (files.units, "units")):
            noting(findings, lambda source=source, name=name: _require(check_columns(engine, source, COLUMNS[name])))  # type: ignore[misc]
        if states is not None:
            findings.append(Finding.of("no-housing-units", where=loaded.place("data", "blocks")))
        raise SpecError(findings)
    return PHSafeProblem(spec, settings, files, states)


def _require(findings: Sequence[Finding]) -> None:
    if any(finding.severity == "error" for finding in findings):
        raise ConfideError(list(findings))


def housed_states(engine: Engine, geo: Source, states: Sequence[str]) -> tuple[str, ...]:
    """The states with at least one housing unit, in order: known from the addresses, which no person changes."""
    _require(check_columns(engine, geo, COLUMNS["geo"]))
    text = f"SELECT DISTINCT state FROM ({housing_units(engine, geo, states)}) AS place ORDER BY 1"
    listed = engine.sql(text, geo=geo).reveal("states with housing units are public")
    return tuple(str(state) for state in listed.column("state").to_pylist())


def fingerprint(files: HouseholdFiles) -> str:
    """SHA-256 of the three files: the addresses too, as they decide which persons and units count."""
    return fingerprint_of_files({"records": files.persons.path, "units": files.units.path, "blocks": files.geo.path})


def check_files_of(problem: PHSafeProblem, job: Job) -> list[Finding]:
    """Every problem of the three files."""
    known = Path(job.workspace.scratch) / "known.parquet"
    findings = check_files(job.engine, problem.files, problem.settings.states, known)
    if absent := [state for state in problem.settings.states if state not in problem.states]:
        where = job.loaded.place("phsafe", "states")
        listed = ", ".join(absent)
        findings.append(Finding.of("no-housing-units/states", where=where, listed=listed, severity="warning"))
    return findings


# The plan: one measurement for each query, all of them on the same people.
#
# A person may be in every query, so that prices add up. Within a query, households are in one area and one iteration,
# so that the stated sensitivity is that of all areas together (``docs/proofs/phsafe.md``, Lemma 2 and Theorem 1).


def plan_phsafe(name: str, problem: PHSafeProblem) -> Plan:
    """Every measurement with its noise and its price."""
    return Plan(
        mechanism=name,
        neighbours=Neighbours.ADD_REMOVE,
        definition=problem.settings.definition,
        measures=tuple(_measures(problem)),
        spine=(),
        question=_facts(problem),
        unit=PrivacyUnit.PERSON,
        free=("noise_margin", "companions"),
    )


def _measures(problem: PHSafeProblem) -> Iterator[PlannedMeasurement]:
    settings = problem.settings
    for query in problem.queries:
        yield PlannedMeasurement(
            query.level,
            query.name,
            len(problem.areas(query.level)),
            problem.cells(query),
            settings.law(query),
            budget_of(settings.definition, query.budget),
            sensitivity=settings.stated(query.counted),
        )


def _facts(problem: PHSafeProblem) -> dict[str, Any]:
    """What else decides the output. All of it is public."""
    settings, output = problem.settings, problem.spec.output
    tables = dict.fromkeys(query.table for query in problem.queries)
    return {
        "record": "person",
        "states": list(problem.states),
        "asked_states": list(settings.states),
        "sensitivity": settings.sensitivity,
        "truncation": {table: settings.tau[table] for table in tables if table in settings.tau},
        **({} if settings.truncation == "bureau" else {"truncation_rule": settings.truncation}),
        "queries": [
            {
                "table": query.table,
                "level": query.level,
                "iterations": query.iteration_level,
                "budget": str(query.budget),
                "noiseless": query.noiseless,
            }
            for query in problem.queries
        ],
        "levels": {level: len(problem.areas(level)) for level in (NATION, STATE)},
        "noise_margin": None if output.noise_margin is None else str(output.noise_margin),
        "companions": output.explained,
    }
