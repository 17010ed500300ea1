"""From a spec to its question: schema, perturbation table and tables, with every problem of them at once."""

from __future__ import annotations

from confide.cellkey.abs_table import AbsTable, allocate, bias_findings, read_abs
from confide.cellkey.programme import CellKeyQuestion, Table, build_tables
from confide.cellkey.ptables import PTable, count_settings, generate, modify, read_table
from confide.cellkey.spec import LARGEST_KEYS, CellKeySpec
from confide.errors import ConfideError, Finding, SpecError
from confide.inputs.shipped import load_schema
from confide.noise import ReleaseKey
from confide.runs.load_spec import LoadedSpec
from confide.runs.sources import find_source


def prepare(loaded: LoadedSpec) -> CellKeyQuestion:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, CellKeySpec)
    findings: list[Finding] = []
    warnings: list[Finding] = []
    records = find_source(loaded, "records")
    if isinstance(records, Finding):
        findings.append(records)
    schema = ptable = None
    try:
        schema = load_schema(spec.data.schema_, loaded.path.parent)
    except ConfideError as error:
        findings += error.findings
    try:
        ptable = _ptable(loaded, spec, warnings)
    except ConfideError as error:
        findings += error.findings
    tables: list[Table] = []
    if schema is not None:
        tables, wrong = build_tables(loaded, spec, schema)
        findings += wrong
    if findings or schema is None or ptable is None or isinstance(records, Finding):
        raise SpecError(findings)
    matrix = None if isinstance(ptable, PTable) else ptable
    law = ptable if isinstance(ptable, PTable) else ptable.by_byte
    return CellKeyQuestion(spec, schema, records, law, tuple(tables), tuple(warnings), matrix)


def _ptable(loaded: LoadedSpec, spec: CellKeySpec, warnings: list[Finding]) -> PTable | AbsTable:
    """The table of a file, or of parameters; a variance that is not attained is a warning, and so is bias."""
    part = spec.cellkey
    if part.lookup == "abs" and part.ptable is not None:
        matrix = read_abs(loaded.resolve(part.ptable), part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    if part.ptable is not None:
        read = read_table(loaded.resolve(part.ptable))
        warnings += [finding for finding in read.findings if finding.severity == "warning"]
        _check_file(loaded, spec, read.table)
        return _shuffled(read.table, spec)
    assert part.D is not None
    assert part.V is not None
    design = generate(count_settings(part.D, part.V, part.js, p_stay=part.pstay))
    warnings += design.findings()
    if part.lookup == "abs":
        matrix = allocate(design.table(), part.table_size, part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    return _shuffled(design.table(part.keys), spec)


def _shuffled(table: PTable, spec: CellKeySpec) -> PTable:
    """The same laws with their intervals cut and put into a secret order, if the spec says so."""
    part = spec.cellkey
    if part.pieces is None or part.shuffle is None:
        return table
    return modify(table, part.pieces, ReleaseKey.choose(part.shuffle))


def _check_file(loaded: LoadedSpec, spec: CellKeySpec, table: PTable) -> None:
    """A table from a file is one for counts, with as many keys as the spec says, if it says so."""
    keys = spec.cellkey.keys if "keys" in spec.cellkey.model_fields_set else table.whole
    if table.for_counts and table.whole == keys <= LARGEST_KEYS:
        return
    expected = "as many keys as the spec says" if table.whole <= LARGEST_KEYS else f"at most {LARGEST_KEYS:,} keys"
    raise SpecError(
        Finding(
            code="unfit-ptable",
            what="this perturbation table does not fit the records",
            where=loaded.place("cellkey", "ptable"),
            found=f"{table.whole:,} keys" if table.for_counts else "a table for magnitudes",
            expected=expected if table.for_counts else "a table with a row for every count, and whole noise",
            remedy="give a table for counts over the keys of the records; [cellkey] keys may be left out",
        )
    )
