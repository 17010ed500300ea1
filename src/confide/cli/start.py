"""``confide new``, ``confide studio`` and ``confide studio page``: the first five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import confide
from confide import drafting
from confide.cli.commands import setting
from confide.cli.requests import Given, command
from confide.cli.show import Display, Json, out, print_json
from confide.drafting import NewSchema, NewSpec
from confide.registry import DEMONSTRATION, named


def _show_spec(answer: NewSpec, mechanism: str) -> None:
    _show_guesses(answer.said)
    if answer.ledger is not None:
        out.print(escape(f"Opened {answer.ledger}: the account of the data set, with the budget of this release."))
    then = f"check {answer.spec}" if mechanism in confide.MECHANISMS else f"compare {answer.spec} --out DIR"
    out.print(escape(f"Wrote {answer.spec}. Edit it, then: confide {then}"))


def _show_schema(answer: NewSchema) -> None:
    if answer.file is None:
        out.print(escape(answer.text.reveal("shown to the curator, who asked for it")), soft_wrap=True)
        return
    _show_guesses(answer.said)
    private = "Only you can read it. What it lists becomes public when you keep it: look at every line."
    out.print(escape(f"Wrote {answer.file}. {private}"))


def _show_guesses(said: Sequence[str]) -> None:
    for line in said:
        out.print(escape(line), soft_wrap=True)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if text.count("=") != 1 or not all(text.split("=")):
            raise typer.BadParameter(f"--merged takes an old code and a new one, such as 017=018, not {text!r}")
    return {old.strip(): now.strip() for old, now in (text.split("=") for text in texts)}


new = command(
    """Write a commented spec to start from, or a schema for a file of records.

    With --from, Confide proposes a schema, a spec and, without --geography, a table of areas from your own files. What
    these files list is confidential until you have looked at it and keep them.
    """,
    drafting.new,
    _show_spec,
    settings="merged household",
    options={
        "mechanism": "MECHANISM",
        "folder": "FOLDER",
        "open_ledger": "--ledger/--no-ledger",
        "from_file": "--from FILE",
        "geography": "--geography FILE",
        "merged": Given("--merged OLD=NEW", _pairs),
        "household": "--household COLUMN",
        "place": "--place COLUMN",
        "ledger_file": "--ledger-file FILE",
        "schema": "--schema FILE",
    },
    extra={"name": (Annotated[str | None, setting(help="With --from: the name of the release.")], None)},
)
schema = command(
    "Propose a schema for a file of records: CSV, Parquet or Excel. Without --out it is printed.",
    drafting.new_schema,
    _show_schema,
    options={"file": "RECORDS", "out": "--out FILE"},
    without="columns",
)


# ``confide studio`` and ``confide studio page``: the library in a browser.


DEMO = "demo"


def studio(
    folder: Annotated[
        Path,
        typer.Argument(metavar="[FOLDER]", help="The folder to open; demo: make a small demonstration, or open it."),
    ] = Path(),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on this machine; 0: one that nobody uses.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open it in a browser; without, the address is printed.")
    ] = True,
) -> None:
    """Explore, tune and make releases in the browser. Answers this machine alone, and asks no other.

    The address that is printed lets one browser in, once.
    """
    from confide.studio import application

    application.require_extra()
    if folder == Path(DEMO) and not (folder.is_dir() and any(folder.iterdir())):
        named(DEMONSTRATION)(folder, progress=Display())
    with suppress(KeyboardInterrupt):  # how it is stopped
        application.serve(folder, port=port, open_browser=browser, announce=_announce)
    out.print("\nStopped.")


def _announce(address: str) -> None:
    out.print(f"Confide studio: {escape(address)}")
    out.print("The address lets one browser in, once. Ctrl-C stops the studio.")


def page(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder, or the folder of its run.")],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")] = Path("explore.html"),
    as_json: Json = False,
) -> None:
    """Write a release as one page to look at: tables with labels and margins, without a network."""
    from confide.opened import write_explore

    written = write_explore(release, file)
    if as_json:
        print_json(written.as_dict())
        return
    out.print(
        escape(f"Wrote {written.file} ({written.bytes / 1e6:.1f} MB, {written.rows:,} rows). Open it in a browser.")
    )
    for name, rows in written.left_out.items():
        out.print(escape(f"Left out because it is too large for one page: {name} ({rows:,} rows)."))
