"""An attack from beginning to end: three files in, rates out.

>>> rates = reidentification_rates(reconstructed, attacker, truth)              # doctest: +SKIP
>>> rates.universe("unique&nonmodal&solvar0").precision                         # doctest: +SKIP

J. M. Abowd and M. B. Hawes, *Confidentiality protection in the 2020 US Census of Population and Housing*, Annual Review
of Statistics and Its Application 10 (2023), sections 3 and 6; J. M. Abowd et al., *The 2010 Census confidentiality
protections failed, here's how and why* (2023), whose baselines these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.answers import TypedAnswer
from confide.arrays import Integers
from confide.confidential import Confidential
from confide.errors import ParameterError, Place
from confide.lab.attacks.reidentification import baselines, linking, people_files
from confide.lab.attacks.reidentification.attacker_file import AttackerSettings
from confide.lab.attacks.reidentification.matching import Coding, code

Row = TypeVar("Row", linking.Agreement, linking.LinkageRates)
NO_AGE = "none"
"""What stands for the groups of ages where the attacker knows no age in years."""


class DivideBy(StrEnum):
    """What putative and confirmed matches are divided by. With a perfect attacker both are the same."""

    ATTACKER = "attacker"
    DATA_DEFINED = "data-defined"


class GuessFrom(StrEnum):
    """Whose people the guessers know the groups of."""

    TRUTH = "truth"
    RECONSTRUCTED = "reconstructed"


@dataclass(frozen=True, slots=True)
class Rates:
    """All rates of an attack. They use the truth, and are for the curator."""

    reconstructed_records: int
    attacker_records: int
    attacker_left_out: int
    """Records of the attacker's file without a value, or a second time for the same person and block."""
    truth_records: int
    data_defined_persons: int
    ages_in_no_group: int
    """Reconstructed records whose age is not known to a group; they match nothing."""
    age_bins: str
    population_unique_share: float
    population_unique_share_with_group: float
    reconstructed_unique_share: float
    modes_from: dict[str, int]
    divide_by: DivideBy
    guess_from: GuessFrom
    seed: int
    agreement: tuple[linking.Agreement, ...]
    reidentification: tuple[linking.LinkageRates, ...]
    ranking: tuple[baselines.RankedMatches, ...] = ()
    """The match rates of the k surest records, where records have a confidence."""

    def universe(self, name: str) -> linking.LinkageRates:
        """The numbers of one universe, such as ``unique&nonmodal``."""
        return self._named(name, self.reidentification)

    def agreement_in(self, name: str) -> linking.Agreement:
        """The agreement in one universe."""
        return self._named(name, self.agreement)

    def has(self, name: str) -> bool:
        return any(row.universe == name for row in self.reidentification)

    def _named(self, name: str, rows: Sequence[Row]) -> Row:
        for row in rows:
            if row.universe == name:
                return row
        raise ParameterError(
            "no-universe", where=Place(path="universe"), found=name[:60], rows=", ".join(row.universe for row in rows)
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for ``--json``."""
        listed = ("agreement", "reidentification", "ranking")
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in listed}
        return plain | {
            "divide_by": self.divide_by.value,
            "guess_from": self.guess_from.value,
            "agreement": {row.universe: row.as_dict() for row in self.agreement},
            "reidentification": {row.universe: row.as_dict() for row in self.reidentification},
            "ranking": [row.as_dict() for row in self.ranking],
        }


@dataclass(frozen=True, slots=True)
class Reidentification(TypedAnswer):
    """An attack: its rates, and the matches themselves, which nobody but the curator may see."""

    rates: Rates
    _links: linking.Linkage = field(repr=False)
    _reconstructed: pa.Table = field(repr=False)
    _attacker: pa.Table = field(repr=False)
    _attacker_rows: Integers = field(repr=False)
    attacker_settings: AttackerSettings | None = None
    """How the attacker's file was made from the truth; None: it is a file of its own."""
    matches_file: Path | None = None
    """Where the matches were written, if they were."""
    plots: tuple[Path, ...] = ()
    """The pictures that were drawn of it."""
    linked: people_files.LinkedAttributes = people_files.UNITED_STATES
    """What the attacker knows, and what is learnt."""

    def as_dict(self) -> dict[str, Any]:
        """What ``confide attack reidentify --json`` prints: all rates, and which files were written."""
        settings = self.attacker_settings
        plain = {"ok": True} | self.rates.as_dict() | {"attacker": "file" if settings is None else settings.as_dict()}
        plain |= {"plots": [str(path) for path in self.plots]} if self.plots else {}
        return plain | ({"matches": str(self.matches_file)} if self.matches_file is not None else {})

    def matches(self) -> Confidential[pa.Table]:
        """Every putative match: rows of both files (from 1), the person, how the age matched, what the attacker now
        believes, and whether it is so."""
        links = self._links
        left, right = links.matches.left, self._attacker_rows[links.matches.right]
        ages = [people_files.AGE] if self.linked.with_age else []
        theirs = self._attacker.select(["person_id", "geocode", *self.linked.known, *ages]).take(right)
        ours = self._reconstructed.select([*self.linked.learnt]).take(left)
        table = pa.table(
            {
                "reconstructed_row": left + 1,
                "attacker_row": right + 1,
                **{name: theirs.column(name) for name in theirs.column_names},
                "age_matched": np.where(links.matches.passed == linking.EXACT, "year", "group").tolist(),
                **{name: ours.column(name) for name in ours.column_names},
                "confirmed": links.confirmed,
            }
        )
        return Confidential(table.take(pc.sort_indices(table, sort_keys=[("attacker_row", "ascending")])))


def reidentify(
    reconstructed: pa.Table,
    attacker: pa.Table,
    truth: pa.Table,
    *,
    age_bins: str | Sequence[int] = "sf1-block",
    block_group_digits: int = 12,
    seed: int = 0,
    divide_by: DivideBy | str = DivideBy.ATTACKER,
    guess_from: GuessFrom | str = GuessFrom.TRUTH,
    linked: people_files.LinkedAttributes = people_files.UNITED_STATES,
) -> Reidentification:
    """Match reconstructed records with an attacker's file, and say what came of it.

    Args:
        reconstructed: Reconstructed records; columns: :mod:`confide.lab.attacks.reidentification.people_files`.
        attacker: What the attacker knows: person_id, geocode, sex, age.
        truth: The confidential records: person_id, geocode, sex, age, cenrace, hispanic.
        age_bins: ``sf1-block``, ``sf1-p12``, or the first years of the age groups.
        block_group_digits: How many digits of a geocode name its block group.
        seed: Of records that are alike in all that is matched, a uniform number drawn from it for each record says
            which comes first, in each file by itself.
        divide_by: Rates over the attacker's records, or over persons of the truth.
        guess_from: Whose blocks the guessers know.
        linked: What the attacker knows of people, and what is learnt about them; by default as in the United States.

    Returns:
        The rates, with those of the guessers beside, and the matches for the curator. They use the truth.

    >>> people = {"geocode": ["1", "1"], "sex": [1, 2], "age": [30, 40], "cenrace": [0, 1], "hispanic": [0, 0]}
    >>> truth = pa.table({"person_id": [1, 2]} | people)
    >>> reidentify(pa.table(people), truth, truth).rates.universe("all").confirmed
    2
    """
    bins = people_files.load_age_bins(age_bins)
    coding = code(reconstructed, attacker, truth, bins, block_group_digits, linked)
    if not len(coding.truth):
        raise ParameterError("no-truth/records", where=Place(file="truth"))
    streams = np.random.SeedSequence(seed).spawn(3)
    orders = [
        np.argsort(np.random.default_rng(stream).random(len(people)), kind="stable")
        for stream, people in zip(streams, (coding.reconstructed, coding.attacker, coding.truth), strict=True)
    ]
    attacker_rows = linking.data_defined(coding.attacker, orders[1])
    attacker_people = coding.attacker.take(attacker_rows)
    place = np.empty(len(coding.attacker), dtype=np.int64)
    place[orders[1]] = np.arange(len(coding.attacker))
    defined = linking.data_defined(coding.truth, orders[2])
    same = linking.same_person(attacker_people, coding.truth, defined, coding.blocks)
    true = baselines.composition(coding, coding.truth)
    guesses = true if GuessFrom(guess_from) is GuessFrom.TRUTH else baselines.composition(coding, coding.reconstructed)
    links = linking.link_records(coding, attacker_people, same, guesses, orders[0], np.argsort(place[attacker_rows]))
    rows = linking.linkage_rates(
        links,
        coding,
        attacker_people,
        same,
        linking.traits(coding, attacker_people, same, true),
        linking.traits(coding, coding.truth.take(defined), defined, true),
        DivideBy(divide_by) is DivideBy.DATA_DEFINED,
    )
    everyone = linking.traits(coding, coding.truth, np.arange(len(coding.truth)), true)
    inhabited = true.people > 0
    rates = Rates(
        reconstructed_records=len(coding.reconstructed),
        attacker_records=len(attacker_people),
        attacker_left_out=len(coding.attacker) - len(attacker_people),
        truth_records=len(coding.truth),
        data_defined_persons=len(defined),
        ages_in_no_group=int((coding.reconstructed.bin < 0).sum()),
        age_bins=_described(bins) if linked.with_age else NO_AGE,
        population_unique_share=float(everyone.unique.mean()),
        population_unique_share_with_group=float(
            linking.population_unique(coding, coding.truth, with_group=True).mean()
        ),
        reconstructed_unique_share=_unique_share(coding),
        modes_from={
            source.name.lower().replace("_", "-"): int((true.source[inhabited] == source).sum())
            for source in baselines.ModeFrom
        },
        divide_by=DivideBy(divide_by),
        guess_from=GuessFrom(guess_from),
        seed=seed,
        agreement=linking.agreements(linking.agree(coding, orders[0], orders[2]), everyone),
        reidentification=rows,
        ranking=baselines.ranked_matches(coding, baselines.confidence_of(reconstructed), seed),
    )
    return Reidentification(rates, links, reconstructed, attacker, attacker_rows, linked=linked)


def reidentification_rates(reconstructed: pa.Table, attacker: pa.Table, truth: pa.Table, **settings: Any) -> Rates:
    """The rates of :func:`reidentify`, with the same settings: for who does not need the matches."""
    return reidentify(reconstructed, attacker, truth, **settings).rates


def _unique_share(coding: Coding) -> float:
    people = coding.reconstructed
    return float(linking.population_unique(coding, people).mean()) if len(people) else 0.0


def _described(bins: people_files.AgeBins) -> str:
    return bins.name if bins.name != "own" else ",".join(map(str, bins.starts))
