"""The statement that stands in for a certificate where a release was made from measurements: no promise of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.report.render import render
from confide.topdown.statistics import solver_words


def statement(manifest: Mapping[str, Any]) -> str:
    """The statement as an HTML page."""
    stamp = f"{manifest['stamp']}: made from measurements whose noise protects nobody" if "stamp" in manifest else ""
    return render(
        "postprocess.html.j2",
        title=f"Post-processing: {manifest['title']}",
        banner=stamp,
        manifest=manifest,
        source=manifest["source"],
        words=manifest["privacy"]["in_words"],
        strategy=manifest["plan"]["question"]["strategy"],
        solved=solver_words(manifest["statistics"]["whole"]),
    )
