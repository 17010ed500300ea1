"""What tests of the studio share: jobs that are done at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from confide.studio import jobs
from confide.studio.jobs import work


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are done at once, in this process."""

    class AtOnce:
        def __init__(self, *_: Any, **__: Any):
            self.stdin = self

        def write(self, text: bytes) -> None:
            work(json.loads(text))

        def close(self) -> None:
            return

        def poll(self) -> int:
            return 0

        wait = poll

    monkeypatch.setattr(jobs.subprocess, "Popen", AtOnce)
