"""What a long run tells the person who waits for it: the stage, how much of it is done. Faces draw it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from confide.engines import Advance


class Progress(Protocol):
    """A display of stages."""

    def stage(self, title: str, steps: int) -> AbstractContextManager[Advance]:
        """Begins a stage of ``steps`` steps; the function given reports steps done."""

    def note(self, text: str) -> None:
        """One line worth reading."""


class Silent:
    """Shows nothing."""

    def stage(self, title: str, steps: int) -> AbstractContextManager[Advance]:  # noqa: ARG002
        return nullcontext(lambda _: None)

    def note(self, text: str) -> None:
        pass
