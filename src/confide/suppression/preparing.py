"""From a spec to its question: schema, frame and tables, with every problem of them at once."""

from __future__ import annotations

from confide.engines import Engine
from confide.errors import ConfideError, Finding, SpecError
from confide.inputs.frame import Frame, LevelRule, read_frame
from confide.inputs.shipped import load_schema
from confide.runs.load_spec import LoadedSpec
from confide.runs.sources import find_source
from confide.suppression.programme import SuppressionQuestion, build
from confide.suppression.spec import SuppressionSpec


def prepare(loaded: LoadedSpec, engine: Engine) -> SuppressionQuestion:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, SuppressionSpec)
    findings: list[Finding] = []
    records = find_source(loaded, "records")
    if isinstance(records, Finding):
        findings.append(records)
    schema, frame = None, None
    try:
        schema = load_schema(spec.data.schema_, loaded.path.parent)
    except ConfideError as error:
        findings += error.findings
    if any(table.levels for table in spec.tables):
        try:
            frame = _frame(loaded, spec, engine)
        except ConfideError as error:
            findings += error.findings
    programme = None
    if schema is not None:
        try:
            programme = build(loaded, spec, schema, frame)
        except ConfideError as error:
            findings += error.findings
    if findings or schema is None or programme is None or isinstance(records, Finding):
        raise SpecError(findings)
    findings = _margins(loaded, spec, [set(_names(table.variables)) for table in programme.tables])
    if findings:
        raise SpecError(findings)
    return SuppressionQuestion(spec, schema, records, frame, programme)


def _frame(loaded: LoadedSpec, spec: SuppressionSpec, engine: Engine) -> Frame:
    source = find_source(loaded, "blocks")
    if isinstance(source, Finding):
        raise SpecError(source)
    levels = [LevelRule(level.name, level.digits, level.column) for level in spec.geography.levels]
    return read_frame(engine, source, spec.geography.block, levels, [])


def _names(variables: tuple[object, ...]) -> list[str]:
    return [str(getattr(variable, "name", "")) for variable in variables]


def _margins(loaded: LoadedSpec, spec: SuppressionSpec, tables: list[set[str]]) -> list[Finding]:
    """Margins that are to be kept must be of some table."""
    known = set().union(*tables)
    return [
        Finding(
            code="unknown-margin",
            what="a margin to be kept is none of any table",
            where=loaded.place("suppression", "keep"),
            found=text,
            expected="total, or names such as " + ", ".join(sorted(known)) + ", joined by * if a table crosses them",
            remedy="correct the name",
        )
        for text in spec.suppression.keep
        if text != "total" and not any(set(text.split("*")) <= names for names in tables)
    ]
