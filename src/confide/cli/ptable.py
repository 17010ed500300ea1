"""``confide ptable``: make, check, convert and show perturbation tables of the cell key method. No records are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, out, print_json, show_findings, table
from confide.errors import Finding, ParameterError, Place
from confide.noise.ptables import (
    DECIMAL,
    Design,
    EpsilonDeltaReading,
    PTable,
    PTableSettings,
    count_settings,
    epsilon_delta_reading,
    export_ons,
    export_text,
    generate,
    magnitude_settings,
    modify,
    read_table,
)
from confide.noise.ptables.formats import KEYS as ONS_KEYS
from confide.noise.ptables.formats import Form as TextForm
from confide.noise.ptables.ptable import key_of

# How a perturbation table looks on a terminal.


_MOST_COLUMNS = 8
_LIKELY = 5
_MOST_ROWS = 40


def show_design(design: Design) -> None:
    """Rows by counts, columns by noise; then variance, whether it is V, and the certificate."""
    settings = design.settings
    asked = f"D = {settings.bound}, V = {settings.variance}, js = {settings.js}"
    laws = [dict(zip(row.noise, row.p, strict=True)) for row in design.rows[1:]]
    names = [str(row.i) for row in design.rows[1:]]
    if settings.icat is None:
        names[-1] += "+"
    _laws(f"Perturbation table, {asked}", names, laws)
    out.print()
    rows = [
        (
            name,
            f"{row.variance:.6f}",
            "yes" if row.attained else "no",
            f"{row.largest_variance:.6f}",
            ", ".join(row.active) or "none",
            f"{row.certificate.primal:.0e}",
            f"{row.certificate.gap:.0e}",
        )
        for name, row in zip(names, design.rows[1:], strict=True)
    ]
    table(["count", "variance ", "is V", "largest ", "active", "missed by ", "gap, bits "], rows)


def show_table(found: PTable) -> None:
    """A table that was read."""
    places = range(1, min(len(found.rows), _MOST_ROWS + 1))
    names = [str(found.rows[place].i) for place in places]
    laws = [{value: float(p) for value, p in found.probabilities(place).items()} for place in places]
    _laws("Perturbation table", names, laws)
    out.print()
    rows = [
        (n, f"{float(found.mean(k)):.2e}", f"{float(found.variance(k)):.6f}")
        for n, k in zip(names, places, strict=True)
    ]
    table(["count", "mean ", "variance "], rows)
    if len(found.rows) > _MOST_ROWS + 1:
        out.print(f"... and rows up to {found.top}")


def show_reading(reading: EpsilonDeltaReading) -> None:
    large, worst = reading.large_counts, max(reading.pairs, key=lambda pair: pair.remaining_delta)
    out.print(
        f"\nTwo large counts that differ by one: epsilon {large.epsilon:.4g} with delta {large.remaining_delta:.3g}. "
        f"Counts {worst.i} and {worst.i + 1}: delta {worst.remaining_delta:.3g} at any epsilon."
    )
    out.print("[dim]This is one cell with one key, and no differential privacy of a release.[/]")


def rows_of(found: PTable) -> list[dict[str, Any]]:
    """The laws of a table that was read, for ``--json``."""
    shown = []
    for place, row in enumerate(found.rows):
        law = found.probabilities(place)
        shown.append(
            {
                "i": row.i,
                "noise": [int(v) if v.denominator == 1 else float(v) for v in law],
                "p": [float(p) for p in law.values()],
                "mean": float(found.mean(place)),
                "variance": float(found.variance(place)),
            }
        )
    return shown


def _laws(title: str, names: list[str], laws: Sequence[dict[Fraction, float]]) -> None:
    """A column for each count if they fit eighty characters, else a line for each with its most likely values."""
    if len(names) <= _MOST_COLUMNS:
        noise = sorted({value for law in laws for value in law})
        columns = ["noise ", *(f"{name} " for name in names)]
        rows = [(_signed(value), *(_share(law.get(value)) for law in laws)) for value in noise]
        table(columns, rows, title=title)
        return
    rows = []
    for name, law in zip(names, laws, strict=True):
        likely = sorted(sorted(law, key=lambda value: -law[value])[:_LIKELY])
        rows.append((name, "  ".join(f"{_signed(value)}: {law[value]:.3f}" for value in likely)))
    table(["count", f"the {_LIKELY} most likely noise values"], rows, title=title)


def _share(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.5f}" if p >= 1e-4 or p == 0 else f"{p:.1e}"


def _signed(value: Fraction) -> str:
    return f"{float(value):+g}" if value else "0"


class Form(StrEnum):
    """A text form."""

    TAU_ARGUS = "tau-argus"
    SAS = "sas"
    ONS = "ons"
    CSV = "csv"


_FORMS: dict[Form, TextForm] = {Form.TAU_ARGUS: "tau-argus", Form.SAS: "sas", Form.CSV: "csv"}


@dataclass(frozen=True)
class _Made:
    """What is shown and written: a table for lookups and, unless it came from a file, its design."""

    design: Design | None
    table: PTable
    findings: tuple[Finding, ...]


def ptable(
    largest: Annotated[int | None, typer.Option("-D", "--max-noise", help="The largest noise D, a count.")] = None,
    variance: Annotated[str | None, typer.Option("-V", "--variance", help="The variance V: 2, 1.05, 9/10.")] = None,
    js: Annotated[int, typer.Option("--js", help="Results from 1 to js do not occur.")] = 0,
    pstay: Annotated[
        str | None,
        typer.Option(metavar="P[,P...]", help="The least probability of no noise; one, or one for each row."),
    ] = None,
    no_mono: Annotated[
        bool, typer.Option("--no-mono", help="Probabilities need not increase from the most negative noise to zero.")
    ] = False,
    no_mono_rows: Annotated[
        str | None, typer.Option(metavar="I[,I...]", help="The same for these rows alone, such as 1 or 1,2.")
    ] = None,
    equality: Annotated[bool, typer.Option("--equality", help="The variance equals V, instead of V at most.")] = False,
    icat: Annotated[
        str | None, typer.Option(metavar="I[,I...]", help="Rows of a table for magnitudes, such as 1,3,5.")
    ] = None,
    step: Annotated[int, typer.Option(help="For magnitudes: noise in steps of 1/STEP.")] = 1,
    kind: Annotated[
        str | None, typer.Option("--type", show_default="all", help="For magnitudes: all, even or odd.")
    ] = None,
    keys: Annotated[
        int | None, typer.Option(show_default=f"{DECIMAL}; ons: {ONS_KEYS}", help="How many cell keys there are.")
    ] = None,
    threshold: Annotated[
        str | None, typer.Option("--modify", metavar="SHARE", help="Cut intervals at this share and shuffle them.")
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="HEX", help="Decides the shuffle; default: a secret of the system.")
    ] = None,
    imported: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Read and check a table instead of making one.")
    ] = None,
    form: Annotated[Form | None, typer.Option("--format", help="Write the table as text.")] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; default: the standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """A perturbation table: for each count the noise of maximum entropy, and its certificate; refused if infeasible."""
    given = (largest, variance, pstay, no_mono_rows, icat, keys)
    if imported is not None:
        if js or no_mono or equality or step != 1 or any(value is not None for value in given):
            raise _refused("--import", "a table that is read has its settings already", "--import with no settings")
        made = _read(imported, kind)
    elif largest is None or variance is None:
        raise _refused("-D", "a table needs a largest noise and a variance", "both -D and -V, or --import")
    else:
        settings = _settings(largest, variance, js, pstay, no_mono, no_mono_rows, equality, icat, step, kind)
        made = _make(settings, keys or (ONS_KEYS if form is Form.ONS else DECIMAL))
    if seed is not None and threshold is None:
        raise _refused("--seed", "a seed has a role only where intervals are shuffled", "--modify with --seed")
    table = made.table if threshold is None else modify(made.table, threshold, key_of(seed))
    text = None if form is None else _text(table, form)
    if target is not None and form is None:
        raise _refused("--out", "it is not said in which form to write", "--format tau-argus, sas, ons or csv")
    if target is not None and text is not None:
        _write(target, text)
    if as_json:
        print_json(_as_dict(made, table, target) | ({"text": text} if target is None and text is not None else {}))
        return
    if text is not None and target is None:
        typer.echo(text, nl=False)
        return
    if made.design is not None:
        show_design(made.design)
    else:
        show_table(table)
    show_findings(made.findings)
    if table.for_counts and table.cycle == 1:
        show_reading(epsilon_delta_reading(made.design or table))
    out.print(f"\n{table.modulus:,} keys, fingerprint {table.fingerprint[:16]}")
    if target is not None:
        out.print(f"Written: {escape(str(target))}")


def _settings(
    largest: int,
    variance: str,
    js: int,
    pstay: str | None,
    no_mono: bool,
    no_mono_rows: str | None,
    equality: bool,
    icat: str | None,
    step: int,
    kind: str | None,
) -> PTableSettings:
    stays = None if pstay is None else pstay.split(",")
    if icat is not None:
        if js or stays is not None:
            raise _refused("--icat", "js and pstay have no role in a table for magnitudes", "--icat and --step alone")
        rows = _whole_numbers("--icat", icat)
        monotone = _monotone(no_mono, no_mono_rows, tuple(rows))
        return magnitude_settings(
            largest, variance, step=step, icat=rows, kind=kind or "all", monotone=monotone, equality=equality
        )
    if step != 1 or kind not in (None, "all"):
        raise _refused("--step", "steps and types belong to tables for magnitudes", "--icat with --step and --type")
    counts = count_settings(largest, variance, js).counts[1:]
    monotone = _monotone(no_mono, no_mono_rows, counts)
    return count_settings(largest, variance, js, p_stay=stays, monotone=monotone, equality=equality)


def _monotone(no_mono: bool, rows: str | None, counts: tuple[int, ...]) -> bool | list[bool]:
    if rows is None:
        return not no_mono
    lifted = _whole_numbers("--no-mono-rows", rows)
    for row in lifted:
        if row not in counts:
            expected = f"rows of the table, from {counts[0]} to {counts[-1]}"
            raise _refused("--no-mono-rows", "there is no such row", expected, str(row))
    return [not no_mono and i not in lifted for i in counts]


def _whole_numbers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise _refused(option, "this is not a list of whole numbers", "whole numbers and commas, such as 1,3,5", text)
    return [int(part) for part in parts]


def _make(settings: PTableSettings, keys: int) -> _Made:
    design = generate(settings)
    return _Made(design, design.table(keys), tuple(design.findings()))


def _read(path: Path, kind: str | None) -> _Made:
    found = read_table(path, kind)
    return _Made(None, found.table, found.findings)


def _text(table: PTable, form: Form) -> str:
    return export_ons(table) if form is Form.ONS else export_text(table, _FORMS[form])


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as problem:
        raise ParameterError(
            "cannot-write",
            f"the file cannot be written: {problem.strerror}",
            where=Place(file=str(path)),
            expected="a folder that exists and may be written to",
            remedy="correct --out",
        ) from None


def _as_dict(made: _Made, table: PTable, target: Path | None) -> dict[str, Any]:
    shown: dict[str, Any] = {} if made.design is None else made.design.as_dict()
    if made.design is None:
        shown["rows"] = rows_of(table)
    shown["lookup"] = {
        "keys": table.modulus,
        "step": table.step,
        "type": table.kind,
        "cycle": table.cycle,
        "rows": [{"i": row.i, "noise": list(row.noise), "below": list(row.bounds)} for row in table.rows],
    }
    shown["fingerprint"] = table.fingerprint
    if table.for_counts and table.cycle == 1:
        shown["reading"] = epsilon_delta_reading(made.design or table).as_dict()
    shown["findings"] = [finding.as_dict() for finding in made.findings]
    shown["out"] = None if target is None else str(target)
    return shown


def _refused(option: str, what: str, expected: str, found: str | None = None) -> ParameterError:
    shown = None if found is None else found[:40]
    return ParameterError("bad-option", what, Place(path=option), shown, expected, f"correct {option}")
