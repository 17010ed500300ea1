"""``confide attack reidentify``: whom someone would recognise in reconstructed records, and how often rightly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.requests import Given, command
from confide.cli.show import out, table
from confide.lab.attacks.reidentification import (
    UNITED_STATES,
    AttackerSettings,
    LinkageRates,
    LinkedAttributes,
    Rates,
    Reidentification,
    parse_attacker,
    reidentify_files,
    size_labels,
)
from confide.report.charts import FEW, Chart, chart

# The answer of ``confide attack reidentify`` on a terminal, and its pictures.


PEOPLE = {
    "all": "all",
    "unique": "population uniques",
    "unique&modal": "unique, modal group",
    "unique&nonmodal": "unique, other groups",
    "unique&nonmodal&solvar0": "unique, other groups, one reconstruction",
}
"""Of whom the pictures speak."""

_COLUMNS = ["", "records ", "putative ", "confirmed ", "precision ", "modal guesser ", "proportional guesser "]


def show_rates(rates: Rates, settings: AttackerSettings | None, linked: LinkedAttributes = UNITED_STATES) -> None:
    """Four tables, and what they mean."""
    out.print(
        f"[bold]{rates.reconstructed_records:,} reconstructed records[/], {rates.attacker_records:,} people known to "
        f"the attacker ({_quality(settings)}), {rates.truth_records:,} records of the truth."
    )
    if rates.attacker_left_out:
        out.print(
            f"Left out: {rates.attacker_left_out:,} of the attacker's records, because they are incomplete or "
            "duplicates."
        )
    if rates.ages_in_no_group:
        out.print(
            f"{rates.ages_in_no_group:,} reconstructed ages are not known to a group of {rates.age_bins}; "
            "these records match nobody."
        )
    out.print(
        f"{_percent(rates.population_unique_share)} of the people are the only one of their {_known(linked)} in "
        f"their block; of the reconstructed records {_percent(rates.reconstructed_unique_share)}.\n"
    )
    _agreement(rates)
    _reidentified(rates, "Re-identification", [("all", "all"), ("population uniques", "unique")])
    _reidentified(
        rates,
        "Population uniques, by whether they are of the commonest group of their block",
        [("all", "unique"), ("of the modal group", "unique&modal"), ("of other groups", "unique&nonmodal")],
    )
    if rates.has("solvar0"):
        _reidentified(
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
        _reidentified(rates, "Whom the truth does not have where the attacker has them", [("", "not-there")])
    _ranking(rates)
    _headline(rates)
    _words(rates, linked)


def pictures(rates: Rates) -> dict[str, Callable[[], Chart]]:
    """Agreement by block size, and precision beside the guessers'."""
    return {
        "agreement-by-block-size": lambda: _agreement_chart(rates),
        "precision": lambda: _precision_chart(rates),
        "rates": lambda: _rates_chart(rates),
    }


def _agreement_chart(rates: Rates) -> Chart:
    """How much of the truth the reconstruction has right, by the size of the block, and in all."""
    sizes = {f"size:{label}": label for label in size_labels() if rates.agreement_in(f"size:{label}").records}
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


def _people(rates: Rates) -> dict[str, LinkageRates]:
    return {
        words: rates.universe(name)
        for name, words in PEOPLE.items()
        if rates.has(name) and rates.universe(name).divided_by
    }


def _agreement(rates: Rates) -> None:
    labels = [label for label in size_labels() if rates.agreement_in(f"size:{label}").records]
    rows = [rates.agreement_in("all"), *(rates.agreement_in(f"size:{label}") for label in labels)]
    table(
        ["block size", *(f"{name} " for name in ("total", *labels))],
        [
            ["people", *(f"{row.records:,}" for row in rows)],
            ["agreement", *(_percent(row.rate) for row in rows)],
            ["with the exact age", *(_percent(row.exact_age_rate) for row in rows)],
        ],
        title="Agreement of the reconstruction with the truth, by block size",
    )
    out.print()


def _reidentified(rates: Rates, title: str, universes: Sequence[tuple[str, str]]) -> None:
    table(_COLUMNS, [_line(label, rates.universe(name)) for label, name in universes], title=title)
    out.print()


def _line(label: str, row: LinkageRates) -> list[str]:
    shares = (row.putative_rate, row.confirmed_rate, row.precision)
    guesses = (row.modal_guesser_precision, row.proportional_guesser_precision)
    return [label, f"{row.divided_by:,}", *(_percent(share) for share in (*shares, *guesses))]


def _ranking(rates: Rates) -> None:
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
    table(columns, rows, title="Records ranked by confidence: how many of the first k are true")
    out.print()


def _headline(rates: Rates) -> None:
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
    table(["", "attack ", "modal guesser ", "proportional guesser "], rows, title="In short")
    out.print(f"\n[bold]{_verdict(exposed)}[/]")


def _verdict(row: LinkageRates) -> str:
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


def _words(rates: Rates, linked: LinkedAttributes) -> None:
    over = "records of the attacker" if rates.divide_by == "attacker" else "persons of the truth"
    out.print(
        f"Putative: a reconstructed record has the block, {_known(linked, 'age')} of someone the attacker knows; "
        f"of all {over}."
    )
    learnt = "race and ethnicity" if linked == UNITED_STATES else _listed(linked.learnt)
    are = "are" if len(linked.learnt) > 1 else "is"
    out.print(f"Confirmed: that person is in the true records, and the {learnt} {are} theirs as well.")
    out.print(
        "Precision: confirmed matches as a share of all claimed ones. The guessers answer for the same people "
        "and know only the block."
    )
    out.print("[dim]These figures were computed with the truth. They are for the curator, as a dossier is.[/]")


def _known(linked: LinkedAttributes, age: str = "age group") -> str:
    """What the attacker knows of people besides the block, in words."""
    return _listed((*linked.known, *([age] if linked.with_age else [])))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _precisions(row: LinkageRates) -> list[str]:
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


def _show(answer: Reidentification, attacker: Any, matches: Path | None) -> None:
    show_rates(answer.rates, attacker if isinstance(attacker, AttackerSettings) else None, answer.linked)
    if matches is not None:
        number = answer.rates.universe("all").putative
        out.print(f"[bold]Written: {escape(str(matches))}[/], all {number:,} putative matches with person ids.")
        out.print("It is confidential; only its owner can read it.")


def _prepare(values: dict[str, Any]) -> None:
    errors_made = values.pop("attacker_from_truth", None)
    if ("attacker" in values) == (errors_made is not None):
        raise typer.BadParameter("give ATTACKER, or --attacker-from-truth, and not both", param_hint="ATTACKER")
    if errors_made is not None:
        values["attacker"] = parse_attacker(errors_made)
    if "matches" in values and values["matches"].suffix.lower() not in (".csv", ".parquet"):
        raise typer.BadParameter("--matches takes a name that ends in .parquet or .csv")


reidentify = command(
    """Match reconstructed records with a file of known people, and count how many would be recognised rightly.

    The modal and the proportional guesser, who know the blocks and nobody in them, always stand beside.
    """,
    reidentify_files,
    _show,
    settings="columns age_bins block_group_digits tract_digits divide_by guess_from seed known learn",
    options={
        "reconstructed": "RECONSTRUCTED",
        "truth": "--truth",
        "attacker": Given("ATTACKER", kind=Path | None),
        "columns": "--columns OURS=THEIRS",
        "age_bins": Given("--age-bins NAME", kind=str),
        "block_group_digits": Given(least=1, most=40),
        "tract_digits": Given(least=1, most=40),
        "seed": Given(least=0),
        "matches": "--matches FILE",
        "known": "--known NAME",
        "learn": "--learn NAME",
        "schema": "--schema FILE",
    },
    extra={
        "attacker_from_truth": (
            Annotated[
                str | None,
                typer.Option(
                    metavar="SETTINGS",
                    help="Make the attacker's file: perfect, or coverage=0.9,age_error=0.05,age_years=1,sex_error=0.01,"
                    "block_error=0.1,duplicates=0.02,seed=1.",
                ),
            ],
            None,
        )
    },
    prepare=_prepare,
    pictures=lambda answer, _: pictures(answer.rates),
)
