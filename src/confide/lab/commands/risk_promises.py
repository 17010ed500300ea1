"""``confide risk curve`` and ``confide risk invariants``: what a promise comes to.

The first shows the guarantee as curves, what a test can find out and how epsilon depends on delta; the second what
figures without noise do to the promise of the others.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import typer

from confide.cli.commands import setting
from confide.cli.show import Json, Plots, out, print_json, show_answer, table, write
from confide.exact import exact_text, fraction_up, positive, shortened_up, up
from confide.lab.risk import CurveAnswer, EpsilonCurveAnswer, InvariantsAnswer, curve_of_epsilon, shipped_invariants
from confide.lab.risk import curve as answer_curve
from confide.lab.risk import invariants as answer_invariants
from confide.lab.risk.testing.curve_answer import DELTA, DELTAS, LEVELS, curve_of_what
from confide.privacy import Bracket
from confide.privacy.invariants.group_statements import DELTA as GROUP_DELTA
from confide.privacy.invariants.group_statements import group_concentration
from confide.privacy.invariants.single_record import Status
from confide.privacy.statements import factor, rounded_up


def curve(
    rho: Annotated[str | None, typer.Option(help="A zCDP budget: an exact number such as 2.56.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Or an epsilon: pure, or with each --delta an (epsilon, delta).")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Or a TopDown strategy: shipped, or the path of a file.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="The root of the strategy.")] = None,
    level: Annotated[
        list[str] | None, setting("--level", help="The level of the test; repeatable. Default: 0.05.")
    ] = None,
    delta: Annotated[
        list[str] | None, setting("--delta", help="A delta; repeatable. Default: 1e-6, 1e-8, 1e-10, 1e-12.")
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """The largest power of a test about one record at a level, and epsilon over delta, in every way that is known.

    With --strategy also what its own measurements allow, and the same by attribute and by block within each geolevel.
    """
    if sum(option is not None for option in (rho, epsilon, strategy)) != 1:
        raise curve_of_what("--rho, --epsilon or --strategy", "give exactly one of them")
    if root is not None and strategy is None:
        raise curve_of_what("--strategy", "leave out --root, which is about a strategy")
    if epsilon is not None:
        by_epsilon = curve_of_epsilon(epsilon, levels=level or LEVELS, deltas=delta or ())
        drawn = [] if plots is None else write(plots, by_epsilon.pictures())
        show_answer(by_epsilon, lambda: show_epsilon_curve(by_epsilon), as_json=as_json, drawn=drawn)
        return
    answer = answer_curve(rho, strategy=strategy, root=root, levels=level or LEVELS, deltas=delta or DELTAS)
    drawn = [] if plots is None else write(plots, answer.pictures())
    show_answer(answer, lambda: show_curve(answer), as_json=as_json, drawn=drawn)


def show_epsilon_curve(answer: EpsilonCurveAnswer) -> None:
    """Pure differential privacy, or approximate at each δ that was given."""
    epsilon = exact_text(answer.epsilon)
    if answer.posterior is None:
        title = f"The largest power of a test, if ({epsilon}, delta) is all that is known"
        rows = [(f"{float(p.level):g}", f"{float(p.delta or 0):g}", up(p.power, 6)) for p in answer.powers]
        table(["level ", "delta ", "power "], rows, title=title)
        out.print("\nOne pair of epsilon and delta says less than the release it was stated for. With rho, use --rho.")
        return
    title = f"The largest power of a test about one record, under pure epsilon = {epsilon}"
    table(["level ", "power "], [(f"{float(p.level):g}", up(p.power, 6)) for p in answer.powers], title=title)
    out.print(f"\nThe largest advantage, power less level: {up(answer.advantage or 0.0, 6)}.")
    words = answer.posterior.words
    out.print(f"One record multiplies no posterior probability by more than {words} = exp(2 epsilon).")


def show_curve(answer: CurveAnswer) -> None:
    """Power over level, epsilon over delta, and with a strategy the parts of its promise."""
    own = answer.powers[0].exact is not None
    columns = ["level ", "any release with this rho ", "Gaussian noise "] + (["these measurements "] if own else [])
    rows = [
        [f"{float(point.level):g}", up(point.zcdp, 6), up(point.gaussian, 6), *_bracket(point.exact, 6)]
        for point in answer.powers
    ]
    table(columns, rows, title=f"The largest power of a test about one record, rho = {fraction_up(answer.rho)}")
    out.print()
    columns = ["delta ", "Bun-Steinke ", "Canonne-Kamath-Steinke ", "Gaussian limit "]
    rows = [
        [f"{float(p.delta):g}", *(up(value, 4) for value in p.ways.values()), *_bracket(p.exact, 4)]
        for p in answer.epsilons
    ]
    table(columns + (["these measurements "] if own else []), rows, title="Epsilon over delta")
    out.print("\nThe columns for Gaussian noise are for comparison; they do not bound other noise of the same rho.")
    text = f"The largest advantage, power less level: {up(answer.advantage.zcdp, 4)} for any release"
    out.print(f"{text}, {up(answer.advantage.gaussian, 4)} for Gaussian noise.")
    out.print(
        f"One record multiplies no posterior probability by more than {answer.posterior.words}, "
        f"but for a probability of at most {shortened_up(Fraction(answer.posterior.exceeded), 3)}."
    )
    if answer.parts:
        _show_parts(answer)


def _show_parts(answer: CurveAnswer) -> None:
    rows, level = [], answer.levels[0]
    for part in answer.parts:
        (power,), (point,) = part.powers([level]), part.epsilons([DELTA])
        epsilon = up(point.ways["canonne_kamath_steinke"], 4)
        rows.append([part.words, fraction_up(part.rho), epsilon, up(power.zcdp, 4), *_bracket(power.exact, 4)])
    out.print()
    columns = ["one record differs", "rho ", "epsilon ", "any release ", "these measurements "]
    table(columns, rows, title=f"In part: epsilon at delta = {float(DELTA):g}, and the power at level {float(level):g}")
    out.print("\nEpsilon is that of Canonne, Kamath and Steinke. Figures published without noise are not covered.")


def _bracket(ends: Bracket | None, digits: int) -> list[str]:
    """The upper end, which is the one to quote."""
    return [] if ends is None else [up(ends.pessimistic, digits)]


# ``confide risk invariants``: what figures without noise do to the promise of the others.


STATUS = {
    Status.FREE: "free",
    Status.COARSE: "inside a cell",
    Status.DATA: "depends on the data",
    Status.FIXED: "fixed",
}


def invariants(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Invariants that ship, or paths of TOML files.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="The loss of the release, in pure ε.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="The loss of the release, in zCDP.")] = None,
    delta: Annotated[str, typer.Option("--delta", help="The δ at which a ρ is stated as an ε.")] = GROUP_DELTA,
    words: Annotated[bool, typer.Option("--explain", help="Say in sentences what it means.")] = False,
    as_json: Json = False,
) -> None:
    """What invariants do to the promise: for one record, and for the smallest group that hides what they fix.

    Without a name: the invariants that ship. No records are read.
    """
    if not names:
        _show_shipped(as_json=as_json)
        return
    answer = answer_invariants(names, epsilon=epsilon, rho=rho, delta=delta, explained=words)
    show_answer(answer, lambda: show_invariants(answer), as_json=as_json)


def show_invariants(answer: InvariantsAnswer) -> None:
    """One record, the smallest groups, and the sentences if they were asked for."""
    _show_single_record(answer)
    out.print()
    _show_groups(answer)
    out.print("\nWhat the invariants give away by themselves is not limited by these numbers.")
    for sentence in answer.sentences if answer.explained else ():
        out.print()
        out.print(sentence, markup=False)


def _show_single_record(answer: InvariantsAnswer) -> None:
    names, records = answer.invariants.names, answer.invariants.records.id
    out.print(f"[bold]Published without noise:[/] {', '.join(names)}; records {records}.\n")
    rows = []
    for item in answer.single_record.values():
        bound = "not quantified" if item.multiplier is None else f"{item.multiplier} ε"
        cells = "; ".join(item.cells) if item.status is not Status.FREE else ""
        rows.append((item.title, STATUS[item.status], bound, cells))
    table(["one record's", "is", "protected at", "cells that cannot be left"], rows, title="One record changed")
    situations = dict.fromkeys(words for item in answer.single_record.values() for words in item.depends_on)
    if situations:
        out.print("\nFewer values are possible where " + "; or ".join(situations) + ".", markup=False)


def _show_groups(answer: InvariantsAnswer) -> None:
    epsilon, rho, delta = answer.loss.epsilon, answer.loss.rho, answer.loss.delta
    columns = ["group that leaves open what is fixed", "records ", "protected at "]
    lines = []
    for mode, group in answer.groups.items():
        line = [mode.value, str(group.size), f"{group.multiplier} ε"]
        if epsilon is not None:
            line.append(factor(group.multiplier * positive(epsilon, "--epsilon")))
        if rho is not None:
            worst, distinct = group_concentration(group.size, rho, delta)
            line += [rounded_up(worst.rho), rounded_up(worst.epsilon, 2), factor(worst.log_factor)]
            line += [rounded_up(distinct.rho), rounded_up(distinct.epsilon, 2)]
        lines.append(line)
    columns += ["factor at most "] if epsilon is not None else []
    columns += ["k²ρ ", "ε at δ ", "factor, but for 2δ ", "kρ ", "ε at δ "] if rho is not None else []
    table(columns, lines, title="The smallest group")
    for mode, group in answer.groups.items():
        for when, size in group.exceptions:
            if size > group.size:
                out.print(f"{mode.value}: {size} records, {2 * size} ε, where {' and '.join(when)}.", markup=False)


def _show_shipped(*, as_json: bool) -> None:
    listed = shipped_invariants()
    if as_json:
        print_json([item.as_dict() for item in listed])
        return
    rows = [(item.name, item.title, item.records) for item in listed]
    table(["name", "published without noise", "records"], rows)
