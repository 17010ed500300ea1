"""``confide account``: what a budget means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from confide.cli.show import Json, out, show_answer, table
from confide.exact import down, fraction_up, up
from confide.mechanisms import MECHANISMS
from confide.mechanisms.topdown.strategy import StrategyAccount, StrategyLoss
from confide.mechanisms.topdown.strategy_file import account_strategy
from confide.privacy import PureDP
from confide.releases.loss_account import (
    EpsilonOfRho,
    ReleaseAccount,
    RhoOfEpsilon,
    account_release,
    epsilon_of_rho,
    rho_of_epsilon,
)
from confide.releases.plan import NO_BUDGET

WAYS = ("canonne_kamath_steinke", "bun_steinke", "gaussian_limit")
WORDS = {
    "bun_steinke": "Bun and Steinke (2016): the simplest bound; older documents use it",
    "canonne_kamath_steinke": "Canonne, Kamath and Steinke (2020): the bound to quote",
    "gaussian_limit": "what a continuous Gaussian mechanism of this cost has; for comparison",
}


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
    answer = account_strategy(name, root=root, budget=budget, renormalise=renormalise, delta=delta)
    show_answer(answer, lambda: show_strategy(answer, delta), as_json=as_json)


def show_strategy(account: StrategyAccount, delta: str) -> None:
    """The loss and the noise of a strategy."""
    chosen = account.strategy
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
    for part in account.left_by_invariants.limited:
        out.print(f"Beside the invariants: {part.words()}.", markup=False)


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
    if epsilon is not None:
        budget = rho_of_epsilon(epsilon, delta)
        show_answer(budget, lambda: _show_rho(budget), as_json=as_json)
        return
    assert rho is not None
    answer = epsilon_of_rho(rho, delta)
    show_answer(answer, lambda: _show_epsilons(answer, delta), as_json=as_json)


def release(
    folder: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is stated.")] = "1e-10",
    as_json: Json = False,
) -> None:
    """The cost of a release, composed anew from its measurements, with its privacy loss distribution."""
    answer = account_release(folder, delta)
    show_answer(answer, lambda: show_release(answer, delta), as_json=as_json)


def show_release(answer: ReleaseAccount, delta: str) -> None:
    """The cost of a release, in every way that it can be stated."""
    plan, ways, bracket = answer.plan, answer.epsilons, answer.loss_distribution
    if not plan.has_loss:
        said = MECHANISMS[plan.mechanism].explain.unaccounted(plan) if plan.mechanism in MECHANISMS else NO_BUDGET
        none = "No privacy loss is accounted for: this release promises no differential privacy."
        out.print(none if said == NO_BUDGET else said)
        return
    if ways is None:
        holds = "; it holds with delta = 0" if isinstance(plan.loss, PureDP) else ""
        out.print(f"{plan.loss} ({plan.neighbours.value}){holds}.")
        return
    _table(ways)
    if bracket is None:
        out.print("\nThe privacy loss distribution is not computed for groups that overlap.")
    else:
        exact = f"{down(bracket.optimistic, 4)} to {up(bracket.pessimistic, 4)}"
        out.print(f"\nThe privacy loss distribution of these {len(plan.measures):,} measurements gives {exact}.")
    if bracket is not None and len(plan.paths) > 1:
        out.print(f"It is that of the worst move between {len(plan.paths):,} kinds of places with different noise.")
    ends = "" if bracket is None else ", the lower end down"
    out.print(f"{plan.loss} ({plan.neighbours.value}) at delta = {delta}; every bound is rounded up{ends}.")


def _show_rho(answer: RhoOfEpsilon) -> None:
    text = f"rho = {answer.rho} (about {float(answer.rho):.6g})"
    out.print(f"{text} gives at most epsilon {answer.epsilon} at delta {answer.delta}.")


def _show_epsilons(answer: EpsilonOfRho, delta: str) -> None:
    _table(answer.epsilons)
    out.print(f"\nrho = {answer.rho} at delta = {delta}; every figure is rounded up.")


def _table(ways: Mapping[str, float]) -> None:
    table(["epsilon ", "by"], [(up(value, 4), WORDS[name]) for name, value in ways.items()])
