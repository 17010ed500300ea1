"""The confidential zone as a type.

Whatever was computed from records without noise is a :class:`Confidential`. Its ``repr`` shows nothing, it cannot be
pickled, copied or formatted into a message, and the writer of a release refuses it. The one way out is
:meth:`Confidential.reveal`, which names who looks and why, so that a reader finds every such place by searching for it.
Engines hand rows to their worker processes in files of the confidential zone, never in values of this type.
"""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

T = TypeVar("T")


class Confidential(Generic[T]):
    """A value that only the truth could tell."""

    __slots__ = ("__value",)

    def __init__(self, value: T):
        self.__value = value

    def reveal(self, purpose: str) -> T:
        """The value. ``purpose`` says, for the reader of the code, why this place may see it."""
        if not purpose:
            raise ValueError("say why the confidential value is needed")
        return self.__value

    def __repr__(self) -> str:
        return "<confidential>"

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return "<confidential>"

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("a confidential value is not compared; reveal it where the truth may be used")

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a confidential value is neither pickled nor copied; reveal it where the truth may be used")

    def __bool__(self) -> NoReturn:
        raise TypeError("a confidential value decides nothing; reveal it where the truth may be used")
