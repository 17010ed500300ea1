"""A second demonstration goes into the next free folder, and says so; nothing is ever replaced."""

from __future__ import annotations

from pathlib import Path

from confide.lab.demonstrated_releases import free_folder


class Notes:
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def test_a_second_demonstration_has_a_folder_of_its_own(tmp_path: Path) -> None:
    notes, demo = Notes(), tmp_path / "demo"
    assert free_folder(demo, notes) == demo  # type: ignore[arg-type]
    demo.mkdir()
    assert free_folder(demo, notes) == demo  # type: ignore[arg-type]
    assert notes.said == []
    (demo / "mine.txt").write_text("mine")
    (tmp_path / "demo-2").write_text("a file")
    assert free_folder(demo, notes) == tmp_path / "demo-3"  # type: ignore[arg-type]
    assert "demo-3" in notes.said[0]
    assert (demo / "mine.txt").read_text() == "mine"
