"""``confide new``, ``confide studio`` and ``confide studio page``: the first five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide import api, drafting
from confide.cli.commands import setting
from confide.cli.show import Display, Json, out, print_json
from confide.registry import DEMONSTRATION, named

SCHEMA = "schema"
"""What ``confide new`` writes besides specs."""


def new(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MECHANISM",
            help="How to protect the records: tables, topdown, safetab, cellkey, swapping, suppression; or comparison; "
            "or schema.",
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where to write spec.toml; for schema: the file of records.")
    ],
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Your records (CSV, Parquet or Excel). Confide proposes a schema and a spec for them.",
        ),
    ] = None,
    geography: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --from: a file with one row for each of the smallest areas, or a code list. Without it, Confide "
            "proposes the areas from the columns of the records.",
        ),
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="With --from, without --geography: the column with the code of the smallest area."
        ),
    ] = None,
    merged: Annotated[
        list[str] | None,
        setting(
            metavar="OLD=NEW",
            help="With --from: the old code of an area that merged into another, and the new one. Repeatable.",
        ),
    ] = None,
    household: Annotated[
        str | None, setting(metavar="COLUMN", help="With --from: the column that identifies households.")
    ] = None,
    name: Annotated[str | None, setting(help="With --from: the name of the release.")] = None,
    ledger_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --from: the ledger that this data set already has; no new one is opened."
        ),
    ] = None,
    schema_file: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="With --from: a schema that you have looked at, such as `confide new schema` writes; it is taken as "
            "it is, in place of a proposal.",
        ),
    ] = None,
    schema_out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="For schema: the file to write; default: print it.")
    ] = None,
    product: Annotated[
        str | None, typer.Option(help="For topdown: pl94-persons (the default), pl94-persons-2026 or pl94-units.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="For swapping: targeted (the default), enhanced or permutation.")
    ] = None,
    ledger: Annotated[
        bool | None,
        typer.Option(
            "--ledger/--no-ledger", help="Open a ledger with the budget of the spec; default: if the spec has a budget."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a commented spec to start from, or a schema for a file of records.

    With --from, Confide proposes a schema, a spec and, without --geography, a table of areas from your own files. What
    these files list is confidential until you have looked at it and keep them.
    """
    if subject == SCHEMA:
        _new_schema(folder, schema_out, as_json=as_json)
        return
    values = {} if name is None else {"name": name}
    drafted = drafting.new(
        subject,
        folder,
        product=product,
        method=method,
        open_ledger=ledger,
        from_file=from_file,
        geography=geography,
        merged=_pairs(merged or []),
        household=household,
        place=place,
        ledger_file=ledger_file,
        schema=schema_file,
        **values,
    )
    if as_json:
        print_json(drafted.as_dict())
        return
    _show_guesses(drafted.said)
    if drafted.ledger is not None:
        out.print(escape(f"Opened {drafted.ledger}: the account of the data set, with the budget of this release."))
    then = f"check {drafted.spec}" if subject in api.MECHANISMS else f"compare {drafted.spec} --out DIR"
    out.print(escape(f"Wrote {drafted.spec}. Edit it, then: confide {then}"))


def _new_schema(file: Path, into: Path | None, *, as_json: bool) -> None:
    proposed = drafting.new_schema(file, into)
    if as_json:
        print_json(proposed.as_dict())
        return
    if into is None:
        out.print(escape(proposed.text.reveal("shown to the curator, who asked for it")), soft_wrap=True)
        return
    _show_guesses(proposed.said)
    out.print(
        escape(
            f"Wrote {into}. Only you can read it. What it lists becomes public when you keep it: look at every line."
        )
    )


def _show_guesses(said: Sequence[str]) -> None:
    for line in said:
        out.print(escape(line), soft_wrap=True)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if text.count("=") != 1 or not all(text.split("=")):
            raise typer.BadParameter(f"--merged takes an old code and a new one, such as 017=018, not {text!r}")
    return {old.strip(): now.strip() for old, now in (text.split("=") for text in texts)}


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
    from confide.studio import serving

    serving.require_extra()
    if folder == Path(DEMO) and not (folder.is_dir() and any(folder.iterdir())):
        named(DEMONSTRATION)(folder, progress=Display())
    with suppress(KeyboardInterrupt):  # how it is stopped
        serving.serve(folder, port=port, open_browser=browser, announce=_announce)
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
