"""What nobody would do on purpose: pipes for files, names that read alike, sizes beyond counting. Refused, or released.

Whatever is refused is refused for nothing: no charge, no release. Whatever is not ends in a release that is verified.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import confide
from tests.contract.kit import NAMES, charged_once, findings_of, lay_out
from tests.kits.nasty_ideas import IDEAS, SKIP

TOO_LONG = 300
"""Seconds after which something is taken to wait for ever."""


@contextmanager
def in_time() -> Iterator[None]:
    """Fails where something waits for what never comes."""

    def late(_: int, __: FrameType | None) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(TOO_LONG)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


REFUSED = {
    ("tables", "labels that normalise alike"): "repeated-label",
    ("tables", "labels that differ in a blank at the end"): "repeated-label",
    ("tables", "attributes that normalise alike"): "reserved-name",
    ("tables", "a schema that is a pipe"): "bad-schema",
    ("cellkey", "a folder with a name beyond what a disk takes"): "bad-path",
    ("cellkey", "a perturbation table that is a pipe"): "unreadable-ptable",
    ("safetab", "sets of areas that are a pipe"): "coterminous",
    ("topdown", "a frame with an enormous size"): "bad-count",
}
"""What is refused with which finding, where it is not plain that it must be."""


@pytest.mark.parametrize(("mechanism", "title"), REFUSED)
def test_it_is_refused_for_nothing(mechanism: str, title: str, tmp_path: Path) -> None:
    project = lay_out(mechanism, tmp_path / "project")
    assert IDEAS[title](project) != SKIP
    with in_time():
        findings = findings_of(project.run)
    assert [finding.code for finding in findings][:1] == [REFUSED[mechanism, title]]
    assert project.charges() == charged_once(mechanism)[:1]
    assert not list(project.folder.rglob("release"))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NAMES)
@pytest.mark.parametrize("title", IDEAS)
def test_it_is_refused_for_nothing_or_ends_in_a_release(mechanism: str, title: str, tmp_path: Path) -> None:
    project = lay_out(mechanism, tmp_path / "project")
    if IDEAS[title](project) == SKIP:
        pytest.skip(f"{mechanism} has no such file or key")
    with in_time():
        released: list[Path] = []
        findings = findings_of(lambda: released.append(project.run().release))
    if findings:
        if "ledger that is" not in title:  # such a ledger has no history
            assert project.charges() == charged_once(mechanism)[:1], findings
        assert not list(project.folder.rglob("release")), findings
        return
    assert confide.verify(released[0], ledger=project.ledger).ok
    assert project.charges() == charged_once(mechanism)
