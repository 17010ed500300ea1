"""``confide studio`` and ``confide explore``: the library in a browser."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from confide.cli.show import Display, Json, out, print_json

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
        from confide import demonstration

        demonstration.demo_studio(folder, progress=Display())
    with suppress(KeyboardInterrupt):  # how it is stopped
        serving.serve(folder, port=port, open_browser=browser, announce=_announce)
    out.print("\nStopped.")


def _announce(address: str) -> None:
    out.print(f"Confide studio: {escape(address)}")
    out.print("The address lets one browser in, once. Ctrl-C stops the studio.")


def explore(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The release folder, or the folder of its run.")],
    file: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write.")] = Path("explore.html"),
    as_json: Json = False,
) -> None:
    """Write a release as one page to look at: tables with labels and margins, without a network."""
    from confide.studio.explore_file import write_explore

    written = write_explore(release, file)
    if as_json:
        print_json(written.as_dict())
        return
    out.print(
        escape(f"Wrote {written.file} ({written.bytes / 1e6:.1f} MB, {written.rows:,} rows). Open it in a browser.")
    )
    for name, rows in written.left_out.items():
        out.print(escape(f"Left out because it is too large for one page: {name} ({rows:,} rows)."))
