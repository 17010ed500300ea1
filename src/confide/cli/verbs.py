"""The verbs of a release: ``confide check``, ``run``, ``verify``, ``evaluate``, ``replay``, ``seal``, ``schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide.cli.accuracy import show_headline
from confide.cli.show import (
    DONE,
    REFUSED,
    Display,
    EngineChoice,
    Json,
    Memory,
    Processes,
    SparkMaster,
    err,
    out,
    print_json,
    show_findings,
    table,
)

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec file of the release (TOML).")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The spec file, or the folder of its run.")]


def check(
    spec: SpecFile,
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
    engine: EngineChoice = "local",
    spark_master: SparkMaster = None,
) -> None:
    """Find every problem of a spec and its inputs at once, and say what the release costs. Nothing is spent."""
    checked = confide.check(
        spec,
        processes=processes,
        memory=memory,
        engine=engine,
        spark_master=spark_master,
        progress=Display(quiet=as_json),
    )
    plan = checked.plan
    if as_json:
        print_json(
            {
                "ok": not checked.errors,
                "findings": [finding.as_dict() for finding in checked.findings],
                "cost": None if checked.cost is None or (plan and not plan.accounted) else str(checked.cost.amount),
                "delta": None if checked.cost is None or not checked.cost.delta else str(checked.cost.delta),
                "left": None if checked.account is None else str(checked.account.left),
                "plan": None if plan is None else plan.as_dict() | {"hash": plan.hash, "counts": plan.counts},
            }
        )
    else:
        from confide.cli.plan_show import show_plan
        from confide.report.render import fraction_up

        show_findings(checked.findings)
        if plan is not None:
            show_plan(plan)
        if checked.account is not None and checked.cost is not None:
            account = checked.account
            left = fraction_up(account.left) + (f" with delta {float(account.left_delta):g}" if account.delta else "")
            out.print(f"The ledger would charge {checked.cost}; {left} of {account.budget} is left.")
        if not checked.errors:
            nothing = "" if plan is not None and not plan.accounted else " Nothing was spent."
            out.print(f"[bold green]No problems found.[/]{nothing}")
    raise typer.Exit(REFUSED if checked.errors else DONE)


def run(
    spec: SpecFile,
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
    insecure_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="A key of your own (64 hexadecimal digits), for trials: NOT FOR RELEASE."),
    ] = None,
    engine: EngineChoice = "local",
    spark_master: SparkMaster = None,
) -> None:
    """Make the release. After a crash or a power cut, run the same command again: it goes on and costs nothing more."""
    display = Display(quiet=as_json)
    result = confide.run(
        spec,
        processes=processes,
        memory=memory,
        insecure_key=insecure_key,
        engine=engine,
        spark_master=spark_master,
        progress=display,
    )
    account = result.account
    if as_json:
        print_json(
            {
                "ok": True,
                "release": str(result.release),
                "manifest_sha256": result.manifest_sha256,
                "cost": result.plan.loss.as_dict() if result.plan.accounted else None,
                "left": None if account is None else str(account.left),
                "was_sealed_before": result.was_sealed_before,
            }
        )
        return
    from confide.cli.plan_show import NO_BUDGET, counts_in_words

    if result.was_sealed_before:
        out.print("This run was sealed before; nothing was done and nothing charged.")
    out.print(f"[bold green]Sealed[/] {escape(str(result.release))}")
    if result.plan.accounted:
        out.print(f"  {counts_in_words(result.plan)} at a cost of {result.plan.loss} ({result.plan.neighbours.value})")
    else:
        out.print(f"  {counts_in_words(result.plan)}\n  {NO_BUDGET}")
    if account is not None:
        of = escape(repr(account.data_set))
        out.print(f"  ledger of {of}: {account.spent} spent, {account.left} left of {account.budget}")
        if account.delta:
            deltas = [f"{float(number):g}" for number in (account.spent_delta, account.left_delta, account.delta)]
            out.print("  of its delta: {} spent, {} left of {}".format(*deltas))
    if insecure_key:
        err.print("[bold red]NOT FOR RELEASE[/]: made with a chosen key")


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="The ledger: is this the very release that was sealed?")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a release again from its files: hashes, completeness, whole numbers, and noise as promised."""
    verification = confide.verify(release, ledger=ledger)
    if as_json:
        print_json(verification.as_dict())
    else:
        rows = [("ok" if check.ok else "WRONG", check.name, check.detail) for check in verification.checks]
        table(["", "what", "detail"], rows)
        show_findings(verification.findings)
        if verification.stamp:
            err.print(f"[bold red]{escape(str(verification.stamp))}[/]")
        verdict = "[bold green]as sealed[/]" if verification.ok else "[bold red]not as sealed[/]"
        out.print(f"\nThe release {escape(verification.release)} is {verdict}.")
    raise typer.Exit(DONE if verification.ok else REFUSED)


def evaluate(
    run_folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="The spec file or the folder of a run; of several, one for each key."),
    ],
    geometry: Annotated[
        list[str] | None,
        typer.Option(metavar="LEVEL=FILE", help="A GeoJSON file with the areas of a level, for a map; repeatable."),
    ] = None,
    as_json: Json = False,
    processes: Processes = None,
    memory: Memory = "4GiB",
) -> None:
    """Compare a release with the truth, for the curator alone: a dossier with pictures. CONFIDENTIAL.

    Several runs of the same question, made with different keys, give means over keys and intervals.
    """
    files = dict(_named(text) for text in geometry or ())
    display = Display(quiet=as_json)
    evaluated = confide.evaluate(*run_folders, geometry=files, processes=processes, memory=memory, progress=display)
    numbers = evaluated.accuracy.reveal("the curator asked for the accuracy on a terminal of the confidential zone")
    if as_json:
        print_json({"confidential": True, "dossier": str(evaluated.dossier)} | numbers)
        return
    show_headline(numbers, "CONFIDENTIAL: released against true")
    out.print(f"Dossier (confidential): {escape(str(evaluated.dossier))}")


def _named(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise typer.BadParameter(f"--geometry takes LEVEL=FILE, such as tract=tracts.geojson, not {text!r}")
    return name, file


def replay(run_folder: RunFolder, as_json: Json = False, processes: Processes = None, memory: Memory = "4GiB") -> None:
    """Make a release a second time from the kept key, and compare every byte. It costs nothing."""
    result = confide.replay(run_folder, processes=processes, memory=memory, progress=Display(quiet=as_json))
    if as_json:
        print_json({"ok": result.ok, "files": result.files, "different": list(result.different)})
    elif result.ok:
        out.print(f"[bold green]The same[/]: {result.files} files, byte by byte.")
    else:
        out.print("[bold red]Different[/]: " + escape(", ".join(result.different)))
    raise typer.Exit(DONE if result.ok else REFUSED)


def seal(
    run_folder: RunFolder,
    destroy_key: Annotated[
        bool, typer.Option("--destroy-key", help="Destroy the key: the release can never be replayed again.")
    ] = False,
) -> None:
    """Make a sealed release final by destroying its key."""
    if not destroy_key:
        raise typer.BadParameter("say --destroy-key; a run is sealed by itself when it is complete")
    told = " and the ledger says so" if confide.destroy_key(run_folder) else ""
    out.print(f"The key is destroyed{told}. The release is final.")


def schema() -> None:
    """Print the JSON Schema of the spec, for editors and programs."""
    print_json(confide.json_schema())
