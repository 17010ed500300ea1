"""What a comparison calls its areas, and what people are known by and learn: the words of its page."""

from __future__ import annotations

from typing import Any

from confide.comparison.common_tables import CommonTables, characteristics, listed_words
from confide.comparison.programme_file import BLOCK, ProgrammeGeographyPart, plural


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
