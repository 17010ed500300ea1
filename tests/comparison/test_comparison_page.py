"""The page of a comparison: what it says, and that it says it to everybody."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.kits.comparison import geography
from tests.kits.pages import form, requests

from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.page import MADE_UP, mean_error, page, percent, words_of
from confide.releases.dossier import BANNER

LEVELS = common_tables().levels
NAMES = {"population": "population", "age: 0-17": "age", "origin: Hispanic": "origin"}


def universe(records: int, putative: int, confirmed: int, guess: float) -> dict[str, Any]:
    precision = confirmed / putative if putative else None
    return {
        "better_of_attack_and_guessers": None if precision is None else max(precision, guess),
        "no_better_than_a_guess": None if precision is None else precision <= guess,
        "records": records,
        "putative": putative,
        "confirmed": confirmed,
        "putative_rate": putative / records,
        "confirmed_rate": confirmed / records,
        "precision": confirmed / putative if putative else None,
        "modal_guesser_precision": 0.0,
        "proportional_guesser_precision": guess,
    }


def protection(name: str, exposed: tuple[int, int, int], error: float, *, blocks: int = 50) -> dict[str, Any]:
    item = {"mean_absolute_error": error, "mean_true": 20.0, "units": 5, "published": 1.0}
    return {
        "name": name,
        "mechanism": "topdown",
        "title": f"The {name}",
        "guarantee": f"promise of {name}",
        "settings": {},
        "noisy": False,
        "errors": {level: dict.fromkeys(NAMES, item) for level in LEVELS},
        "cells_published": dict.fromkeys(("all", *LEVELS), 1.0),
        "sums_agree": {"checked": 4, "share": 0.5, "all": False},
        "seconds": 1.0,
        "attack": {
            "reconstruction": {
                "exact": True,
                "persons": 900,
                "true_persons": 1000,
                "unsolved": 0,
                "share_of_blocks_at_0": 0.5,
                "blocks_attacked": blocks,
                "inhabited_blocks": 50,
                "seconds": 1.0,
            },
            "perfect": {
                "agreement": 0.9,
                "universes": {"all": universe(1000, 900, 500, 0.5), "unique&nonmodal&solvar0": universe(*exposed, 0.2)},
            },
        },
    }


def numbers(**changes: Any) -> dict[str, Any]:
    return {
        "title": "Two ways & <more>",
        "made_up": True,
        "confidential": False,
        "persons": 1000,
        "areas": {"county": 2, "tract": 3, "block": 60},
        "inhabited_blocks": 50,
        "levels": list(LEVELS),
        "words": words_of(common_tables(), geography()),
        "programme": {"title": "", "cells_of_an_area": 629, "tables": {"population": "Population"}},
        "characteristics": {name: {"title": name, "table": table} for name, table in NAMES.items()},
        "attack": {"attacker": "perfect"},
        "seed": 7,
        "version": "0",
        "seconds": 2.0,
        "protections": [
            protection("truth", (200, 200, 200), 0.0),
            protection("swap", (200, 150, 90), 123.4),
            protection("noise", (40, 31, 7), 5.0, blocks=9),
            protection("handful", (40, 2, 0), 1.0, blocks=9),
        ],
    } | changes


def test_the_page_says_what_was_found_in_words() -> None:
    text = page(numbers())
    assert "rebuilds 90 % of all records" in text
    assert "Take the 200 people who stand out most" in text
    assert "every time without protection; a guess would be right 20 % of the time" in re.sub(r"\s+", " ", text)
    # Those of too few matches are not made a headline of: the best is the noise (7 of 31), not the handful.
    assert "“The swap” leaves that at 60 %" in text
    assert "“The noise” brings it to 23 % (of 31 matches in a sample of blocks)" in text
    assert "leaves that at 60 % (of 150 matches)" in text
    assert "are off by 5.00 persons in a county and 5.00 in a block, and do not add up" in text
    assert "over 2 counties and 60 blocks" in text
    assert "9 blocks with 1,000 people, drawn at random (seed 7)" in text
    for name in ("truth", "swap", "noise", "handful"):
        assert f"promise of {name}" in text
    assert "Two ways &amp; &lt;more&gt;" in text


def test_the_page_has_a_good_form_and_asks_nobody() -> None:
    text = page(numbers())
    assert form(text) == []
    assert requests(text) == []


def test_a_weak_attack_is_no_protection() -> None:
    """The noise is attacked badly (1 of 31, where a guess is right in 20 %): the swap, at 60 %, and the other noise, at
    23 %, are not worse for that, and the guess stands for the risk."""
    given = numbers()
    given["protections"][3] = protection("weak", (40, 31, 1), 1.0, blocks=9)
    text = re.sub(r"\s+", " ", page(given))
    assert "brings it to 20 %, where the attack, right in 3 % of 31 matches in a sample of blocks, is no better" in text
    assert "<b>20 %</b><small>attack 3 %, no better than a guess; of 31</small>" in text
    assert "<b>23 %</b><small>of 31</small>" in text


def test_the_headline_takes_the_better_of_attack_and_guess() -> None:
    """A guess about the people of the first noise is right in 50 %, its attack in 3 %: the other noise, at 23 % where a
    guess gives 20 %, protects better."""
    given = numbers()
    given["protections"][3] = protection("weak", (40, 31, 1), 1.0, blocks=9)
    universes = given["protections"][3]["attack"]["perfect"]["universes"]
    universes["unique&nonmodal&solvar0"] = universe(40, 31, 1, 0.5)
    text = re.sub(r"\s+", " ", page(given))
    assert "“The noise” brings it to 23 %" in text


def test_match_rates_at_k_are_drawn_where_tables_have_noise() -> None:
    given = numbers()
    rates = {"match_rate": 0.9, "hold_out_match_rate": 0.6, "modal_match_rate": 0.2, "better_than_guessing": True}
    given["protections"][2]["attack"]["ranking"] = [{"k": k} | rates for k in (10, 20)]
    assert page(given).count("<svg") == 3
    given["protections"][2]["noisy"] = True
    text = page(given)
    assert text.count("<svg") == 4
    assert "surest of" in text
    assert "knowing other blocks alone" in text


def test_the_page_says_whose_people_it_is_about() -> None:
    assert MADE_UP in page(numbers())
    own = page(numbers(made_up=False, confidential=True))
    assert BANNER in own
    assert MADE_UP not in own
    assert "must not leave the office" in own


def test_the_page_works_offline_and_for_screen_readers() -> None:
    text = page(numbers())
    assert not re.findall(r"<(?:script|link|img|iframe)\b", text)
    assert not re.findall(r"(?:src|href)=\"(?!#)", re.sub(r"xlink:href|xmlns\S+", "", text))
    assert text.count("<svg") == 3
    assert text.count('role="img" aria-label="') == 3
    assert text.count("<caption>") == text.count("<table")
    assert text.count("<h1") == 1


def test_a_second_list_has_a_table_of_its_own() -> None:
    given = numbers()
    for each in given["protections"]:
        each["attack"]["given"] = each["attack"]["perfect"]
    given["attack"] = {"attacker": "coverage=0.9"}
    assert "list has mistakes: coverage=0.9" in page(given)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50 %"),
        (0.996, "99.6 %"),
        (0.004, "0.4 %"),
        (0.99999, "almost all"),
    ],
)
def test_shares_are_never_rounded_to_all_or_nothing(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_the_mean_error_leaves_the_population_and_gaps_out() -> None:
    errors = {
        "population": {"mean_absolute_error": 100.0},
        "age: 0-17": {"mean_absolute_error": 3.0},
        "age: 65+": {"mean_absolute_error": None},
        "origin: Hispanic": {"mean_absolute_error": 5.0},
    }
    assert mean_error({"errors": {"county": errors}}, "county") == 4.0
    assert mean_error({"errors": {"county": {"age: 65+": errors["age: 65+"]}}}, "county") is None


def test_suppression_is_spoken_of_where_there_is_some() -> None:
    assert "uppress" not in page(numbers())
    given = numbers()
    given["protections"][3] |= {"mechanism": "suppression", "sums_agree": {"checked": 4, "share": 1.0, "all": True}}
    given["protections"][3]["cells_published"] = dict.fromkeys(("all", *LEVELS), 0.2)
    text = page(given)
    # In both pictures of errors, with what is missing.
    assert text.count("Suppression is left out: its cost is what it does not publish.") >= 2
    assert "The handful: 80 %" in text
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert ["The handful" in picture for picture in pictures] == [True, False, False]
    assert "yes<small>where published</small>" in text
    assert "<small>50 % do</small>" in text


def test_one_county_is_said_to_tell_little_of_swapping() -> None:
    assert "one county only" not in page(numbers())
    assert "one county only" in page(numbers(areas={"county": 1, "tract": 3, "block": 60}))


def test_sentences_stand_apart_whatever_there_is_to_say() -> None:
    for mechanism in ("topdown", "suppression"):
        for counties in (1, 2):
            given = numbers(areas={"county": counties, "tract": 3, "block": 60})
            given["protections"][3] |= {"mechanism": mechanism}
            words = re.sub(
                r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", "", page(given).replace("</fig", " </fig"), flags=re.DOTALL
            )
            assert not re.findall(r"[a-z][.:;,][A-Z*“]", words)
