"""``confide tune board`` and ``confide tune tables``: what choices do, what accuracy costs, either from the other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, out, print_json, show_answer, table
from confide.errors import ConfideError, ParameterError, Place
from confide.mechanisms.tables.tuning import TablesFromTargets, TablesTuning, tune_tables
from confide.report.render import exact_text, fraction_up, up

if TYPE_CHECKING:
    from confide.releases.boards import BoardEntry
    from confide.studio.board import OpenedBoard


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

    from confide.releases.boards import Moving
    from confide.studio import board as boards

    opened = boards.opened_board(spec)
    if not isinstance(opened.start, TablesTuning):
        raise ParameterError(
            "not-tables",
            "this is not the spec of a programme of tables",
            where=Place(file=str(spec), path="release.mechanism"),
            found=opened.loaded.spec.release.mechanism,
            expected="tables",
            remedy="`confide tune board SPEC` is for every mechanism",
        )
    start = opened.start.with_persons(persons)
    parts, margins = boards.parsed_choices(row or ()), boards.parsed_choices(margin or ())
    moves = [(f"margin:{name}", text) for name, text in margins.items()]
    moves += [(f"part:{name}", text) for name, text in parts.items()]
    moves += [("budget", budget)] if budget else []
    locked = frozenset((*(lock or ()), *parts, *margins))
    _check_rows(start, locked)
    opened = replace(opened, start=start, now=start, moving=Moving(locked, follow), prior=boards.asked_prior(prior))
    moved, findings = boards.moved(opened, moves)
    if findings:
        raise ConfideError(findings)
    written = None if write is None else boards.write_tuned(moved, write)
    assert isinstance(moved.now, TablesTuning)
    if as_json:
        answer = moved.now.as_dict() | {"protection": boards.stated_protection(moved).as_dict()}
        print_json(answer | ({} if written is None else {"written": str(written.file)}))
        return
    _show(moved.now, boards.stated_protection(moved))
    if written is not None:
        out.print(escape(f"\nWrote {written.file}. Then: confide check {written.file}"))


def _check_rows(tuning: TablesTuning, names: Collection[str]) -> None:
    known = [":".join(row) for row in tuning.budgets]
    for name in sorted(names):
        if name not in known:
            raise ParameterError(
                "no-row",
                "the programme has no such row",
                found=name[:80],
                expected="one of " + ", ".join(known),
                remedy="give a table and one of its levels, such as " + known[0],
            )


def board(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The spec of a release by any mechanism with a board.")],
    chosen: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A choice, exactly; nothing else moves. Repeatable."),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option("--move", metavar="NAME=VALUE", help="What would be typed on the board; others follow."),
    ] = None,
    lock: Annotated[list[str] | None, typer.Option(metavar="ROW", help="A row that keeps its part.")] = None,
    follow: Annotated[
        bool, typer.Option("--others-follow/--budget-follows", help="What gives way when a row moves.")
    ] = True,
    prior: Annotated[str, typer.Option(help="What somebody who knows everybody else believes beforehand.")] = "0.01",
    write: Annotated[
        str | None, typer.Option("--write", metavar="NAME.toml", help="Write a new spec with these choices beside it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What the choices of a spec do and what they protect from: the trade-off board of the studio. Reads no records."""
    from confide.studio import board as boards

    opened = boards.tune_board(
        spec,
        boards.parsed_choices(chosen or ()),
        boards.parsed_choices(move or ()),
        locked=lock or (),
        keep_total=follow,
        prior=prior,
        write=write,
    )
    show_answer(opened, lambda: _show_board(opened), as_json=as_json)


def _show_board(opened: OpenedBoard) -> None:
    now, shield = opened.now, opened.shield

    def text(entry: BoardEntry | str) -> str:
        return escape(entry if isinstance(entry, str) else entry.text)

    columns = [f"{column.title} " if column.numeric else column.title for column in now.columns]
    rows = [(escape(row.name), *(text(row.entries.get(column.name, "")) for column in now.columns)) for row in now.rows]
    if rows:
        table([now.row_head, *columns], rows, title=now.caption)
    for entry in (*now.settings, *now.dials):
        out.print(escape(f"{entry.title} ({entry.name}): {entry.text or '–'}"))
    out.print()
    for sentence in shield.words:
        out.print(escape(sentence))
    for figure in shield.figures:
        note = f" ({figure.note})" if figure.note else ""
        out.print(escape(f"{figure.title}: {figure.text}{note}"))
    if opened.written is not None:
        out.print(escape(f"\nWrote {opened.written}. Then: confide check {opened.written}"))


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


def _show(tuning: TablesTuning, protects: Any) -> None:
    shares = [row.share for row in tuning.tuned_rows]
    rows = [
        (
            row.table,
            row.level,
            f"{row.areas:,}",
            f"±{row.margin:,}",
            *([] if share is None else [f"{100 * share:.3g} %"]),
            exact_text(row.budget) if row.budget.denominator < 10**7 else fraction_up(row.budget),
        )
        for row, share in zip(tuning.tuned_rows, shares, strict=True)
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
