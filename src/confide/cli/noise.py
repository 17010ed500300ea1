"""``confide account noise`` and ``confide cellkey ptable``: the noise laws, exactly, and perturbation tables.

No records are read. The first shows what laws promise side by side; the second makes, checks, converts and shows
perturbation tables of the cell key method.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli.commands import setting
from confide.cli.show import Json, out, show_answer, show_findings, table
from confide.noise import CountNoise
from confide.noise.fitting import NoiseKind, noise_law, noise_margin, noise_probabilities, noise_quantile
from confide.noise.ptables import DECIMAL, Design, EpsilonDeltaReading, PTable
from confide.noise.ptables.formats import KEYS as ONS_KEYS
from confide.noise.ptables.ptable_answer import (
    PTableAnswer,
    PTableFormat,
    bad_option,
    perturbation_table,
    perturbation_table_from,
)

LawOption = Annotated[NoiseKind, typer.Option("--law", help="The noise law.")]
Sigma2 = Annotated[str | None, typer.Option("--sigma2", help="The parameter of a discrete Gaussian (exact).")]
Epsilon = Annotated[str | None, typer.Option("--epsilon", help="The parameter of a two-sided geometric (exact).")]
Bound = Annotated[int | None, typer.Option("--bound", help="The largest noise, for a truncated law.")]
Probability = Annotated[str, typer.Option("-p", "--probability", help="A probability between 0 and 1 (exact).")]

TITLES = {
    NoiseKind.GEOMETRIC: "geometric",
    NoiseKind.GAUSSIAN: "Gaussian",
    NoiseKind.TRUNCATED_GEOMETRIC: "truncated geometric",
    NoiseKind.TRUNCATED_GAUSSIAN: "truncated Gaussian",
}


def _law(kind: NoiseKind, sigma2: str | None, epsilon: str | None, bound: int | None) -> CountNoise:
    parameter, other = (epsilon, sigma2) if kind.by_epsilon else (sigma2, epsilon)
    if parameter is None or other is not None:
        raise typer.BadParameter(f"{kind.value} takes {'--epsilon' if kind.by_epsilon else '--sigma2'}")
    if kind.bounded != (bound is not None):
        raise typer.BadParameter(f"{kind.value} takes {'a' if kind.bounded else 'no'} --bound")
    return noise_law(kind, sigma2=sigma2, epsilon=epsilon, bound=bound)


def pmf(
    law: LawOption,
    at: Annotated[str, typer.Option(help="Whole numbers, separated by commas.")],
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    as_json: Json = False,
) -> None:
    """The probability of values of the noise, and of values up to them."""
    chosen = _law(law, sigma2, epsilon, bound)
    try:
        points = [int(point) for point in at.split(",")]
    except ValueError:
        raise typer.BadParameter("--at takes whole numbers, separated by commas") from None
    answer = noise_probabilities(chosen, points)
    rows = [
        (x, f"{pmf:.10g}", f"{cdf:.10g}") for x, pmf, cdf in zip(answer.values, answer.pmf, answer.cdf, strict=True)
    ]
    show_answer(answer, lambda: table(["x ", "P(noise = x) ", "P(noise ≤ x) "], rows), as_json=as_json)


def quantile(
    law: LawOption,
    probability: Probability,
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    as_json: Json = False,
) -> None:
    """The smallest value that the noise stays at or below with a probability."""
    answer = noise_quantile(_law(law, sigma2, epsilon, bound), probability)
    text = f"The noise is at most {answer.quantile} with probability {probability}."
    show_answer(answer, lambda: out.print(text), as_json=as_json)


def margin(
    law: LawOption,
    probability: Probability = "0.95",
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    bound: Bound = None,
    as_json: Json = False,
) -> None:
    """The noise margin: the smallest distance from zero that the noise keeps within with a probability."""
    answer = noise_margin(_law(law, sigma2, epsilon, bound), probability)
    text = f"The noise is within ±{answer.noise_margin} with probability {probability}"
    show_answer(answer, lambda: out.print(f"{text}; its variance is {answer.variance:.6g}."), as_json=as_json)


# ``confide cellkey ptable``: make, check, convert and show perturbation tables of the cell key method.


def ptable(
    largest: Annotated[int | None, typer.Option("-D", "--max-noise", help="The largest noise D, a count.")] = None,
    variance: Annotated[str | None, typer.Option("-V", "--variance", help="The variance V: 2, 1.05, 9/10.")] = None,
    js: Annotated[int, typer.Option("--js", help="Results from 1 to js do not occur.")] = 0,
    pstay: Annotated[
        str | None,
        typer.Option(metavar="P[,P...]", help="The least probability of no noise; one, or one for each row."),
    ] = None,
    no_mono: Annotated[
        bool, setting("--no-mono", help="Probabilities need not increase from the most negative noise to zero.")
    ] = False,
    no_mono_rows: Annotated[
        str | None, setting(metavar="I[,I...]", help="The same, but only for these rows, such as 1 or 1,2.")
    ] = None,
    equality: Annotated[bool, setting("--equality", help="The variance equals V, instead of V at most.")] = False,
    icat: Annotated[
        str | None, setting(metavar="I[,I...]", help="Rows of a table for magnitudes, such as 1,3,5.")
    ] = None,
    step: Annotated[int, setting(help="For magnitudes: noise in steps of 1/STEP.")] = 1,
    kind: Annotated[str | None, setting("--type", show_default="all", help="For magnitudes: all, even or odd.")] = None,
    keys: Annotated[
        int | None, setting(show_default=f"{DECIMAL}; ons: {ONS_KEYS}", help="How many cell keys there are.")
    ] = None,
    threshold: Annotated[
        str | None, setting("--modify", metavar="SHARE", help="Cut intervals at this share and shuffle them.")
    ] = None,
    seed: Annotated[
        str | None, setting(metavar="HEX", help="Decides the shuffle; default: a secret of the system.")
    ] = None,
    imported: Annotated[
        Path | None, typer.Option("--import", metavar="FILE", help="Read and check a table instead of making one.")
    ] = None,
    form: Annotated[PTableFormat | None, typer.Option("--format", help="Write the table as text.")] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to; default: the standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute a perturbation table for the cell key method: for each count the noise of maximum entropy, with a
    proof.
    """
    if imported is not None:
        given = (largest, variance, pstay, no_mono_rows, icat, keys)
        if js or no_mono or equality or step != 1 or any(value is not None for value in given):
            raise bad_option("--import", "a table that is read has its settings already", "--import with no settings")
        answer = perturbation_table_from(imported, kind=kind, modify_at=threshold, seed=seed, form=form, out=target)
    elif largest is None or variance is None:
        raise bad_option("-D", "a table needs a largest noise and a variance", "both -D and -V, or --import")
    else:
        answer = perturbation_table(
            largest,
            variance,
            js=js,
            pstay=None if pstay is None else pstay.split(","),
            mono=not no_mono,
            no_mono_rows=() if no_mono_rows is None else _whole_numbers("--no-mono-rows", no_mono_rows),
            equality=equality,
            icat=None if icat is None else _whole_numbers("--icat", icat),
            step=step,
            kind=kind,
            keys=keys,
            modify_at=threshold,
            seed=seed,
            form=form,
            out=target,
        )
    show_answer(answer, lambda: show_ptable(answer), as_json=as_json)


def show_ptable(answer: PTableAnswer) -> None:
    """The text alone where it is not written to a file; else the table, its findings and its reading."""
    if answer.text is not None and answer.out is None:
        typer.echo(answer.text, nl=False)
        return
    if answer.design is not None:
        show_design(answer.design)
    else:
        show_table(answer.table)
    show_findings(answer.findings)
    if answer.reading is not None:
        show_reading(answer.reading)
    out.print(f"\n{answer.table.modulus:,} keys, fingerprint {answer.table.fingerprint[:16]}")
    if answer.out is not None:
        out.print(f"Written: {escape(str(answer.out))}")


_MOST_COLUMNS = 8
_LIKELY = 5
_MOST_ROWS = 40


def show_design(design: Design) -> None:
    """Rows by counts, columns by noise; then variance, whether it is V, and the certificate."""
    settings = design.settings
    conditions = f"D = {settings.bound}, V = {settings.variance}, js = {settings.js}"
    laws = [dict(zip(row.noise, row.p, strict=True)) for row in design.rows[1:]]
    names = [str(row.i) for row in design.rows[1:]]
    if settings.icat is None:
        names[-1] += "+"
    _laws(f"Perturbation table, {conditions}", names, laws)
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


def show_table(ptable: PTable) -> None:
    """A table that was read."""
    places = range(1, min(len(ptable.rows), _MOST_ROWS + 1))
    names = [str(ptable.rows[place].i) for place in places]
    laws = [{value: float(p) for value, p in ptable.probabilities(place).items()} for place in places]
    _laws("Perturbation table", names, laws)
    out.print()
    rows = [
        (n, f"{float(ptable.mean(k)):.2e}", f"{float(ptable.variance(k)):.6f}")
        for n, k in zip(names, places, strict=True)
    ]
    table(["count", "mean ", "variance "], rows)
    if len(ptable.rows) > _MOST_ROWS + 1:
        out.print(f"... and rows up to {ptable.top}")


def show_reading(reading: EpsilonDeltaReading) -> None:
    large, worst = reading.large_counts, max(reading.pairs, key=lambda pair: pair.remaining_delta)
    out.print(
        f"\nTwo large counts that differ by one: epsilon {large.epsilon:.4g} with delta {large.remaining_delta:.3g}. "
        f"Counts {worst.i} and {worst.i + 1}: delta {worst.remaining_delta:.3g} at any epsilon."
    )
    out.print("[dim]This is one cell with one key, and no differential privacy of a release.[/]")


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


def _whole_numbers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise bad_option(option, "this is not a list of whole numbers", "whole numbers and commas, such as 1,3,5", text)
    return [int(part) for part in parts]
