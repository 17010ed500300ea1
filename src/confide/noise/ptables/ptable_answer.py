"""A perturbation table that was made or read, as an answer: that of ``confide cellkey ptable``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact
from confide.noise.ptables.design import Design, PTableSettings, count_settings, generate, magnitude_settings
from confide.noise.ptables.formats import KEYS as ONS_KEYS
from confide.noise.ptables.formats import Form, export_ons, export_text, read_table
from confide.noise.ptables.ptable import DECIMAL, PTable, key_of, modify


class PTableFormat(StrEnum):
    """A text form of perturbation tables."""

    TAU_ARGUS = "tau-argus"
    SAS = "sas"
    ONS = "ons"
    CSV = "csv"


_TEXT_FORMS: dict[PTableFormat, Form] = {
    PTableFormat.TAU_ARGUS: "tau-argus",
    PTableFormat.SAS: "sas",
    PTableFormat.CSV: "csv",
}


@dataclass(frozen=True)
class PTableAnswer(TypedAnswer):
    """A perturbation table for lookups and, unless it was read from a file, its design with a certificate."""

    design: Design | None
    table: PTable
    findings: tuple[Finding, ...]
    text: str | None = None
    """The table in a text form, where one was asked for."""
    out: Path | None = None
    """Where the text was written."""

    @property
    def reading(self) -> EpsilonDeltaReading | None:
        """How well two neighbouring counts can be told apart; none for magnitudes, and where rows take turns."""
        return (
            epsilon_delta_reading(self.design or self.table)
            if self.table.for_counts and self.table.cycle == 1
            else None
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values: laws, lookup, reading, findings."""
        table = self.table
        values: dict[str, Any] = {"rows": laws_of(table)} if self.design is None else self.design.as_dict()
        values["lookup"] = {
            "keys": table.modulus,
            "step": table.step,
            "type": table.kind,
            "cycle": table.cycle,
            "rows": [{"i": row.i, "noise": list(row.noise), "below": list(row.bounds)} for row in table.rows],
        }
        values["fingerprint"] = table.fingerprint
        reading = self.reading
        if reading is not None:
            values["reading"] = reading.as_dict()
        values["findings"] = [finding.as_dict() for finding in self.findings]
        values["out"] = None if self.out is None else str(self.out)
        return values | ({"text": self.text} if self.out is None and self.text is not None else {})

    def described(self) -> Iterator[AnswerPart]:
        """The text alone where it is not written to a file; else the table, its findings and its reading."""
        if self.text is not None and self.out is None:
            yield self.text.removesuffix("\n")
            return
        if self.design is not None:
            yield from _described_design(self.design)
        else:
            yield from _described_table(self.table)
        yield from self.findings
        if self.reading is not None:
            yield from _described_reading(self.reading)
        yield f"\n{self.table.modulus:,} keys, fingerprint {self.table.fingerprint[:16]}"
        if self.out is not None:
            yield f"Written: {self.out}"


_MOST_COLUMNS = 8
_LIKELY = 5
_MOST_SHOWN = 40


def _described_design(design: Design) -> Iterator[AnswerPart]:
    """Rows by counts, columns by noise; then variance, whether it is V, and the certificate."""
    settings = design.settings
    conditions = f"D = {settings.bound}, V = {settings.variance}, js = {settings.js}"
    laws = [dict(zip(row.noise, row.p, strict=True)) for row in design.rows[1:]]
    names = [str(row.i) for row in design.rows[1:]]
    if settings.icat is None:
        names[-1] += "+"
    yield from _table_of_laws(f"Perturbation table, {conditions}", names, laws)
    yield ""
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
    yield ShownTable(["count", "variance ", "is V", "largest ", "active", "missed by ", "gap, bits "], rows)


def _described_table(ptable: PTable) -> Iterator[AnswerPart]:
    """A table that was read."""
    places = range(1, min(len(ptable.rows), _MOST_SHOWN + 1))
    names = [str(ptable.rows[place].i) for place in places]
    laws = [{value: float(p) for value, p in ptable.probabilities(place).items()} for place in places]
    yield from _table_of_laws("Perturbation table", names, laws)
    yield ""
    rows = [
        (n, f"{float(ptable.mean(k)):.2e}", f"{float(ptable.variance(k)):.6f}")
        for n, k in zip(names, places, strict=True)
    ]
    yield ShownTable(["count", "mean ", "variance "], rows)
    if len(ptable.rows) > _MOST_SHOWN + 1:
        yield f"... and rows up to {ptable.top}"


def _described_reading(reading: EpsilonDeltaReading) -> Iterator[AnswerPart]:
    large, worst = reading.large_counts, max(reading.pairs, key=lambda pair: pair.remaining_delta)
    yield (
        f"\nTwo large counts that differ by one: epsilon {large.epsilon:.4g} with delta {large.remaining_delta:.3g}. "
        f"Counts {worst.i} and {worst.i + 1}: delta {worst.remaining_delta:.3g} at any epsilon."
    )
    yield Said("This is one cell with one key, and no differential privacy of a release.", tone=Tone.QUIET)


def _table_of_laws(title: str, names: list[str], laws: Sequence[dict[Fraction, float]]) -> Iterator[AnswerPart]:
    """A column for each count if they fit eighty characters, else a line for each with its most likely values."""
    if len(names) <= _MOST_COLUMNS:
        noise = sorted({value for law in laws for value in law})
        columns = ["noise ", *(f"{name} " for name in names)]
        rows = [(_signed(value), *(_share(law.get(value)) for law in laws)) for value in noise]
        yield ShownTable(columns, rows, title=title)
        return
    rows = []
    for name, law in zip(names, laws, strict=True):
        likely = sorted(sorted(law, key=lambda value: -law[value])[:_LIKELY])
        rows.append((name, "  ".join(f"{_signed(value)}: {law[value]:.3f}" for value in likely)))
    yield ShownTable(["count", f"the {_LIKELY} most likely noise values"], rows, title=title)


def _share(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.5f}" if p >= 1e-4 or p == 0 else f"{p:.1e}"


def _signed(value: Fraction) -> str:
    return f"{float(value):+g}" if value else "0"


def perturbation_table(
    D: int,
    V: Exact,
    *,
    js: int = 0,
    pstay: Exact | Sequence[Exact] | None = None,
    mono: bool = True,
    no_mono_rows: Sequence[int] = (),
    equality: bool = False,
    icat: Sequence[int] | None = None,
    step: int = 1,
    kind: str | None = None,
    keys: int | None = None,
    modify_at: Exact | None = None,
    seed: str | None = None,
    form: PTableFormat | str | None = None,
    out: str | Path | None = None,
) -> PTableAnswer:
    """A perturbation table: for each count the noise of maximum entropy, and its certificate; refused if infeasible.

    Args:
        D: The largest noise, a count.
        V: The variance.
        js: Results from 1 to js do not occur.
        pstay: The least probability of no noise: one, or one for each row.
        mono: Whether probabilities increase from the most negative noise to zero.
        no_mono_rows: Rows for which they need not.
        equality: Whether the variance equals V, instead of V at most.
        icat: Rows of a table for magnitudes, such as ``[1, 3, 5]``; without them the table is for counts.
        step: For magnitudes: noise in steps of ``1 / step``.
        kind: For magnitudes: ``all``, ``even`` or ``odd``.
        keys: How many cell keys there are; without it a hundred million, or 256 for the form ``ons``.
        modify_at: Cut intervals at this share and shuffle them.
        seed: Decides the shuffle, up to 64 hexadecimal digits; without it, a secret of the operating system.
        form: A text form: ``tau-argus``, ``sas``, ``ons`` or ``csv``.
        out: Where to write the text.

    Returns:
        The design, the table in whole numbers of keys, findings, and the text.

    >>> answer = perturbation_table(5, 2)
    >>> [round(p, 6) for p in answer.design.rows[1].p[:3]]
    [0.388938, 0.388938, 0.122093]
    """
    text_form = None if form is None else PTableFormat(form)
    settings = _settings(D, V, js, pstay, mono, tuple(no_mono_rows), equality, icat, step, kind)
    design = generate(settings)
    number = keys if keys is not None else (ONS_KEYS if text_form is PTableFormat.ONS else DECIMAL)
    answer = PTableAnswer(design, design.table(number), tuple(design.findings()))
    return _finished(answer, modify_at, seed, text_form, out)


def perturbation_table_from(
    path: str | Path,
    *,
    kind: str | None = None,
    modify_at: Exact | None = None,
    seed: str | None = None,
    form: PTableFormat | str | None = None,
    out: str | Path | None = None,
) -> PTableAnswer:
    """A perturbation table that is read from a file in any text form, and checked.

    Args:
        path: The file.
        kind: Which type of noise, of a file that has several.
        modify_at: Cut intervals at this share and shuffle them.
        seed: Decides the shuffle.
        form: A text form to write the table in.
        out: Where to write the text.

    Returns:
        The table, what was found wrong with it, and the text.
    """
    file = read_table(path, kind)
    answer = PTableAnswer(None, file.table, file.findings)
    return _finished(answer, modify_at, seed, None if form is None else PTableFormat(form), out)


def laws_of(table: PTable) -> list[dict[str, Any]]:
    """The law of each row of a table as plain values: noise, probabilities, mean and variance."""
    rows = []
    for place, row in enumerate(table.rows):
        law = table.probabilities(place)
        rows.append(
            {
                "i": row.i,
                "noise": [int(v) if v.denominator == 1 else float(v) for v in law],
                "p": [float(p) for p in law.values()],
                "mean": float(table.mean(place)),
                "variance": float(table.variance(place)),
            }
        )
    return rows


def _finished(
    answer: PTableAnswer, threshold: Exact | None, seed: str | None, form: PTableFormat | None, out: str | Path | None
) -> PTableAnswer:
    """The answer with its intervals shuffled and its text written, as far as that is asked for."""
    if seed is not None and threshold is None:
        raise ParameterError("bad-option/intervals", where=Place(path="--seed"))
    if threshold is not None:
        answer = replace(answer, table=modify(answer.table, threshold, key_of(seed)))
    if form is None:
        if out is not None:
            raise ParameterError("bad-option/write", where=Place(path="--out"))
        return answer
    table = answer.table
    text = export_ons(table) if form is PTableFormat.ONS else export_text(table, _TEXT_FORMS[form])
    if out is not None:
        _write(Path(out), text)
    return replace(answer, text=text, out=None if out is None else Path(out))


def _settings(
    D: int,
    V: Exact,
    js: int,
    pstay: Exact | Sequence[Exact] | None,
    mono: bool,
    no_mono_rows: tuple[int, ...],
    equality: bool,
    icat: Sequence[int] | None,
    step: int,
    kind: str | None,
) -> PTableSettings:
    if icat is not None:
        if js or pstay is not None:
            raise ParameterError("bad-option/js", where=Place(path="--icat"))
        rows = _monotone(mono, no_mono_rows, tuple(icat))
        return magnitude_settings(D, V, step=step, icat=icat, kind=kind or "all", mono=rows, equality=equality)
    if step != 1 or kind not in (None, "all"):
        raise ParameterError("bad-option/steps", where=Place(path="--step"))
    counts = count_settings(D, V, js).counts[1:]
    rows = _monotone(mono, no_mono_rows, counts)
    return count_settings(D, V, js, pstay=pstay, mono=rows, equality=equality)


def _monotone(monotone: bool, lifted: tuple[int, ...], counts: tuple[int, ...]) -> bool | list[bool]:
    if not lifted:
        return monotone
    for row in lifted:
        if row not in counts:
            raise ParameterError(
                "bad-option/row",
                where=Place(path="--no-mono-rows"),
                found=str(row)[:40],
                count=counts[0],
                count_expected=counts[-1],
            )
    return [monotone and i not in lifted for i in counts]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as problem:
        raise ParameterError("cannot-write/file", where=Place(file=str(path)), strerror=problem.strerror) from None


# The (epsilon, delta) reading of a table: how well two counts that differ by one can be told apart from one result.
#
# For neighbouring counts ``i`` and ``i + 1`` with results distributed as ``P`` and ``Q``,
#
#     delta(epsilon) = max( sum_j max(0, P_j - e^epsilon Q_j),  sum_j max(0, Q_j - e^epsilon P_j) ),
#
# a sum over finitely many results, so the curve is exact up to floating-point rounding. A law with bounded noise has
# results that only one of the two counts can have: their probability is the delta that remains however large epsilon
# is.
# For the last row, ``p_v ~ exp(-b v^2)``, this is ``delta = p(D)`` with ``epsilon = b (2 D - 1)``, the largest
# log-ratio of the results that both can have (Bach 2020, section 2.3, on bounded noise in general).
#
# This is a property of one cell with one key. It is no differential privacy of a release: :data:`NOT_A_GUARANTEE`.


NOT_A_GUARANTEE = (
    "These figures compare two counts that differ by one, from one published cell with one key. They are not a privacy "
    "loss of a release: a person is in many cells whose noise is not independent, the same cell has the same noise "
    "every time, zero is never changed, and the keys stay the same from release to release. No accountant adds them up."
)

Probabilities = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class NeighbouringCounts:
    """Two neighbouring counts: the laws of their results."""

    i: int
    lower: Probabilities
    upper: Probabilities

    @property
    def remaining_delta(self) -> float:
        """The probability of results that only one of the two counts can have: delta at any epsilon."""
        ways = ((self.lower, self.upper), (self.upper, self.lower))
        return max(math.fsum(p for j, p in one.items() if j not in other) for one, other in ways)

    @property
    def epsilon(self) -> float:
        """The largest absolute log-ratio of the results that both counts can have."""
        common = self.lower.keys() & self.upper.keys()
        return max((abs(math.log(self.lower[j] / self.upper[j])) for j in common), default=0.0)

    def delta(self, epsilon: float) -> float:
        """The exact delta at an epsilon."""
        factor = math.exp(epsilon)
        ways = ((self.lower, self.upper), (self.upper, self.lower))
        return max(math.fsum(max(0.0, p - factor * other.get(j, 0.0)) for j, p in one.items()) for one, other in ways)


@dataclass(frozen=True)
class EpsilonDeltaReading:
    """The reading of a table for counts: every pair of neighbouring counts, the last two using the same row."""

    pairs: tuple[NeighbouringCounts, ...]

    @property
    def large_counts(self) -> NeighbouringCounts:
        """Two counts that both use the last row."""
        return self.pairs[-1]

    def delta(self, epsilon: float) -> float:
        """The largest delta at an epsilon over all pairs."""
        if not epsilon >= 0:
            raise ParameterError("bad-epsilon", found=repr(epsilon))
        return max(pair.delta(epsilon) for pair in self.pairs)

    def curve(self, epsilons: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)) -> list[dict[str, float]]:
        """Epsilon and delta for large counts and for all pairs."""
        return [
            {"epsilon": e, "delta_large_counts": self.large_counts.delta(e), "delta_all_counts": self.delta(e)}
            for e in epsilons
        ]

    def as_dict(self) -> dict[str, object]:
        large = self.large_counts
        return {
            "epsilon": large.epsilon,
            "delta": large.remaining_delta,
            "worst_pair": max(self.pairs, key=lambda pair: pair.remaining_delta).i,
            "delta_all_counts": max(pair.remaining_delta for pair in self.pairs),
            "pairs": [
                {"i": pair.i, "epsilon": pair.epsilon, "delta": pair.remaining_delta, "delta_at_zero": pair.delta(0.0)}
                for pair in self.pairs
            ],
            "curve": self.curve(),
            "differential_privacy_of_a_release": False,
            "note": NOT_A_GUARANTEE,
        }


def epsilon_delta_reading(source: Design | PTable) -> EpsilonDeltaReading:
    """How well two neighbouring counts can be told apart from one result of a table.

    Args:
        source: A generated table, or one for lookups; it must be for counts.

    >>> from confide.noise.ptables import count_settings, generate
    >>> reading = epsilon_delta_reading(generate(count_settings(5, 2)))
    >>> round(reading.large_counts.epsilon, 3), round(reading.large_counts.remaining_delta, 6)
    (2.247, 0.000549)
    """
    if isinstance(source, PTable):
        rows = [{value: keys / source.modulus for value, keys in row.key_counts().items()} for row in source.rows]
        counts, integer_noise = [row.i for row in source.rows], source.step == 1 and source.cycle == 1
    else:
        rows = [{v: p for v, p in zip(row.units, row.p, strict=True) if p > 0} for row in source.rows]
        counts, integer_noise = [row.i for row in source.rows], source.settings.step == 1
    if not integer_noise or counts != list(range(len(counts))):
        raise ParameterError("no-reading")
    results = [{i + v: p for v, p in row.items()} for i, row in enumerate((*rows, rows[-1]))]
    pairs = [NeighbouringCounts(i, results[i], results[i + 1]) for i in range(len(results) - 1)]
    return EpsilonDeltaReading(tuple(pairs))
