"""Make a perturbation table: every row of maximum entropy, certified, or a refusal that says which V is feasible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, exact
from confide.noise import max_entropy
from confide.noise.ptables.ptable import DECIMAL, TYPES, LookupRow, PTable, cumulated

# What a perturbation table is asked to be: D, V, js and the further conditions, and the problem of each row.
#
# Row ``i`` has the noise values that lead to a permitted target ``j = i + v``: ``max(0, i - D) <= j <= i + D`` and
# ``j`` not in ``1 .. js``. Rows of a table for counts are ``0 .. n`` with ``n = D`` if ``js = 0`` and ``n = D + js +
# 1`` otherwise, which is the first row whose targets are all permitted; it serves all larger counts. Rows of a table
# for magnitudes are zero and those listed, and the targets lie on a grid of width ``1 / step``.
#
# ``V`` and the probability to stay are exact numbers. The conventions are those of the R package ``ptable``; the
# idea: Giessing, "Computational issues in the design of transition probabilities and disclosure risk estimation for
# additive noise", Privacy in Statistical Databases 2016.


MOST_STEPS = 50
_T = TypeVar("_T")


@dataclass(frozen=True)
class PTableSettings:
    """Everything that determines a table. ``icat`` makes it one for magnitudes, without ``js`` and ``p_stay``.

    ``p_stay`` and ``monotone`` are one value for all rows, or one for each row above zero.
    """

    bound: int
    variance: Fraction
    js: int = 0
    p_stay: tuple[Fraction, ...] | None = None
    monotone: tuple[bool, ...] = (True,)
    equality: bool = False
    icat: tuple[int, ...] | None = None
    step: int = 1
    kind: str = "all"

    def __post_init__(self) -> None:
        findings = list(_findings(self))
        if findings:
            raise ParameterError(findings)

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts of the rows, zero first."""
        if self.icat is not None:
            return (0, *self.icat)
        return tuple(range((self.bound + self.js + 1 if self.js else self.bound) + 1))

    def problem(self, place: int) -> max_entropy.RowProblem:
        """The problem of a row above zero."""
        i, reach = self.counts[place] * self.step, self.bound * self.step
        targets = [j for j in range(max(0, i - reach), i + reach + 1) if not 1 <= j <= self.js]
        return max_entropy.RowProblem(
            noise=tuple(j - i for j in targets),
            variance=self.variance * self.step**2,
            equality=self.equality,
            p_stay=None if self.p_stay is None else _of_row(self.p_stay, place),
            monotone=_of_row(self.monotone, place),
        )

    def as_dict(self) -> dict[str, object]:
        stay = None if self.p_stay is None else [str(p) for p in self.p_stay]
        values: dict[str, object] = {
            "D": self.bound,
            "V": float(self.variance),
            "V_exact": str(self.variance),
            "js": self.js,
            "pstay": stay if stay is None or len(stay) > 1 else stay[0],
            "mono": self.monotone[0] if len(self.monotone) == 1 else list(self.monotone),
            "variance_is": "equality" if self.equality else "bound",
            "table": "counts" if self.icat is None else "magnitudes",
        }
        if self.icat is not None:
            values |= {"step": self.step, "icat": list(self.icat), "type": self.kind}
        return values


def count_settings(
    D: int,
    V: Exact,
    js: int = 0,
    *,
    pstay: Exact | Sequence[Exact] | None = None,
    mono: bool | Sequence[bool] = True,
    equality: bool = False,
) -> PTableSettings:
    """The settings of a table for counts; ``V`` and the probability to stay as exact numbers or text.

    Args:
        D: The largest noise, from 1 to 100.
        V: The largest variance of a row.
        js: No count from 1 to js is published; below D.
        pstay: The least probability that a count keeps its value: one for all rows, or one for each row above zero.
        mono: Whether probabilities do not decrease up to zero: one for all rows, or one for each.
        equality: Whether the variance is V, not at most V.

    >>> count_settings(5, 2, js=2).counts
    (0, 1, 2, 3, 4, 5, 6, 7, 8)
    """
    stays = None if pstay is None else _listed(pstay)
    return PTableSettings(
        D,
        exact(V, "V"),
        js,
        None if stays is None else tuple(exact(p, "pstay") for p in stays),
        (mono,) if isinstance(mono, bool) else tuple(mono),
        equality,
    )


def magnitude_settings(
    D: int,
    V: Exact,
    *,
    step: int,
    icat: Sequence[int],
    kind: str = "all",
    mono: bool | Sequence[bool] = True,
    equality: bool = False,
) -> PTableSettings:
    """The settings of a table for magnitudes: rows ``icat``, from 1 to D, and noise in steps of ``1 / step``.

    Args:
        D: The largest noise.
        V: The largest variance of a row, exact.
        step: How many steps of noise there are to one.
        icat: The magnitudes that have a row, ascending, the first 1 and the last D.
        kind: ``all``, or the table for ``even`` or ``odd`` numbers of contributors.
        mono: Whether probabilities do not decrease up to zero.
        equality: Whether the variance is V, not at most V.

    >>> magnitude_settings(5, 2, step=2, icat=[1, 3, 5]).problem(1).noise
    (-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    """
    return PTableSettings(
        D,
        exact(V, "V"),
        monotone=(mono,) if isinstance(mono, bool) else tuple(mono),
        equality=equality,
        icat=tuple(icat),
        step=step,
        kind=kind,
    )


def _listed(value: Exact | Sequence[Exact]) -> Sequence[Exact]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _of_row(values: tuple[_T, ...], place: int) -> _T:
    return values[0] if len(values) == 1 else values[place - 1]


def _findings(settings: PTableSettings) -> Iterator[Finding]:
    bound, js = settings.bound, settings.js
    yield from max_entropy.row_findings(bound, settings.variance)
    if not 1 <= bound <= max_entropy.LARGEST_BOUND:
        return
    if not 0 <= js < bound:
        yield Finding.of(
            "bad-ptable-setting/js",
            where=Place(path="--js"),
            js=js,
            bound=bound,
            least=js + 1,
            more=js > 0,
        )
        return
    if settings.icat is not None:
        yield from _magnitude_findings(settings, settings.icat)
    elif settings.step != 1 or settings.kind != "all":
        yield Finding.of("bad-ptable-setting/counts", where=Place(path="--step"), found=str(settings.step))
    rows = len(settings.counts) - 1
    for option, values in (("--pstay", settings.p_stay or (Fraction(1, 2),)), ("--mono", settings.monotone)):
        if len(values) not in (1, rows):
            yield Finding.of(
                "bad-ptable-setting/number", where=Place(path=option), found=str(len(values)), rows=rows, option=option
            )
    for value in settings.p_stay or ():
        if not 0 < value < 1:
            yield Finding.of("bad-ptable-setting/probability", where=Place(path="--pstay"), found=str(value))


def _magnitude_findings(settings: PTableSettings, icat: tuple[int, ...]) -> Iterator[Finding]:
    bound = settings.bound
    ascending = all(a < b for a, b in pairwise(icat))
    if not icat or icat[0] != 1 or icat[-1] != bound or not ascending:
        yield Finding.of(
            "bad-ptable-setting/wrong", where=Place(path="--icat"), found=", ".join(map(str, icat)), bound=bound
        )
    if settings.step < 1 or bound * settings.step >= MOST_STEPS:
        yield Finding.of(
            "bad-ptable-setting/step", where=Place(path="--step"), found=str(settings.step), most_steps=MOST_STEPS
        )
    if settings.kind not in TYPES:
        yield Finding.of("bad-ptable-setting/type", where=Place(path="--type"), found=str(settings.kind[:20]))
    if settings.js or settings.p_stay is not None:
        yield Finding.of("bad-ptable-setting/role", where=Place(path="--icat"), js=settings.js)


# Which variances a row can have at all: exactly, by a linear program with three rows.
#
# The laws that keep the conditions of a row, the variance aside, are mixtures of a few building blocks: a point each,
# or with monotonicity the uniform laws on ``v .. 0`` and the points above zero. So the extreme variances are those of
#
#     min or max  sum c_g s_g   with   sum c_g = 1,   sum c_g m_g = 0,   sum c_g z_g - slack = p_stay,   c, slack >= 0
#
# over the blocks ``g`` with mean ``m_g``, second moment ``s_g`` and probability ``z_g`` of zero. It is solved by the
# simplex method in rational numbers with Bland's rule, which ends; that no reduced cost has the wrong sign is the
# certificate. Derivation: ``docs/proofs/ptables.md``, section 3.


Column = tuple[Fraction, Fraction, Fraction]
_NONE = Fraction(0)


@dataclass(frozen=True, slots=True)
class VarianceRange:
    """The smallest and the largest variance, in squared units, of a law that keeps the other conditions of a row."""

    smallest: Fraction
    largest: Fraction


def variance_range(problem: max_entropy.RowProblem) -> VarianceRange | None:
    """The range of a row, or none if no law at all has mean zero on its values."""
    return _range(problem.noise, problem.stay, problem.tied)


@lru_cache(maxsize=4096)
def _range(noise: tuple[int, ...], stay: Fraction, tied: int) -> VarianceRange | None:
    if 0 not in noise and not noise[0] < 0 < noise[-1]:
        return None
    if all(value >= 0 for value in noise) or all(value <= 0 for value in noise):
        return VarianceRange(_NONE, _NONE)
    columns, costs = _blocks(noise, tied)
    columns.append((_NONE, _NONE, Fraction(-1)))
    costs.append(_NONE)
    start = _first_basis(columns, stay)
    smallest, largest = (sign * _simplex(columns, [sign * c for c in costs], start, stay) for sign in (1, -1))
    return VarianceRange(smallest, largest)


def _blocks(noise: tuple[int, ...], tied: int) -> tuple[list[Column], list[Fraction]]:
    """The columns (1, mean, probability of zero) and the second moments of the building blocks."""
    members = [noise[k:tied] for k in range(tied)] + [(value,) for value in noise[tied:]]
    columns = [(Fraction(1), Fraction(sum(m), len(m)), Fraction(m.count(0), len(m))) for m in members]
    return columns, [Fraction(sum(value**2 for value in m), len(m)) for m in members]


def _first_basis(columns: list[Column], stay: Fraction) -> list[int]:
    """Everything at zero, with room below; or, where zero is not a value, its two neighbours. The slack is basic."""
    means = [column[1] for column in columns[:-1]]
    slack = len(columns) - 1
    for place, column in enumerate(columns[:-1]):
        if column[1] == 0 and column[2] == 1:
            return [place, max(range(slack), key=lambda k: means[k]), slack]
    assert stay == 0, "where zero is not a value, nothing is asked of its probability"
    below = max((k for k in range(slack) if means[k] < 0), key=lambda k: means[k])
    above = min((k for k in range(slack) if means[k] > 0), key=lambda k: means[k])
    return [below, above, slack]


def _simplex(columns: list[Column], costs: list[Fraction], start: list[int], stay: Fraction) -> Fraction:
    """The least cost. Bland's rule: the first column that improves enters, the first that limits leaves."""
    right: Column = (Fraction(1), _NONE, stay)
    basis = list(start)
    while True:
        basic = [columns[k] for k in basis]
        own = (costs[basis[0]], costs[basis[1]], costs[basis[2]])
        weights = _solve(basic, right)
        prices = _solve([(c[0], c[1], c[2]) for c in zip(*basic, strict=True)], own)
        enters = next((k for k, c in enumerate(columns) if costs[k] < _product(prices, c) and k not in basis), None)
        if enters is None:
            return _product(weights, own)
        moves = _solve(basic, columns[enters])
        ratios = [(weights[r] / moves[r], basis[r], r) for r in range(3) if moves[r] > 0]
        assert ratios, "probabilities are bounded"
        basis[min(ratios)[2]] = enters


def _solve(columns: list[Column], right: Column) -> Column:
    """The solution of a 3 by 3 system given by its columns, by Cramer's rule."""
    determinant = _determinant(columns)
    one, two, three = columns
    return (
        _determinant([right, two, three]) / determinant,
        _determinant([one, right, three]) / determinant,
        _determinant([one, two, right]) / determinant,
    )


def _determinant(c: list[Column]) -> Fraction:
    return (
        c[0][0] * (c[1][1] * c[2][2] - c[2][1] * c[1][2])
        - c[1][0] * (c[0][1] * c[2][2] - c[2][1] * c[0][2])
        + c[2][0] * (c[0][1] * c[1][2] - c[1][1] * c[0][2])
    )


def _product(first: Column, right: Column) -> Fraction:
    return sum((a * b for a, b in zip(first, right, strict=True)), _NONE)


_ATTAINED = 1e-9


@dataclass(frozen=True)
class DesignedRow:
    """One row: its law to floating-point precision, the variance it has and those it could have.

    ``units`` is the noise in units of ``1 / step``. ``largest_variance`` is what the row has however large V is; where
    the variance is an equality, the largest that any law could have. ``range`` are the smallest and the largest
    variance of laws that keep the other conditions, exactly. ``attained`` says whether the variance is V, but for zero.
    """

    i: int
    step: int
    problem: max_entropy.RowProblem | None
    solved: max_entropy.MaxEntropyRow | None
    variance: float
    attained: bool | None
    largest_variance: float
    range: VarianceRange

    @property
    def units(self) -> tuple[int, ...]:
        return (0,) if self.problem is None else self.problem.noise

    @property
    def noise(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(value, self.step) for value in self.units)

    @property
    def p(self) -> tuple[float, ...]:
        return (1.0,) if self.solved is None else self.solved.probabilities

    @property
    def certificate(self) -> max_entropy.RowCertificate:
        return max_entropy.RowCertificate(0.0, 0.0, 0.0) if self.solved is None else self.solved.certificate

    @property
    def on_the_boundary(self) -> bool:
        """Whether V is the smallest feasible one, so that the row has two values and nothing is left to choose."""
        return self.solved is not None and self.solved.multipliers is None

    def as_dict(self) -> dict[str, object]:
        multipliers = None if self.solved is None else self.solved.multipliers
        return {
            "i": self.i,
            "noise": [_number(value) for value in self.noise],
            "p": list(self.p),
            "mean": math.fsum(p * v for p, v in zip(self.p, self.units, strict=True)) / self.step,
            "variance": self.variance,
            "attained": self.attained,
            "largest_variance": self.largest_variance,
            "variance_range": [float(self.range.smallest), float(self.range.largest)],
            "entropy_bits": 0.0 if self.solved is None else self.solved.entropy,
            "active": self.active,
            "b": None if multipliers is None else multipliers.b * self.step**2,
            "certificate": self.certificate.as_dict(),
        }

    @property
    def active(self) -> list[str]:
        """The conditions that decide the law: those with a multiplier other than zero."""
        multipliers = None if self.solved is None else self.solved.multipliers
        if multipliers is None:
            return ["variance"] if self.on_the_boundary else []
        ties = any(m > _ATTAINED for m in multipliers.mono)
        named = {"variance": multipliers.b != 0, "stay": multipliers.nu > 0, "monotone": ties}
        return [name for name, active in named.items() if active]


@dataclass(frozen=True)
class Design:
    """A generated table: its settings and its rows."""

    settings: PTableSettings
    rows: tuple[DesignedRow, ...]

    @property
    def symmetric(self) -> DesignedRow:
        """The last row, which serves all larger counts."""
        return self.rows[-1]

    @property
    def certified(self) -> bool:
        return all(row.certificate.holds for row in self.rows)

    def table(self, modulus: int = DECIMAL) -> PTable:
        """The table for lookups over ``modulus`` keys: bounds cumulated and rounded, so the sum is exactly one."""
        rows = tuple(LookupRow(row.i, row.units, cumulated(row.p, modulus)) for row in self.rows)
        return PTable(rows, modulus, self.settings.step, self.settings.kind)

    def findings(self) -> Iterator[Finding]:
        """Warnings: rows whose variance is not V, and rows with two values only."""
        limit = float(self.settings.variance)
        for row in self.rows:
            if row.attained is False:
                yield Finding.of(
                    "variance-not-attained",
                    where=Place(path=f"row {row.i}"),
                    severity="warning",
                    i=row.i,
                    variance=row.variance,
                    limit=limit,
                    largest_variance=row.largest_variance,
                    row=_remedy(row),
                )
            elif row.on_the_boundary:
                yield Finding.of(
                    "variance-on-the-boundary",
                    where=Place(path=f"row {row.i}"),
                    severity="warning",
                    i=row.i,
                    limit=limit,
                )

    def as_dict(self) -> dict[str, object]:
        smallest = max(row.range.smallest for row in self.rows)
        return {
            **self.settings.as_dict(),
            "smallest_feasible_V": float(smallest),
            "symmetric_from": self.symmetric.i,
            "certified": self.certified,
            "rows": [row.as_dict() for row in self.rows],
        }


@lru_cache(maxsize=64)  # an office has a few tables and many releases
def generate(settings: PTableSettings) -> Design:
    """The table of maximum entropy with these settings; infeasible ones are refused.

    Args:
        settings: From :func:`~confide.noise.ptables.count_settings` or ``magnitude_settings``.

    Returns:
        The rows with their certificates; ``table()`` makes it one for lookups.

    >>> from confide.noise.ptables import count_settings
    >>> design = generate(count_settings(5, 2))
    >>> design.certified, design.symmetric.i, round(design.rows[1].variance, 6)
    (True, 5, 1.302474)
    """
    ranges = feasible(settings)
    rows = [DesignedRow(0, settings.step, None, None, 0.0, None, 0.0, VarianceRange(Fraction(0), Fraction(0)))]
    square = settings.step**2
    for place, (i, feasible_range) in enumerate(zip(settings.counts[1:], ranges, strict=True), start=1):
        problem = settings.problem(place)
        solved = max_entropy.solve_row(problem, feasible_range.smallest * square)
        assert solved.certificate.holds, "a row that is not certified is not a table"
        variance = math.fsum(p * v * v for p, v in zip(solved.probabilities, problem.noise, strict=True)) / square
        limit = float(settings.variance)
        largest = float(feasible_range.largest) if settings.equality else max_entropy.free_variance(problem) / square
        attained = variance >= limit * (1 - _ATTAINED)
        rows.append(DesignedRow(i, settings.step, problem, solved, variance, attained, largest, feasible_range))
    return Design(settings, tuple(rows))


def feasible(settings: PTableSettings) -> tuple[VarianceRange, ...]:
    """The exact variance ranges of the rows above zero; refuses settings that some row cannot keep."""
    square = settings.step**2
    ranges = []
    for place in range(1, len(settings.counts)):
        feasible_range = variance_range(settings.problem(place))
        assert feasible_range is not None, "js is below D, so every row has values on both sides"
        ranges.append(VarianceRange(feasible_range.smallest / square, feasible_range.largest / square))
    needs = max(range(len(ranges)), key=lambda k: ranges[k].smallest)
    allows = min(range(len(ranges)), key=lambda k: ranges[k].largest)
    low, high, limit = ranges[needs].smallest, ranges[allows].largest, settings.variance
    first, last = settings.counts[needs + 1], settings.counts[allows + 1]
    if settings.equality and low >= high:
        raise ParameterError(
            "ptable-infeasible/feasible",
            where=Place(path="-V"),
            first=first,
            last=last,
            bound=settings.bound,
            variance=_text(settings.variance),
            js=settings.js,
            low=_text(low),
            high=_text(high),
        )
    if limit < low:
        raise ParameterError(
            "ptable-infeasible/mean",
            where=Place(path="-V"),
            first=first,
            bound=settings.bound,
            variance=_text(settings.variance),
            js=settings.js,
            low=_text(low),
        )
    if settings.equality and limit >= high:
        raise ParameterError(
            "ptable-infeasible/conditions",
            where=Place(path="-V"),
            last=last,
            bound=settings.bound,
            variance=_text(settings.variance),
            js=settings.js,
            high=_text(high) if low else None,
            low=_text(low) if low else None,
            high_expected=None if low else _text(high),
            low_expected=low,
        )
    return tuple(ranges)


def _remedy(row: DesignedRow) -> str:
    ways = ["lower V"]
    if row.problem is not None and row.problem.tied:
        ways.append("do not require this row to be monotone")
    if row.problem is not None and row.problem.stay:
        ways.append("ask for a smaller pstay")
    return "usually harmless: this count has less noise than asked for; to change this, " + ", ".join(
        [*ways, "or ask for V as an equality"]
    )


def _text(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{value} (about {float(value):.6g})"


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
