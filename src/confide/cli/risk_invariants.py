"""``confide risk invariants``: what figures without noise do to the promise of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from confide.cli.show import Json, out, print_json, table
from confide.documents import load_shipped, shipped
from confide.errors import ParameterError
from confide.exact import positive
from confide.privacy.invariants.group_statements import DELTA, RecordLoss, explain, group_concentration, numbers
from confide.privacy.invariants.indistinguishable import Mode, RecordGroup, record_groups
from confide.privacy.invariants.language import Invariants
from confide.privacy.invariants.single_record import Answer, Status, single_record
from confide.privacy.statements import factor, rounded_up
from confide.risk.invariant_sets import KIND, load_invariants

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
        _list(as_json=as_json)
        return
    if epsilon is not None and rho is not None:
        raise ParameterError(
            "two-losses",
            "a release has one loss, and two are given",
            found="--epsilon and --rho",
            expected="--epsilon for pure differential privacy, --rho for zCDP",
            remedy="give one of them",
        )
    chosen = load_invariants(names)
    answers, found = single_record(chosen), record_groups(chosen)
    sentences = explain(answers, found, RecordLoss(epsilon, rho, delta))
    if as_json:
        print_json(_as_dict(chosen, answers, found, epsilon, rho, delta) | ({"explain": sentences} if words else {}))
        return
    _show(chosen, answers, found, epsilon, rho, delta)
    for sentence in sentences if words else ():
        out.print()
        out.print(sentence, markup=False)


def _as_dict(
    chosen: Invariants,
    answers: Mapping[str, Answer],
    found: Mapping[Mode, RecordGroup],
    epsilon: str | None,
    rho: str | None,
    delta: str,
) -> dict[str, Any]:
    def priced(multiplier: int | None) -> dict[str, Any]:
        asked = epsilon is not None or rho is not None
        if multiplier is None or not asked:
            return {}
        return {"loss": numbers(multiplier, epsilon=epsilon, rho=rho, delta=delta)}

    return {
        "invariants": list(chosen.names),
        "records": chosen.records.id,
        "single_record": {name: a.as_dict() | priced(a.multiplier) for name, a in answers.items()},
        "group": {mode.value: group.as_dict() | priced(group.multiplier) for mode, group in found.items()},
    } | ({"delta": delta} if rho is not None else {})


def _show(
    chosen: Invariants,
    answers: Mapping[str, Answer],
    found: Mapping[Mode, RecordGroup],
    epsilon: str | None,
    rho: str | None,
    delta: str,
) -> None:
    out.print(f"[bold]Published without noise:[/] {', '.join(chosen.names)}; records {chosen.records.id}.\n")
    rows = []
    for answer in answers.values():
        bound = "not quantified" if answer.multiplier is None else f"{answer.multiplier} ε"
        told = "; ".join(answer.cells) if answer.status is not Status.FREE else ""
        rows.append((answer.title, STATUS[answer.status], bound, told))
    table(["one record's", "is", "protected at", "cells that cannot be left"], rows, title="One record changed")
    situations = dict.fromkeys(words for answer in answers.values() for words in answer.depends_on)
    if situations:
        out.print("\nFewer values are possible where " + "; or ".join(situations) + ".", markup=False)
    out.print()
    columns = ["group that leaves open what is fixed", "records ", "protected at "]
    lines = []
    for mode, group in found.items():
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
    for mode, group in found.items():
        for when, size in group.exceptions:
            if size > group.size:
                out.print(f"{mode.value}: {size} records, {2 * size} ε, where {' and '.join(when)}.", markup=False)
    out.print("\nWhat the invariants give away by themselves is not limited by these numbers.")


def _list(*, as_json: bool) -> None:
    listed = [(name, load_shipped(KIND, name)) for name in shipped(KIND)]
    if as_json:
        print_json([{"name": name, "title": values["title"], "records": values["records"]} for name, values in listed])
        return
    table(["name", "published without noise", "records"], [(n, v["title"], v["records"]) for n, v in listed])
