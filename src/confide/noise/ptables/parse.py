"""The text of a perturbation table, line by line: every mistake with its line, column, value, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from confide.errors import Finding, InputError, Place
from confide.noise.ptables.ptable import TYPES, LookupRow, table_findings

UPPER = ("p_int_ub", "p_ij_ub", "key_below")
KNOWN = ("i", "j", "v", "p", "p_int_lb", *UPPER, "key_from", "keys", "type")
MOST_FINDINGS = 20
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_LONGEST = 40
_DECIMALS = 15
_MOST_STEPS = 49
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class PTableLayout:
    """How a file is written: columns, separator, quoted names, columns padded to a width, line ends."""

    columns: tuple[str, ...]
    separator: str
    quoted: bool = False
    padded: bool = False
    newline: str = "\n"
    ends: bool = True


@dataclass(frozen=True)
class PTableDraft:
    """What a file says, checked: everything that a table is made of."""

    rows: tuple[LookupRow, ...]
    modulus: int
    step: int
    kind: str
    cycle: int
    layout: PTableLayout
    probabilities: tuple[tuple[str, ...], ...]
    warnings: tuple[Finding, ...]


@dataclass(slots=True)
class _Line:
    number: int
    values: dict[str, Fraction]
    texts: dict[str, str]


@dataclass(slots=True)
class _Problems:
    """Findings of a file, up to a number that a person wants to read."""

    file: str
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, what: str, line: int, column: str | None, found: str, expected: str) -> None:
        place = Place(file=self.file, line=line, column=column)
        self.findings.append(
            Finding(code, what, place, found[:_LONGEST], expected, "correct the file, or export it again")
        )

    def stop(self) -> None:
        if self.findings:
            raise InputError(self.findings[:MOST_FINDINGS])


def parse(text: str, file: str, kind: str | None = None) -> PTableDraft:
    """A table of one of the forms with an interval in each line."""
    problems = _Problems(file)
    layout, extra = _layout(text, problems)
    lines = _lines(text, layout, extra, problems)
    problems.stop()
    lines, kind = _of_kind(lines, kind, problems)
    modulus, step = _modulus(lines, layout, problems), _step(lines, problems)
    problems.stop()
    upper = next(name for name in UPPER if name in layout.columns)
    groups: list[list[_Line]] = []
    for line in lines:
        i = line.values["i"]
        if i.denominator != 1 or i < 0:
            problems.add(
                "bad-count", "i is not a count", line.number, "i", line.texts["i"], "a whole number from zero on"
            )
        if not groups or groups[-1][0].values["i"] != i:
            groups.append([])
        groups[-1].append(line)
        _check_line(line, problems)
    if len(groups) > _MOST_ROWS:
        problems.add("too-many-rows", "the file has too many rows", 1, "i", str(len(groups)), f"at most {_MOST_ROWS}")
    problems.stop()
    scale: Callable[[Fraction], int] = (lambda x: int(x)) if upper == "key_below" else (lambda x: int(x * modulus))
    rows = tuple(
        LookupRow(
            int(group[0].values["i"]),
            tuple(round(line.values["v"] * step) for line in group),
            tuple(scale(line.values[upper]) for line in group),
        )
        for group in groups
    )
    probabilities = tuple(tuple(line.texts.get("p", "") for line in group) for group in groups)
    draft = PTableDraft(rows, modulus, step, kind, 1, layout, probabilities, ())
    where = _where(file, groups, upper)
    findings = list(table_findings(draft, where))
    problems.findings += [finding for finding in findings if finding.severity == "error"]
    _check_shares(groups, rows, modulus, problems)
    problems.stop()
    return PTableDraft(
        rows, modulus, step, kind, 1, layout, probabilities, tuple(f for f in findings if f.severity == "warning")
    )


def _layout(text: str, problems: _Problems) -> tuple[PTableLayout, tuple[str, ...]]:
    """The layout that the header shows, and all columns, including those that are passed over."""
    newline = "\r\n" if "\r\n" in text else "\n"
    first, _, body = text.partition(newline)
    separator = ";" if ";" in first else ","
    written = tuple(name.strip() for name in first.split(separator))
    names = tuple(name.strip('"').strip() for name in written)
    columns = tuple(name for name in names if name in KNOWN)
    uppers = [name for name in UPPER if name in names]
    if not {"i", "v"} <= set(names) or len(uppers) != 1 or len(set(columns)) != len(columns):
        expected = "i, v and an upper bound (p_int_ub, p_ij_ub or key_below), or pcv, ckey and pvalue"
        problems.add("bad-header", "the columns are not those of a perturbation table", 1, None, first, expected)
    elif ("key_below" in uppers) != ("keys" in names):
        problems.add("bad-header", "key_below and keys belong together", 1, None, first, "both columns, or neither")
    problems.stop()
    quoted = all(name.startswith('"') for name in written)
    padded = any(separator + " " in line for line in body.split(newline))
    decimals = {
        len(line.split(separator)[names.index(uppers[0])].partition(".")[2])
        for line in _full(body, newline, names, separator)
    }
    padded = padded or (len(decimals) == 1 and decimals != {0})
    return PTableLayout(columns, separator, quoted, padded, newline, text.endswith(newline)), names


def _full(body: str, newline: str, names: tuple[str, ...], separator: str) -> list[str]:
    return [line for line in body.split(newline) if line.count(separator) == len(names) - 1]


def _lines(text: str, layout: PTableLayout, names: tuple[str, ...], problems: _Problems) -> list[_Line]:
    lines = []
    for number, written in enumerate(text.split(layout.newline)[1:], start=2):
        if not written.strip():
            continue
        cells = [cell.strip().strip('"') for cell in written.split(layout.separator)]
        if len(cells) != len(names):
            expected = f"{len(names)} values, separated by {layout.separator!r}"
            problems.add("bad-line", "a line has too few or too many values", number, None, str(len(cells)), expected)
            continue
        texts = {name: cell for name, cell in zip(names, cells, strict=True) if name in KNOWN}
        values = {}
        for name, cell in texts.items():
            if name == "type":
                if cell not in TYPES:
                    problems.add("bad-type", "there is no such type", number, name, cell, "all, even or odd")
            elif len(cell) <= _LONGEST and _NUMBER.fullmatch(cell):
                values[name] = Fraction(cell)
            else:
                problems.add("not-a-number", "a value is not a number", number, name, cell, "a decimal number")
        lines.append(_Line(number, values, texts))
    if not lines and not problems.findings:
        problems.add("no-rows", "the file has no rows", 1, None, "a header alone", "one line for each interval")
    return lines


def _of_kind(lines: list[_Line], kind: str | None, problems: _Problems) -> tuple[list[_Line], str]:
    """The lines of one type; row zero is common to all."""
    kinds = sorted({line.texts.get("type", "all") for line in lines if line.values["i"]} or {"all"})
    if kind is None and len(kinds) == 1:
        return lines, kinds[0]
    if kind not in kinds:
        problems.add(
            "several-types",
            "the file has tables of several types, or not this one",
            1,
            "type",
            ", ".join(kinds),
            "one type, chosen with --type",
        )
        problems.stop()
    assert kind is not None
    zero = {line.texts.get("type", "all") for line in lines if not line.values["i"]}
    of_zero = kind if kind in zero else min(zero, default=kind)
    return [line for line in lines if line.texts.get("type", "all") == (kind if line.values["i"] else of_zero)], kind


def _modulus(lines: list[_Line], layout: PTableLayout, problems: _Problems) -> int:
    """The number of keys: stated, or 10 to the number of decimals; of trimmed decimals at least eight."""
    if "keys" in layout.columns:
        for line in lines:
            if line.texts["keys"] != lines[0].texts["keys"] or line.values["keys"].denominator != 1:
                problems.add(
                    "bad-keys",
                    "the number of keys is not the same whole number everywhere",
                    line.number,
                    "keys",
                    line.texts["keys"],
                    lines[0].texts["keys"],
                )
                break
        return max(1, int(lines[0].values["keys"]))
    upper = next(name for name in UPPER if name in layout.columns)
    most = 0
    for line in lines:
        share = line.values[upper]
        digits = next((d for d in range(_DECIMALS + 1) if (share * 10**d).denominator == 1), None)
        if digits is None:
            problems.add(
                "too-many-decimals",
                "a bound has too many decimals",
                line.number,
                upper,
                line.texts[upper],
                f"at most {_DECIMALS}",
            )
            continue
        written = len(line.texts[upper].partition(".")[2]) if "e" not in line.texts[upper].lower() else 0
        most = max(most, digits, min(written, _DECIMALS))
    return int(10 ** (most if layout.padded and most else max(8, most)))


def _step(lines: list[_Line], problems: _Problems) -> int:
    """The smallest number of steps to one on whose grid all noise lies."""
    for step in range(1, _MOST_STEPS + 1):
        if all(abs(line.values["v"] * step - round(line.values["v"] * step)) <= Fraction(1, 10**5) for line in lines):
            return step
    line = lines[0]
    problems.add(
        "bad-grid",
        "the noise is not on a grid",
        line.number,
        "v",
        line.texts["v"],
        f"multiples of 1/step, step up to {_MOST_STEPS}",
    )
    return 1


def _check_line(line: _Line, problems: _Problems) -> None:
    values = line.values
    if "j" in values and abs(values["j"] - values["i"] - values["v"]) > Fraction(1, 10**5):
        expected = f"j = i + v = {float(values['i'] + values['v']):g}"
        problems.add(
            "bad-target", "target, count and noise do not belong together", line.number, "j", line.texts["j"], expected
        )
    if "p" in values and not 0 <= values["p"] <= 1:
        problems.add(
            "bad-probability", "this is not a probability", line.number, "p", line.texts["p"], "from zero to one"
        )


def _check_shares(groups: list[list[_Line]], rows: tuple[LookupRow, ...], modulus: int, problems: _Problems) -> None:
    """Stated probabilities and lower bounds against the bounds; the last digit of either may be lost."""
    digits = max(len(line.texts.get("p", "").partition(".")[2]) for group in groups for line in group)
    slack = Fraction(1, modulus) + Fraction(1, 10 ** min(digits or 8, _DECIMALS)) + Fraction(1, 10**12)
    for group, row in zip(groups, rows, strict=True):
        below = 0
        for line, bound in zip(group, row.bounds, strict=True):
            length = Fraction(bound - below, modulus)
            if "p" in line.values and abs(line.values["p"] - length) > slack:
                what, expected = f"p is not the length of the interval in row {row.i}", f"{float(length):.10g}"
                problems.add("probability-differs", what, line.number, "p", line.texts["p"], expected)
            for name, unit in (("p_int_lb", modulus), ("key_from", 1)):
                if name in line.values and line.values[name] * unit != below:
                    expected = f"{below / modulus:.10g}" if unit == modulus else str(below)
                    problems.add(
                        "bad-lower-bound",
                        "an interval does not begin where the one before ends",
                        line.number,
                        name,
                        line.texts[name],
                        expected,
                    )
            below = bound


def _where(file: str, groups: list[list[_Line]], upper: str) -> Callable[[int, int], Place]:
    def where(row: int, interval: int) -> Place:
        group = groups[row]
        return Place(file=file, line=group[min(interval, len(group) - 1)].number, column=upper)

    return where
