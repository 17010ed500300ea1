"""The board of swapping: how many households move and how far, which figures stay exact, and what is said of others.

A row is a table on a level. Where nobody leaves the units of a level its figures are the true ones; elsewhere the share
of households that live where they did is one less the swap rate on average, and either can be typed. Only a permutation
states a loss: for two households of one stratum that exchange their places, subject to all that stays as it is. For the
other variants the board says what is not promised. No household is looked at: how many there are, and who is at risk,
only the records know.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

from confide.errors import ParameterError, Place
from confide.exact import exact, exact_text, fraction_up, grouped
from confide.mechanisms.swapping.core import check_levels, exact_levels
from confide.mechanisms.swapping.problem import SwappingProblem, in_words, kept_in_words
from confide.mechanisms.swapping.spec import SwapSettings, settings_problems
from confide.privacy.conversion import exchange_epsilon, exchange_odds
from confide.releases import LoadedSpec, boards

RATE, STAY, K, WITHIN, STRATUM, EPSILON = "rate", "stay", "k_anonymity", "within", "largest_stratum", "epsilon"
TARGETED, PERMUTATION = "targeted", "permutation"
LARGEST_K, LARGEST_STRATUM = 1000, 10**12


@dataclass(frozen=True, eq=False, kw_only=True)
class SwappingBoard(boards.Board):
    """The settings of a swap, and what they leave as it is."""

    problem: SwappingProblem
    swap: SwapSettings

    row_head: ClassVar[str] = "Table and level"
    columns = (
        boards.BoardColumn("areas", "Areas"),
        boards.BoardColumn("figures", "Figures", numeric=False),
        boards.BoardColumn(STAY, "Households that stay, %", compared=True),
    )
    caption = (
        "On average over all areas so many households live where the records have them. Which ones moved is chosen by "
        "risk or by chance; figures of small areas and rare groups change most."
    )

    @classmethod
    def of(cls, problem: SwappingProblem) -> SwappingBoard:
        """As the spec has it."""
        return cls(problem=problem, swap=problem.settings)

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(exact_levels(self.problem.spine, self.swap))

    @cached_property
    def rows(self) -> tuple[boards.BoardRow, ...]:
        rows, kept = [], set(self.swap.kept)
        for table in self.problem.tables:
            for level in table.levels:
                title, name = table.title or table.name, f"{table.name}:{level}"
                entries: dict[str, boards.BoardEntry | str] = {"areas": grouped(self.problem.spine.level(level).units)}
                if level in self._exact:
                    entries |= {"figures": "exact: nobody leaves an area", STAY: "100"}
                else:
                    # Partners are alike in each of these by itself, and not in how they are crossed.
                    names = {variable.name for variable in table.query.variables}
                    same = len(names) == 1 and names <= kept
                    entries["figures"] = "exact: partners are alike in it" if same else "may change"
                    what = f"Households that stay, in per cent: {title}, {level}"
                    entries[STAY] = boards.BoardEntry(f"{STAY}:{name}", what, _percent(1 - self.swap.rate))
                rows.append(boards.BoardRow(name, title, level, entries, lockable=False))
        return tuple(rows)

    @property
    def dials(self) -> tuple[boards.BoardEntry, ...]:
        swap, variant = self.swap, self.swap.variant
        what = "Probability that a household is selected" if variant == PERMUTATION else "Share of households to move"
        dials = [
            boards.BoardEntry("variant", "Variant", variant, "text", fixed=True),
            boards.BoardEntry(RATE, what, exact_text(swap.rate), slider=("0", "1", "0.01")),
        ]
        if variant == TARGETED:
            note = "who shares the risk variables with fewer people must be swapped; 0: nobody"
            dials.append(
                boards.BoardEntry(K, "Who is at risk: fewer alike than", str(swap.k_anonymity), "whole", note=note)
            )
        if variant in (TARGETED, PERMUTATION):
            names = [level.name for level in self.problem.spine.levels[:-1]]
            options = (("", "anywhere"), *((name, f"within its {name}") for name in names))
            dials.append(boards.BoardEntry(WITHIN, "A household may move", swap.within or "", "text", options))
        if variant == PERMUTATION:
            dials.append(boards.BoardEntry(STRATUM, "Most households of a stratum", str(swap.largest_stratum), "whole"))
            dials.append(boards.BoardEntry(EPSILON, "Epsilon of one exchange of places", self._epsilon))
        return tuple(dials)

    @property
    def _epsilon(self) -> str:
        return fraction_up(exchange_epsilon(self.swap.largest_stratum, self.swap.rate), 4)

    @property
    def secret(self) -> bool:
        return self._facts["settings"] is None

    @property
    def _facts(self) -> dict[str, Any]:
        return dict(replace(self.problem, settings=self.swap).facts()["swapping"])

    @cached_property
    def claim(self) -> boards.StatedClaim:
        facts = self._facts
        stays = f"{_percent(1 - self.swap.rate)} %"
        figures = [boards.ClaimFigure("A household is where the file has it", stays, "on average")]
        if self.swap.variant == PERMUTATION:
            odds = exchange_odds(self.swap.largest_stratum, self.swap.rate)
            note = "for two households of one stratum that exchange places; what stays exact is not hidden by it"
            figures.append(boards.ClaimFigure("Epsilon of one exchange", self._epsilon, note))
            figures.append(
                boards.ClaimFigure("Odds change by a factor of at most", f"{float(odds):,.4g}", "for the same")
            )
        else:
            note = "households that did not move are published as they are"
            figures.append(boards.ClaimFigure("Bound on what can be learnt", "none", note))
        kept = "; ".join(_uncapped(each) for each in kept_in_words(facts))
        words = [*in_words(facts), f"What stays as it is: {kept}."]
        if self.secret:
            words.append("This page shows settings that the release keeps secret: keep it, and what is printed of it.")
        return boards.StatedClaim(tuple(words), tuple(figures), "swapping", f"{_percent(self.swap.rate)} %")

    def choices(self) -> dict[str, str]:
        swap = self.swap
        chosen = {RATE: exact_text(swap.rate)}
        if swap.variant == TARGETED:
            chosen[K] = str(swap.k_anonymity)
        if swap.variant in (TARGETED, PERMUTATION):
            chosen[WITHIN] = swap.within or ""
        if swap.variant == PERMUTATION:
            chosen[STRATUM] = str(swap.largest_stratum)
        return chosen

    def chosen(self, choices: boards.Choices) -> Self:
        swap = self.swap
        for name, text in choices.items():
            if name not in self.choices():
                raise self.no_entry(name)
            if name == RATE:
                swap = replace(swap, rate=_share(text, name))
            elif name == K:
                swap = replace(swap, k_anonymity=boards.typed_whole(text, name, 0, LARGEST_K))
            elif name == STRATUM:
                swap = replace(swap, largest_stratum=boards.typed_whole(text, name, 2, LARGEST_STRATUM))
            else:
                names = [level.name for level in self.problem.spine.levels[:-1]]
                swap = replace(swap, within=boards.typed_option(text.strip(), name, ("", *names)) or None)
        findings = [*settings_problems(swap), *check_levels(self.problem.spine, swap)]
        if findings:
            raise ParameterError(findings)
        return replace(self, swap=swap)

    def moved(self, name: str, text: str, moving: boards.Moving) -> Self:  # noqa: ARG002 - nothing is shared
        if name.partition(":")[0] == STAY:
            return self.chosen({RATE: exact_text(1 - _share(text, name, 100) / 100)})
        if name == EPSILON and self.swap.variant == PERMUTATION:
            wanted = boards.typed_number(text, name, 0, 10**6)
            return self.chosen({RATE: exact_text(_rate_for(self.swap.largest_stratum, wanted, text))})
        return self.chosen({name: text})

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        changed, before = copy.deepcopy(dict(loaded.values)), SwappingBoard.of(self.problem).choices()
        part = changed["swapping"]
        for name, text in self.choices().items():
            if text == before[name]:
                continue
            if not text:
                part.pop(name, None)
            else:
                part[name] = int(text) if name in (K, STRATUM) else text
        return boards.TunedValues(changed)


def _share(text: str, name: str, most: int = 1) -> Fraction:
    share = exact(text.strip().rstrip("%").strip(), name)
    if not 0 <= share <= most:
        raise ParameterError("entry-range/number", where=Place(path=name), found=text[:40], most=most)
    return share


def _percent(share: Fraction) -> str:
    return exact_text(100 * share) if 10**4 % (100 * share).denominator == 0 else f"{float(100 * share):.6g}"


def _uncapped(sentence: str) -> str:
    words = sentence.strip().rstrip(".")
    return words[:1].lower() + words[1:]


@lru_cache(maxsize=256)
def _rate_for(stratum: int, epsilon: Fraction, text: str) -> Fraction:
    """The least probability of being selected, in thousandths, with which an exchange costs no more than epsilon."""
    low, high = 0, 500
    if exchange_epsilon(stratum, Fraction(high, 1000)) > epsilon:
        least = fraction_up(exchange_epsilon(stratum, Fraction(high, 1000)), 4)
        raise ParameterError("entry-range/strata", where=Place(path=EPSILON), found=text[:40], least=least)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if exchange_epsilon(stratum, Fraction(middle, 1000)) <= epsilon else (middle, high)
    return Fraction(high, 1000)
