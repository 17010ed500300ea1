"""A schema: the attributes of one kind of record, their recodes, and the names by which queries speak of them.

>>> from confide.documents import parse_schema
>>> sex = {"title": "Sex", "levels": [["1", "male"], ["2", "female"]]}
>>> age = {"title": "Age", "range": [0, 99], "recodes": {"adult": {"groups": {"minor": "0..17", "adult": "18..99"}}}}
>>> schema = parse_schema({"id": "demo", "provenance": "made up", "attributes": {"sex": sex, "age": age}})
>>> query = schema.query("sex*age:adult")                  # a marginal of recodes
>>> query.name, query.shape, query.cells
('sex*age:adult', (2, 2), 4)

For users: ``docs/concepts/schema.md``.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from confide.errors import SpecError

__all__ = [
    "ALL",
    "AS_WRITTEN",
    "BLANKS",
    "DETAILED",
    "NO_GROUP",
    "TOTAL",
    "TOTAL_CODE",
    "Attribute",
    "Code",
    "CrossClassification",
    "Group",
    "Level",
    "Query",
    "Recode",
    "Schema",
    "Spelling",
    "identity",
    "query_name",
]


# Spellings: the ways in which records write a code that the schema writes once.
#
# An office's file has ``M``, ``m`` and ``Male`` for one level, blanks after codes, and nothing at all where somebody
# did not answer. A spelling says which level each of these means. It is part of the schema, so that a plan is bound to
# it; a text that is no spelling of a level stays what it is, and is found.


Code: TypeAlias = int | str
"""What is in the records: an integer or a text."""

BLANKS = " \t\n\r\x0b\x0c\u00a0\u2002\u2003\u2007\u2009\u200b\u202f\u3000\ufeff"
"""What counts as a blank at either end of a text: also those that cannot be broken, and marks without width."""


@dataclass(frozen=True)
class Spelling:
    """How the codes of one column are spelled.

    Attributes:
        trim: Whether blanks at either end are no part of a code.
        ignore_case: Whether upper and lower case are alike.
        aliases: Pairs of another text for a code, and the code.
        missing: The code that an empty value, one of blanks, and NULL stand for; none: these are no code.
    """

    trim: bool = False
    ignore_case: bool = False
    aliases: tuple[tuple[str, Code], ...] = ()
    missing: Code | None = None

    def __bool__(self) -> bool:
        """Whether anything is read otherwise than it stands."""
        return self != AS_WRITTEN

    def alias_table(self, codes: Iterable[Code]) -> dict[str, Code]:
        """From a text, as it is after :attr:`letters` and trimming, to the code it stands for, where these differ.

        Raises:
            SpecError: if one text would stand for two codes.
        """
        meant: dict[str, Code] = {}
        own = [(str(code), code) for code in codes]
        for text, code in (*own, *self.aliases):
            as_compared = self.compared(text)
            if meant.setdefault(as_compared, code) != code:
                raise SpecError("ambiguous-code", text=text, meant=meant[as_compared], its_code=code)
        return {text: code for text, code in meant.items() if text != str(code)}

    def compared(self, text: str) -> str:
        """A text as it is compared with codes.

        >>> Spelling(trim=True).compared(" 017 ")
        '017'
        """
        return (text.strip(BLANKS) if self.trim else text).translate(str.maketrans(*self.letters(text)))

    def letters(self, texts: str) -> tuple[str, str]:
        """Capital letters in some texts, and the small one of each, where case is ignored.

        Letters are exchanged one for one, by a list: engines differ in what they take for the small form of a letter.

        >>> Spelling(ignore_case=True).letters("Male 924a")
        ('AELM', 'aelm')
        """
        if not self.ignore_case:
            return "", ""
        both = {letter for text in texts for letter in (text.upper(), text.lower())}
        capital = sorted(
            letter for letter in both if len(letter) == 1 == len(letter.lower()) and letter != letter.lower()
        )
        return "".join(capital), "".join(letter.lower() for letter in capital)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the plan says of it; nothing where records are read as they stand."""
        by_code: dict[str, list[str]] = {}
        for text, code in self.aliases:
            by_code.setdefault(str(code), []).append(text)
        stated: Mapping[str, Any] = {
            "trim": self.trim,
            "ignore_case": self.ignore_case,
            "aliases": by_code,
            "missing": None if self.missing is None else str(self.missing),
        }
        return {key: value for key, value in stated.items() if value}


AS_WRITTEN = Spelling()
"""Every code as the schema writes it."""


# Names and labels become keys: of plans, noise streams, columns and rows. So a name can be taken for no other thing,
# and the labels of a variable tell its groups apart, in every mechanism: it is refused here or nowhere.


TOTAL, DETAILED = "total", "detailed"
"""The names of the query without variables, which counts everybody, and of that which keeps every attribute."""
ALL, TOTAL_CODE = "all", "_T"
"""What is in the column of a variable that a row sums over: in tables of a geography, and in SDMX and others."""
SEPARATORS = "*:/"
"""What is between the names of variables in the name of a query, an attribute and its recode, a table and a query.
No name has one of them, so that each of these texts can be taken apart in one way only."""


def check_name(name: str, thing: str, *, reserved: Collection[str] = (TOTAL, DETAILED)) -> None:
    """Refuses a name that could be taken for something else.

    Args:
        name: The name, such as that of an attribute.
        thing: What it names, in words.
        reserved: Names of our own, in lower case: SQL and SDMX know no other.

    >>> check_name("in:c", "the attribute")
    Traceback (most recent call last):
    ...
    confide.errors.SpecError: the attribute 'in:c' has a character that separates names
      found: 'in:c'
      expected: a name without * : / and control characters, no space at either end; not total or detailed
      remedy: call it "in_c", and map the column: [data] columns = { "in_c" = 'in:c' }
    """
    if name.strip().lower() in reserved:
        problem = "cannot be told from a name of our own"
    elif any(character in SEPARATORS or not character.isprintable() for character in name):
        problem = "has a character that separates names"
    elif not name or name != name.strip():
        problem = "is empty, or has a space at an end"
    else:
        return
    # Underscores are what a person would write in their place.
    other = "".join(c if c.isprintable() and c not in SEPARATORS else "_" for c in name).strip() or "unnamed"
    other += "_code" * (other.lower() in reserved)
    characters = " ".join(SEPARATORS)
    raise SpecError(
        "reserved-name/control",
        thing=thing,
        name=name,
        problem=problem,
        characters=characters,
        reserved=" or ".join(reserved) if reserved else None,
        other=other,
    )


def query_name(variables: Sequence[str], table: str = "") -> str:
    """The text that names a query in plans and noise streams: ``table/attribute*attribute:recode``.

    It is one-to-one: no part has a separator, no variable alone is called as the query without any. So two queries
    never share an entry of a plan, nor the noise that is derived from it.

    Args:
        variables: The names of the variables, each an attribute or ``attribute:recode``.
        table: The table whose own query it is; nothing, if all tables share it.

    Returns:
        The text; ``total`` for no variables.

    >>> query_name(["sex", "age:broad"], "people"), query_name([])
    ('people/sex*age:broad', 'total')
    """
    for variable in variables:
        for part in variable.split(":", maxsplit=1):
            check_name(part, "the variable")
    if table:
        check_name(table, "the table", reserved=())
    return f"{table}/" * bool(table) + ("*".join(variables) or TOTAL)


BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Signs that nobody sees and that turn the order of those around them (Unicode's property Bidi_Control)."""


def as_read(text: str) -> str:
    """What can be seen of a text: one code for a character however it was typed, in full width too, no signs without
    width, single blanks.

    Args:
        text: A label or a code.

    Returns:
        The text as it is compared with others.

    >>> as_read(" cafe\u0301 ") == as_read("caf\u00e9"), as_read("\uff11") == as_read("1")
    (True, True)
    """
    if not text.isascii():  # ASCII has one code for each character, and shows all but blanks
        text = "".join(sign for sign in normalize("NFKC", text) if category(sign) != "Cf")
    return " ".join(text.split())


def check_labels(labels: Sequence[str], of: str, codes: Collection[str] = ()) -> None:
    """Refuses labels that do not tell the groups of a variable apart as they are read, or one of them from the total.
    Labels that differ in upper and lower case alone are read alike, unless they are ``codes`` without another label.

    Args:
        labels: The labels of the groups.
        of: What they are of, in words.
        codes: Codes that are labels, too.

    >>> check_labels(["other", "all"], "the attribute 'kind'")
    Traceback (most recent call last):
    ...
    confide.errors.SpecError: the label 'all' of the attribute 'kind' marks a total in released tables
      found: 'all'
      expected: a label for each that no other has, on one line; all and _T are those of totals
      remedy: change the label in the schema file
    """
    times, alike = Counter(labels), Counter(as_read(label).casefold() for label in labels)
    repeated = next(
        (
            label
            for label in labels
            if times[label] > 1 or (alike[as_read(label).casefold()] > 1 and label not in codes)
        ),
        None,
    )
    marker = next((label for label in labels if as_read(label) in (ALL, TOTAL_CODE)), None)
    broken = next((label for label in labels if any(category(c) == "Cc" or c in BIDIRECTIONAL for c in label)), None)
    if repeated is None and marker is None and broken is None:
        return
    if repeated is not None:
        key = "repeated-label/twice"
    elif marker is not None:
        key = "repeated-label/marker"
    else:
        key = "repeated-label/control"
    wrong = next(label for label in (repeated, marker, broken) if label is not None)
    raise SpecError(key, found=repr(wrong), of=of, label=wrong, all=ALL, total=TOTAL_CODE)


@dataclass(frozen=True, slots=True)
class Level:
    """One value an attribute can take: the code in the records and the label people read."""

    code: Code
    label: str


@dataclass(frozen=True)
class Attribute:
    """A categorical attribute. Its levels are public and complete: a record with another code is an error.

    The position of a level in ``levels`` is its index in every histogram.
    """

    name: str
    title: str
    levels: tuple[Level, ...]
    spelling: Spelling = AS_WRITTEN
    """How the records may write the codes."""

    def __post_init__(self) -> None:
        check_name(self.name, "the attribute")
        if not self.levels:
            raise SpecError("schema-attribute/levels", name=self.name)
        kinds = {type(level.code) for level in self.levels}
        if len(kinds) > 1:
            text = next(level.code for level in self.levels if isinstance(level.code, str))
            raise SpecError("schema-attribute/mixes", name=self.name, text=text)
        repeated = [code for code, times in Counter(level.code for level in self.levels).items() if times > 1]
        if repeated:
            raise SpecError("schema-attribute/code", name=self.name, repeated=repeated[0])
        seen = Counter(as_read(str(level.code)) for level in self.levels)
        alike = [level.code for level in self.levels if seen[as_read(str(level.code))] > 1]
        if alike:
            raise SpecError("schema-attribute/differ", found=ascii(alike[1]), name=self.name)
        alone = {level.label for level in self.levels if level.label == str(level.code)}
        check_labels([level.label for level in self.levels], f"the attribute {self.name!r}", alone)
        unknown = [code for _, code in self.spelling.aliases if code not in self.index]
        if unknown:
            expected = self.describe_codes()
            raise SpecError("schema-attribute/alias", found=repr(unknown[0]), name=self.name, expected=expected)
        self.alias_table  # noqa: B018 - raises where one text would stand for two levels

    @cached_property
    def alias_table(self) -> dict[str, Code]:
        """From each text that stands for a code, and is not the code, to the code."""
        return self.spelling.alias_table(level.code for level in self.levels)

    @property
    def is_integer(self) -> bool:
        """Whether the records hold integers for this attribute."""
        return isinstance(self.levels[0].code, int)

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.levels)

    @cached_property
    def index(self) -> dict[Code, int]:
        """From code to level index."""
        return {level.code: position for position, level in enumerate(self.levels)}

    def describe_codes(self) -> str:
        """The codes in one short phrase, for messages."""
        codes = [level.code for level in self.levels]
        run = 1
        while self.is_integer and run < len(codes) and codes[run] == int(codes[0]) + run:
            run += 1
        if self.is_integer and (run == len(codes) or run > _CODES_NAMED):
            text = f"a whole number from {codes[0]} to {codes[run - 1]}"
            text += "".join(f", or {code}" for code in codes[run : run + _CODES_NAMED])
        else:
            text = "one of " + ", ".join(repr(code) for code in codes[:_CODES_NAMED])
            text += f" and {len(codes) - _CODES_NAMED} more" if len(codes) > _CODES_NAMED else ""
        text += ", or an alias of one" if self.spelling.aliases else ""
        return text + (", or nothing" if self.spelling.missing is not None else "")


_CODES_NAMED = 8
"""So many codes are in a message."""


# Recodes: groupings of an attribute's levels. ``age`` in single years becomes ``age:five-year``.


NO_GROUP = -1


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a recode: the label people read and the codes of the levels in it."""

    label: str
    codes: tuple[Code, ...]


@dataclass(frozen=True)
class Recode:
    """Disjoint groups of the levels of one attribute.

    Levels in no group leave the query: every record is in at most one group, so a recode never raises sensitivity.
    """

    name: str
    attribute: Attribute
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        if self.name != self.attribute.name:
            check_name(self.name.removeprefix(f"{self.attribute.name}:"), f"the recode of {self.attribute.name!r}")
        codes_so_far: set[Code] = set()
        for group in self.groups:
            for code in group.codes:
                if code not in self.attribute.index:
                    raise SpecError(
                        "schema-recode/code",
                        found=repr(code),
                        name=self.name,
                        attribute=self.attribute.name,
                        group_label=group.label,
                    )
                if code in codes_so_far:
                    raise SpecError(
                        "schema-recode/puts", found=repr(code), name=self.name, attribute=self.attribute.name
                    )
                codes_so_far.add(code)
            if not group.codes:
                raise SpecError(
                    "schema-recode/empty", name=self.name, attribute=self.attribute.name, group_label=group.label
                )
        if not self.groups:
            raise SpecError("schema-recode/groups", name=self.name, attribute=self.attribute.name)
        check_labels(self.labels, f"the recode {self.name!r}")

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.groups)

    @cached_property
    def assignment(self) -> NDArray[np.int64]:
        """For each level of the attribute its group, or ``NO_GROUP``."""
        result = np.full(self.attribute.size, NO_GROUP, np.int64)
        for position, group in enumerate(self.groups):
            result[[self.attribute.index[code] for code in group.codes]] = position
        return result

    @property
    def labels(self) -> list[str]:
        """The labels of the groups in order."""
        return [group.label for group in self.groups]

    @cached_property
    def codes(self) -> list[str]:
        """A short code for each group, which released tables have beside the label.

        A group of one level has the code of that level, and a run of levels the codes of its first and its last, such
        as ``0-14``. A recode with other groups numbers its groups: ``1``, ``2``, ...
        """
        levels = [level.code for level in self.attribute.levels]
        codes = []
        for group in self.groups:
            places = sorted(self.attribute.index[code] for code in group.codes)
            if places != list(range(places[0], places[-1] + 1)):
                break
            first, last = str(levels[places[0]]), str(levels[places[-1]])
            codes.append(first if first == last else f"{first}-{last}")
        if len(set(codes)) < self.size:
            return [str(number) for number in range(1, self.size + 1)]
        return codes


def identity(attribute: Attribute) -> Recode:
    """The recode that keeps every level apart.

    Args:
        attribute: An attribute.

    Returns:
        A recode with a group for each level.

    >>> sex = Attribute("sex", "Sex", (Level(1, "male"), Level(2, "female")))
    >>> [group.label for group in identity(sex).groups]
    ['male', 'female']
    """
    return Recode(attribute.name, attribute, tuple(Group(level.label, (level.code,)) for level in attribute.levels))


# Queries: marginals of recodes. Each histogram cell adds to at most one cell of the answer, with coefficient one.


class CrossedVariable(Protocol):
    """What can be crossed: a name in queries, and a number of groups."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


VariableT = TypeVar("VariableT", bound=CrossedVariable)


@dataclass(frozen=True)
class CrossClassification(Generic[VariableT]):
    """The groups of some variables crossed, cells in C order (the last variable runs fastest)."""

    variables: tuple[VariableT, ...]

    @cached_property
    def name(self) -> str:
        """The name of the query: ``sex*age:five-year``, or ``total`` without variables."""
        return query_name([variable.name for variable in self.variables])

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each variable."""
        return tuple(variable.size for variable in self.variables)

    @property
    def cells(self) -> int:
        """The number of cells, empty ones with them."""
        return prod(self.shape)


@dataclass(frozen=True)
class Query(CrossClassification[Recode]):
    """The cross-classification of some recodes."""

    def margins(self) -> Iterable[Query]:
        """All sub-queries, itself first and the total last: the power set P(A) of Bach (2021), Eq. 6."""
        for size in range(len(self.variables), -1, -1):
            for subset in combinations(self.variables, size):
                yield Query(subset)

    @property
    def is_complete(self) -> bool:
        """Whether every record falls into some cell."""
        return all((variable.assignment != NO_GROUP).all() for variable in self.variables)


@dataclass(frozen=True)
class Schema:
    """Attributes in order, and recodes named ``attribute:recode``."""

    id: str
    provenance: str
    attributes: tuple[Attribute, ...]
    recodes: tuple[Recode, ...]

    def __post_init__(self) -> None:
        folded = Counter(as_read(attribute.name).lower() for attribute in self.attributes)
        twice = [attribute.name for attribute in self.attributes if folded[as_read(attribute.name).lower()] > 1]
        if twice:
            raise SpecError("reserved-name/attributes", found=", ".join(twice))

    @cached_property
    def variables(self) -> dict[str, Recode]:
        """Everything a query can name: attributes as they are, and recodes."""
        named = {attribute.name: identity(attribute) for attribute in self.attributes}
        for recode in self.recodes:
            if recode.name in named:
                raise SpecError("schema/name", recode=recode.name)
            named[recode.name] = recode
        return named

    @cached_property
    def spellings(self) -> dict[str, Any]:
        """How records may write the codes, for the attributes where they may do so in more than one way."""
        return {each.name: each.spelling.facts for each in self.attributes if each.spelling}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every code, label and group: two schemas with the same one ask the same question."""
        return self.fingerprint_with(self.spellings)

    def fingerprint_with(self, spellings: Mapping[str, Any]) -> str:
        """The same, if records may write codes in these ways: for a schema that was made again without them."""
        content: dict[str, Any] = {
            "attributes": [
                [a.name, a.title, [[level.code, level.label] for level in a.levels]] for a in self.attributes
            ],
            "recodes": [[r.name, [[group.label, list(group.codes)] for group in r.groups]] for r in self.recodes],
        }
        if spellings:
            content["spellings"] = dict(spellings)
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode("ascii")).hexdigest()

    def variable(self, name: str) -> Recode:
        """The variable of that name."""
        try:
            return self.variables[name]
        except KeyError:
            raise SpecError(
                "unknown-variable/schema", id=self.id, name=name, variables=", ".join(self.variables)
            ) from None

    def query(self, text: str) -> Query:
        """The query that ``text`` names: ``"sex*age:five-year"`` or ``"total"``.

        Its variables have the order that their attributes have in the schema, whatever order ``text`` has: a query has
        one order, one name and one numbering of its cells, on all ways that counts by cell take.

        >>> sex, age = (Attribute(name, name, (Level(1, "1"), Level(2, "2"))) for name in ("sex", "age"))
        >>> Schema("people", "made up", (sex, age), ()).query("age*sex").name
        'sex*age'
        """
        if text.strip() == TOTAL:
            return Query(())
        variables = [self.variable(name.strip()) for name in text.split("*")]
        place = {attribute.name: number for number, attribute in enumerate(self.attributes)}
        if len({variable.attribute.name for variable in variables}) < len(variables):
            raise SpecError("repeated-attribute", text=text)
        return Query(tuple(sorted(variables, key=lambda variable: place[variable.attribute.name])))

    def ordered_query(self, names: Sequence[str]) -> Query:
        """The cross-classification of some variables as released tables list them: attributes in the order of the
        schema and then recodes in theirs, whatever order they are named in."""
        order = list(self.variables)
        query = self.query("*".join(names) or TOTAL)
        return Query(tuple(sorted(query.variables, key=lambda variable: order.index(variable.name))))
