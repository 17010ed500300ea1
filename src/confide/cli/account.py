"""``confide account``: what a budget means."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from confide.cli.show import Json, number, out, print_json, table
from confide.cli.show import number as number_of
from confide.mechanisms.topdown.strategy import StrategyAccount, StrategyLoss, account_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.privacy import ZCDP, PureDP, cks_rho, epsilons, event_epsilon_bracket
from confide.releases.folder import read_manifest
from confide.releases.plan import read_plan
from confide.report.render import fraction_up, up

# ``confide account strategy``: what a TopDown strategy costs, and how noisy it is.


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
    out.print(f"rho = {account.total.rho} ({chosen.neighbours.value}), delta = {delta}; every bound is rounded up.")


def _costs(account: StrategyAccount) -> None:
    """The loss, whole and in parts."""
    rows = [_row("in everything", account.total)]
    rows += [_row(f"in {attribute} alone", stated) for attribute, stated in account.by_attribute.items()]
    rows += [_row(f"in its block, same {level}", stated) for level, stated in account.by_move_within.items()]
    columns = ["one record differs", "rho ", "epsilon ", "Bun-Steinke ", "Gaussian limit "]
    table(columns, rows, title="What is promised (epsilon by Canonne, Kamath and Steinke is the one to quote)")


def _row(what: str, stated: StrategyLoss) -> Sequence[str]:
    return [what, fraction_up(stated.rho), *(up(stated.epsilon[way], 4) for way in WAYS)]


def _variances(account: StrategyAccount) -> None:
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


WORDS = {
    "bun_steinke": "Bun and Steinke (2016): the simplest bound; older documents use it",
    "canonne_kamath_steinke": "Canonne, Kamath and Steinke (2020): the bound to quote",
    "gaussian_limit": "what a continuous Gaussian mechanism of this cost has; for comparison",
}

app = typer.Typer(help="Privacy accounting: convert budgets, compare definitions.", no_args_is_help=True)
register(app)


@app.command()
def convert(
    rho: Annotated[
        str | None, typer.Option(help="A zCDP budget: an exact number such as 2.56 or 293764/114921.")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Or an epsilon; the largest rho that keeps it is printed.")
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is stated.")] = "1e-10",
    as_json: Json = False,
) -> None:
    """Epsilon of a zCDP budget at a delta, three ways, each rounded up; or the rho of an epsilon, rounded down."""
    if (rho is None) == (epsilon is None):
        raise typer.BadParameter("give either --rho or --epsilon")
    chance = number_of(delta, "delta")
    if epsilon is not None:
        largest = cks_rho(number_of(epsilon, "epsilon"), chance)
        if as_json:
            print_json({"epsilon": epsilon, "delta": delta, "rho": str(largest), "rho_decimal": float(largest)})
        else:
            out.print(f"rho = {largest} (about {float(largest):.6g}) gives at most epsilon {epsilon} at delta {delta}.")
        return
    assert rho is not None
    number = number_of(rho, "rho")
    ways = epsilons(number, chance)
    if as_json:
        print_json({"rho": str(number), "delta": str(chance)} | ways)
        return
    _table(ways)
    out.print(f"\nrho = {number} at delta = {delta}; every figure is rounded up.")


@app.command()
def release(
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is stated.")] = "1e-10",
    as_json: Json = False,
) -> None:
    """The cost of a release, composed anew from its measurements, with its privacy loss distribution."""
    plan = read_plan(read_manifest(folder)["plan"])
    chance = number_of(delta, "delta")
    if not plan.has_loss:
        if as_json:
            print_json({"loss": None})
        else:
            out.print("No privacy loss is accounted for: this release promises no differential privacy.")
        return
    result: dict[str, Any] = {"loss": plan.loss.as_dict(), "neighbours": plan.neighbours.value, "delta": str(chance)}
    if not isinstance(plan.loss, ZCDP):
        if as_json:
            print_json(result)
        else:
            holds = "; it holds with delta = 0" if isinstance(plan.loss, PureDP) else ""
            out.print(f"{plan.loss} ({plan.neighbours.value}){holds}.")
        return
    ways = epsilons(plan.loss.rho, chance)
    # Groups that overlap and are unlike have no distribution that we could compute; the bounds above hold all the same.
    bracket = None if plan.families else event_epsilon_bracket(plan.event, plan.neighbours, chance)
    if as_json:
        distribution = None if bracket is None else {"lower": bracket.optimistic, "upper": bracket.pessimistic}
        print_json(result | ways | {"privacy_loss_distribution": distribution})
        return
    _table(ways)
    if bracket is None:
        out.print("\nThe privacy loss distribution is not computed for groups that overlap.")
    else:
        exact = f"{up(bracket.optimistic, 4)} to {up(bracket.pessimistic, 4)}"
        out.print(f"\nThe privacy loss distribution of these {len(plan.measures):,} measurements gives {exact}.")
    if bracket is not None and len(plan.paths) > 1:
        out.print(f"It is that of the worst move between {len(plan.paths):,} kinds of places with different noise.")
    out.print(f"{plan.loss} ({plan.neighbours.value}) at delta = {delta}; every bound is rounded up.")


def _table(ways: dict[str, float]) -> None:
    table(["epsilon ", "by"], [(up(value, 4), WORDS[name]) for name, value in ways.items()])
