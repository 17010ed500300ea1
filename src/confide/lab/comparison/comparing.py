"""A comparison from beginning to end: people, protections, errors, attacks, numbers.

::

    spec ─► people ─► for each protection:  made ─► errors against the truth ─► attacked ─► result.json
                                                                                              └► comparison.json, .html

Every part that is finished is kept in the folder: run again after an interruption, or with another ``[attack]``, only
what is missing is done. Everything uses the truth and is for its owner alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.errors import InputError, Place, RunError
from confide.file_system import private_folder, whole_file, write_text
from confide.lab.comparison import figures as accuracy
from confide.lab.comparison.attacking import ALL, EXPOSED, attack
from confide.lab.comparison.common_tables import characteristics, common_tables
from confide.lab.comparison.compared_people import ComparedPopulation, prepare
from confide.lab.comparison.comparison_spec import AnyProtection, LoadedComparison, also_protected, load_comparison
from confide.lab.comparison.page import ComparedView, compared_view, percent, shown_error, words_of, write_page
from confide.lab.comparison.protections import ProtectedFigures, ProtectionJob, protect, settings_content
from confide.lazy_names import COMPARISON_FILES
from confide.releases.workspace import Progress, Silent, no_room_is_an_error, one_process
from confide.version import __version__

(NUMBERS, ASKED), PAGE = COMPARISON_FILES, "comparison.html"
QUESTION, RESULT, RECONSTRUCTED, VARIABILITY = (
    "question.json",
    "result.json",
    "reconstructed.parquet",
    "solution-variability.json",
)
MARK, LOCK = "NOT-FOR-RELEASE.txt", "lock"
MARKED = "A comparison of protections, made by confide compare: it uses the truth. Nothing here is for release.\n"
_VERSION = "confide/comparison/v2"


@dataclass(frozen=True)
class ProtectionComparison(TypedAnswer):
    """A finished comparison: where it is, and its numbers."""

    folder: Path
    numbers: Mapping[str, Any]

    def view(self, characteristic: str = "", level: str = "", group: str = "") -> ComparedView:
        """One count, on one level, and one group of people: what each protection costs and what it leaves.

        Args:
            characteristic: The count, such as ``population``; without it, the one that stands for accuracy.
            level: The level of the areas; without it, the smallest areas.
            group: The people whom the attack is about; without it, those who stand out most.
        """
        return compared_view(self.numbers, characteristic, level, group)

    @property
    def page(self) -> Path:
        """The page for people."""
        return self.folder / PAGE

    def as_dict(self) -> dict[str, Any]:
        """What ``confide compare --json`` prints: the numbers, and where the page is."""
        return {"ok": True, "page": str(self.page)} | dict(self.numbers)

    def described(self) -> Iterator[AnswerPart]:
        words = self.numbers["words"]
        rows = [_protection_row(protection, words) for protection in self.numbers["protections"]]
        columns = ["protection", "error ", "cells ", "sums", "match ", "right ", "prec. ", "exposed ", "of ", "guess "]
        yield ShownTable(columns, rows, title=str(self.numbers["title"]))
        large = words["levels"][words["level"]][0]
        yield WORDS.format(**words | {"shown": words["shown"]["words"], "large": large})
        if any(row[7].endswith("°") for row in rows):
            yield WEAK
        if any(_sampled(protection) for protection in self.numbers["protections"]):
            yield SAMPLED.format(**words)
        if self.numbers["confidential"]:
            yield Said("CONFIDENTIAL", ": the page uses the truth and must not leave the office.")
        yield f"Page: {self.page}"


def compare(
    spec: str | Path,
    folder: str | Path,
    *,
    also: Sequence[str] = (),
    processes: int | None = None,
    progress: Progress | None = None,
) -> ProtectionComparison:
    """Protects the same people in several ways, attacks each, and writes one page (``confide compare``).

    Args:
        spec: The spec of a comparison: a TOML file (``docs/concepts/comparison.md``).
        folder: A new folder. If you run it again, finished parts are kept.
        also: Protections apart from those of the spec, such as ``topdown=1/2``: the mechanism and its rho.
        processes: How many processes; all cores by default.
        progress: A display, if one is wanted.

    Returns:
        Where the page is, and its numbers. Both use the truth.

    >>> import confide
    >>> made = confide.compare(compared / "spec.toml", compared / "made")  # finished before: nothing is made again
    >>> made.page.name
    'comparison.html'
    """
    loaded, out, display = load_comparison(spec), Path(folder), progress or Silent()
    with no_room_is_an_error(out):
        parts = (*loaded.protections, *also_protected(also, loaded.protections))
        for part in parts:
            settings_content(part, loaded.path.parent)  # for its findings, before anything takes long
        _own_folder(out)
    with one_process(out / LOCK, out), no_room_is_an_error(out):
        where = os.path.relpath(loaded.path.resolve(), out.resolve())
        write_text(out / ASKED, json.dumps({"spec": Path(where).as_posix(), "also": list(also)}) + "\n")
        population = prepare(loaded, out, display)
        results: list[dict[str, Any]] = []
        certain: dict[str, float | None] | None = None
        for number, part in enumerate(parts, 1):
            display.note(f"Protection {number} of {len(parts)}: {part.name}")
            results.append(_result(loaded, part, population, out, certain, processes, display))
            if part.unprotected:
                certain = json.loads((out / part.name / VARIABILITY).read_text(encoding="utf-8"))
        numbers = _numbers(loaded, population, results)
        write_text(out / NUMBERS, json.dumps(numbers, indent=2, ensure_ascii=False) + "\n")
        write_page(numbers, out / PAGE)
    return ProtectionComparison(out, numbers)


def read_comparison(folder: str | Path) -> ProtectionComparison:
    """A comparison that was made before.

    Args:
        folder: The folder of the comparison.

    Returns:
        Where it is, and its numbers.

    >>> len(read_comparison(compared / "made").numbers["protections"])
    2
    """
    file = Path(folder) / NUMBERS
    try:
        numbers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        readable = isinstance(numbers["protections"], list) and "words" in numbers and "characteristics" in numbers
    except (OSError, ValueError, KeyError, TypeError):
        readable = False
    if not readable:
        raise InputError("no-comparison/folder", where=Place(file=str(file)), exists=file.exists(), numbers=NUMBERS)
    return ProtectionComparison(Path(folder), numbers)


def asked_before(folder: str | Path) -> tuple[Path | None, tuple[str, ...]]:
    """What a comparison was last asked for: its spec, where it is known, and the protections as well.

    Args:
        folder: The folder of the comparison, finished or not.
    """
    try:
        noted = json.loads((Path(folder) / ASKED).read_text(encoding="utf-8"))
        return (Path(folder) / noted["spec"]).resolve(), tuple(map(str, noted["also"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None, ()


def _result(
    loaded: LoadedComparison,
    part: AnyProtection,
    population: ComparedPopulation,
    out: Path,
    certain: Mapping[str, float | None] | None,
    processes: int | None,
    progress: Progress,
) -> dict[str, Any]:
    """The numbers of one protection: those of its file if they answer the same question, otherwise made."""
    folder, spec = private_folder(out / part.name), loaded.spec
    # A title changes nothing that is made; it is on the page, so that the result is another one.
    settings = [part.model_dump(mode="json", exclude={"title"}), settings_content(part, loaded.path.parent)]
    made_from = _hash([settings, spec.comparison.seed, population.fingerprint, *_programme(loaded)])
    attacked = _hash([made_from, part.title, spec.attack.model_dump(mode="json", exclude={"processes"})])
    _same_question(folder / QUESTION, made_from)
    earlier = _kept(folder / RESULT, attacked)
    if earlier is not None:
        return earlier
    began = time.monotonic()
    few = spec.attack.sample(noisy=False, suppressed=True)
    job = ProtectionJob(population, folder, spec.comparison.seed, processes, progress, few, loaded.path.parent)
    protected = protect(part, job)
    described = _described(part, protected, population)
    outcome = attack(
        population,
        protected.figures,
        spec.attack,
        None if part.unprotected else certain,
        seed=spec.comparison.seed,
        processes=processes,
        progress=progress,
    )
    (folder / RESULT).unlink(missing_ok=True)  # of another attack: it must not be beside the files of this one
    with whole_file(folder / RECONSTRUCTED) as temporary:
        pq.write_table(outcome.records, temporary, compression="zstd")
    write_text(folder / VARIABILITY, json.dumps(outcome.variability))
    result = described | {"attack": outcome.numbers, "seconds": time.monotonic() - began}
    write_text(folder / RESULT, json.dumps({"question": attacked, "result": result}) + "\n")
    return result


def _described(part: AnyProtection, protected: ProtectedFigures, population: ComparedPopulation) -> dict[str, Any]:
    """What a protection is and what its figures are worth."""
    figures, truth, programme = protected.figures, population.truth, population.programme
    return {
        "name": part.name,
        "mechanism": part.mechanism,
        "title": protected.title,
        "guarantee": protected.guarantee,
        "settings": dict(protected.settings),
        "noisy": not figures.exact,
        "errors": accuracy.errors(figures, truth, programme),
        "cells_published": accuracy.cells_published(figures, truth, programme),
        "sums_agree": accuracy.sums_agree(figures, population.areas, programme),
    }


def _numbers(loaded: LoadedComparison, population: ComparedPopulation, results: list[dict[str, Any]]) -> dict[str, Any]:
    spec = loaded.spec
    return {
        "title": spec.comparison.title,
        "confidential": not population.made_up,
        "made_up": population.made_up,
        "persons": population.persons,
        "areas": {level: len(codes) for level, codes in population.areas.codes.items()},
        "inhabited_blocks": len(population.inhabited),
        "programme": {
            "title": population.programme.title,
            "cells_of_an_area": population.programme.cells,
            "tables": {table.name: table.title for table in population.programme.tables},
        },
        "levels": list(population.programme.levels),
        "words": words_of(population.programme, population.geography),
        "characteristics": {
            item.id: {"title": item.title, "table": item.table} for item in characteristics(population.programme.tables)
        },
        "attack": spec.attack.model_dump(mode="json", exclude={"processes"}),
        "seed": spec.comparison.seed,
        "protections": results,
        "seconds": sum(result["seconds"] for result in results),
        "version": __version__,
    }


def _programme(loaded: LoadedComparison) -> list[Any]:
    """What decides the tables apart from the people, where it is not the programme of a state that ships."""
    tables = loaded.tables
    own = tables.part.id != common_tables().part.id
    return [tables.part.model_dump(mode="json"), loaded.areas.model_dump(mode="json")] if own else []


def _hash(values: Any) -> str:
    return hashlib.sha256(json.dumps([_VERSION, __version__, values], sort_keys=True).encode()).hexdigest()


def _kept(file: Path, question: str) -> dict[str, Any] | None:
    if not file.exists():
        return None
    stored = json.loads(file.read_text(encoding="utf-8"))
    result: dict[str, Any] | None = stored["result"] if stored["question"] == question else None
    return result


def _same_question(file: Path, question: str) -> None:
    """Remembers what a folder is about; refuses one that is about something else."""
    if not file.exists():
        write_text(file, json.dumps({"question": question}) + "\n")
    elif json.loads(file.read_text(encoding="utf-8"))["question"] != question:
        raise RunError("there-already/protection", where=Place(file=str(file.parent)))


def _own_folder(out: Path) -> None:
    """The folder is new, empty, or that of a comparison, as a mark in it says."""
    mark = out / MARK
    if out.exists() and not out.is_dir():
        raise _other(out, is_file=True)
    if out.exists() and any(out.iterdir()) and not (mark.is_file() and mark.read_bytes() == MARKED.encode()):
        raise _other(out, is_file=False)
    private_folder(out)
    if not mark.exists():
        write_text(mark, MARKED)


def _other(path: Path, *, is_file: bool) -> RunError:
    return RunError("there-already/something", where=Place(file=str(path)), file=is_file)


# The answer in sentences and tables.


def _protection_row(protection: dict[str, Any], words: dict[str, Any]) -> list[str]:
    universes = protection["attack"]["perfect"]["universes"]
    everybody, exposed = universes[ALL], universes.get(EXPOSED) or {}
    shown = shown_error(protection, words)
    return [
        protection["name"] + ("*" if _sampled(protection) else ""),
        "–" if shown is None else f"{shown:,.1f}",
        percent(protection["cells_published"]["all"]),
        "yes" if protection["sums_agree"]["all"] else "no",
        percent(everybody["putative_rate"]),
        percent(everybody["confirmed_rate"]),
        percent(everybody["precision"]),
        percent(exposed.get("better_of_attack_and_guessers"), 1)
        + (" °" if exposed.get("no_better_than_a_guess") else ""),
        f"{exposed['putative']:,}" if exposed else "–",
        percent(exposed.get("proportional_guesser_precision"), 1),
    ]


def _sampled(protection: dict[str, Any]) -> bool:
    reconstruction = protection["attack"]["reconstruction"]
    return bool(reconstruction["blocks_attacked"] < reconstruction["inhabited_blocks"])


WORDS = """error: of the {shown} of a {large}, mean, in persons; cells: published, of those above zero; sums: whether
they agree; match, right: of the people whom an outsider knows, those matched and those matched rightly; prec.: the
precision, right of matches; exposed: the precision for those who are alone of their {known_group}, not of the
{unit}'s largest group, in a {unit} whose true tables have one solution alone; of: so many matches; guess: how often
somebody is right about these who guesses in proportion to the groups of the {unit}."""
WEAK = "°: the attack is no better than a guess, and the share is that of the guess."
SAMPLED = "*: attacked in a sample of {units}."
