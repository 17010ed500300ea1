"""How a perturbation table looks on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from confide.cellkey.ptables import Design, PTable, Reading
from confide.cli.show import out, table

_MOST_COLUMNS = 8
_LIKELY = 5
_MOST_ROWS = 40


def show_design(design: Design) -> None:
    """Rows by counts, columns by noise; then variance, whether it is V, and the certificate."""
    settings = design.settings
    asked = f"D = {settings.max_noise}, V = {settings.variance}, js = {settings.js}"
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


def show_reading(reading: Reading) -> None:
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
