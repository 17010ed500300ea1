"""The tests of pages can fail: what they look for is found where it is planted."""

from __future__ import annotations

import pytest
from tests.kits.pages import form, requests

GOOD = '<html lang="en"><head><title>T</title></head><body><main><h1>T</h1><h2 id="section-1">A</h2></main></body>'


def test_a_good_page_lacks_nothing() -> None:
    assert form(GOOD) == []
    assert requests(GOOD + '<a href="#section-1">A</a><svg xmlns="http://www.w3.org/2000/svg"></svg>') == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (' lang="en"', ""),
        ("<title>T</title>", ""),
        ("<main>", "<div>"),
        ("<h1>T</h1>", ""),
        (' id="section-1"', ""),
        ("</main>", '<a href="#nowhere">A</a></main>'),
        ("</main>", '<svg aria-label="A"><path/></svg></main>'),
        ("</main>", "<svg><title>A</title></svg></main>"),
        ("</main>", '<table><tr><th scope="col"></th></tr></table></main>'),
        ('<h2 id="section-1">', '<h2 id="section-1">' * 5),
    ],
)
def test_what_a_page_lacks_is_seen(old: str, new: str) -> None:
    assert form(GOOD.replace(old, new, 1)) != []


@pytest.mark.parametrize(
    "planted",
    [
        '<img src="https://example.org/a.png">',
        '<link rel="stylesheet" href="a.css">',
        "<script>1</script>",
        "<style>@import 'a.css';</style>",
        "<style>body { background: url(//example.org/a.png) }</style>",
        '<a href="https://example.org">there</a>',
    ],
)
def test_what_asks_another_host_is_seen(planted: str) -> None:
    assert requests(GOOD + planted) != []
