"""The noise of every mechanism: as planned, bound to records, plan and key, and to nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import confide
from tests.contract.kit import (
    KEY,
    Mechanism,
    NoiseSource,
    NoiseStream,
    Plan,
    Project,
    Residuals,
    accounted,
    audit,
    declares_noise,
    findings_of,
    keyed,
    lay_out,
    mechanism_of,
    noise_of,
    noise_over_keys,
    tries_in_memory,
    unverified,
)
from tests.contract.moments import Watched
from tests.contract.test_changing_records import exchange_one, largest_input

OTHER_KEY = "5eed0fa1" * 8
UNPRICED = Plan.without_loss("trial", {})
A_HANDFUL = 200
Noise = tuple[Plan, list[Residuals]]


@pytest.fixture(scope="session")
def noise(seal: Callable[[str], Project]) -> Callable[[str], Noise]:
    """What the sealed example of a mechanism has added to the truth."""
    taken: dict[str, Noise] = {}

    def of(name: str) -> Noise:
        if name not in taken:
            taken[name] = noise_of(seal(name))
        return taken[name]

    return of


def test_whoever_is_charged_declares_what_it_drew(name: str) -> None:
    assert declares_noise(name) or not accounted(name)


def test_noise_is_as_planned_or_it_is_said_why_there_is_none(sealed: Project, tmp_path: Path) -> None:
    project = sealed.copy(tmp_path / "copy")
    if not declares_noise(project.name):
        (finding,) = findings_of(lambda: confide.audit_noise(project.run_folder, processes=1))
        assert finding.code in {"no-noise", "no-records"}
        return
    answer = confide.audit_noise(project.run_folder, processes=1)
    assert answer.ok, [check for check in answer.checks if not check.ok]
    assert answer.draws
    assert answer.page is not None
    assert answer.page.stat().st_mode & 0o077 == 0
    assert "CONFIDENTIAL" in answer.page.read_text(encoding="utf-8")
    if not answer.sees_three_per_cent and answer.scale is not None:
        assert any(note.startswith("Too few draws") for note in answer.notes)


CHOSEN_BY_NOISE = {"safetab": "tests/safetab/test_first_stage_noise.py"}
"""Mechanisms whose noise decides which counts are seen, which the few made-up people are too few for, and the tests
that hold the scales of their noise."""


def test_over_many_keys_three_per_cent_are_seen(project: Project) -> None:
    """An example has too few draws to tell its scale from one that is 3 % off. Over many keys it has enough."""
    if not tries_in_memory(project.name) or project.name in CHOSEN_BY_NOISE:
        return
    answer = audit({"over many keys": (UNPRICED, noise_over_keys(project, 50_000))})
    assert answer.ok, [check for check in answer.checks if not check.ok]
    assert answer.sees_three_per_cent


def test_another_key_other_records_and_another_plan_have_other_noise(
    name: str, noise: Callable[[str], Noise], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two of the four have anything in common: not a shift, not a run of equal draws."""
    if not (keyed(name) and declares_noise(name)):
        return
    runs = {"first": noise(name)}
    for trial, change in TRIALS.items():
        project = lay_out(name, tmp_path / trial)
        with monkeypatch.context() as patch, unverified():
            change(project, patch)
            project.run(insecure_key=OTHER_KEY if trial == "another key" else KEY)
            runs[trial] = noise_of(project)
    if accounted(name):
        assert runs["first"][0].hash != runs["another plan"][0].hash
    together = audit({trial: (UNPRICED, some(arrays)) for trial, (_, arrays) in runs.items()})
    assert together.ok, [check for check in together.checks if not check.ok]
    first = runs.pop("first")[1]
    for _, arrays in runs.values():
        drawn = [
            (one, other) for one, other in zip(first, arrays, strict=False) if not certain(one) and one.noise.any()
        ]
        assert drawn
        assert not all(np.array_equal(one.noise, other.noise) for one, other in drawn)
    # And what is the same is noticed, if it is not a handful of draws.
    same_noise = audit({trial: (UNPRICED, some(first)) for trial in ("first", "second")})
    assert not same_noise.ok or same_noise.draws < A_HANDFUL


def some(arrays: list[Residuals]) -> list[Residuals]:
    """The beginnings of the largest arrays: what noise is bound to, all of it is."""
    largest = sorted((array for array in arrays if not certain(array)), key=lambda array: -array.noise.size)[:6]
    return [cut(array, max(1, 1_500 // array.noise.shape[1])) for array in largest]


def cut(array: Residuals, rows: int) -> Residuals:
    """Its first rows."""
    parts = {
        name: values[:rows]
        for name in ("units", "law_of", "above", "up_to")
        if (values := getattr(array, name)) is not None and len(values) == len(array.noise)
    }
    return replace(array, noise=array.noise[:rows], **parts)


def certain(array: Residuals) -> bool:
    """Whether nothing is drawn: a check that holds or does not."""
    return len(array.laws) == 1 and getattr(array.laws[0], "probabilities", (0,)) == (1.0,)


def other_records(project: Project, _: pytest.MonkeyPatch) -> None:
    exchange_one(largest_input(project))


def other_plan(project: Project, patch: pytest.MonkeyPatch) -> None:
    mechanism = mechanism_of(project.name)
    plan = type(mechanism).plan

    def asked_otherwise(self: Mechanism[Any], problem: Any) -> Plan:
        planned = plan(self, problem)
        return replace(planned, question={**planned.question, "trial": True})

    patch.setattr(type(mechanism), "plan", asked_otherwise)


TRIALS: dict[str, Callable[[Project, pytest.MonkeyPatch], None]] = {
    "another key": lambda *_: None,
    "one other record": other_records,
    "another plan": other_plan,
}


class PowerCutError(Exception):
    """The power goes off."""


DIVIDED = {
    "tables": ("confide.mechanisms.tables.programme.PART_CELLS", 40),
    "topdown": ("confide.mechanisms.topdown.descent.CHILDREN_PER_GROUP", 20),
}
"""What says how much of a level is worked on at a time, and a small number for it. SafeTab has a stream for the empty
groups of each part, so that other parts have other noise."""


def test_nothing_else_changes_the_noise(
    name: str, noise: Callable[[str], Noise], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the number of processes or of parts, the title, the formats, or an interruption while noise is drawn."""
    if not (keyed(name) and declares_noise(name)):
        return
    undivided = noise(name)[1]
    if name in DIVIDED:
        monkeypatch.setattr(*DIVIDED[name])
    project = lay_out(name, tmp_path / name)
    text = project.spec.read_text(encoding="utf-8")
    title = project.values["release"]["title"]
    formats = project.values.get("output", {}).get("formats", ["of the default"])
    listed = "[" + ", ".join(f'"{one}"' for one in formats) + "]"
    assert text.count(title) == 1
    assert text.count(listed) == ("output" in project.values)
    project.spec.write_text(text.replace(title, "Otherwise").replace(listed, f'["{formats[-1]}"]'), encoding="utf-8")
    measured = project.run_folder / "confidential" / "measured"

    def interrupt(moment: str) -> None:
        if moment.startswith("step 1 ") and measured.exists():
            raise PowerCutError

    with pytest.raises(PowerCutError):
        project.run(progress=Watched(interrupt), processes=1)
    with unverified():
        project.run(processes=2)
    same(undivided, noise_of(project)[1])


def same(arrays: list[Residuals], others: list[Residuals]) -> None:
    assert [(array.level, array.query) for array in arrays] == [(array.level, array.query) for array in others]
    for array, other in zip(arrays, others, strict=True):
        np.testing.assert_array_equal(array.noise, other.noise)


def test_exactly_the_planned_measurements_are_drawn(
    project: Project, noise: Callable[[str], Noise], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No two measurements have a stream in common, each stream belongs to one that is planned, and of a measurement
    that is seen as a whole no fewer coordinates are drawn than are planned."""
    if not accounted(project.name):
        return
    names: dict[bytes, set[tuple[str, str]]] = defaultdict(set)
    coordinates: dict[bytes, list[np.ndarray]] = defaultdict(list)
    derive, words, words_at = NoiseSource.stream, NoiseStream.words, NoiseStream.words_at

    def stream(self: NoiseSource, level: str, query: str) -> NoiseStream:
        derived = derive(self, level, query)
        names[derived.word_key].add((level, query))
        return derived

    def bulk(self: NoiseStream, start: int, count: int) -> Any:
        coordinates[self.word_key].append(np.arange(start, start + count))
        return words(self, start, count)

    def single(self: NoiseStream, places: Any) -> Any:
        coordinates[self.word_key].append(np.asarray(places).astype(np.int64))
        return words_at(self, places)

    for owner, method, replacement in (
        (NoiseSource, "stream", stream),
        (NoiseStream, "words", bulk),
        (NoiseStream, "words_at", single),
    ):
        monkeypatch.setattr(owner, method, replacement)
    project.run(processes=1)
    assert all(len(of) == 1 for of in names.values()), "two measurements share a stream"
    plan, arrays = noise(project.name)
    planned: dict[tuple[str, str], int] = defaultdict(int)
    for measure in plan.measures:
        planned[measure.level, measure.query] += measure.units * measure.cells
    drawn: dict[tuple[str, str], int] = dict.fromkeys(planned, 0)
    for key, ((level, query),) in names.items():
        if key not in coordinates:
            continue
        owners = [name for name in planned if name[0] == level and query.startswith(name[1])]
        assert owners, f"{level} {query} is drawn, and not planned"
        places = np.concatenate([np.zeros(0, np.int64), *coordinates[key]])
        drawn[max(owners, key=lambda owner: len(owner[1]))] += len(np.unique(places))
    complete = {(array.level, array.planned or array.query) for array in arrays if array.complete}
    complete -= {(array.level, array.planned or array.query) for array in arrays if not array.complete}
    # Words may be read for a whole span of which some coordinates are planned; none that is planned is left out.
    assert [name for name in complete if drawn[name] < planned[name]] == []
