"""The page of a comparison: one that somebody can read who has to decide, and has ten minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.errors import ParameterError, Place
from confide.file_system import write_text
from confide.lab.comparison.attacking import ALL, EXPOSED, UNIVERSES
from confide.lab.comparison.common_tables import CommonTables, characteristics, listed_words
from confide.lab.comparison.programme_file import BLOCK, ProgrammeGeographyPart, plural
from confide.releases.dossier import BANNER
from confide.report import charts, render

MADE_UP = "MADE-UP PEOPLE: nothing on this page is about anybody"
POPULATION = "population"
FEW = charts.FEW
UNIVERSES_IN_WORDS = {
    "all": "Everybody",
    "unique": "Alone of their {known_group} in the {unit}",
    "unique&nonmodal": "… and not of the {unit}'s largest group",
    "unique&nonmodal&solvar0": "… and the true tables have one solution",
}
GROUPS_IN_FULL = {
    "all": "Everybody",
    "unique": "Alone of their {known_group} in the {unit}",
    "unique&nonmodal": "Alone, and not of the {unit}'s largest group",
    "unique&nonmodal&solvar0": "Alone, not of the largest group, in a {unit} whose true tables have one solution",
}
GUESSES = {"hold_out_match_rate": "knowing other {units} alone", "modal_match_rate": "always the commonest kind"}
BETTER, WEAK = "better_of_attack_and_guessers", "no_better_than_a_guess"
Row = Mapping[str, Any]


def write_page(numbers: Row, path: Path) -> None:
    """The page, for its owner alone."""
    write_text(path, page(numbers))


def page(numbers: Row) -> str:
    """The page as HTML."""
    words = numbers["words"]
    rows = [_row(protection, words) for protection in numbers["protections"]]
    return render(
        "comparison.html.j2",
        title=numbers["title"],
        banner=MADE_UP if numbers["made_up"] else BANNER,
        numbers=numbers,
        rows=rows,
        words=words,
        headline=_headline(rows, words),
        tiles=_tiles(numbers, rows),
        few=FEW,
        levels=numbers["levels"],
        characteristics=numbers["characteristics"],
        universes={name: UNIVERSES_IN_WORDS[name].format(**words) for name in UNIVERSES},
        other=_other_attacker(numbers),
        samples=_samples(numbers),
        gaps=any(row["gaps"] for row in rows),
        figures=_figures(rows, numbers) if charts.available() else [],
        percent=percent,
        error=persons,
    )


def _row(protection: Row, words: Row) -> dict[str, Any]:
    """One protection as the page speaks of it."""
    universes = protection["attack"]["perfect"]["universes"]
    exposed, everybody = universes.get(EXPOSED), universes[ALL]
    reconstruction = protection["attack"]["reconstruction"]
    return {
        "title": protection["title"],
        "mechanism": protection["mechanism"],
        "gaps": protection["cells_published"]["all"] not in (None, 1.0),
        "guarantee": protection["guarantee"],
        "errors": protection["errors"],
        "largest": mean_error(protection, words["level"]),
        "block": mean_error(protection, BLOCK),
        "shown": shown_error(protection, words),
        "people": protection["errors"][BLOCK][POPULATION]["mean_absolute_error"],
        "published": protection["cells_published"],
        "agree": protection["sums_agree"],
        "everybody": everybody,
        "exposed": exposed,
        "universes": universes,
        "given": protection["attack"].get("given"),
        "ranking": protection["attack"].get("ranking", []) if protection["noisy"] else [],
        "agreement": protection["attack"]["perfect"]["agreement"],
        "found": reconstruction,
        "sampled": reconstruction["blocks_attacked"] < reconstruction["inhabited_blocks"],
        "seconds": protection["seconds"],
    }


def shown_error(protection: Row, words: Row) -> float | None:
    """The error of the count that stands for accuracy, in the largest areas that tables are published for."""
    error: float | None = protection["errors"][words["level"]][words["shown"]["characteristic"]]["mean_absolute_error"]
    return error


def mean_error(protection: Row, level: str) -> float | None:
    """The mean of the errors of all judged counts but the population on a level."""
    values = [item["mean_absolute_error"] for name, item in protection["errors"][level].items() if name != POPULATION]
    errors = [value for value in values if value is not None]
    return sum(errors) / len(errors) if errors else None


def percent(share: float | None, digits: int = 0) -> str:
    """A share in words; never 100 % or 0 % of what is not all or none."""
    if share is None:
        return "–"
    text = f"{100 * share:.{digits}f}"
    if (float(text) == 100 and share < 1) or (float(text) == 0 and share > 0):
        text = f"{100 * share:.{digits + 1}f}"
        if (float(text) == 100 and share < 1) or (float(text) == 0 and share > 0):
            return "almost all" if share > 0.5 else "almost none"
    return f"{text} %"


def persons(value: float | None) -> str:
    """An error in persons, with as many digits as it deserves."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 99.5 or value == 0 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def _headline(rows: Sequence[Row], words: Row) -> list[str]:
    """Two or three sentences that stand for the page."""
    none = rows[0]
    sentences = [
        f"From the true tables alone, an outsider rebuilds {percent(none['agreement'])} of all records: {words['all']} "
        f"of people by {words['unit']}."
    ]
    at_risk = none["exposed"]
    if at_risk and at_risk["precision"] is not None:
        ranked = [row for row in rows[1:] if row["exposed"] and row["exposed"]["precision"] is not None]
        ranked = [row for row in ranked if row["exposed"]["putative"] >= FEW]
        sentences.append(
            f"Take the {at_risk['records']:,} people who stand out most. Someone who knows their address, "
            f"{words['known']}, and looks them up there, is right about their {words['learnt']} "
            f"{_times(at_risk['precision'])} without protection; a guess would be right "
            f"{_times(at_risk['proportional_guesser_precision'])}."
        )
        if ranked:
            # An outsider can always guess instead: a weak attack is no protection.
            worst = max(ranked, key=lambda row: row["exposed"][BETTER])
            best = min(ranked, key=lambda row: row["exposed"][BETTER])
            sentences.append(
                f"Of the protections, “{worst['title']}” leaves that at {_right(worst, words)}, and “{best['title']}” "
                f"brings it to {_right(best, words)}. On average, the counts of {words['judged']} that it publishes "
                f"are off by {_errors_in_words(best, words)}"
                f"{_what_is_missing(best, words)}{'' if best['agree']['all'] else ', and do not add up'}."
                if worst is not best
                else f"“{best['title']}” brings that to {_right(best, words)}."
            )
    return sentences


def _errors_in_words(row: Row, words: Row) -> str:
    """How far counts are off in the largest and in the smallest areas."""
    above, in_unit = words["level"], f"{persons(row['block'])} in a {words['unit']}"
    if above == BLOCK:
        return f"{persons(row['block'])} persons in a {words['unit']}"
    return f"{persons(row['largest'])} persons in a {words['levels'][above][0]} and {in_unit}"


def _right(row: Row, words: Row) -> str:
    """The share of the better of attack and guess about those who stand out, with what it is a share of."""
    where = f" in a sample of {words['units']}" if row["sampled"] else ""
    exposed = row["exposed"]
    if not exposed[WEAK]:
        return f"{percent(exposed[BETTER])} (of {exposed['putative']:,} matches{where})"
    return (
        f"{percent(exposed[BETTER])}, where the attack, right in {percent(exposed['precision'])} of "
        f"{exposed['putative']:,} matches{where}, is no better than a guess"
    )


def _what_is_missing(row: Row, words: Row) -> str:
    """That most counts are not there, where it is so: without it no error would look like accuracy."""
    return (
        f" where they are published, which {percent(row['published'][BLOCK])} are in a {words['unit']}"
        if row["gaps"]
        else ""
    )


def _times(share: float | None) -> str:
    return "every time" if share == 1 else f"{percent(share)} of the time"


def _tiles(numbers: Row, rows: Sequence[Row]) -> list[tuple[str, str]]:
    none, words = rows[0]["found"], numbers["words"]
    stand_out = rows[0]["exposed"]
    tiles = [
        (f"{numbers['persons']:,}", f"people in {numbers['inhabited_blocks']:,} inhabited {words['units']}"),
        (
            f"{numbers['programme']['cells_of_an_area']:,}",
            f"figures for each {words['unit']}: {len(numbers['programme']['tables'])} tables of {words['tables']}",
        ),
        (
            percent(none["share_of_blocks_at_0"]),
            f"of {words['units']} whose true tables fit one set of records alone",
        ),
    ]
    if stand_out:
        tiles.append((f"{stand_out['records']:,}", f"people who stand out most, and live in such a {words['unit']}"))
    return tiles


def _samples(numbers: Row) -> list[str]:
    """Where not every inhabited block was attacked."""
    titles_by_sample: dict[tuple[int, int], list[str]] = {}
    for protection in numbers["protections"]:
        attack = protection["attack"]["reconstruction"]
        if attack["blocks_attacked"] < attack["inhabited_blocks"]:
            key = (attack["blocks_attacked"], attack["true_persons"])
            titles_by_sample.setdefault(key, []).append(protection["title"])
    return [
        f"{', '.join(titles)}: {blocks:,} {numbers['words']['units']} with {persons:,} people, drawn at random "
        f"(seed {numbers['seed']})"
        for (blocks, persons), titles in titles_by_sample.items()
    ]


def _other_attacker(numbers: Row) -> str | None:
    text = str(numbers["attack"]["attacker"])
    return None if "given" not in numbers["protections"][0]["attack"] else text


def _figures(rows: Sequence[Row], numbers: Row) -> list[dict[str, str]]:
    words, levels = numbers["words"], {level: numbers["words"]["levels"][level][0] for level in numbers["levels"]}
    marks = [
        {
            "title": row["title"],
            "matches": row["exposed"]["putative"],
            "precision": row["exposed"]["precision"],
            "modal": row["exposed"]["modal_guesser_precision"],
            "proportional": row["exposed"]["proportional_guesser_precision"],
        }
        for row in rows
        if row["exposed"]
    ]
    without_gaps = [row for row in rows if not row["gaps"]]
    errors = [
        {"title": row["title"], "level": word, "error": mean_error(row, level)}
        for row in without_gaps
        for level, word in levels.items()
    ]
    points = [
        {"title": row["title"], "error": row["block"], "risk": _recognised(row["exposed"]) if row["exposed"] else None}
        for row in without_gaps
    ]
    missing = _left_out(rows, words)
    pictures = [
        (
            charts.chart("comparison-precision", marks),
            "How often the outsider is right about the people who stand out most, compared with someone who only knows "
            f"which groups live in the {words['unit']}. Where a guess is right as often, the attack is weak: the risk "
            "is that of the guess.",
        ),
        (
            charts.chart("comparison-errors", errors, levels=list(levels.values())),
            f"How far a published count is from the true one, on average over the counts of {words['judged']} and the "
            f"areas of a level.{missing}",
        ),
        (
            charts.chart(
                "comparison-trade-off",
                points,
                error_title=f"mean absolute error of a count of a {words['unit']}, persons",
                risk_title="of those who stand out, recognised rightly",
            ),
            "How many of those who stand out are recognised correctly, by the attack or by a guess, whichever is right "
            "more often, and the error that this costs: lower is better protected, further left is more accurate."
            f"{missing}",
        ),
    ]
    curves = _curves(rows, words)
    if curves:
        caption = (
            "How many of the records that the outsider is most certain of are true: the likeliest people from noisy "
            "tables, without a list, ranked by how likely each is. For comparison: two guessers who know all other "
            f"{words['units']} but no figure of this one. A curve below theirs means that nothing was learned."
        )
        pictures.append((charts.chart("comparison-ranking", curves), caption))
    return [{"svg": picture.svg(), "caption": caption} for picture, caption in pictures]


def _recognised(exposed: Row) -> float:
    """The share of people recognised rightly, by the attack or by a guess about everybody."""
    return max(exposed["confirmed_rate"] or 0.0, exposed["proportional_guesser_precision"] or 0.0)


def _left_out(rows: Sequence[Row], words: Row) -> str:
    """What is not in a picture of errors, and why: a count that is not there has none."""
    lacking = [row for row in rows if row["gaps"]]
    if not lacking:
        return ""
    shares = ", ".join(f"{row['title']}: {percent(1 - (row['published'][BLOCK] or 0))}" for row in lacking)
    return (
        " Suppression is left out: its cost is what it does not publish. Missing of the counts above zero of a "
        f"{words['unit']}: {shares}."
    )


def _curves(rows: Sequence[Row], words: Row) -> list[dict[str, Any]]:
    """Match rates at k of the protections with noise, and of those who guess; these are nearly the same for all."""
    noisy = [row for row in rows if row["ranking"]]
    curves = [
        {"who": row["title"], "k": each["k"], "share": each["match_rate"]} for row in noisy for each in row["ranking"]
    ]
    for name, who in GUESSES.items():
        curves += [
            {"who": who.format(**words), "k": each["k"], "share": each[name]}
            for row in noisy[:1]
            for each in row["ranking"]
        ]
    return curves


# One count, one level, one group of people: what somebody chooses on a live page.


@dataclass(frozen=True)
class ComparedProtection:
    """A protection under one view."""

    name: str
    title: str
    guarantee: str
    error: float | None
    """The mean absolute error of the count, in persons."""
    published: float
    """The share of areas that have a figure."""
    rates: Row | None
    """What the attack on the group came to."""

    @property
    def risk(self) -> float | None:
        """The share of the group that is recognised rightly, by the attack or by a guess."""
        return None if self.rates is None else _recognised(self.rates)


@dataclass(frozen=True)
class ComparedView:
    """One count on one level, and one group of people, under every protection."""

    numbers: Row
    characteristic: str
    level: str
    group: str
    protections: tuple[ComparedProtection, ...]

    @property
    def true_mean(self) -> float:
        """The mean of the true counts of the areas."""
        mean: float = self.numbers["protections"][0]["errors"][self.level][self.characteristic]["mean_true"]
        return mean

    @property
    def groups(self) -> dict[str, str]:
        """The groups that can be chosen, in words."""
        known = self.numbers["protections"][0]["attack"]["perfect"]["universes"]
        words = self.numbers["words"]
        return {name: GROUPS_IN_FULL[name].format(**words) for name in UNIVERSES if known.get(name)}

    @property
    def by_table(self) -> dict[str, dict[str, str]]:
        """The counts that can be chosen: by the title of their table, the names with their titles."""
        tables = self.numbers["programme"]["tables"]
        listed: dict[str, dict[str, str]] = {}
        for name, item in self.numbers["characteristics"].items():
            listed.setdefault(tables[item["table"]], {})[name] = item["title"]
        return listed

    def pictures(self) -> charts.Pictures:
        """Risk against error, how often matches are right, and errors by level, by name."""
        words = self.numbers["words"]
        levels = {level: words["levels"][level][0] for level in self.numbers["levels"]}
        title = self.numbers["characteristics"][self.characteristic]["title"]
        points = [
            {"title": each.title, "error": each.error, "risk": each.risk}
            for each in self.protections
            if each.published == 1
        ]
        marks = [
            {
                "title": each.title,
                "matches": each.rates["putative"],
                "precision": each.rates["precision"],
                "modal": each.rates["modal_guesser_precision"],
                "proportional": each.rates["proportional_guesser_precision"],
            }
            for each in self.protections
            if each.rates
        ]
        errors = [
            {
                "title": each["title"],
                "level": word,
                "error": each["errors"][level][self.characteristic]["mean_absolute_error"],
            }
            for each in self.numbers["protections"]
            for level, word in levels.items()
        ]
        axis = f"mean absolute error, {title}, of a {levels[self.level]}, persons"
        return {
            "trade-off": lambda: charts.chart(
                "comparison-trade-off", points, error_title=axis, risk_title="of these people, recognised rightly"
            ),
            "precision": lambda: charts.chart("comparison-precision", marks),
            "errors": lambda: charts.chart("comparison-errors", errors, levels=list(levels.values())),
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "characteristic": self.characteristic,
            "level": self.level,
            "group": self.group,
            "true_mean": self.true_mean,
            "protections": [
                {"name": each.name, "title": each.title, "mean_absolute_error": each.error, "published": each.published}
                | {"risk": each.risk, "rates": None if each.rates is None else dict(each.rates)}
                for each in self.protections
            ],
        }


def compared_view(numbers: Row, characteristic: str = "", level: str = "", group: str = "") -> ComparedView:
    """See :meth:`confide.lab.comparison.ProtectionComparison.view`."""
    words, known = numbers["words"], numbers["protections"][0]["attack"]["perfect"]["universes"]
    groups = [name for name in UNIVERSES if known.get(name)]
    chosen = {
        "characteristic": (characteristic or words["shown"]["characteristic"], list(numbers["characteristics"])),
        "level": (level or numbers["levels"][-1], list(numbers["levels"])),
        "group": (group or groups[-1], groups),
    }
    for name, (value, possible) in chosen.items():
        if value not in possible:
            raise ParameterError(
                "no-such-view", where=Place(path=name), found=value[:60], name=name, possible=", ".join(possible)[:400]
            )
    what, where, who = (value for value, _ in chosen.values())
    rows = tuple(
        ComparedProtection(
            each["name"],
            each["title"],
            each["guarantee"],
            each["errors"][where][what]["mean_absolute_error"],
            each["errors"][where][what]["published"],
            each["attack"]["perfect"]["universes"].get(who),
        )
        for each in numbers["protections"]
    )
    return ComparedView(numbers, what, where, who, rows)


# What a comparison calls its areas, and what people are known by and learn.


def words_of(programme: CommonTables, geography: ProgrammeGeographyPart) -> dict[str, Any]:
    """The words of a page.

    Args:
        programme: The tables, and what the outsider knows.
        geography: The areas.

    Returns:
        ``unit`` and ``units`` for a smallest area and several; ``levels`` with the same for each published level;
        ``known``, ``known_group`` (with the age as a group), ``learnt``, ``all``, ``judged`` in a row; ``shown``: the
        count that stands for accuracy, and its words.
    """
    part = programme.part
    units = {level: (level.replace("_", " "), plural(level.replace("_", " "))) for level in part.levels}
    units[BLOCK] = geography.words
    known = [programme.word(name) for name in part.known]
    grouped = [
        f"{word} group" if programme.is_age(name) else word for name, word in zip(part.known, known, strict=True)
    ]
    learnt = [programme.word(name) for name in part.learnt]
    by_attribute = {"agebin": part.age.attribute} if part.age is not None else {}
    judged = dict.fromkeys(
        by_attribute.get(variable.attribute.name, variable.attribute.name)
        for table in programme.tables
        if table.judged
        for variable in table.query.variables
    )
    counts = characteristics(programme.tables)
    first = next(item for item in counts if item.table != counts[0].table)
    shown = {"characteristic": first.id, "words": first.title}
    return {
        "unit": units[BLOCK][0],
        "units": units[BLOCK][1],
        "levels": {level: list(pair) for level, pair in units.items()},
        "known": listed_words(known),
        "known_group": listed_words(grouped),
        "learnt": listed_words(learnt),
        "all": listed_words([*grouped, *learnt]),
        "tables": listed_words([*known, *learnt]),
        "judged": listed_words([programme.word(name) for name in judged]),
        "shown": shown if part.shown is None else part.shown.model_dump(),
        "level": part.levels[0] if part.levels else BLOCK,
    }
