"""From a spec to its prepared problem: schema, frame, perturbation table and tables, with every problem at once."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import partial

from confide.documents import load_schema
from confide.engines import Engine
from confide.errors import ConfideError, Finding, Place, SpecError
from confide.inputs.frame import Frame, read_frame
from confide.mechanisms.cellkey.given import GivenTable, find_given
from confide.mechanisms.cellkey.lookups import AbsTable, allocate, bias_findings, read_abs
from confide.mechanisms.cellkey.magnitudes import MagnitudeNoise, magnitude_noise
from confide.mechanisms.cellkey.programme import CellKeyProblem, build_tables, least_candidates
from confide.mechanisms.cellkey.spec import DERIVED, LARGEST_KEYS, UNSHUFFLED, CellKeyPart, CellKeySpec, with_order
from confide.noise import ReleaseKey
from confide.noise.ptables import PTable, count_settings, generate, modify, read_table
from confide.releases.spec import LoadedSpec, find_source, frame_rules
from confide.releases.tabular import QueryTable

PIECES = 100
"""A table that is shuffled is cut into about so many pieces, unless somebody says otherwise."""
DERIVED_ORDER = hashlib.sha256(b"confide/cellkey/derived-order/v1").hexdigest()
"""Everybody knows it: an order that follows from it and from the table itself is the same for ever, and no secret."""


def prepare(loaded: LoadedSpec, engine: Engine) -> CellKeyProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    spec = loaded.spec
    assert isinstance(spec, CellKeySpec)
    findings: list[Finding] = []
    try:
        spec = spec.model_copy(update={"cellkey": with_order(loaded, spec.cellkey)})
    except ConfideError as error:
        findings += error.findings
    warnings: list[Finding] = []
    schema = records = frame = noise = None
    given: tuple[GivenTable, ...] = ()
    if spec.given:
        try:
            given = find_given(loaded, spec)
        except ConfideError as error:
            findings += error.findings
    else:
        source = find_source(loaded, "records")
        if isinstance(source, Finding):
            findings.append(source)
        else:
            records = source
        try:
            schema = load_schema(spec.data.schema_, loaded.path.parent, partial(loaded.place, "data", "schema"))
        except ConfideError as error:
            findings += error.findings
    try:
        frame = _frame(loaded, spec, engine)
    except ConfideError as error:
        findings += error.findings
    try:
        noise = _noise(loaded, spec, warnings)
    except ConfideError as error:
        findings += error.findings
    tables: list[QueryTable] = []
    if schema is not None:
        tables, wrong = build_tables(loaded, spec, schema, None if frame is None else frame.spine)
        findings += wrong
    if findings or noise is None:
        raise SpecError(findings)
    matrix = noise if isinstance(noise, AbsTable) else None
    law = matrix.by_byte if matrix is not None else noise if isinstance(noise, PTable) else None
    if law is not None and least_candidates(law, spec.cellkey.threshold or 1) == 1:
        raise SpecError("one-candidate", where=loaded.place("cellkey"))
    return CellKeyProblem(
        spec,
        schema,
        records,
        law,
        tuple(tables),
        tuple(warnings),
        matrix,
        frame,
        given,
        noise if isinstance(noise, MagnitudeNoise) else None,
        _order(spec.cellkey),
    )


def _frame(loaded: LoadedSpec, spec: CellKeySpec, engine: Engine) -> Frame | None:
    """The frame, where a table has levels: areas are those of the frame, never those of the records."""
    if not any(table.levels for table in spec.tables):
        return None
    source = find_source(loaded, "blocks")
    if isinstance(source, Finding):
        raise SpecError(source)
    geography = spec.geography
    names, smallest = geography.block_names, geography.smallest
    return read_frame(engine, source, geography.block, *frame_rules(geography), names, smallest=smallest)


def _noise(loaded: LoadedSpec, spec: CellKeySpec, warnings: list[Finding]) -> PTable | AbsTable | MagnitudeNoise:
    """The table of a file, or of parameters; a variance that is not attained is a warning, and so is bias."""
    part = spec.cellkey
    if spec.magnitude is not None:
        shuffle = None if _order(part) == UNSHUFFLED else _order_key(part)
        return magnitude_noise(loaded, spec.magnitude, spec.data.decimals, part.keys, shuffle, warnings)
    if part.lookup == "abs" and part.ptable is not None:
        matrix = read_abs(loaded.resolve(part.ptable), part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    if part.ptable is not None:
        read = read_table(loaded.resolve(part.ptable))
        warnings += [finding for finding in read.findings if finding.severity == "warning"]
        _check_file(loaded, spec, read.table)
        if part.shuffle is None and part.pieces is None:
            warnings += _in_order(loaded, read.table)
        return shuffled(read.table, part)
    assert part.D is not None
    assert part.V is not None
    design = generate(count_settings(part.D, part.V, part.js, pstay=part.pstay, mono=part.mono))
    warnings += design.findings()
    if part.lookup == "abs":
        matrix = allocate(design.table(), part.table_size, part.small_n, part.big_n)
        warnings += bias_findings(matrix)
        return matrix
    return shuffled(design.table(part.keys), part)


def _order(part: CellKeyPart) -> str:
    """In which order the pieces of the table stand: ``secret``, ``derived``, ``none``, or as a ``file`` has them."""
    if part.lookup == "abs" or part.shuffle == UNSHUFFLED:
        return UNSHUFFLED
    if part.shuffle is None and part.pieces is None and part.ptable is not None:
        return "file"
    return DERIVED if part.shuffle in (None, DERIVED) else "secret"


def _order_key(part: CellKeyPart) -> ReleaseKey:
    return ReleaseKey.choose(DERIVED_ORDER if part.shuffle in (None, DERIVED) else str(part.shuffle))


def shuffled(table: PTable, part: CellKeyPart) -> PTable:
    """The same laws with their intervals cut and put into another order, unless the spec says otherwise."""
    if _order(part) in (UNSHUFFLED, "file"):
        return table
    pieces = part.pieces or Fraction(max(1, table.modulus // PIECES), table.modulus)
    return modify(table, pieces, _order_key(part))


def _in_order(loaded: LoadedSpec, table: PTable) -> list[Finding]:
    """A warning if noise rises with the key: then the noise of a sum depends on that of its parts."""
    if any(list(row.noise) != sorted(row.noise) for row in table.rows):
        return []
    return [Finding.of("not-shuffled", where=_at(loaded), severity="warning")]


def _at(loaded: LoadedSpec) -> Place:
    return loaded.place("cellkey", "ptable")


def _check_file(loaded: LoadedSpec, spec: CellKeySpec, table: PTable) -> None:
    """A table from a file is one for counts, with as many keys as the spec says, if it says so."""
    keys = spec.cellkey.keys if "keys" in spec.cellkey.model_fields_set else table.modulus
    if table.for_counts and table.modulus == keys <= LARGEST_KEYS:
        return
    raise SpecError(
        "unfit-ptable/counts",
        where=_at(loaded),
        modulus=table.modulus,
        for_counts=table.for_counts,
        largest_keys=LARGEST_KEYS,
        less=table.modulus <= LARGEST_KEYS,
    )
