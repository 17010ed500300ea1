"""From a spec to its question: code lists, geography and universe, with every problem of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from confide.engines import Engine, Source
from confide.engines.files import private_folder
from confide.engines.groups import write_parquet
from confide.errors import ConfideError, Finding, SpecError
from confide.runs.load_spec import LoadedSpec
from confide.runs.mechanism import Job
from confide.runs.sources import find_sources
from confide.safetab.codes import CodeFiles, CodeLists, read_code_lists
from confide.safetab.coterminous_sets import coterminous_from_file
from confide.safetab.question import SafeTabQuestion, group_level
from confide.safetab.records import check_persons
from confide.safetab.regions import CoterminousSet, Regions, read_regions
from confide.safetab.settings import Settings
from confide.safetab.spec import SafeTabSpec

DERIVED = "derived"
T = TypeVar("T")


def prepare(loaded: LoadedSpec, engine: Engine) -> SafeTabQuestion:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SafeTabSpec)
    settings = spec.settings
    found, findings = find_sources(loaded)
    sources = {key: replace(source, quoted=False) for key, source in found.items()}
    files = CodeFiles(
        codes=loaded.resolve(spec.data.codes),
        race_iterations=loaded.resolve(spec.data.race_iterations),
        ethnicity_iterations=loaded.resolve(spec.data.ethnicity_iterations),
        code_to_iteration=loaded.resolve(spec.data.code_to_iteration),
    )
    lists = _noting(findings, lambda: read_code_lists(files))
    regions = None
    if "blocks" in sources:
        blocks = sources["blocks"]
        regions = _noting(findings, lambda: read_regions(engine, blocks, settings.states, settings.puerto_rico))
    sets = None if regions is None else _noting(findings, lambda: _coterminous(loaded, spec, regions))
    if findings or lists is None or regions is None or sets is None:
        if "records" in sources:
            codes = None if lists is None else lists.codes
            findings += check_persons(engine, sources["records"], codes, None, settings)
        raise SpecError(findings)
    return _question(loaded, settings, lists, regions, sources["records"], sets)


def check_persons_of(question: SafeTabQuestion, job: Job) -> list[Finding]:
    """Every problem of the person records, and what is odd about the geography."""
    blocks = private_folder(job.workspace.scratch) / "known-blocks.parquet"
    write_parquet(pa.table({"code": question.regions.blocks.column("code")}), blocks)
    findings = check_persons(job.engine, question.records, question.lists.codes, blocks, question.settings)
    return [*question.regions.warnings, *findings]


def _question(
    loaded: LoadedSpec,
    settings: Settings,
    lists: CodeLists,
    regions: Regions,
    records: Source,
    sets: tuple[CoterminousSet, ...],
) -> SafeTabQuestion:
    spec = loaded.spec
    assert isinstance(spec, SafeTabSpec)
    levels = [group_level(level, settings, lists, regions) for level in settings.levels]
    present = tuple(level for level in levels if level is not None)
    if not present:
        raise SpecError(
            Finding(
                code="no-groups",
                what="no level has both areas and iterations",
                where=loaded.place("levels"),
                found="levels without any population group",
                expected="a level with areas in the geography and iterations in the code lists",
                remedy="correct the levels, the geography or the code lists",
            )
        )
    return SafeTabQuestion(spec, settings, lists, regions, records, present, sets)


def _coterminous(loaded: LoadedSpec, spec: SafeTabSpec, regions: Regions) -> tuple[CoterminousSet, ...]:
    chosen = spec.output.coterminous
    if chosen is None:
        return ()
    return tuple(regions.coterminous() if chosen == DERIVED else coterminous_from_file(loaded.resolve(chosen), regions))


def _noting(findings: list[Finding], read: Callable[[], T]) -> T | None:
    """What ``read`` gives, or None with its findings noted."""
    try:
        return read()
    except ConfideError as error:
        findings += error.findings
        return None
