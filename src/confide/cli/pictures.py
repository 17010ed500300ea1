"""``--plots``: pictures of an answer, drawn into a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from confide.errors import Finding, ParameterError, Place
from confide.report import plots

Plots = Annotated[Path | None, typer.Option("--plots", metavar="DIR", help="Draw pictures into this folder (SVG).")]


def write(folder: Path, pictures: Mapping[str, Callable[[], str]]) -> list[Path]:
    """Draws pictures into a folder, each by name; none is drawn where the extra ``plots`` is missing."""
    if not plots.available():
        raise ParameterError(
            Finding(
                code="no-plots",
                what="pictures need packages that are not installed",
                where=Place(path="--plots"),
                found="no altair, or no vl-convert-python",
                expected="the extra `plots`",
                remedy='install it with pip install "confide[plots]", or leave out --plots',
            )
        )
    drawn = {folder / name: picture() for name, picture in pictures.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in drawn.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        found = "a file of this name" if folder.is_file() else error.strerror or type(error).__name__
        raise ParameterError(
            Finding(
                code="plots-folder",
                what="the pictures cannot be written there",
                where=Place(path="--plots"),
                found=found,
                expected="a folder that can be written to",
                remedy="choose another folder",
            )
        ) from None
    return sorted(drawn)
