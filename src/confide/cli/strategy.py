"""``confide account strategy``: what a TopDown strategy costs, and how noisy it is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated

import typer

from confide.cli.numbers import number
from confide.cli.show import Json, out, print_json, table
from confide.report.render import fraction_up, up
from confide.topdown.strategies.accounting import Account, Stated, account_of
from confide.topdown.strategies.file import load_strategy

WAYS = ("canonne_kamath_steinke", "bun_steinke", "gaussian_limit")
SMALLEST = Fraction(1, 10**50)


def register(app: typer.Typer) -> None:
    """Adds the command to ``confide account``."""
    app.command()(strategy)


def strategy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A shipped strategy, or the path of a strategy file.")],
    root: Annotated[
        str | None, typer.Option(help="The root: for the shipped ones us, pr, or state for one state on its own.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="A rho in place of the strategy's own; the shares stay.")] = None,
    renormalise: Annotated[
        bool | None,
        typer.Option(
            "--renormalise/--keep-noise",
            help="For a root cut from another: spend the whole budget, or keep the noise and spend less.",
        ),
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is stated.")] = "1e-10",
    as_json: Json = False,
) -> None:
    """The cost of a TopDown strategy, whole and in parts, and the variance of each of its measurements."""
    amount = None if budget is None else number(budget, "budget", SMALLEST, Fraction(10**6))
    chosen = load_strategy(name, root=root, budget=amount, renormalise=renormalise)
    account = account_of(chosen, number(delta, "delta", SMALLEST, Fraction(1, 2)))
    if as_json:
        print_json(account.as_dict())
        return
    out.print(f"[bold]{chosen.title}[/] ({chosen.id}), root {chosen.root}: {' > '.join(chosen.level_names)}\n")
    _costs(account)
    out.print()
    _variances(account)
    out.print(f"\n{chosen.provenance}")
    out.print(f"rho = {account.whole.rho} ({chosen.neighbours.value}), delta = {delta}; every bound is rounded up.")


def _costs(account: Account) -> None:
    """The loss, whole and in parts."""
    rows = [_row("in everything", account.whole)]
    rows += [_row(f"in {attribute} alone", stated) for attribute, stated in account.by_attribute.items()]
    rows += [_row(f"in its block, same {level}", stated) for level, stated in account.by_move_within.items()]
    columns = ["one record differs", "rho ", "epsilon ", "Bun-Steinke ", "Gaussian limit "]
    table(columns, rows, title="What is promised (epsilon by Canonne, Kamath and Steinke is the one to quote)")


def _row(what: str, stated: Stated) -> Sequence[str]:
    return [what, fraction_up(stated.rho), *(up(stated.epsilon[way], 4) for way in WAYS)]


def _variances(account: Account) -> None:
    """The variance of a noisy count, a row for each query and a column for each level."""
    variance = account.as_dict()["variance"]
    fullest = max(account.strategy.levels, key=lambda level: len(level.queries))
    cells = {asked.name: asked.query.cells for asked in fullest.queries}
    cells |= {measure.query: measure.cells for measure in account.measures}
    levels = account.strategy.level_names
    rows = [
        [
            query,
            f"{count:,}",
            *(f"{variance[level][query]:.4g}" if query in variance[level] else "-" for level in levels),
        ]
        for query, count in cells.items()
    ]
    title = "The variance of each noisy count, in a unit with the share of its level"
    table(["query", "cells ", *(f"{level} " for level in levels)], rows, title=title)
