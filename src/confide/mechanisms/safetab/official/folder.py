"""Where the files of the Census Bureau's layout are: a folder of parameters and a folder of data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from confide.errors import Finding, InputError, Place

CONFIG = "config.json"
PARAMETERS = {
    "codes": "race-and-ethnicity-codes",
    "race_iterations": "race-characteristic-iterations",
    "ethnicity_iterations": "ethnicity-characteristic-iterations",
    "code_to_iteration": "race-and-ethnicity-code-to-iteration",
}
DATA = {"records": "person-records", "blocks": "GRF-C"}
ENDINGS = (".txt", ".parquet")


@dataclass(frozen=True)
class OfficialFolder:
    """The files of a release in the Bureau's layout. The names of ``files`` are the keys of a spec's ``[data]``."""

    config: Path
    files: dict[str, Path]


def find_folder(parameters: Path, data: Path) -> OfficialFolder:
    """The files in both folders, each as text or as Parquet. Raises an :class:`InputError` with all that is missing."""
    findings = [
        _missing(folder, "there is no such folder", "a folder", "nothing of this name")
        for folder in (parameters, data)
        if not folder.is_dir()
    ]
    if findings:
        raise InputError(findings)
    config = parameters / CONFIG
    if not config.is_file():
        findings.append(_missing(config, "the configuration is missing", CONFIG, "no such file"))
    files = {}
    for folder, names in ((parameters, PARAMETERS), (data, DATA)):
        for key, stem in names.items():
            there = [folder / (stem + ending) for ending in ENDINGS if (folder / (stem + ending)).is_file()]
            if len(there) == 1:
                files[key] = there[0]
            elif there:
                found = " and ".join(path.name for path in there)
                findings.append(_missing(folder / stem, "a file is there twice", "one of the two", found))
            else:
                expected = f"{stem}.txt or {stem}.parquet"
                findings.append(_missing(folder / f"{stem}.txt", "a file is missing", expected, "no such file"))
    if findings:
        raise InputError(findings)
    return OfficialFolder(config, files)


def _missing(path: Path, what: str, expected: str, found: str) -> Finding:
    return Finding("official-folder", what, Place(file=str(path)), found, expected, "correct the path, or add the file")
