"""``confide compare``: one population, several protections, one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Display, Json, Processes, out, print_json, table
from confide.lab.comparison import compare as make
from confide.lab.comparison.attacking import ALL, EXPOSED
from confide.lab.comparison.page import percent, shown_error

WORDS = """error: of the {shown} of a {large}, mean, in persons; cells: published, of those above zero; sums: whether
they agree; match, right: of the people whom an outsider knows, those matched and those matched rightly; prec.: the
precision, right of matches; exposed: the precision for those who are alone of their {known_group}, not of the
{unit}'s largest group, in a {unit} whose true tables have one solution alone; of: so many matches; guess: how often
somebody is right about these who guesses in proportion to the groups of the {unit}."""
WEAK = "°: the attack is no better than a guess, and the share is that of the guess."
SAMPLED = "*: attacked in a sample of {units}."


def compare(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec of a comparison: a TOML file.")],
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="A new folder. If you run it again, finished parts are kept.")
    ],
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="MECHANISM=RHO", help="One more: topdown=1/2, tables=4; repeatable."),
    ] = None,
    as_json: Json = False,
    processes: Processes = None,
) -> None:
    """Protect the same people in several ways, attack each, and write one page: DIR/comparison.html.

    No protection, swapping, suppression, the cell key method, noisy tables, TopDown: errors by geography, counts
    published, and how many people an outsider recognises, beside what guessing gives. It uses the truth.
    """
    answer = make(spec, folder, also=also or (), processes=processes, progress=Display(quiet=as_json))
    if as_json:
        print_json(answer.as_dict())
        return
    words = answer.numbers["words"]
    rows = [_row(protection, words) for protection in answer.numbers["protections"]]
    columns = ["protection", "error ", "cells ", "sums", "match ", "right ", "prec. ", "exposed ", "of ", "guess "]
    table(columns, rows, title=str(answer.numbers["title"]))
    large = words["levels"][words["level"]][0]
    out.print(WORDS.format(**words | {"shown": words["shown"]["words"], "large": large}))
    if any(row[7].endswith("°") for row in rows):
        out.print(WEAK)
    if any(_sampled(protection) for protection in answer.numbers["protections"]):
        out.print(SAMPLED.format(**words))
    if answer.numbers["confidential"]:
        out.print("[bold]CONFIDENTIAL[/]: the page uses the truth and must not leave the office.")
    out.print(f"Page: {escape(str(answer.page))}")


def _row(protection: dict[str, Any], words: dict[str, Any]) -> list[str]:
    universes = protection["attack"]["perfect"]["universes"]
    everybody, exposed = universes[ALL], universes.get(EXPOSED) or {}
    shown = shown_error(protection, words)
    return [
        protection["name"] + ("*" if _sampled(protection) else ""),
        "–" if shown is None else f"{shown:,.1f}",
        percent(protection["cells_published"]["all"]),
        "yes" if protection["sums_agree"]["all"] else "no",
        percent(everybody["putative_rate"]),
        percent(everybody["confirmed_rate"]),
        percent(everybody["precision"]),
        percent(exposed.get("better_of_attack_and_guessers"), 1)
        + (" °" if exposed.get("no_better_than_a_guess") else ""),
        f"{exposed['putative']:,}" if exposed else "–",
        percent(exposed.get("proportional_guesser_precision"), 1),
    ]


def _sampled(protection: dict[str, Any]) -> bool:
    reconstruction = protection["attack"]["reconstruction"]
    return bool(reconstruction["blocks_attacked"] < reconstruction["inhabited_blocks"])
