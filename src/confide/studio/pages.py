"""How a page of the studio is made: from a template, in the one look of all documents, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from fastapi.responses import HTMLResponse, Response

from confide.errors import Finding
from confide.report.rendering import environment
from confide.version import __version__

FOLDER = files("confide") / "data" / "studio"
LOOK = files("confide") / "data" / "templates"
ASSETS = {"studio.css": "text/css; charset=utf-8", "studio.js": "text/javascript; charset=utf-8"}
Crumbs = Iterable[tuple[str, str]]
"""The way to a page: titles with their addresses."""


def address(path: str, /, **values: Any) -> str:
    """The address of a page: lists as repeated values, and nothing for what is empty.

    >>> address("/explore", release="a b", where=["sex=1", "age=2"], page=None)
    '/explore?release=a+b&where=sex%3D1&where=age%3D2'
    """
    pairs = [
        (name, str(each))
        for name, value in values.items()
        if value not in (None, "", (), [], False)
        for each in (value if isinstance(value, list | tuple) else [value])
    ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def plain_number(value: float | Fraction) -> str:
    """A figure as it is read: whole numbers grouped, others to a few digits.

    >>> plain_number(12345), plain_number(0.98765)
    ('12,345', '0.9877')
    """
    number = float(value)
    if number.is_integer():
        return f"{int(value):,}"
    return f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.1f}"


def page(template: str, title: str, *, crumbs: Crumbs = (), status: int = 200, **values: Any) -> HTMLResponse:
    """A page of the studio.

    Args:
        template: Its template.
        title: What it is called.
        crumbs: The way to it, after the first page.
        status: The status of the answer.
        values: What else the template has.
    """
    own = environment().get_template(template)
    text = own.render(
        title=title, crumbs=list(crumbs), version=__version__, address=address, plain=plain_number, **values
    )
    return HTMLResponse(text, status_code=status)


def findings_page(findings: Iterable[Finding], status: int = 400) -> HTMLResponse:
    """What is wrong, as a page."""
    return page("studio_findings.html.j2", "This cannot be done", findings=list(findings), status=status)


@cache
def asset(name: str) -> bytes:
    """Style or script, the same for every folder. The style begins with that of all documents."""
    own = (FOLDER / name).read_bytes()
    if name != "studio.css":
        return own
    shared = [(LOOK / each).read_bytes() for each in ("look.css", "look_print.css")]
    return b"\n".join([*shared, own])


def asset_answer(name: str) -> Response:
    """Style or script; a browser asks each time whether it is still the same."""
    return Response(asset(name), media_type=ASSETS[name], headers={"cache-control": "no-cache"})


def figure_answer(svg: str) -> Response:
    """A picture of its own, which may style itself and nothing else."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    return Response(svg, media_type="image/svg+xml", headers={"content-security-policy": policy})
