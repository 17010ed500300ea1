"""``confide tune tables``: margins and parts of the budget of a programme, either from the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli.show import Json, out, print_json, show_answer, table
from confide.errors import ConfideError, ParameterError, Place
from confide.mechanisms.tables.tuning import TablesFromTargets, TablesTuning, tune_tables
from confide.report.render import exact_text, fraction_up, up
from confide.risk.testing.protection import StatedProtection


def tables(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec of a release by the mechanism tables.")],
    margin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE:LEVEL=PERSONS", help="The noise margin that the cells of a row should have; repeatable."
        ),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE:LEVEL=BUDGET", help="The part of the budget of a row; repeatable."),
    ] = None,
    lock: Annotated[
        list[str] | None, typer.Option(metavar="TABLE:LEVEL", help="A row that keeps its part; repeatable.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Another budget for the release; rows follow.")] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--others-follow/--budget-follows", help="What gives way: the other rows, or the budget of the release."
        ),
    ] = True,
    persons: Annotated[
        int | None, typer.Option(min=1, help="How many persons there are: margins as shares of a typical area.")
    ] = None,
    prior: Annotated[str, typer.Option(help="What somebody who knows everybody else believes beforehand.")] = "0.01",
    write: Annotated[
        str | None, typer.Option("--write", metavar="NAME.toml", help="Write a new spec with these parts beside SPEC.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help='In words: "margin<=10 in county", for all tables or by name; repeatable.'),
    ] = None,
    total: Annotated[
        str | None, typer.Option(help="With --target: what the release spends; default: what targets and others need.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="With --target: write the spec with these shares.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Margins of each table on each level, and what they cost. Set either, and the rest follows. Reads no records."""
    if target or total is not None or file is not None:
        given = {"--margin": margin, "--row": row, "--lock": lock, "--budget": budget, "--write": write}
        _tune_for_targets(spec, target or [], total, file, [name for name, value in given.items() if value], as_json)
        return
    from dataclasses import replace

    from confide.exact import probability
    from confide.studio import board as boards

    opened = boards.opened_board(spec)
    start = opened.start.with_persons(persons)
    locked = frozenset(boards.parsed_rows(f"{each}=0" for each in lock or ()))
    parts = boards.parsed_rows(row or ())
    both = {*parts, *boards.parsed_rows(margin or ())}
    opened = replace(
        opened, start=start, tuning=start, locked=locked | both, keep_total=follow, prior=probability(prior, "prior")
    )
    typed = boards.Typed(boards.parsed_rows(margin or ()), parts, budget or "")
    moved, findings = boards.moved(opened, typed)
    if findings:
        raise ConfideError(findings)
    written = None if write is None else boards.write_tuned(moved.loaded, moved.tuning, write)
    if as_json:
        answer = moved.tuning.as_dict() | {"protection": moved.protection.as_dict()}
        print_json(answer | ({} if written is None else {"written": str(written.file)}))
        return
    _show(moved.tuning, moved.protection)
    if written is not None:
        out.print(escape(f"\nWrote {written.file}. Then: confide check {written.file}"))


def _tune_for_targets(
    spec: Path, targets: list[str], total: str | None, file: Path | None, others: list[str], as_json: bool
) -> None:
    """Shares from targets in words, which follow from nothing else."""
    if others:
        raise ParameterError(
            "targets-and-rows",
            "parts of the budget follow from targets, or are set row by row",
            where=Place(path="--target"),
            found=", ".join(others),
            expected="--target with --total and --out, or the other options",
            remedy="leave one of them out",
        )
    answer = tune_tables(spec, targets, total=total, out=file)
    show_answer(answer, lambda: _show_shares(answer), as_json=as_json)


def _show_shares(answer: TablesFromTargets) -> None:
    rows = [
        (
            row.table,
            row.level,
            "" if row.target is None else row.target.text,
            f"{100 * float(row.present):.3g}",
            f"{100 * float(row.share):.3g}",
            f"±{row.margin:,}",
        )
        for row in answer.rows
    ]
    columns = ["table", "level", "target", "share now, per cent ", "share, per cent ", "margin "]
    unit = "rho" if answer.definition == "zcdp" else "epsilon"
    title = f"Shares of {unit} {float(answer.total):.6g}; targets need {float(answer.needed):.6g}"
    table(columns, rows, title=title)
    if answer.written is not None:
        out.print(f"\nWrote {escape(str(answer.written))}. Check it: confide check {escape(str(answer.written))}")


def _show(tuning: TablesTuning, protects: StatedProtection) -> None:
    shares = [row.share for row in tuning.rows]
    rows = [
        (
            row.table,
            row.level,
            f"{row.areas:,}",
            f"±{row.margin:,}",
            *([] if share is None else [f"{100 * share:.3g} %"]),
            exact_text(row.budget) if row.budget.denominator < 10**7 else fraction_up(row.budget),
        )
        for row, share in zip(tuning.rows, shares, strict=True)
    ]
    typical = [] if tuning.persons is None else ["of a typical area "]
    chance = f"{100 * float(tuning.probability):.4g}"
    title = f"Noise of a cell is within the margin in {chance} of 100 cases"
    table(["table", "level", "areas ", "margin ", *typical, "part of the budget "], rows, title=title)
    price = protects.price
    out.print(f"\nBudget: {price.loss} ({price.neighbours.value}), that is epsilon = {up(price.epsilon, 2)}.")
    out.print(price.in_words)
    out.print(
        f"The best test at a level of 5 % notices at most {up(100 * protects.power, 1)} of 100 cases. "
        f"A belief of {float(protects.prior):.4g} rises on average to at most {up(protects.posterior, 4)}, where it is "
        "right."
    )
