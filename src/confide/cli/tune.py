"""``confide tune SPEC``: what choices do and what they protect from, or what targets need; for every mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, Processes, out, show_answer, show_findings, table
from confide.exact import up
from confide.registry import REGION, named

if TYPE_CHECKING:
    from confide.inference.tuning import ExpectedChange, NeededBudget, TopDownTuning
    from confide.mechanisms.tables.tuning import TablesFromTargets
    from confide.releases.boards import BoardEntry
    from confide.trade_offs import OpenedBoard

BEFORE_A_SPEC = {"cellkey": REGION}
"""What can be asked before there is a spec. Statements of cell-key releases name this command."""
NOTHING = 1e-9
"""A price below this is none: the target does not bind."""


def tune(
    spec: Annotated[
        Path,
        typer.Argument(
            metavar="SPEC",
            help="The spec file. No record is read, nothing is spent. Before there is one, the word cellkey: the noise "
            "that withstands attacks on the tables of the EU, as `confide risk region` finds it.",
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help='What is wanted, in words: "total<=5 in tract @95%" for topdown, "margin<=10 in county" for tables; '
            "repeatable. Budget and shares follow.",
        ),
    ] = None,
    move: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What would be typed on the board; others follow. Repeatable."),
    ] = None,
    chosen: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A choice, exactly; nothing else moves. Repeatable."),
    ] = None,
    lock: Annotated[list[str] | None, typer.Option(metavar="ROW", help="A row that keeps its part.")] = None,
    follow: Annotated[
        bool | None,
        typer.Option("--others-follow/--budget-follows", help="What gives way when a row moves; others by default."),
    ] = None,
    total: Annotated[
        str | None, typer.Option(help="What the release spends. With targets, default: what these need.")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="What somebody who knows everybody else believes beforehand; 0.01 by default.")
    ] = None,
    people: Annotated[
        str | None,
        typer.Option(
            help="With targets of topdown, where sizes of areas come from: made-up (the default), a file with an older "
            "census, or one with public figures (geography, code, total, largest). Never the confidential records."
        ),
    ] = None,
    persons: Annotated[
        int | None, typer.Option(min=1, max=10**8, help="With targets of topdown: how many people are made up.")
    ] = None,
    margins: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With targets of topdown: public counts that people are drawn from."),
    ] = None,
    shares: Annotated[
        bool | None,
        typer.Option(
            "--best-shares/--present-shares",
            help="With targets of topdown: look for the best shares (the default), or keep the present ones.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="With targets of topdown: what every query keeps of its present share; default 1/100."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            min=0, max=20, help="With targets of topdown: so many runs on made-up people confirm the answer; 0: none."
        ),
    ] = None,
    prices: Annotated[
        str | None,
        typer.Option(metavar="QUERY in AREAS", help='For topdown: what margins cost, as "total in tract".'),
    ] = None,
    delta: Annotated[str | None, typer.Option(help="For topdown, the delta at which epsilon is stated.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the spec with these choices; for targets of topdown, the strategy."
        ),
    ] = None,
    processes: Processes = None,
    memory: Annotated[str | None, typer.Option(help="With runs: the most memory, such as 2GiB.")] = None,
    as_json: Json = False,
) -> None:
    """What the choices of a spec do and what they protect from, as the studio's board; or what targets need.

    Every mechanism has a board, and --move and --set change it. Targets in words lead to the least budget and the best
    shares: closed form, from spec and frame, with binding areas, prices, and what else becomes more or less accurate.
    """
    from confide import trade_offs

    asked = {
        "people": people,
        "persons": persons,
        "margins": margins,
        "optimise": shares,
        "keep": keep,
        "confirm": runs,
        "prices": prices,
        "delta": delta,
        "processes": processes,
        "memory": memory,
    }
    if str(spec) in BEFORE_A_SPEC and not spec.exists():
        given = [target, move, chosen, lock, follow, total, prior, file, *asked.values()]
        if any(value is not None for value in given):
            raise typer.BadParameter(f"{spec} is no file; options are for a spec, and those of risk region for tables")
        named(BEFORE_A_SPEC[str(spec)])(as_json=as_json)
        return
    answer = trade_offs.tune(
        spec,
        target or (),
        trade_offs.parsed_choices(move or ()),
        choices=trade_offs.parsed_choices(chosen or ()),
        locked=lock or (),
        keep_total=follow,
        total=total,
        prior=prior,
        out=file,
        **{name: value for name, value in asked.items() if value is not None},
    )
    needed = answer.for_targets
    show_answer(answer, lambda: _show_board(answer.board) if needed is None else _show_needed(needed), as_json=as_json)


def _show_needed(answer: Any) -> None:
    SHOWN[type(answer).__name__](answer)


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


def _show_topdown(answer: TopDownTuning) -> None:
    show_findings(answer.warnings)
    if answer.targets:
        out.print(f"Sizes of areas: {escape(answer.people)}. The confidential records were not looked at.\n")
        numbers = {text: number for number, text in enumerate(dict.fromkeys(_texts(answer)), start=1)}
        for text, number in numbers.items():
            out.print(f"  {number}  {escape(text)}")
        rows = []
        for row in answer.targets:
            price = "" if row.price is None else f"{row.price if row.price > NOTHING else 0:.3g}"
            best = "" if row.best is None else f"{row.best.rho:.4g}"
            number = numbers[row.target.text]
            rows.append((number, row.kind, f"{row.areas:,}", *_needed(row.present), best, price))
        columns = ["", "in", "areas ", "rho, present shares ", "on average ", "binding area", "best shares ", "price "]
        table(columns, rows, title="\nThe rho that each target needs, in every area of a kind")
        out.print("price: what rho falls by for one more record, or point, of margin.\n")
        _show_budgets(answer)
        _show_errors(answer.errors, with_best=answer.best is not None)
    if answer.targets and answer.confirmed:
        columns = ["", "in", "shares", "rho ", "within the limit ", "mean error ", "of totals "]
        runs = answer.confirmed[0].runs
        confirmed = [
            (
                numbers[row.target.text],
                row.kind,
                row.strategy,
                f"{float(row.rho):.4g}",
                f"{100 * row.met:.1f} %",
                f"{100 * row.error:.2f} pp" if row.target.of_share else f"{row.error:.2f}",
                f"{row.total_error:.2f}",
            )
            for row in answer.confirmed
        ]
        table(columns, confirmed, title=f"{runs} runs on {answer.people}: records, after non-negativity and rounding")
    if answer.prices:
        first = answer.prices[0]
        priced = [(f"±{row['margin']:,}", f"{row['rho']:.4g}", f"{row['rho_present']:.4g}") for row in answer.prices]
        title = f"What margins of {first['query']} in {first['kind']} cost (95 of 100 cases, every area)"
        table(["margin ", "rho, measured alone ", "rho, present shares "], priced, title=title)
    if answer.written is not None:
        out.print(f"\nWrote {escape(str(answer.written))}. Name it under \\[topdown] strategy of the spec.")


def _texts(answer: TopDownTuning) -> list[str]:
    return [row.target.text for row in answer.targets]


def _needed(budget: NeededBudget) -> tuple[str, str, str]:
    binding = budget.binding
    people = "" if binding.people is None else f" ({binding.people:,.0f} people)"
    return f"{budget.rho:.4g}", f"{budget.rho_on_average:.4g}", f"{binding.code}{people}"


def _show_budgets(answer: TopDownTuning) -> None:
    listed = [("the spec as it is", answer.now.budget), ("all targets, present shares", answer.present)]
    listed += [("all targets, best shares", answer.needed)]
    rows = [
        (name, f"{float(rho):.6g}", up(answer.epsilon(rho)["canonne_kamath_steinke"], 2))
        for name, rho in listed
        if rho is not None
    ]
    table(["", "rho ", f"epsilon at delta {float(answer.delta):g} "], rows, title="Budgets")
    if answer.best is None or answer.bound is None:
        out.print()
        return
    out.print(f"No shares at all need less than rho {answer.bound:.4g} (least squares on the whole tree).\n")
    rows = []
    for level in answer.best.levels:
        leading = sorted(level.queries, key=lambda query: -query.share)[:4]
        listed_queries = ", ".join(f"{query.name} {100 * float(query.share):.3g}" for query in leading)
        rows.append((level.name, f"{100 * float(level.share):.3g}", listed_queries))
    table(["level", "per cent ", "its largest queries, in per cent of the level"], rows, title="Best shares")
    out.print()


def _show_errors(errors: tuple[ExpectedChange, ...], *, with_best: bool) -> None:
    confirmed = any(row.present_after is not None for row in errors)
    rows = [
        (
            row.kind,
            row.query,
            f"{row.now:,.2f}",
            _number(row.present),
            *([_number(row.present_after)] if confirmed else []),
            *([_number(row.best)] if with_best else []),
            *([_number(row.best_after)] if with_best and confirmed else []),
        )
        for row in errors
    ]
    records = ["records "] if confirmed else []
    columns = ["in", "query", "now ", "present shares ", *records, *(["best shares ", *records] if with_best else [])]
    title = "Expected absolute errors of a figure, by least squares before non-negativity"
    table(columns, rows, title=title + ("; of records, in the runs below" if confirmed else ""))
    out.print()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


SHOWN: dict[str, Any] = {"TopDownTuning": _show_topdown, "TablesFromTargets": _show_shares}
"""How answers to targets are shown."""
