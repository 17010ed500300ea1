"""A random project with neighbours of its records: what the odd specs of all mechanisms share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class OddProject:
    """A random project, and the rows of its records in neighbouring versions."""

    spec: Path
    records: Path
    header: str
    people: Sequence[str]
    neighbours: Sequence[Sequence[str]]

    def write(self, people: Sequence[str]) -> Path:
        self.records.write_text("\n".join([self.header, *people]) + "\n")
        return self.spec


def neighbours_of(rng: random.Random, people: list[str], relation: str, another: Any, number: int) -> list[list[str]]:
    versions = []
    for _ in range(number):
        place = rng.randrange(len(people))
        if relation == "change-one":
            versions.append([*people[:place], another(), *people[place + 1 :]])
        else:
            versions.append(rng.choice([[*people, another()], people[:place] + people[place + 1 :]]))
    return versions


def shares_of(rng: random.Random, number: int) -> list[Fraction]:
    weights = [rng.randint(1, 6) for _ in range(number)]
    return [Fraction(weight, sum(weights)) for weight in weights]
