"""Code lists: race and ethnicity codes, the characteristic iterations, and which code counts in which iteration.

They are public and part of the frame. :func:`~confide.mechanisms.safetab.codes.reading.read_code_lists` makes
:class:`~confide.mechanisms.safetab.codes.lists.CodeLists` of the four official files,
:mod:`~confide.mechanisms.safetab.codes.lists`
finds the iterations of a person, and :mod:`~confide.mechanisms.safetab.codes.lists` bounds how many those can be.
"""

from __future__ import annotations

from confide.mechanisms.safetab.codes.lists import (
    CodeLists,
    Iteration,
    IterationKind,
    iterations_of,
    stability,
    worst_case,
)
from confide.mechanisms.safetab.codes.reading import CodeFiles, read_code_lists

__all__ = [
    "CodeFiles",
    "CodeLists",
    "Iteration",
    "IterationKind",
    "iterations_of",
    "read_code_lists",
    "stability",
    "worst_case",
]
