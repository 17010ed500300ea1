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

from confide.errors import Finding, ParameterError, Place
from confide.exact import Exact, exact
from confide.noise.ptables.ptable import TYPES

LARGEST_D = 100
MOST_STEPS = 50
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Maximise the entropy of a law on ``noise`` (ascending, in units of ``1 / step``) with mean zero and more.

    The variance, in squared units, is at most ``variance``, or equal to it. Where zero is among the values, its
    probability is at least ``p_stay``, and with ``monotone`` the probabilities do not decrease up to zero. Where it
    is not, neither condition applies.
    """

    noise: tuple[int, ...]
    variance: Fraction
    equality: bool = False
    p_stay: Fraction | None = None
    monotone: bool = True

    @property
    def zero(self) -> int | None:
        """The place of zero among the noise values."""
        return self.noise.index(0) if 0 in self.noise else None

    @property
    def tied(self) -> int:
        """How many values, from the left, the monotonicity speaks about: none, or those up to zero."""
        return self.zero + 1 if self.monotone and self.zero is not None else 0

    @property
    def stay(self) -> Fraction:
        """The least probability of zero that is asked for, zero if none."""
        return Fraction(0) if self.p_stay is None or self.zero is None else self.p_stay

    @property
    def symmetric(self) -> bool:
        return all(value == -other for value, other in zip(self.noise, reversed(self.noise), strict=True))


@dataclass(frozen=True)
class Settings:
    """Everything that determines a table. ``icat`` makes it one for magnitudes, without ``js`` and ``p_stay``.

    ``p_stay`` and ``monotone`` are one value for all rows, or one for each row above zero.
    """

    max_noise: int
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
        return tuple(range((self.max_noise + self.js + 1 if self.js else self.max_noise) + 1))

    def problem(self, place: int) -> RowProblem:
        """The problem of a row above zero."""
        i, reach = self.counts[place] * self.step, self.max_noise * self.step
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
        shown: dict[str, object] = {
            "D": self.max_noise,
            "V": float(self.variance),
            "V_exact": str(self.variance),
            "js": self.js,
            "pstay": stay if stay is None or len(stay) > 1 else stay[0],
            "mono": self.monotone[0] if len(self.monotone) == 1 else list(self.monotone),
            "variance_is": "equality" if self.equality else "bound",
            "table": "counts" if self.icat is None else "magnitudes",
        }
        if self.icat is not None:
            shown |= {"step": self.step, "icat": list(self.icat), "type": self.kind}
        return shown


def count_settings(
    max_noise: int,
    variance: Exact,
    js: int = 0,
    *,
    p_stay: Exact | Sequence[Exact] | None = None,
    monotone: bool | Sequence[bool] = True,
    equality: bool = False,
) -> Settings:
    """The settings of a table for counts; ``V`` and the probability to stay as exact numbers or text."""
    stays = None if p_stay is None else _listed(p_stay)
    return Settings(
        max_noise,
        exact(variance, "V"),
        js,
        None if stays is None else tuple(exact(p, "pstay") for p in stays),
        (monotone,) if isinstance(monotone, bool) else tuple(monotone),
        equality,
    )


def magnitude_settings(
    max_noise: int,
    variance: Exact,
    *,
    step: int,
    icat: Sequence[int],
    kind: str = "all",
    monotone: bool | Sequence[bool] = True,
    equality: bool = False,
) -> Settings:
    """The settings of a table for magnitudes: rows ``icat``, from 1 to D, and noise in steps of ``1 / step``."""
    return Settings(
        max_noise,
        exact(variance, "V"),
        monotone=(monotone,) if isinstance(monotone, bool) else tuple(monotone),
        equality=equality,
        icat=tuple(icat),
        step=step,
        kind=kind,
    )


def _listed(value: Exact | Sequence[Exact]) -> Sequence[Exact]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def _of_row(values: tuple[_T, ...], place: int) -> _T:
    return values[0] if len(values) == 1 else values[place - 1]


def _findings(settings: Settings) -> Iterator[Finding]:
    bound, js = settings.max_noise, settings.js
    if not 1 <= bound <= LARGEST_D:
        yield _finding("-D", "the largest noise D is out of range", bound, f"a whole number from 1 to {LARGEST_D}")
        return
    if settings.variance <= 0:
        yield _finding("-V", "the variance V must be greater than zero", settings.variance, "a positive number")
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


def _magnitude_findings(settings: Settings, icat: tuple[int, ...]) -> Iterator[Finding]:
    bound = settings.max_noise
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
