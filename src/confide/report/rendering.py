"""One look for every document: templates, the language of a page, and how numbers are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from confide.exact import exact_text, fixed, grouped, signed, up
from confide.messages import ENGLISH, Messages, messages


@cache
def environment(language: str = ENGLISH) -> Environment:
    """The templates, with escaping always on and unknown names an error; ``t`` gives the messages of a language."""
    templates = Environment(
        loader=PackageLoader("confide", "data/templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    text = PageText(messages(language))
    templates.globals["t"] = text
    templates.filters |= {name: text.localised(written) for name, written in NUMBERS.items()}
    templates.filters |= {
        "number": text.messages.number, "exact": exact_text, "quoted": quoted, "one_line": one_line,
    }  # fmt: skip
    return templates


@dataclass(frozen=True)
class PageText:
    """Messages as a page shows them: escaped, with `code` and **bold** set as such."""

    messages: Messages

    @property
    def language(self) -> str:
        return self.messages.language

    def __call__(self, key: str, /, **values: Any) -> Markup:
        """The message with this key."""
        marked = str(escape(self.messages.texts[key]))
        for pattern, tag in ((r"`([^`]+)`", "code"), (r"\*\*([^*]+)\*\*", "b")):
            marked = re.sub(pattern, rf"<{tag}>\1</{tag}>", marked)
        # Values are escaped by Markup.format, whatever a spec has in its names and titles.
        return Markup(marked).format(**{name: self.messages.number(value) for name, value in values.items()})  # noqa: S704

    def counted(self, key: str, number: int, /, **values: Any) -> Markup:
        """The message for one thing, or that for several."""
        return self(f"{key}_one" if number == 1 else f"{key}_many", number=number, **values)

    def localised(self, written: Callable[..., str]) -> Callable[..., str]:
        """A way to write numbers, with the marks of the language."""
        return lambda *arguments: str(self.messages.number(written(*arguments)))


def one_line(value: str) -> Markup:
    """Text for a comment in a TOML file: on one line, whatever is in it."""
    return Markup(" ".join("".join(sign if sign.isprintable() else " " for sign in value).split()))  # noqa: S704 - TOML


def quoted(value: str | int) -> Markup:
    """Text as a TOML string, whatever is in it; a whole number as it is."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f"))  # noqa: S704 - TOML, no page


NUMBERS: dict[str, Callable[..., str]] = {"grouped": grouped, "fixed": fixed, "signed": signed, "up": up}
"""The filters of templates that write numbers."""


LONG_PAGE = 5
"""From this many headings on a page has a list of contents."""


_HEADING = re.compile(r"<h2( class=\"page\")?>(.*?)</h2>", re.DOTALL)


def render(template: str, language: str = ENGLISH, **values: Any) -> str:
    """A document from its template, in a language that has messages; a long page with a list of its contents.

    Args:
        template: The name of a template under ``data/templates``.
        language: The language of its messages.
        values: What the template has places for, by name.

    Returns:
        The document as a text.

    >>> render("comparison.toml.j2", title="Six ways", made_up="100000", file="spec.toml").splitlines()[0]
    '# A comparison: the same people protected in several ways, each attacked, on one page.'
    """
    text = environment(language).get_template(template).render(**values)
    return _with_contents(text, language) if template.endswith(".html.j2") else text


def _with_contents(page: str, language: str) -> str:
    """Every heading gets an address; where there are many, a list of them is below the head of the page."""
    # What may scroll sideways on a small screen can be reached with the keyboard.
    page = page.replace('<div class="scroll">', '<div class="scroll" tabindex="0">')
    page = page.replace('<figure><div role="img"', '<figure><div tabindex="0" role="img"')
    headings = [heading for _, heading in _HEADING.findall(page)]
    numbers = iter(range(1, len(headings) + 1))
    page = _HEADING.sub(lambda match: f'<h2 id="section-{next(numbers)}"{match[1] or ""}>{match[2]}</h2>', page)
    if len(headings) < LONG_PAGE:
        return page
    links = "".join(
        f'<li><a href="#section-{number}">{re.sub(r"<[^>]+>", "", heading)}</a></li>'
        for number, heading in enumerate(headings, 1)
    )
    title = escape(messages(language).texts["page.contents"])
    contents = f'<nav class="contents" aria-label="{title}"><ol>{links}</ol></nav>'
    return page.replace("</header>", f"</header>\n{contents}", 1)


def messages_of(manifest: Mapping[str, Any]) -> Messages:
    """The messages of the language that a release has its pages in, with the office's word for the smallest places."""
    text = messages(manifest.get("publication", {}).get("language", ENGLISH))
    spine = manifest["plan"].get("spine")
    return text.calling(spine[-1]) if spine else text
