"""The verbs of a release: ``confide check``, ``run``, ``verify``, ``evaluate``, ``replay`` and ``seal``.

And ``confide audit noise``, and what ``confide new signature`` and ``confide new json-schema`` write.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

import confide
from confide.cli import show
from confide.errors import Place, RunError

if TYPE_CHECKING:
    from confide.inputs.spelled import OffendingValues
    from confide.releases.check import Checked
    from confide.releases.loss_account import StatedPrice
    from confide.releases.noise_audit import NoiseAudit
    from confide.releases.plan import Summary


# The accuracy of a release on a terminal, a line for each level and area: confidential, as it uses the truth.


Numbers = Mapping[str, Any]
MOST_ROWS = 20
"""More rows than this are left to the dossier."""


def show_headline(accuracy: Numbers, title: str, beside: Mapping[str, Mapping[str, float]] | None = None) -> None:
    """How far a count of an area is off, beside what the noise alone would do: everybody, or, where the number of all
    is known, the last kind of the first characteristic. ``beside`` has further columns of errors, by geography."""
    if "suppressed" in accuracy:
        _show_lost(accuracy["suppressed"], title)
        return
    named, chosen = _headline(accuracy.get("accuracy", []))
    rows = [
        (
            row["geography"],
            f"{row['areas']:,}",
            f"{_mean(row['mean_truth']):,.1f}",
            f"{_mean(row['mean_absolute_error']):,.2f}",
            *(f"{errors[row['geography']]:,.2f}" for errors in (beside or {}).values()),
            f"{_mean(row['noise_alone']['mean_absolute_error']):,.2f}" if row.get("noise_alone") else "-",
        )
        for row in chosen
    ]
    if rows:
        units = f"{accuracy.get('units', 'areas')} "
        columns = [named, units, "mean count ", "mean absolute error ", "by noise alone "]
        if beside:
            columns[3:] = ["mean abs. error ", *(f"{name} " for name in beside), "noise alone "]
        show.table(columns, rows[:MOST_ROWS], title=title)
        if len(rows) > MOST_ROWS:
            show.out.print(f"… and {len(rows) - MOST_ROWS:,} more, which the dossier has.")


def _show_lost(tables: Sequence[Numbers], title: str) -> None:
    """What suppression took from each table."""
    rows = [
        (
            row["name"],
            f"{row['cells']:,}",
            f"{row['primary']:,}",
            f"{row['complementary']:,}",
            f"{100 * row['hidden_share']:.1f} %",
            f"{100 * row['hidden_value_share']:.1f} %",
        )
        for row in tables
    ]
    columns = ["table", "cells ", "primary ", "complementary ", "of cells hidden ", "of figures hidden "]
    show.table(columns, rows[:MOST_ROWS], title=title)
    if len(rows) > MOST_ROWS:
        show.out.print(f"… and {len(rows) - MOST_ROWS:,} more, which the dossier has.")


def _headline(rows: Sequence[Numbers]) -> tuple[str, list[Numbers]]:
    totals = [row for row in rows if row["query"] == "total"]
    others = [row for row in rows if row["query"] != "total"]
    if not others or any(_mean(row["mean_absolute_error"]) for row in totals):
        return "total", totals
    query = others[0]["query"]
    cell = [row["cell"] for row in others if row["query"] == query][-1]
    return cell, [row for row in others if (row["query"], row["cell"]) == (query, cell)]


def _mean(value: Any) -> float:
    """A number, or the mean of one over several keys."""
    return float(value["mean"] if isinstance(value, Mapping) else value)


# A plan on the terminal: what a release has, and what it costs.


def show_summary(summary: Summary) -> None:
    """What a release would have, and what it would cost."""
    if summary.rows:
        show.table(list(summary.columns), list(summary.rows))
    for line in summary.notes:
        show.out.print(line)
    show.out.print(f"\n{summary.sentence}")


def at_terminal() -> bool:
    """Whether somebody looks at what is printed, and nothing else takes it."""
    return sys.stdout.isatty()


def show_offending(offending: Sequence[OffendingValues]) -> None:
    """Values of records that break a rule, with how many there are and where the first stands."""
    for column in offending:
        show.out.print(escape(f"\n{column.file}, column {column.column!r} (confidential: for you alone)"))
        values = column.values.reveal("the curator asked for them at a terminal")
        rows = [(repr(each.value or ""), f"{each.records:,}", each.place) for each in values]
        show.table(["value", "records ", "first of the "], [tuple(map(escape, row)) for row in rows])


SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec file of the release (TOML).")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The spec file, or the folder of its run.")]
AcceptLedger = Annotated[
    bool,
    typer.Option(
        "--accept-ledger",
        help="Use this ledger although the records have another one, or a newer copy of it, or although it was charged "
        "for other records: these are the same people.",
    ),
]
Sign = Annotated[
    Path | None,
    typer.Option(metavar="KEYFILE", help="Sign the sealed release with the office's key: confide new signature."),
]


def check(
    spec: SpecFile,
    as_json: show.Json = False,
    processes: show.Processes = None,
    memory: show.Memory = "4GiB",
    engine: show.EngineChoice = "local",
    spark_master: show.SparkMaster = None,
    accept_ledger: AcceptLedger = False,
    show_values: Annotated[
        bool,
        typer.Option(
            "--show-values",
            help="Also show the confidential values that break a rule. Works only on a terminal.",
        ),
    ] = False,
) -> None:
    """List every problem of a spec and its inputs, and state the price of the release. Spends nothing."""
    if show_values and (as_json or not at_terminal()):
        raise typer.BadParameter("--show-values prints confidential values at a terminal, never to a file or as JSON")
    checked = confide.check(
        spec,
        processes=processes,
        memory=memory,
        engine=engine,
        spark_master=spark_master,
        accept_ledger=accept_ledger,
        show_values=show_values,
        progress=show.Display(quiet=as_json),
    )
    plan = checked.plan
    if as_json:
        show.print_json(checked.as_dict())
    else:
        show.show_findings(checked.findings)
        show_offending(checked.offending)
        if plan is not None and "reading" in plan.question:
            from confide.inputs.spelled import reading_in_words

            show.out.print("How the records are read (this is part of the plan):")
            for line in reading_in_words(plan.question["reading"]):
                show.out.print(escape(f"  {line}"))
        if checked.summary is not None:
            show_summary(checked.summary)
        if checked.price is not None:
            show_price(checked.price)
        if checked.account is not None and checked.cost is not None:
            account = checked.account
            delta = f" with delta {float(account.left_delta):g}" if account.delta else ""
            remaining = f"{_exact_or_less(account.left)}{delta}"
            after = "" if checked.price is None else f" and leave {_left_after(checked)}"
            show.out.print(
                f"The ledger has {remaining} of {account.budget} left. This release would cost {checked.cost}{after}."
            )
        if not checked.errors:
            nothing = "" if plan is not None and not plan.has_loss else " Nothing was spent."
            show.out.print(f"[bold green]No problems found.[/]{nothing}")
    raise typer.Exit(show.REFUSED if checked.errors else show.DONE)


def _left_after(checked: Checked) -> str:
    """What the budget has left once the release is charged."""
    after = Fraction(0) if checked.price is None or checked.price.left_after is None else checked.price.left_after
    return "nothing" if after <= 0 else _exact_or_less(after)


def _exact_or_less(amount: Fraction) -> str:
    """A fraction as it is, and one with many digits as less than a short number."""
    from confide.exact import fraction_up

    return str(amount) if amount.denominator < 10**6 else f"less than {fraction_up(amount)}"


def show_price(price: StatedPrice) -> None:
    """The price as rho and epsilon, in words, and beside what others spent."""
    from confide.report.certificate import short_probability

    at = f" at delta {short_probability(price.delta)}" if price.has_delta else ""
    show.out.print(
        f"Price: {price.loss} ({price.neighbours.value}), that is epsilon = {_two_digits(price.epsilon)}{at}."
    )
    show.out.print(price.in_words)
    rows = [("this release", _short_loss(price.loss.parameters()), _two_digits(price.epsilon))]
    for yardstick in price.yardsticks():
        spent = yardstick.deployment
        amount = _short_loss({"rho" if spent.definition == "zcdp" else "epsilon": Fraction(spent.loss)})
        rows.append((f"{spent.name} ({spent.year})", amount, _two_digits(yardstick.epsilon)))
    show.table(["compared with other releases", "loss", "epsilon "], rows)


def _short_loss(parameters: Mapping[str, Fraction]) -> str:
    return ", ".join(f"{name} = {float(value):.4g}" for name, value in parameters.items())


def _two_digits(epsilon: float) -> str:
    """Rounded up, but for what a decimal loses in a floating-point number."""
    return f"{math.ceil(round(100 * epsilon, 6)) / 100:,.2f}"


def can_answer() -> bool:
    """Whether somebody is there who can answer."""
    return sys.stdin.isatty()


def _name_of(spec: Path) -> str:
    from confide import api

    return api.load(spec).spec.release.name


def ask_for_the_name(checked: Checked, name: str) -> None:
    """Shows the price, and has the name of the release typed; raises, with nothing charged, if it is another."""
    if checked.price is not None:
        show.err.print(escape(f"Price: {checked.price.loss} ({checked.price.neighbours.value})."))
        show.err.print(escape(checked.price.in_words))
    show.err.print(
        escape(
            f"The ledger will be charged {checked.cost}. This cannot be undone, and it leaves {_left_after(checked)}."
        )
    )
    try:
        typed = typer.prompt("To make this release, type its name", err=True, default="", show_default=False)
    except typer.Abort:
        typed = ""
    if typed.strip() != name:
        raise RunError("not-confirmed/you-did-type", where=Place(path="release.name"), typed=typed.strip(), name=name)


def run(
    spec: SpecFile,
    as_json: show.Json = False,
    processes: show.Processes = None,
    memory: show.Memory = "4GiB",
    insecure_key: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="For trials: a key that you choose (64 hexadecimal digits). The result is NOT FOR RELEASE.",
        ),
    ] = None,
    sign: Sign = None,
    engine: show.EngineChoice = "local",
    spark_master: show.SparkMaster = None,
    accept_ledger: AcceptLedger = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Do not ask before charging the ledger. Without a terminal, Confide never asks."),
    ] = False,
) -> None:
    """Make the release. After a crash or a power cut, run the same command again: it continues without a further
    charge.
    """
    display = show.Display(quiet=as_json)
    asked = not yes and can_answer()
    result = confide.run(
        spec,
        processes=processes,
        memory=memory,
        insecure_key=insecure_key,
        sign=sign,
        engine=engine,
        spark_master=spark_master,
        accept_ledger=accept_ledger,
        confirm=(lambda checked: ask_for_the_name(checked, _name_of(spec))) if asked else None,
        progress=display,
    )
    account = result.account
    if as_json:
        show.print_json(result.as_dict())
        return

    if result.was_sealed_before:
        show.out.print("This run was sealed before. Nothing was done and nothing was charged.")
    show.out.print(f"[bold green]Sealed[/] {escape(str(result.release))}")
    said = confide.MECHANISMS[result.plan.mechanism].explain
    contents = said.contents(result.plan)
    if result.plan.has_loss:
        show.out.print(f"  {contents} at a cost of {result.plan.loss} ({result.plan.neighbours.value})")
    else:
        show.out.print(f"  {contents}\n  {said.unaccounted(result.plan)}")
    if account is not None:
        of = escape(repr(account.data_set))
        show.out.print(f"  ledger of {of}: {account.spent} spent, {account.left} left of {account.budget}")
        if account.delta:
            deltas = [f"{float(number):g}" for number in (account.spent_delta, account.left_delta, account.delta)]
            show.out.print("  of its delta: {} spent, {} left of {}".format(*deltas))
    if sign is not None:
        show.out.print("  signed with the office's key")
    if insecure_key:
        show.err.print("[bold red]NOT FOR RELEASE[/]: made with a chosen key")


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="The ledger, to check that this is the release that was sealed.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="The office's public key, to check its signature.")
    ] = None,
    as_json: show.Json = False,
) -> None:
    """Check a release folder: hashes, completeness, whole numbers, and noise as promised."""
    verification = confide.verify(release, ledger=ledger, public_key=public_key)
    if as_json:
        show.print_json(verification.as_dict())
    else:
        rows = [("ok" if check.ok else "WRONG", check.name, check.detail) for check in verification.checks]
        show.table(["", "what", "detail"], rows)
        show.show_findings(verification.findings)
        if verification.stamp:
            show.err.print(f"[bold red]{escape(str(verification.stamp))}[/]")
        colour = "green" if verification.ok else "red"
        show.out.print(f"\nThe release {escape(verification.release)} is [bold {colour}]{verification.verdict}[/].")
        if verification.ok and not verification.vouched_by:
            show.out.print(
                "To check that it is also the release that was sealed, add --ledger LEDGER, or --public-key of the "
                "office."
            )
    raise typer.Exit(show.DONE if verification.ok else show.REFUSED)


def evaluate(
    run_folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="The spec file, or the folder of a run. Repeat it for runs with different keys."
        ),
    ],
    geometry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL=FILE",
            help="A GeoJSON file with the areas of a level, for a map; default: that of the spec. Repeatable.",
        ),
    ] = None,
    as_json: show.Json = False,
    processes: show.Processes = None,
    memory: show.Memory = "4GiB",
) -> None:
    """Compare a release with the true counts, in a dossier for the curator only. CONFIDENTIAL.

    Several runs of the same question, made with different keys, give means over keys and intervals.
    """
    files = dict(_named(text) for text in geometry or ())
    display = show.Display(quiet=as_json)
    evaluated = confide.evaluate(*run_folders, geometry=files, processes=processes, memory=memory, progress=display)
    numbers = evaluated.accuracy.reveal("the curator asked for the accuracy on a terminal of the confidential zone")
    if as_json:
        show.print_json({"confidential": True, "dossier": str(evaluated.dossier)} | numbers)
        return
    show_headline(numbers, "CONFIDENTIAL: released compared with true")
    show.out.print(f"Dossier (confidential): {escape(str(evaluated.dossier))}")


def _named(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise typer.BadParameter(f"--geometry takes LEVEL=FILE, such as tract=tracts.geojson, not {text!r}")
    return name, file


def replay(
    run_folder: RunFolder, as_json: show.Json = False, processes: show.Processes = None, memory: show.Memory = "4GiB"
) -> None:
    """Make a release again from its key, and compare every byte. Costs nothing."""
    result = confide.replay(run_folder, processes=processes, memory=memory, progress=show.Display(quiet=as_json))
    if as_json:
        show.print_json(result.as_dict())
    elif result.ok:
        show.out.print(f"[bold green]Identical[/]: {result.files} files, byte for byte.")
    else:
        show.out.print("[bold red]Different[/]: " + escape(", ".join(result.different)))
    raise typer.Exit(show.DONE if result.ok else show.REFUSED)


def seal(
    run_folder: RunFolder,
    destroy_key: Annotated[
        bool, typer.Option("--destroy-key", help="Destroy the key. After this, nobody can replay the release.")
    ] = False,
    sign: Sign = None,
) -> None:
    """Make a sealed release final by destroying its key, or sign it with the key of the office."""
    if not destroy_key and sign is None:
        raise typer.BadParameter("say --destroy-key or --sign KEYFILE; a run is sealed by itself when it is complete")
    if sign is not None:
        show.out.print(f"Signed: {escape(str(confide.sign_release(run_folder, sign)))}")
    if destroy_key:
        in_ledger = " and the ledger says so" if confide.destroy_key(run_folder) else ""
        show.out.print(f"The key is destroyed{in_ledger}. The release is final.")


def signature(
    key_file: Annotated[
        Path, typer.Argument(metavar="KEYFILE", help="The file for the private key; only you can read it.")
    ],
    as_json: show.Json = False,
) -> None:
    """Make the key of an office: KEYFILE stays secret, KEYFILE.pub is for everybody who receives releases."""
    key = confide.new_signature_key(key_file)
    if as_json:
        show.print_json(key.as_dict())
        return
    show.out.print(f"Private key (keep it here):    {escape(str(key.private))}")
    show.out.print(f"Public key, for receivers:     {escape(str(key.public))}")
    show.out.print(f"Its fingerprint:               {key.fingerprint}")


def json_schema() -> None:
    """Print the JSON Schema of the spec, for editors and programs."""
    show.print_json(confide.json_schema())


def noise(
    run_folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="The spec file or the folder of a sealed run, or several."),
    ],
    as_json: show.Json = False,
    processes: show.Processes = None,
    memory: show.Memory = "4GiB",
) -> None:
    """Hold released minus true against the plan: laws, independence, exactly the planned draws. CONFIDENTIAL.

    It uses the truth in the confidential zone of the run and leaves a page there. Several runs show smaller errors, and
    noise that two of them have in common. Exit code 1: the noise is not as planned, or there are so few draws that
    missing noise would not have been noticed.
    """
    answer = confide.audit_noise(*run_folders, processes=processes, memory=memory, progress=show.Display(quiet=as_json))
    if as_json:
        show.print_json(answer.as_dict())
    else:
        _show_noise(answer)
    raise typer.Exit(show.DONE if answer.ok else show.REFUSED)


def _show_noise(answer: NoiseAudit) -> None:
    show.table(["", "what", "detail"], [("ok" if c.ok else "WRONG", c.name, c.detail) for c in answer.checks])
    for note in answer.notes:
        show.out.print(f"[yellow]note[/] {escape(note)}")
    wrong = "not as planned" if not answer.as_planned else "not judged"
    verdict = "[bold green]as planned[/]" if answer.ok else f"[bold red]{wrong}[/]"
    show.out.print(f"\n{answer.draws:,} draws: the noise is {verdict}. {answer.power.words}")
    show.out.print(f"Page (confidential): {escape(str(answer.page))}")
    show.err.print("[bold red]CONFIDENTIAL[/]: this audit used true figures")
