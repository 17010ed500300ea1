"""An attack from beginning to end: three files in, rates out.

>>> rates = reidentification_rates(reconstructed, attacker, truth)              # doctest: +SKIP
>>> rates.universe("unique&nonmodal&solvar0").precision                         # doctest: +SKIP

J. M. Abowd and M. B. Hawes, *Confidentiality protection in the 2020 US Census of Population and Housing*, Annual Review
of Statistics and Its Application 10 (2023), sections 3 and 6; J. M. Abowd et al., *The 2010 Census confidentiality
protections failed, here's how and why* (2023), whose baselines these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Integers
from confide.confidential import Confidential
from confide.errors import ParameterError, Place
from confide.lab.attacks.reidentification import baselines, linking, people_files
from confide.lab.attacks.reidentification.matching import Coding, code
from confide.lab.attacks.reidentification.people_files import AttackerSettings
from confide.report.charts import FEW, Chart, Pictures, chart

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

    def described(self) -> Iterator[AnswerPart]:
        """Four tables, and what they mean."""
        yield from _rates_described(self.rates, self.attacker_settings, self.linked)
        if self.matches_file is not None:
            number = self.rates.universe("all").putative
            yield Said(f"Written: {self.matches_file}", f", all {number:,} putative matches with person ids.")
            yield "It is confidential; only its owner can read it."

    def pictures(self) -> Pictures:
        """Agreement by block size, precision beside the guessers', and how many are matched, by name."""
        return {
            "agreement-by-block-size": lambda: _agreement_chart(self.rates),
            "precision": lambda: _precision_chart(self.rates),
            "rates": lambda: _rates_chart(self.rates),
        }


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
    """The rates of :func:`reidentify`, with the same settings: for who does not need the matches.

    Args:
        reconstructed: The reconstructed records.
        attacker: What the attacker knows.
        truth: The confidential records.
        settings: Those of :func:`reidentify`.

    Returns:
        The rates.

    >>> people = {"geocode": ["1", "1"], "sex": [1, 2], "age": [30, 40], "cenrace": [0, 1], "hispanic": [0, 0]}
    >>> known = pa.table({"person_id": [1, 2]} | people)
    >>> reidentification_rates(pa.table(people), known, known).universe("all").confirmed
    2
    """
    return reidentify(reconstructed, attacker, truth, **settings).rates


def _unique_share(coding: Coding) -> float:
    people = coding.reconstructed
    return float(linking.population_unique(coding, people).mean()) if len(people) else 0.0


def _described(bins: people_files.AgeBins) -> str:
    return bins.name if bins.name != "own" else ",".join(map(str, bins.starts))


# The answer in sentences, tables and pictures.


PEOPLE = {
    "all": "all",
    "unique": "population uniques",
    "unique&modal": "unique, modal group",
    "unique&nonmodal": "unique, other groups",
    "unique&nonmodal&solvar0": "unique, other groups, one reconstruction",
}
"""Of whom the pictures speak."""

_COLUMNS = ["", "records ", "putative ", "confirmed ", "precision ", "modal guesser ", "proportional guesser "]


def _rates_described(
    rates: Rates, settings: AttackerSettings | None, linked: people_files.LinkedAttributes
) -> Iterator[AnswerPart]:
    """Four tables, and what they mean."""
    yield (
        f"{rates.reconstructed_records:,} reconstructed records, {rates.attacker_records:,} people known to "
        f"the attacker ({_quality(settings)}), {rates.truth_records:,} records of the truth."
    )
    if rates.attacker_left_out:
        yield (
            f"Left out: {rates.attacker_left_out:,} of the attacker's records, because they are incomplete or "
            "duplicates."
        )
    if rates.ages_in_no_group:
        yield (
            f"{rates.ages_in_no_group:,} reconstructed ages are not known to a group of {rates.age_bins}; "
            "these records match nobody."
        )
    yield (
        f"{_percent(rates.population_unique_share)} of the people are the only one of their {_known(linked)} in "
        f"their block; of the reconstructed records {_percent(rates.reconstructed_unique_share)}.\n"
    )
    yield from _agreement_described(rates)
    yield from _reidentified_described(rates, "Re-identification", [("all", "all"), ("population uniques", "unique")])
    yield from _reidentified_described(
        rates,
        "Population uniques, by whether they are of the commonest group of their block",
        [("all", "unique"), ("of the modal group", "unique&modal"), ("of other groups", "unique&nonmodal")],
    )
    if rates.has("solvar0"):
        yield from _reidentified_described(
            rates,
            "Blocks whose reconstruction is the only one (solution variability 0)",
            [
                ("all", "solvar0"),
                ("population uniques", "unique&solvar0"),
                ("non-modal", "nonmodal&solvar0"),
                ("unique, non-modal", "unique&nonmodal&solvar0"),
            ],
        )
    if rates.universe("not-there").attacker_records:
        yield from _reidentified_described(
            rates, "Whom the truth does not have where the attacker has them", [("", "not-there")]
        )
    yield from _ranking_described(rates)
    yield from _headline_described(rates)
    yield from _words_described(rates, linked)


def _agreement_chart(rates: Rates) -> Chart:
    """How much of the truth the reconstruction has right, by the size of the block, and in all."""
    sizes = {f"size:{label}": label for label in linking.size_labels() if rates.agreement_in(f"size:{label}").records}
    rows = []
    for name, size in ({"all": "all blocks"} | sizes).items():
        agreement = rates.agreement_in(name)
        rows.append({"size": size, "kind": "year or group of age", "share": agreement.rate})
        rows.append({"size": size, "kind": "exact year of age", "share": agreement.exact_age_rate})
    return chart("reidentification-agreement-by-size", rows)


def _precision_chart(rates: Rates) -> Chart:
    """How often a match is right, beside what the guessers reach about the same people."""
    rows = [
        {"who": who, "kind": kind, "share": share, "matches": row.putative}
        for who, row in _people(rates).items()
        for kind, share in (
            ("attack", row.precision),
            ("modal guesser", row.modal_guesser_precision),
            ("proportional guesser", row.proportional_guesser_precision),
        )
    ]
    return chart("reidentification-precision", rows)


def _rates_chart(rates: Rates) -> Chart:
    """Of the people whom the attacker knows, how many are matched and how many of those rightly."""
    rows = [
        {"who": who, "confirmed": row.confirmed_rate, "putative": row.putative_rate}
        for who, row in _people(rates).items()
    ]
    divisor = "records of the attacker" if rates.divide_by == "attacker" else "persons of the truth"
    return chart("reidentification-rates", rows, divisor=divisor)


def _people(rates: Rates) -> dict[str, linking.LinkageRates]:
    return {
        words: rates.universe(name)
        for name, words in PEOPLE.items()
        if rates.has(name) and rates.universe(name).divided_by
    }


def _agreement_described(rates: Rates) -> Iterator[AnswerPart]:
    labels = [label for label in linking.size_labels() if rates.agreement_in(f"size:{label}").records]
    rows = [rates.agreement_in("all"), *(rates.agreement_in(f"size:{label}") for label in labels)]
    yield ShownTable(
        ["block size", *(f"{name} " for name in ("total", *labels))],
        [
            ["people", *(f"{row.records:,}" for row in rows)],
            ["agreement", *(_percent(row.rate) for row in rows)],
            ["with the exact age", *(_percent(row.exact_age_rate) for row in rows)],
        ],
        title="Agreement of the reconstruction with the truth, by block size",
    )
    yield ""


def _reidentified_described(rates: Rates, title: str, universes: Sequence[tuple[str, str]]) -> Iterator[AnswerPart]:
    yield ShownTable(_COLUMNS, [_line(label, rates.universe(name)) for label, name in universes], title=title)
    yield ""


def _line(label: str, row: linking.LinkageRates) -> list[str]:
    shares = (row.putative_rate, row.confirmed_rate, row.precision)
    guesses = (row.modal_guesser_precision, row.proportional_guesser_precision)
    return [label, f"{row.divided_by:,}", *(_percent(share) for share in (*shares, *guesses))]


def _ranking_described(rates: Rates) -> Iterator[AnswerPart]:
    """How many of the surest records are true, beside those who know other blocks alone."""
    if not rates.ranking:
        return
    rows = [
        [
            f"{row.k:,}",
            *(_percent(rate) for rate in (row.match_rate, row.hold_out_match_rate, row.modal_match_rate)),
            "" if row.better_than_guessing else "no better than a guess",
        ]
        for row in rates.ranking
    ]
    columns = ["first k ", "attack ", "knows other blocks ", "commonest kind ", ""]
    yield ShownTable(columns, rows, title="Records ranked by confidence: how many of the first k are true")
    yield ""


def _headline_described(rates: Rates) -> Iterator[AnswerPart]:
    everyone, exposed = rates.universe("all"), rates.universe("unique&nonmodal")
    rows = [
        ["putative re-identification rate", _percent(everyone.putative_rate), "", ""],
        ["confirmed re-identification rate", _percent(everyone.confirmed_rate), "", ""],
        ["precision", *_precisions(everyone)],
        ["precision for population uniques, non-modal", *_precisions(exposed)],
    ]
    if rates.has("solvar0"):
        certain = rates.universe("unique&nonmodal&solvar0")
        rows.append(["the same, in blocks with one reconstruction", *_precisions(certain)])
        exposed = certain if certain.putative >= FEW else exposed
    yield ShownTable(["", "attack ", "modal guesser ", "proportional guesser "], rows, title="In short")
    yield Said(f"\n{_verdict(exposed)}")


def _verdict(row: linking.LinkageRates) -> str:
    """What the attack adds to guessing for those whom statistics do not describe."""
    if row.precision is None or row.putative < FEW:
        return f"Only {row.putative:,} unique people of other groups were matched: too few to say what the attack adds."
    best = max(row.modal_guesser_precision or 0.0, row.proportional_guesser_precision or 0.0)
    two_deviations = 2 * (max(best * (1 - best), 0.25 / row.putative) / row.putative) ** 0.5
    if row.precision <= best + two_deviations:
        return "About unique people of other groups the attack is no better than a guess from the block's shares."
    return (
        f"About unique people of other groups the attack is right in {_percent(row.precision)} of its matches, a guess "
        f"in {_percent(best)}: the difference is learnt from their own records."
    )


def _words_described(rates: Rates, linked: people_files.LinkedAttributes) -> Iterator[AnswerPart]:
    over = "records of the attacker" if rates.divide_by == "attacker" else "persons of the truth"
    yield (
        f"Putative: a reconstructed record has the block, {_known(linked, 'age')} of someone the attacker knows; "
        f"of all {over}."
    )
    learnt = "race and ethnicity" if linked == people_files.UNITED_STATES else _listed(linked.learnt)
    are = "are" if len(linked.learnt) > 1 else "is"
    yield f"Confirmed: that person is in the true records, and the {learnt} {are} theirs as well."
    yield (
        "Precision: confirmed matches as a share of all claimed ones. The guessers answer for the same people "
        "and know only the block."
    )
    yield Said(
        "These figures were computed with the truth. They are for the curator, as a dossier is.", tone=Tone.QUIET
    )


def _known(linked: people_files.LinkedAttributes, age: str = "age group") -> str:
    """What the attacker knows of people apart from the block, in words."""
    return _listed((*linked.known, *([age] if linked.with_age else [])))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _precisions(row: linking.LinkageRates) -> list[str]:
    return [
        _percent(value) for value in (row.precision, row.modal_guesser_precision, row.proportional_guesser_precision)
    ]


def _quality(settings: AttackerSettings | None) -> str:
    if settings is None:
        return "a file of their own"
    if settings == AttackerSettings(seed=settings.seed):
        return "a perfect file"
    named = {
        "coverage": "coverage",
        "age_error": "wrong age",
        "sex_error": "wrong sex",
        "block_error": "wrong block",
        "duplicates": "there twice",
    }
    return ", ".join(
        f"{title} {float(getattr(settings, name)):.3g}"
        for name, title in named.items()
        if getattr(settings, name) or name == "coverage"
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
