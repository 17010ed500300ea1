"""``confide risk invariants``: what figures without noise do to the promise of the others."""

from __future__ import annotations

from typing import Annotated

import typer

from confide.cli.show import Json, out, print_json, show_answer, table
from confide.exact import positive
from confide.privacy.invariants.group_statements import DELTA, group_concentration
from confide.privacy.invariants.single_record import Status
from confide.privacy.statements import factor, rounded_up
from confide.risk import InvariantsAnswer, shipped_invariants
from confide.risk import invariants as answer_invariants

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
    delta: Annotated[str, typer.Option("--delta", help="The δ at which a ρ is stated as an ε.")] = DELTA,
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
