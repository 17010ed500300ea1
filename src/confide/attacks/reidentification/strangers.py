"""Files that cannot be about the same people, found before anything is counted.

An attack on files that name blocks, persons or sexes differently finds nobody, and a rate of zero looks like safety.
Refused is a file that has no block (the attacker's: no person) in common with the truth, and one whose codes are of
another kind: numbers here and words there. A single record may well be a stranger, and is not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reidentification.ages import Integers
from confide.attacks.reidentification.reading import NEEDED, OPTIONAL, Role
from confide.errors import Finding, InputError, Place

MUST_MEET = ("geocode", "person_id")
_REMEDIES = {
    "geocode": "use the codes of the same areas in all files, as text with their leading zeros; "
    "--columns truth:geocode=THEIRS takes another column of the truth",
    "person_id": "use the same person ids in both files, or --attacker-from-truth",
}


def refuse_strangers(name: str, codes: Mapping[Role, Integers], names: pa.Array) -> None:
    """Refuses a column whose codes (places in ``names``) cannot be compared with the truth's."""
    findings = []
    for role in (Role.RECONSTRUCTED, Role.ATTACKER):
        if name not in (*NEEDED[role], *OPTIONAL[role]):
            continue
        if min(len(codes[role]), len(codes[Role.TRUTH])) <= 1:
            continue
        there = [_present(codes[one], len(names)) for one in (role, Role.TRUTH)]
        if not there[0].any() or (there[0] & there[1]).any():
            continue
        ours, true = map(np.flatnonzero, there)
        words = [_described(name, names, listed) for listed in (ours, true)]
        if name in MUST_MEET or (len(true) and words[0] != words[1] and _MIXED not in words):
            findings.append(
                Finding(
                    code="strangers",
                    what=f"the file {role.value} and the truth have nothing in common in this column",
                    where=Place(file=role.value, column=name),
                    found=f"{words[0]} in {role.value}, {words[1]} in the truth",
                    expected="the same codes in both files",
                    remedy=_REMEDIES.get(name, "use the same codes in all files"),
                )
            )
    if findings:
        raise InputError(findings)


def _present(codes: Integers, number: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the codes 0, 1, … occur."""
    found = np.zeros(number, dtype=bool)
    found[codes[codes >= 0]] = True
    return found


_MIXED = "words and whole numbers"


def _described(name: str, names: pa.Array, listed: Integers) -> str:
    """Codes without showing one: how long they are, or whether they are words or numbers."""
    if not len(listed):
        return "nothing"
    texts = names.take(pa.array(listed))
    if name in MUST_MEET:
        lengths = pc.min_max(pc.utf8_length(texts)).as_py()
        low, high = lengths["min"], lengths["max"]
        return f"codes of {low if low == high else f'{low} to {high}'} characters"
    numbers = pc.match_substring_regex(texts, "^[0-9]+$")
    if pc.all(numbers).as_py():
        return "whole numbers"
    return _MIXED if pc.any(numbers).as_py() else "words"
