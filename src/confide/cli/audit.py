"""``confide audit``: tables and mechanisms judged by what can be worked out from them, and noise by its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide.attacks.suppression.audit_subject import read_subject
from confide.attacks.suppression.suppression_audit import Audit
from confide.cli.show import Display, Json, Memory, Processes, err, out, print_json, table
from confide.risk.noise_audit import NoiseAudit

DONE, REFUSED = 0, 1
MOST_ROWS = 25

HELP = "Audit suppressed tables, the privacy of mechanisms, and the noise of a run."

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Audit suppressed tables, the privacy of mechanisms, and the noise of a run."""


@app.command()
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


@app.command()
def privacy(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec of a mechanism that spends a budget.")],
    runs: Annotated[int, typer.Option(help="How often each of two made-up files is measured.")] = 250,
    canaries: Annotated[
        int | None,
        typer.Option(help="Run once, with so many made-up canaries, instead of many times; a much looser bound."),
    ] = None,
    by_measurement: Annotated[
        bool,
        typer.Option("--by-measurement", help="Also judge every single measurement; this takes several times as long."),
    ] = False,
    seed: Annotated[int | None, typer.Option(help="A number from which the keys follow, to repeat an audit.")] = None,
    as_json: Json = False,
) -> None:
    """A lower bound of the privacy loss, from many runs on made-up neighbours, beside what the plan states.

    The office's records are not opened, no ledger is touched, and what is made is thrown away. Exit code 1: the bound
    exceeds the stated loss, so the noise is smaller than it should be, or a record counts too often; or draws are not
    as planned; or missing noise would not have been noticed here.
    """
    from confide.risk.privacy_audit import CanaryAudit, PrivacyAudit, audit_canaries, audit_privacy

    answer: CanaryAudit | PrivacyAudit
    if canaries is None:
        answer = audit_privacy(spec, runs=runs, by_measurement=by_measurement, seed=seed)
    else:
        answer = audit_canaries(spec, canaries=canaries, seed=seed)
    plain = answer.as_dict()
    if as_json:
        print_json(plain)
        raise typer.Exit(DONE if answer.ok else REFUSED)
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
    raise typer.Exit(DONE if answer.ok else REFUSED)


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


@app.command()
def noise(
    run_folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="The spec file or the folder of a sealed run, or several."),
    ],
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
) -> None:
    """Hold released minus true against the plan: laws, independence, exactly the planned draws. CONFIDENTIAL.

    It uses the truth in the confidential zone of the run and leaves a page there. Several runs show smaller errors, and
    noise that two of them have in common. Exit code 1: the noise is not as planned, or there are so few draws that
    missing noise would not have been noticed.
    """
    answer = confide.audit_noise(*run_folders, processes=processes, memory=memory, progress=Display(quiet=as_json))
    if as_json:
        print_json(answer.as_dict())
    else:
        _show_noise(answer)
    raise typer.Exit(DONE if answer.ok else REFUSED)


def _show_noise(answer: NoiseAudit) -> None:
    table(["", "what", "detail"], [("ok" if c.ok else "WRONG", c.name, c.detail) for c in answer.checks])
    for note in answer.notes:
        out.print(f"[yellow]note[/] {escape(note)}")
    wrong = "not as planned" if not answer.as_planned else "not judged"
    verdict = "[bold green]as planned[/]" if answer.ok else f"[bold red]{wrong}[/]"
    out.print(f"\n{answer.draws:,} draws: the noise is {verdict}. {answer.power.words}")
    out.print(f"Page (confidential): {escape(str(answer.page))}")
    err.print("[bold red]CONFIDENTIAL[/]: this audit used true figures")


def _number(number: int, one: str, more: str, what: str) -> str:
    return f"{number:,} {one if number == 1 else more} {what}" if number else ""
