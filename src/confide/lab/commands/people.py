"""``confide demo`` and ``confide import``: people who are made up or published already; and ``confide compare``: one
population, several protections, one page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.requests import Given, command
from confide.cli.show import Display, Json, out, print_json, table
from confide.cli.verbs import show_headline
from confide.exact import fraction_up
from confide.lab import demonstration
from confide.lab.comparison import ProtectionComparison
from confide.lab.comparison import compare as make
from confide.lab.comparison.attacking import ALL, EXPOSED
from confide.lab.comparison.page import percent, shown_error
from confide.lab.pl94 import import_pl94
from confide.lab.population import simulate


def demo(
    mechanism: Annotated[
        str,
        typer.Argument(
            metavar="[MECHANISM]",
            help="topdown (the default), tables, safetab, cellkey, swapping or suppression.",
        ),
    ] = "topdown",
    folder: Annotated[
        Path, typer.Option("--out", help="A new folder for the results; if it exists, demo-2 is used, and so on.")
    ] = Path("demo"),
    persons: Annotated[
        int | None, typer.Option(help="How many made-up persons; default: 200,000, for suppression 50,000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same people; the noise is new every time.")] = 7,
    layout: Annotated[
        str | None,
        typer.Option("--layout", help="For tables, swapping, suppression: us-state (the default) or eu-country."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make complete releases of made-up people, with ledger, certificate, verification, and a dossier with pictures.

    topdown: persons and housing units, records in, protected records and tables out. tables: counts with noise and
    margins. safetab: detailed race and ethnicity groups, from the Census Bureau's input layout to its tables. cellkey:
    the tables of the EU programme. swapping: households exchange places. suppression: small counts are left out.
    """
    demonstrations = demonstration.DEMONSTRATIONS
    if mechanism not in demonstrations:
        raise typer.BadParameter(f"there is no demonstration of {mechanism!r}: {' or '.join(demonstrations)}")
    if layout is not None and mechanism not in demonstration.OF_A_COUNTRY:
        raise typer.BadParameter(f"--layout goes with {', '.join(demonstration.OF_A_COUNTRY)}")
    asked: dict[str, Any] = {} if persons is None else {"persons": persons}
    asked |= {} if layout is None else {"layout": layout}
    demonstrated = demonstrations[mechanism](folder, **asked, seed=seed, progress=Display(quiet=as_json))
    if as_json:
        print_json(demonstrated.as_dict())
        raise typer.Exit(0 if demonstrated.ok else 1)
    for about, release in demonstrated.releases.items():
        _show(about, release)
    out.print("\nLook at:")
    for sentence in demonstrated.look_at:
        out.print(f"  {escape(sentence)}", soft_wrap=True)
    account = list(demonstrated.releases.values())[-1].run.account
    spent = f"{mechanism} has no privacy budget" if account is None else ""
    if account is not None:
        spent = f"the ledger has {fraction_up(account.spent)} spent of {fraction_up(account.budget)}"
    out.print(f"\n{demonstrated.persons:,} made-up persons; {spent}.")
    out.print(escape(f"In the browser: confide studio {demonstrated.folder}"))
    raise typer.Exit(0 if demonstrated.ok else 1)


def _show(about: str, release: demonstration.DemoRelease) -> None:
    run = release.run
    out.print()
    accuracy = release.evaluated.accuracy.reveal("the demonstration's people are made up")
    show_headline(accuracy, f"{about.capitalize()}: released compared with true", release.beside)
    if run.plan.has_loss:
        (rho,) = run.plan.loss.parameters().values()
        out.print(f"cost         rho = {fraction_up(rho)} ({run.plan.neighbours.value})")
    out.print(
        f"release      {escape(str(run.release))}  ({'verified' if release.verification.ok else 'NOT AS SEALED'})"
    )
    document = "certificate" if run.plan.has_loss else "statement"
    out.print(f"{document:11}  {escape(str(run.release / f'{document}.html'))}")
    out.print(f"dossier      {escape(str(release.evaluated.dossier))}  (confidential: for the curator only)")


def _show_made_up(folder: Path, persons: int, seed: int) -> None:
    out.print(f"{persons:,} made-up persons (seed {seed}) in {escape(str(folder))}")


pl94 = command(
    "Person and block files from a redistricting file; every published cell is tabulated again and compared.",
    import_pl94,
    lambda answer: out.print(escape(str(answer))),
    options={"zip_path": "ZIP", "out_folder": "--out"},
    without="limit",
)
made_up = command(
    "Make up people, with places, households and group quarters. Nothing comes from a real person.",
    simulate,
    lambda _, folder, persons, seed: _show_made_up(folder, persons, seed),
    options={"folder": "--out", "persons": Given(default=100_000), "seed": Given(default=7)},
    without="settings",
)


WORDS = """error: of the {shown} of a {large}, mean, in persons; cells: published, of those above zero; sums: whether
they agree; match, right: of the people whom an outsider knows, those matched and those matched rightly; prec.: the
precision, right of matches; exposed: the precision for those who are alone of their {known_group}, not of the
{unit}'s largest group, in a {unit} whose true tables have one solution alone; of: so many matches; guess: how often
somebody is right about these who guesses in proportion to the groups of the {unit}."""
WEAK = "°: the attack is no better than a guess, and the share is that of the guess."
SAMPLED = "*: attacked in a sample of {units}."


def _show_comparison(answer: ProtectionComparison) -> None:
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


compare = command(
    """Protect the same people in several ways, attack each, and write one page: DIR/comparison.html.

    No protection, swapping, suppression, the cell key method, noisy tables, TopDown: errors by geography, counts
    published, and how many people an outsider recognises, beside what guessing gives. It uses the truth.
    """,
    make,
    _show_comparison,
    options={"spec": "SPEC", "folder": "--out DIR", "also": "--also MECHANISM=RHO"},
)
