"""One look for every document; and the certificate: two pages that a lawyer can read, made from the manifest alone.

What every release with a loss says is written here; what only one mechanism can say, it hands over as
:class:`CertificateWords`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.exact import exact_text, fixed, fraction_up, grouped, signed, up
from confide.messages import ENGLISH, Messages, messages
from confide.privacy import ZCDP, ApproxDP, Neighbours, PrivacyLoss, cks_epsilon, loss_from_dict, price
from confide.privacy.statements import short_probability
from confide.releases.folder import in_words, rehearsal_banner, stated_delta
from confide.releases.plan import Plan, amount_of, measured_levels, read_plan
from confide.releases.tabular import AreaNames
from confide.report.charts import MOST_TILES, AreaMeasure, area_maps

# One look for every document: templates, and how numbers are written.


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
    """A document from its template, in a language that has messages; a long page with a list of its contents."""
    text = environment(language).get_template(template).render(**values)
    return _with_contents(text, language) if template.endswith(".html.j2") else text


def _with_contents(page: str, language: str) -> str:
    """Every heading gets an address; where there are many, a list of them stands below the head of the page."""
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


# The certificate: two pages that a lawyer can read, made from the manifest alone.


CERTIFICATE = "certificate.html"
STATEMENT = "statement.html"
"""What stands in for a certificate where there is no loss to certify."""

LOSS_NAMES = {"zcdp": "ρ", "pure": "ε", "approximate": "ε"}


@dataclass(frozen=True)
class CertificateWords:
    """What a mechanism adds to the certificate of its releases."""

    counts: str
    """What the noisy counts of the plan are."""
    promise: Sequence[str] = ()
    """What else there is to say of the promise, a paragraph each."""
    invariants: Sequence[str] = ()
    """A line for each figure that is published without noise."""
    invariants_note: str = ""
    """What they mean for the promise."""
    effective: Sequence[str] = ()
    """What the promise is worth together with them, in sentences."""
    estimates: Mapping[str, Any] | None = None
    """How estimates were made of measurements: in all, and by level."""
    groups: Sequence[Mapping[str, Any]] = ()
    """Levels of groups that overlap, in place of geolevels."""
    passes: Sequence[Mapping[str, str]] = ()
    """Parts of the population that are measured apart, each with its budget."""
    accuracy: bool = False
    """Whether a page beside it says how far off figures may be."""


def messages_of(manifest: Mapping[str, Any]) -> Messages:
    """The messages of the language that a release has its pages in, with the office's word for the smallest places."""
    text = messages(manifest.get("publication", {}).get("language", ENGLISH))
    spine = manifest["plan"].get("spine")
    return text.calling(spine[-1]) if spine else text


def certificate(manifest: Mapping[str, Any], said: CertificateWords) -> str:
    """The certificate as an HTML page.

    Args:
        manifest: The manifest of a release whose plan has a loss.
        said: What its mechanism has to say besides.

    Returns:
        A page that needs no other file.
    """
    plan = read_plan(manifest["plan"])
    privacy = manifest["privacy"]
    epsilon = privacy.get("epsilon_at_delta")
    number, text = amount_of(plan.loss), messages_of(manifest)
    chosen = text.text("page.stamp_noise", stamp=manifest["stamp"]) if "stamp" in manifest else ""
    return render(
        "certificate.html.j2",
        text.language,
        title=text.text("page.title_certificate", title=manifest["title"]),
        banner=rehearsal_banner(manifest) or chosen,
        manifest=manifest,
        loss={"name": LOSS_NAMES[plan.definition.value], "exact": str(number), "short": fraction_up(number)},
        delta=short_probability(plan.loss.delta) if isinstance(plan.loss, ApproxDP) else "",
        epsilon=epsilon and {**epsilon, "delta_short": short_probability(Fraction(epsilon["delta"]))},
        counts=plan.counts,
        counts_words=said.counts,
        words=[*in_words(plan, stated_delta(manifest), text.language), *said.promise],
        definition_words=text.text(f"certificate.definition_{plan.definition.value}"),
        neighbours_words=text.text(f"certificate.neighbours_{_key(plan.neighbours)}"),
        invariants=list(said.invariants),
        invariants_note=said.invariants_note,
        effective=list(said.effective),
        parts=_parts(privacy, "by_attribute", plan.question.get("attributes", {})),
        moves=_parts(privacy, "by_move_within", {}),
        away=[part.words(text) for part in plan.left_by_invariants.limited],
        levels=list(measured_levels(plan)),
        has_paths=bool(plan.paths),
        smallest=plan.spine[-1] if plan.spine and "frame" in plan.question else "block",
        estimates=said.estimates,
        accuracy=said.accuracy,
        groups=list(said.groups),
        passes=list(said.passes),
        both=both_neighbours(plan, Fraction(epsilon["delta"]) if epsilon else Fraction(1), text)
        if plan.neighbours is Neighbours.ADD_REMOVE
        else [],
    )


def _parts(privacy: Mapping[str, Any], key: str, titles: Mapping[str, str]) -> list[dict[str, str]]:
    """What holds for a record that differs in a part only."""
    delta = privacy.get("epsilon_at_delta", {}).get("delta")
    rows = []
    for name, values in privacy[key].items():
        loss = loss_from_dict(values)
        number = amount_of(loss)
        epsilon = "0.00"
        if isinstance(loss, ZCDP) and delta is not None and number:
            epsilon = up(cks_epsilon(loss.rho, delta), 2)
        title = titles.get(name, name.replace("_", " "))
        rows.append({"name": title, "loss": fraction_up(number), "epsilon": epsilon})
    return rows


def both_neighbours(plan: Plan, delta: Fraction, text: Messages) -> list[dict[str, str]]:
    """The loss for one record more or less, and for one record changed, side by side (Theorems 1 and 2)."""
    rows = []
    for neighbours in (Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE):
        loss = price(plan.event, neighbours, plan.definition, plan.delta)
        words = text.text(f"certificate.both_{_key(neighbours)}")
        rows.append({"words": words, "loss": fraction_up(amount_of(loss)), "epsilon": _epsilon(loss, delta)})
    return rows


def _key(neighbours: Neighbours) -> str:
    return neighbours.value.replace("-", "_")


def _epsilon(loss: PrivacyLoss, delta: Fraction) -> str:
    return up(cks_epsilon(loss.rho, delta), 2) if isinstance(loss, ZCDP) and loss.rho else ""


# Who stands out, area by area: the picture of risk in the dossiers of all mechanisms. Confidential.


_Whole = NDArray[np.int32] | Integers
LONE_SHARE = "share of the figures of one record that are shown as 1, in per cent"
ALIKE = (
    "The promise of the certificate is the same for every record of every area, apart from what is published exactly: "
    "a 1 that is right is so by chance, and the promise bounds what anybody can conclude from it about one record."
)
"""What is said of mechanisms whose privacy loss is certified."""


@dataclass(frozen=True, eq=False)
class _LoneCounts:
    """By area: figures of one record, those of them that are shown as 1, and all figures that are shown as 1."""

    codes: Sequence[str]
    lone: Integers
    shown: Integers
    ones: Integers

    def __repr__(self) -> str:
        return "<confidential>"

    def row(self, area: int | slice = slice(None)) -> dict[str, Any]:
        """The numbers of an area, or of all."""
        lone, shown, ones = (int(np.sum(each[area])) for each in (self.lone, self.shown, self.ones))
        percent = round(100 * shown / lone, 2) if lone else None
        return {"lone": lone, "shown": shown, "published_as_1": ones, "percent": percent}


class LoneFigures:
    """Figures of one record, area by area, and how many of them a release shows as they are. Confidential.

    A figure that counts one record tells everybody who knows that record what is crossed in it, and that nobody else is
    like it. For an area a let C(a) be its figures, each cross-classification once, with true counts t and published
    counts p. The risk of the area is

        R(a) = 100 · #{c in C(a): t_c = 1 and p_c = 1} / #{c in C(a): t_c = 1}.

    It is 100 where nothing is protected, and there is none where nobody is alone. Beside it stands how many figures are
    published as 1 in all: #{t_c = p_c = 1} / #{p_c = 1} is how often somebody is right who takes a published 1 for one
    record. R looks at single figures; it is neither a bound nor a promise, and does not replace an attack on all
    figures together (``confide.lab.attacks``).

    Reference: A. Hundepool et al., Handbook on Statistical Disclosure Control, section 5.2, on small counts as unsafe
    cells.
    """

    def __init__(self) -> None:
        self._levels: dict[str, _LoneCounts] = {}
        self._owner: dict[tuple[str, str], str] = {}

    def takes(self, level: str, query: str, table: str) -> bool:
        """Whether figures are looked at here: those of a cross-classification come from the first table that has it."""
        return self._owner.setdefault((level, query), table) == table

    def add(self, level: str, codes: Sequence[str], area: _Whole, true: _Whole, published: _Whole) -> None:
        """Adds figures of areas of a level.

        Args:
            level: The level.
            codes: The codes of its areas.
            area: For each figure the place of its area among the codes.
            true: What the records say.
            published: What the release says; any other number than 1 where it says nothing.
        """
        if level not in self._levels:
            self._levels[level] = _LoneCounts(codes, *(np.zeros(len(codes), np.int64) for _ in range(3)))
        # In place: figures of millions of areas come in thousands of parts.
        counts, alone, one = self._levels[level], true == 1, published == 1
        np.add.at(counts.lone, area[alone], 1)
        np.add.at(counts.shown, area[alone & one], 1)
        np.add.at(counts.ones, area[one], 1)

    def as_dict(self, geometry: Mapping[str, Path]) -> dict[str, Any]:
        """Plain numbers: of each level, and of its areas where they are few, or have outlines to be drawn."""
        levels = []
        for level, counts in self._levels.items():
            each: list[dict[str, Any]] | None = None
            if len(counts.codes) <= MOST_TILES or level in geometry:
                each = [{"area": code} | counts.row(place) for place, code in enumerate(counts.codes)]
            levels.append({"level": level, "areas": len(counts.codes)} | counts.row() | {"by_area": each})
        return {"what": LONE_SHARE, "levels": levels}


def risk_pictures(
    risk: Mapping[str, Any],
    names: AreaNames | None,
    geometry: Mapping[str, Path],
    words: str,
    levels: Collection[str] | None = None,
) -> dict[str, Any]:
    """What the page shows of :class:`LoneFigures`: a line for each level, and a picture where there are few areas.

    Args:
        risk: Its numbers.
        names: What areas are called.
        geometry: By level a GeoJSON file.
        words: What the numbers mean for this mechanism.
        levels: Those that have pictures; by default all.
    """
    drawn = [row for row in risk["levels"] if row["by_area"] and (levels is None or row["level"] in levels)]
    listed = {row["level"]: {each["area"]: each for each in row["by_area"]} for row in drawn}
    shares = {level: {code: each["percent"] for code, each in areas.items()} for level, areas in listed.items()}
    called = {} if names is None else {level: dict(zip(*pair, strict=True)) for level, pair in names.levels.items()}
    outlines = {level: file for level, file in geometry.items() if level in shares}
    maps = area_maps(AreaMeasure(risk["what"], shares, called, (0.0, 100.0)), outlines)
    for each in maps:
        rows = list(listed[each["level"]].values())[: len(each["rows"])]
        each["more"] = [(row["lone"], row["shown"], row["published_as_1"]) for row in rows]
    return {"levels": risk["levels"], "maps": maps, "words": words}
