"""A command asks for what its verb asks for, in the words of the verb's documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from confide.answers import AnswerPart, TypedAnswer
from confide.cli.commands import Command, Given, Revealed, Verb
from confide.errors import ParameterError
from confide.exact import Exact
from confide.lazy_names import requests


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Echo(TypedAnswer):
    def __init__(self, **given: Any):
        self.given = given

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in self.given.items() if value is not None}

    def described(self) -> Iterator[AnswerPart]:
        yield " ".join(f"{name}={value}" for name, value in sorted(self.as_dict().items()))


def paint(
    wall: str | Path,
    *,
    coats: int = 1,
    thickness: Exact | None = None,
    colour: Colour | str = Colour.RED,
    finish: Literal["matt", "gloss"] = "matt",
    rooms: Sequence[str] = ("hall",),
    doors: Mapping[str, int] | None = None,
    delta: Exact = Fraction(1, 8),
    quick: bool = False,
    neat: bool = True,
) -> Echo:
    """Paints a wall.

    Args:
        wall: The wall, as ``file``
            on two lines, for ``coats``.
        coats: How many coats.
        thickness: How thick.
        colour: Which colour.
        finish: How it shines.
        rooms: Where.
        doors: How many doors, by room.
        delta: How much may be missed.
        quick: Whether it is quick.
        neat: Whether it is neat.

    Returns:
        What was given.
    """
    return Echo(**locals())


def scrape(floor: str | Path, *, coats: int = 1) -> Echo:
    """Scrapes a floor.

    Args:
        floor: The floor.
        coats: How many coats come off.
    """
    return Echo(**locals())


PAINT, SCRAPE = f"{__name__}:paint", f"{__name__}:scrape"


def run(verb: Verb, *words: str) -> Any:
    app = typer.Typer()
    app.command(cls=Command)(verb.as_command())
    return CliRunner().invoke(app, list(words))


def test_what_a_verb_asks_for_is_read_from_its_signature_and_documentation() -> None:
    asked = {each.name: each for each in requests(PAINT)}
    kinds = {name: each.kind for name, each in asked.items()}
    assert kinds["wall"] is Path
    assert (kinds["thickness"], kinds["delta"], kinds["coats"], kinds["quick"]) == (str, str, int, bool)
    assert (kinds["colour"], kinds["finish"]) == (Colour, Literal["matt", "gloss"])
    assert (kinds["rooms"], kinds["doors"], asked["doors"].typed[1]) == (list[str], list[str], int)
    assert asked["wall"].meaning == "The wall, as ``file`` on two lines, for ``coats``."
    assert [name for name, each in asked.items() if each.needed] == ["wall"]


def test_a_command_gives_the_verb_what_is_typed_and_leaves_the_rest_to_its_defaults() -> None:
    made = Verb("Paint.", PAINT, options={"wall": "WALL"}, settings="delta")
    plain = "coats=1 colour=red delta=1/8 finish=matt neat=True quick=False rooms=('hall',) wall=w"
    assert run(made, "w").output.strip() == plain
    words = ("--rooms", "a", "--rooms=b", "--doors", "a=2", "--no-neat", "--colour=blue", "--set", "delta=1/9")
    typed = run(made, "w", *words)
    expected = "coats=1 colour=blue delta=1/9 doors={'a': 2} finish=matt neat=False quick=False rooms=['a', 'b'] wall=w"
    assert typed.output.strip() == expected


@pytest.mark.parametrize(
    "words", [("--coats", "x"), ("--colour", "green"), ("--finish", "none"), ("--doors", "a"), ("--coats", "9")]
)
def test_what_cannot_be_understood_is_a_usage_error(words: tuple[str, ...]) -> None:
    made = Verb("Paint.", PAINT, options={"wall": "WALL", "coats": Given("-c --coats", least=1, most=3)})
    assert run(made, "w", *words).exit_code == 2
    assert run(made, "w", "-c", "3").exit_code == 0


def test_another_verb_is_asked_where_its_own_argument_is_given() -> None:
    made = Verb("Work.", PAINT, others={"floor": SCRAPE})
    assert run(made, "--floor", "f", "--coats", "2").output.strip() == "coats=2 floor=f"
    assert run(made, "--floor", "f", "--quick").exit_code == 2
    missing = run(made, "--coats", "2").exception
    assert isinstance(missing, ParameterError)
    assert [finding.code for finding in missing.findings] == ["missing-option"]
    assert run(made, "--wall", "w").exit_code == 0


def test_what_is_given_can_be_refused_or_changed_and_shown() -> None:
    def prepare(values: dict[str, Any]) -> None:
        values["coats"] = 2 * values["coats"]

    def reveal(answer: Echo) -> Revealed:
        return Revealed({"secret": 1}, [f"{answer.given['coats']} coats"], ok=False)

    verb = Verb("Paint.", PAINT, options={"wall": "WALL"}, prepare=prepare, reveal=reveal)
    shown = run(verb, "w")
    assert (shown.output, shown.exit_code) == ("2 coats\n", 1)
    assert json.loads(run(verb, "w", "--json").output) == {"secret": 1}


def test_every_option_of_a_made_command_says_what_it_means() -> None:
    made = Verb("Paint.", PAINT)
    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(made.as_command())
    options: Any = typer.main.get_command(app)
    assert all(each.help for each in options.params)
    assert "Repeatable." in next(each.help for each in options.params if each.name == "rooms")
    wall = next(each.help for each in options.params if each.name == "wall")
    assert wall == "The wall, as file on two lines, for --coats."
