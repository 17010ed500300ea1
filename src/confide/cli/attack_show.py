"""The answers of ``confide attack reconstruct`` on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from confide.cli.show import err, out, table

if TYPE_CHECKING:
    from confide.attacks.reconstruction import Reconstruction


def show_reconstruction(found: Reconstruction, repeats: int) -> None:
    """What was found, and how sure it is."""
    result = found.as_dict()
    tables = len(result["tables"])
    word = "table" if tables == 1 else "tables"
    out.print(
        f"[bold]{found.persons:,} records in {result['blocks']:,} blocks[/] from {tables} {word} "
        f"({escape(found.published.source)}), solved by {escape(found.level)} in {found.seconds:.1f} s."
    )
    for note in found.published.notes:
        out.print(f"  {escape(note)}")
    if found.unsolved:
        err.print(
            f"[bold yellow]{found.unsolved:,} units have no solution yet[/]: the time was up. --time-limit gives more."
        )
    guessed = result["guessed_persons"]
    if guessed:
        out.print(
            f"{guessed:,} records have an attribute that no published figure tells; another value would do as well "
            "(column guessed)."
        )
    if not found.exact:
        out.print(
            f"\nA fit by least absolute deviation: {found.deviation:,.1f} standard deviations over all figures. Others "
            "fit about as well, so that no solution variability is claimed."
        )
        return
    out.print("Every published figure was checked again: the records have these tables exactly.\n")
    if found.mean is None:
        out.print("The number of people of a block is not published, so that no solution variability is claimed.")
        return
    _by_size(found)
    bounds = len(result["bounds"])
    if bounds:
        out.print(
            f"For {bounds:,} blocks the time was up: their variability is an upper bound. --time-limit gives more."
        )
    at_most = "at most " if bounds else ""
    out.print(
        f"Mean solution variability {at_most}{found.mean:.1f} %: another set of records with the same tables differs "
        "in at most that share of people."
    )
    sure = result["certain_persons"]
    out.print(f"At least {sure:,} of {found.persons:,} records are in every solution that the tables allow.")
    if repeats:
        always = int((found.confidence == 1.0).sum()) - sure
        out.print(f"{always:,} more were in all of {repeats:,} repeats with random objectives, which proves nothing.")


def _by_size(found: Reconstruction) -> None:
    rows = [
        (
            row["size"],
            f"{row['blocks']:,}",
            f"{row['persons']:,}",
            f"{row['blocks_at_0']:,}",
            f"{row['share_of_blocks_at_0']:.1%}",
            f"{row['share_of_persons_at_0']:.1%}",
        )
        for row in found.by_size()
        if row["blocks"]
    ]
    headings = ["people in block", "blocks ", "people ", "one solution ", "of blocks ", "of people "]
    table(headings, rows, title="Blocks with one solution alone (solution variability 0)")
