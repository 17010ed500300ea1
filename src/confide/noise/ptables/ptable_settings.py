"""What a perturbation table is asked to be: D, V, js and the further conditions, and the problem of each row.

Row ``i`` has the noise values that lead to a permitted target ``j = i + v``: ``max(0, i - D) <= j <= i + D`` and ``j``
not in ``1 .. js``. Rows of a table for counts are ``0 .. n`` with ``n = D`` if ``js = 0`` and ``n = D + js + 1``
otherwise, which is the first row whose targets are all permitted; it serves all larger counts. Rows of a table for
magnitudes are zero and those listed, and the targets lie on a grid of width ``1 / step``.

``V`` and the probability to stay are exact numbers. The conventions are those of the R package ``ptable``; the
idea: Giessing, "Computational issues in the design of transition probabilities and disclosure risk estimation for
additive noise", Privacy in Statistical Databases 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

from confide.answers import renamed
from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, exact
from confide.noise.max_entropy import LARGEST_BOUND, RowProblem, row_findings
from confide.noise.ptables.ptable import TYPES

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

    def problem(self, place: int) -> RowProblem:
        """The problem of a row above zero."""
        i, reach = self.counts[place] * self.step, self.bound * self.step
        targets = [j for j in range(max(0, i - reach), i + reach + 1) if not 1 <= j <= self.js]
        return RowProblem(
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


@renamed(bound="D", variance="V", p_stay="pstay", monotone="mono")
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


@renamed(bound="D", variance="V", monotone="mono")
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
    yield from row_findings(bound, settings.variance)
    if not 1 <= bound <= LARGEST_BOUND:
        return
    if not 0 <= js < bound:
        remedy = f"take a D of at least {js + 1}, or a smaller js" if js > 0 else "give a js of zero or more"
        expected = "a whole number of at least zero and below D; otherwise a count of js + 1 could never get noise"
        yield _finding("--js", "js is out of range", f"js = {js} with D = {bound}", expected, remedy)
        return
    if settings.icat is not None:
        yield from _magnitude_findings(settings, settings.icat)
    elif settings.step != 1 or settings.kind != "all":
        yield _finding("--step", "a table for counts has whole noise", settings.step, "step 1 and type all")
    rows = len(settings.counts) - 1
    for option, values in (("--pstay", settings.p_stay or (Fraction(1, 2),)), ("--mono", settings.monotone)):
        if len(values) not in (1, rows):
            expected = f"one, or one for each of the {rows} rows above zero"
            yield _finding(option, "the number of values does not fit the rows", len(values), expected)
    for value in settings.p_stay or ():
        if not 0 < value < 1:
            yield _finding(
                "--pstay", "a probability to stay is out of range", value, "more than zero and less than one"
            )


def _magnitude_findings(settings: PTableSettings, icat: tuple[int, ...]) -> Iterator[Finding]:
    bound = settings.bound
    ascending = all(a < b for a, b in pairwise(icat))
    if not icat or icat[0] != 1 or icat[-1] != bound or not ascending:
        expected = f"ascending whole numbers, the first 1 and the last D = {bound}"
        yield _finding("--icat", "the rows of a table for magnitudes are wrong", ", ".join(map(str, icat)), expected)
    if settings.step < 1 or bound * settings.step >= MOST_STEPS:
        expected = f"a whole number of at least 1 with D times step below {MOST_STEPS}"
        yield _finding("--step", "the step is out of range", settings.step, expected)
    if settings.kind not in TYPES:
        yield _finding("--type", "there is no such type of table", settings.kind[:20], "all, even or odd")
    if settings.js or settings.p_stay is not None:
        found = "js" if settings.js else "pstay"
        yield _finding("--icat", f"{found} has no role in a table for magnitudes", found, "neither js nor pstay")


def _finding(option: str, what: str, found: object, expected: str, remedy: str | None = None) -> Finding:
    return Finding("bad-ptable-setting", what, Place(path=option), str(found), expected, remedy or f"correct {option}")
