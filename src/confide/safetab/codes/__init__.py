"""Code lists: race and ethnicity codes, the characteristic iterations, and which code counts in which iteration.

They are public and part of the frame. :func:`~confide.safetab.codes.reading.read_code_lists` makes
:class:`~confide.safetab.codes.lists.CodeLists` of the four official files, :mod:`~confide.safetab.codes.mapping`
finds the iterations of a person, and :mod:`~confide.safetab.codes.stability` bounds how many those can be.
"""

from __future__ import annotations

from confide.safetab.codes.lists import CodeLists, Iteration, IterationKind
from confide.safetab.codes.mapping import iterations_of
from confide.safetab.codes.reading import CodeFiles, read_code_lists
from confide.safetab.codes.stability import stability, worst_case

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
