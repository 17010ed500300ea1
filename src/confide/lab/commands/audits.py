"""``confide audit suppression`` and ``confide audit privacy``: what can be worked out from tables and from draws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli.requests import Given, Way, command
from confide.cli.show import DONE, REFUSED, Json, err, out, print_json, table
from confide.lab.attacks.suppression.audit_files import read_subject
from confide.lab.attacks.suppression.suppression_audit import Audit
from confide.lab.risk.privacy_audit import CanaryAudit, PrivacyAudit, audit_canaries, audit_privacy

MOST_ROWS = 25


def suppression(
    tables: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="A folder with a description (table.toml), a CSV or Parquet with or without one, or a release.",
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(help="CONFIDENTIAL: the true figures, in the same form, to judge each interval by them."),
    ] = None,
    sharpen: Annotated[
        bool, typer.Option("--sharpen", help="Use in every sum that figures are whole numbers; slow, small parts only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """What follows from a table about its suppressed cells: the smallest interval for each, by linear programming.

    Exit code 1: a cell is disclosed, or its interval is narrower than required, or the table does not add up; or
    nothing is suppressed, so that there is nothing to judge.
    """
    subject = read_subject(tables, truth, lambda note: err.print(f"[yellow]note[/] {escape(note)}"))
    answer = subject.audit(sharpen=sharpen)
    if as_json:
        print_json(answer.as_dict())
    else:
        _show(answer)
    raise typer.Exit(DONE if answer.ok else REFUSED)


def _show_privacy(answer: CanaryAudit | PrivacyAudit) -> None:
    plain = answer.as_dict()
    shown = ("stated", "at_least", "whatever_the_noise")
    rows = [(row["of"], *(f"{row[key]:.4g}" for key in shown)) for row in plain["loss"]]
    table(["", "stated ", "at least (95 %) ", "whatever the noise "], rows)
    parts = answer.too_narrow if isinstance(answer, PrivacyAudit) else ()
    narrow = [(part.level, part.query, f"{part.narrower_by:.2f}") for part in parts]
    if narrow:
        table(["level", "query", "noise narrower by at least "], narrow[:MOST_ROWS])
    colour = "bold green" if answer.ok else "bold red"
    for sentence in answer.in_words:
        verdict = sentence.startswith(("The empirical bound", "The draws are not", "No verdict"))
        out.print(f"[{colour}]{escape(sentence)}[/]" if verdict else escape(sentence))


privacy = command(
    """A lower bound of the privacy loss, from many runs on made-up neighbours, beside what the plan states.

    The office's records are not opened, no ledger is touched, and what is made is thrown away. Exit code 1: the bound
    exceeds the stated loss, so the noise is smaller than it should be, or a record counts too often; or draws are not
    as planned; or missing noise would not have been noticed here.
    """,
    audit_privacy,
    _show_privacy,
    options={
        "spec": "SPEC",
        "canaries": Given(meaning="Run once, with so many made-up canaries; a much looser bound."),
    },
    others={"canaries": Way(audit_canaries, _show_privacy)},
)


def _show(audit: Audit) -> None:
    plain = audit.as_dict()
    rows = sorted(plain["intervals"], key=lambda row: (not row["exact"], not row["too_narrow"]))
    lines = [
        (
            row["table"],
            ", ".join(f"{name} = {code}" for name, code in row["cell"].items()),
            f"{row['lower']:,}",
            "no end" if row["upper"] is None else f"{row['upper']:,}",
            "KNOWN" if row["exact"] else "too narrow" if row["too_narrow"] else "",
        )
        for row in rows[:MOST_ROWS]
    ]
    if lines:
        table(["table", "suppressed cell", "from ", "to ", ""], lines)
        if len(rows) > MOST_ROWS:
            out.print(f"… and {len(rows) - MOST_ROWS:,} more: --json has all.")
    out.print(
        f"\n{plain['cells']:,} cells, {plain['suppressed']:,} of them suppressed; {plain['sums']:,} sums; "
        f"{plain['programmes']:,} linear programmes solved."
    )
    if not plain["suppressed"]:
        out.print("[bold red]No verdict.[/] Nothing is suppressed, so nothing can be worked out.")
    elif audit.ok:
        out.print("[bold green]No suppressed cell is known[/], and no interval is narrower than required.")
    else:
        parts = [
            _number(plain["disclosed"], "suppressed cell is", "suppressed cells are", "known exactly"),
            _number(plain["too_narrow"], "interval is", "intervals are", "too narrow"),
            _number(plain["outside"], "true figure lies", "true figures lie", "outside of the interval"),
        ]
        out.print(f"[bold red]{escape('; '.join(part for part in parts if part))}.[/]")
    out.print(escape(audit.power.words))
    out.print("This follows from these tables only; other tables of the same people may reveal more.")
    if audit.judged:
        err.print("[bold red]CONFIDENTIAL[/]: this judgement used true figures")


def _number(number: int, one: str, more: str, what: str) -> str:
    return f"{number:,} {one if number == 1 else more} {what}" if number else ""
