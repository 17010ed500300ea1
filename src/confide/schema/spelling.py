"""Spellings: the ways in which records write a code that the schema writes once.

An office's file has ``M``, ``m`` and ``Male`` for one level, blanks after codes, and nothing at all where somebody did
not answer. A spelling says which level each of these means. It is part of the schema, so that a plan is bound to it; a
text that is no spelling of a level stays what it is, and is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from confide.errors import SpecError

Code: TypeAlias = int | str
"""What stands in the records: an integer or a text."""

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
                raise SpecError(
                    "ambiguous-code",
                    f"{text!r} means two different levels",
                    found=f"{meant[as_compared]!r} and {code!r}",
                    expected="one level for each text, after blanks and case are ignored as the schema says",
                    remedy="remove the alias from one of the two, or leave ignore_case or trim out",
                )
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
