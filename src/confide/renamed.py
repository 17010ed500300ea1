"""Arguments that have another name now: the old one is understood for a while, and says what it is called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lets a function take arguments by their old names, with a :class:`DeprecationWarning` that has the new one.

    Args:
        names: For each old name the new one.

    Returns:
        A decorator; the signature of the function is that of the new names.

    >>> @renamed(p_stay="pstay")
    ... def chance(pstay: str) -> str:
    ...     return pstay
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     chance(p_stay="1/2"), str(said[0].message)
    ('1/2', 'chance: the argument p_stay is called pstay')
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = getattr(function, "__name__", "function")

        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            taken: dict[str, Any] = given
            for old in [each for each in names if each in taken]:
                if names[old] in taken:
                    raise TypeError(f"{name}: {old} and {names[old]} are one argument, and both are given")
                warnings.warn(f"{name}: the argument {old} is called {names[old]}", DeprecationWarning, stacklevel=2)
                taken[names[old]] = taken.pop(old)
            return function(*args, **given)

        return call

    return decorate
