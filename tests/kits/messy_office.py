"""The files of an ordinary office, made in code: nothing is clean, and nothing is unusual.

Semicolons and Latin-1; ``M``, ``m``, ``Female`` and nothing for sex; ages ``100+`` and ``n/a``; blanks after codes; a
municipality that was merged into another and whose old code records still have; codes such as ``001`` and ``924A``.
"""

from __future__ import annotations

import random
from pathlib import Path

MUNICIPALITIES = {
    "001": ("Åby", "N1", "N"),
    "002": ("Öst", "N1", "N"),
    "014": ("Vik", "N2", "N"),
    "018": ("Näs", "S12", "S"),
    "924A": ("Höje", "S12", "S"),
    "924B": ("Låg", "S12", "S"),
    "S07": ("Bro", "S3", "S"),
}
REGIONS = {"N": "Norra länet", "S": "Södra länet"}
MERGED = ("017", "018")
SEXES = ("M", "M", "M", "m", "Male", "F", "F", "F", "Female", "")
STATUSES = ("single", "Single", "married", "married", "widowed", "NS")


def messy_people(persons: int, seed: int = 7) -> list[tuple[str, ...]]:
    """The rows of the records, the names of the columns first; some of everything that is wrong."""
    draw = random.Random(seed)
    rows: list[tuple[str, ...]] = [("person_no", "hushåll_nr", "kommun", "namn", "kön", "age", "civil")]
    codes = [*MUNICIPALITIES, MERGED[0]]
    for number in range(persons):
        code = codes[number % len(codes)]
        name = MUNICIPALITIES[MERGED[1] if code == MERGED[0] else code][0]
        age = draw.choice([str(draw.randrange(100))] * 18 + ["100+", "n/a"])
        blank = " " if draw.random() < 0.1 else ""
        sex, status = draw.choice(SEXES), draw.choice(STATUSES)
        rows.append(
            (
                f"{number + 10_000}",
                f"H{number // 16 * 8 + number % 8:05d}",
                code + blank,
                name,
                sex,
                age + blank,
                status,
            )
        )
    return rows


def messy_office(folder: Path, persons: int = 600) -> tuple[Path, Path]:
    """Writes ``people.csv`` and ``areas.csv``.

    Args:
        folder: An existing folder.
        persons: How many people.

    Returns:
        Both files.
    """
    people, areas = folder / "people.csv", folder / "areas.csv"
    people.write_text("\r\n".join(";".join(row) for row in messy_people(persons)) + "\r\n", encoding="latin-1")
    lines = ["kommun;namn;district;län;länsnamn"]
    lines += [
        f"{code};{name};{district};{region} ;{REGIONS[region]}"
        for code, (name, district, region) in MUNICIPALITIES.items()
    ]
    areas.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return people, areas
