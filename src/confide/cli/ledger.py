"""``confide ledger``: what has been spent on a data set, for ever."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

import confide
from confide.cli.show import Json, out, print_json, show_findings, table
from confide.releases.ledger import Account, Ledger

LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file of the data set.")]


class DefinitionName(StrEnum):
    """The privacy definitions a budget can be in."""

    zcdp = "zcdp"
    pure = "pure"
    approximate = "approximate"


class NeighboursName(StrEnum):
    """The neighbour relations."""

    change_one = "change-one"
    add_remove = "add-remove"


def open_(
    path: LedgerFile,
    data_set: Annotated[str, typer.Option(help="The name of the data set.")],
    budget: Annotated[
        str, typer.Option(help="The total budget of the data set, which cannot be raised later: an exact number.")
    ],
    definition: Annotated[
        DefinitionName, typer.Option(help="The kind of privacy loss that the budget counts.")
    ] = DefinitionName.zcdp,
    neighbours: Annotated[
        NeighboursName,
        typer.Option(help="Which data sets the promise compares: one record changed, or one added or removed."),
    ] = NeighboursName.change_one,
    delta: Annotated[str, typer.Option(help="With approximate: the total delta of the data set.")] = "0",
    note: Annotated[str, typer.Option(help="Who decided on the budget, and why.")] = "",
) -> None:
    """Open the ledger of a data set, once, with all that may ever be spent on it."""
    ledger = Ledger.open_new(
        path,
        data_set=data_set,
        definition=definition.value,
        neighbours=neighbours.value,
        budget=budget,
        delta=delta,
        note=note,
    )
    account = ledger.account()
    budgets = f"{account.budget}" + (f" with delta {delta}" if account.delta else "")
    opened = f"Opened {path}: {budgets} ({account.definition}, {account.neighbours}) for {account.data_set!r}."
    out.print(escape(opened))


def show(path: LedgerFile, as_json: Json = False) -> None:
    """Show the budget, what is spent and every release."""
    account = Ledger(path).account()
    if as_json:
        print_json(account.as_dict())
        return
    out.print(
        f"[bold]{escape(account.data_set)}[/]: {account.definition}, {account.neighbours}, "
        f"opened {account.opened_at:%Y-%m-%d}"
    )
    table(
        ["budget ", "spent ", "left "],
        [(f"{account.budget}", f"{account.spent}", f"{account.left}"), *_rounded(account), *_deltas(account)],
    )
    rows = [
        (
            run.release,
            run.state,
            run.charged,
            f"{run.reserved_at:%Y-%m-%d %H:%M}",
            "destroyed" if run.key_destroyed else "kept",
        )
        for run in account.runs.values()
    ]
    if rows:
        out.print()
        table(["release", "state", "charged ", "reserved (UTC)", "key"], rows)


def history(path: LedgerFile, as_json: Json = False) -> None:
    """Every entry of the ledger in order, with its hash. The chain of hashes is verified."""
    entries = Ledger(path).history()
    if as_json:
        names = ("sequence", "time", "kind", "payload", "previous", "hash")
        rows = [dict(zip(names, entry.row(), strict=True)) for entry in entries]
        print_json([row | {"payload": _without_fingerprint(str(row["payload"]))} for row in rows])
        return
    table(
        ["", "time (UTC)", "kind", "hash"],
        [(entry.sequence, f"{entry.time:%Y-%m-%d %H:%M:%S}", entry.kind, entry.hash[:16]) for entry in entries],
    )


def void(
    path: LedgerFile,
    run_id: Annotated[str, typer.Argument(help="The id of the run, from `confide ledger show --json`.")],
    reason: Annotated[str, typer.Option(help="Why you give the reservation up.")],
) -> None:
    """Drop a reservation of which nothing was drawn yet, and free its cost."""
    Ledger(path).void(run_id, reason)
    out.print("The reservation is void. Its cost is available again.")


def reconcile(
    path: LedgerFile,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of the runs on this data set.")],
    as_json: Json = False,
) -> None:
    """Compare the ledger with the folders of its runs: finds a ledger that was cut off or put back, and lost runs."""
    findings = confide.reconcile(path, runs)
    if as_json or findings:
        show_findings(findings, as_json=as_json)
    else:
        out.print("The ledger and the run folders agree.")
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(1)


def _without_fingerprint(payload: str) -> dict[str, Any]:
    """The payload of an entry, without what stands for the records: it stays in the ledger."""
    values: dict[str, Any] = json.loads(payload)
    return {name: value for name, value in values.items() if name != "records_fingerprint"}


def _deltas(account: Account) -> list[tuple[str, ...]]:
    if not account.delta:
        return []
    return [tuple(f"delta {float(number):g}" for number in (account.delta, account.spent_delta, account.left_delta))]


def _rounded(account: object) -> list[tuple[str, str, str]]:
    values = [getattr(account, name) for name in ("budget", "spent", "left")]
    if all(value.denominator < 1_000 for value in values):
        return []
    return [("≈ " + f"{float(values[0]):.6g}", f"{float(values[1]):.6g}", f"{float(values[2]):.6g}")]
