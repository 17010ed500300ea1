"""``confide tune topdown`` and ``confide tune risk``: budgets and shares from what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from confide.cli.show import Json, Memory, Processes, out, show_answer, show_findings, table
from confide.report.render import up

if TYPE_CHECKING:
    from confide.inference.tuning_answer import ExpectedChange, NeededBudget, TopDownTuning

NOTHING = 1e-9
"""A price below this is none: the target does not bind."""

Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec file. No record is read, and nothing is spent.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="TARGET", help='Such as "total <= 5 in tract @95%"; repeatable.'),
]
Delta = Annotated[str, typer.Option(help="The delta at which epsilon is stated.")]


def topdown(
    spec: Spec,
    target: Targets = None,
    people: Annotated[
        str,
        typer.Option(
            help="Where sizes of areas come from: made-up, a file with an older census, or one with public figures "
            "(geography, code, total, largest). Never the confidential records."
        ),
    ] = "made-up",
    persons: Annotated[int | None, typer.Option(min=1, max=10**8, help="How many people are made up.")] = None,
    margins: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Public counts that made-up people are drawn from.")
    ] = None,
    shares: Annotated[
        bool, typer.Option("--best-shares/--present-shares", help="Look for the best shares, or keep the present ones.")
    ] = True,
    keep: Annotated[str, typer.Option(help="The part of its present share that every query keeps at least.")] = "1/100",
    budget: Annotated[
        str | None, typer.Option(help="The rho of the strategy that is written; default: the least that is enough.")
    ] = None,
    confirm: Annotated[
        bool | None,
        typer.Option(
            "--confirm/--no-confirm",
            help="Confirm the answer by runs on people who are made up; default: if shares are looked for.",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=20, help="Confirm it, by so many runs; default: 2 where it is confirmed.")
    ] = None,
    prices: Annotated[
        str | None, typer.Option(metavar="QUERY in AREAS", help='What margins cost there: "total in tract".')
    ] = None,
    delta: Delta = "1e-10",
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the strategy with the best shares.")
    ] = None,
    processes: Processes = None,
    memory: Memory = "2GiB",
    as_json: Json = False,
) -> None:
    """The least budget for targets of a TopDown release, with the present shares and with the best ones.

    Closed form, from spec and frame: binding areas, prices, and what else becomes more or less accurate.
    """
    from confide.inference.tuning import RUNS, tune_topdown

    answer = tune_topdown(
        spec,
        target or (),
        people=people,
        persons=persons,
        margins=margins or (),
        optimise=shares,
        keep=keep,
        budget=budget,
        confirm=0 if confirm is False else runs if runs is not None else RUNS if confirm else None,
        prices=prices,
        delta=delta,
        out=file,
        processes=processes,
        memory=memory,
    )
    show_answer(answer, lambda: _show_topdown(answer), as_json=as_json)


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
