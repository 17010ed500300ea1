"""What the tests of the contract know of Confide: its verbs, its errors, and the names imported below.

Where code moves, the imports of this file move with it, and no other line of the contract does.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import confide
from confide import api
from confide.engines import LocalEngine as LocalEngine
from confide.engines.spark import map_groups_on_spark as map_groups_on_spark
from confide.errors import ConfideError as ConfideError
from confide.errors import Finding as Finding
from confide.lab.attacks.reconstruction import read_source as read_source
from confide.lab.attacks.reconstruction import reconstruct as reconstruct
from confide.lab.risk.privacy_audit.bench import Bench
from confide.mechanisms import MECHANISMS
from confide.noise import NoiseStream as NoiseStream
from confide.releases.check import throwaway_workspace
from confide.releases.ledger import Ledger
from confide.releases.mechanism import Check as Check
from confide.releases.mechanism import Mechanism as Mechanism
from confide.releases.mechanism import NoiseSource as NoiseSource
from confide.releases.noise_audit import audit as audit
from confide.releases.plan import Plan as Plan
from confide.releases.replay import Residuals as Residuals
from confide.releases.run import choose_engine
from confide.releases.workspace import Silent, Workspace
from confide.version import __version__

KEY = "c0ffee1e" * 8
"""The key that every example is released with, where a release has one."""
MANIFEST = "manifest.json"
HASH_OF_VERIFY = "confide.releases.folder.sha256_of"
"""What ``verify`` hashes files with, for a test that takes it away."""
PAGES_OF_VERIFY = "confide.releases.verify._restated"
"""What ``verify`` makes pages anew with, for the same test."""
VERIFY_OF_RUN = "confide.releases.run.verify_staged"
"""What a run looks at its release with before it seals it."""
SPEC = "spec.toml"
LEDGER = "data-set.ledger"
EXAMPLES = Path(__file__).parent / "examples"
NAMES = tuple(name for name in MECHANISMS if name in MECHANISMS.own or (EXAMPLES / name).is_dir())
"""Every mechanism of ours, and those of other packages that have an example here."""
OWN = MECHANISMS.own
"""Those of ours."""
LARGEST, MOST_CELLS = 8, 300
"""Measurements that are taken over many keys, and cells of each: the time of an audit goes with them."""


# What a mechanism says of itself


def accounted(name: str) -> bool:
    """Whether its releases are charged to a ledger."""
    return MECHANISMS[name].accounted


def keyed(name: str) -> bool:
    """Whether its releases draw, and so have a key."""
    return MECHANISMS[name].keyed


def evaluable(name: str) -> bool:
    """Whether its releases can be held against a truth."""
    mechanism = MECHANISMS[name]
    return mechanism.has_truth and "evaluate" in mechanism.can


def declares_noise(name: str) -> bool:
    """Whether it says what it drew, for the noise audit."""
    mechanism = MECHANISMS[name]
    return mechanism.has_truth and "residuals" in mechanism.can


def mechanism_of(name: str) -> Mechanism[Any]:
    """The mechanism itself."""
    return MECHANISMS[name]


def modules_of(name: str) -> Iterator[ModuleType]:
    """The modules of its folder, where it is one of ours, or else of the whole package that it comes from."""
    place = type(MECHANISMS[name]).__module__
    package = import_module(place.rpartition(".")[0] if name in OWN else place.partition(".")[0])
    yield package
    for each in walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        yield import_module(each.name)


# Examples


@dataclass(frozen=True)
class Project:
    """A copy of an example, with an open ledger where it is accounted."""

    name: str
    folder: Path

    @property
    def spec(self) -> Path:
        return self.folder / SPEC

    @property
    def values(self) -> dict[str, Any]:
        """What the spec says."""
        return tomllib.loads(self.spec.read_text(encoding="utf-8"))

    @property
    def run_folder(self) -> Path:
        return self.folder / str(self.values["release"]["name"])

    @property
    def release(self) -> Path:
        return self.run_folder / "release"

    @property
    def ledger(self) -> Path | None:
        """The ledger, of one that is accounted."""
        return self.folder / LEDGER if accounted(self.name) else None

    @property
    def inputs(self) -> list[Path]:
        """The files that the release is made from: the records, or published measurements."""
        data = self.values["data"]
        given = self.folder / data.get("records", data.get("measurements", ""))
        return sorted(file for file in given.rglob("*") if file.is_file()) if given.is_dir() else [given]

    @property
    def schema(self) -> Path | None:
        """The schema, where the example has one of its own."""
        named = str(self.values["data"].get("schema", ""))
        return self.folder / named if named.endswith(".toml") else None

    @property
    def given(self) -> list[Path]:
        """The files and folders that the spec names under ``[data]``."""
        named = (self.folder / value for value in self.values["data"].values() if isinstance(value, str) and value)
        return [path for path in named if path.exists()]

    def copy(self, folder: Path) -> Project:
        """The same in another folder, with whatever has been made of it."""
        return Project(self.name, Path(shutil.copytree(self.folder, folder)))

    def charges(self) -> list[str]:
        """The kinds of entries of the ledger; none where there is none."""
        return [] if self.ledger is None else [entry.kind for entry in Ledger(self.ledger).history()]

    def run(self, **options: Any) -> Any:
        """The release, in one process unless told, with the key of the tests where it has one."""
        named = {"processes": 1, "insecure_key": KEY if keyed(self.name) else None}
        return confide.run(self.spec, **named | options)


@contextmanager
def unverified() -> Iterator[None]:
    """Runs seal what they have made without a look at it: where its bytes are compared with those of a release that was
    verified, or ``verify`` is asked afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VERIFY_OF_RUN, lambda *_: ())
        yield


def noise_of(project: Project) -> tuple[Plan, list[Residuals]]:
    """What a sealed run has added to the truth, with its plan."""
    loaded, workspace = api.load(project.spec), Workspace(project.run_folder)
    engine = choose_engine("local", MECHANISMS[project.name], processes=1, memory="1GiB")
    with workspace.locked():
        try:
            return api.run_residuals(loaded, workspace, engine, Silent())
        finally:
            workspace.tidy()


def tries_in_memory(name: str) -> bool:
    """Whether it can be measured again and again on made-up records, with nothing written."""
    return MECHANISMS[name].accounted and "audit" in MECHANISMS[name].can


def noise_over_keys(project: Project, draws: int) -> list[Residuals]:
    """What a mechanism adds to the counts of made-up records, with as many keys as so many draws take: beginnings of
    its largest measurements, each as keys x counts."""
    mechanism, taken = MECHANISMS[project.name], defaultdict[Any, list[Any]](list)
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        bench = Bench.of(api.load(project.spec), mechanism, engine, scratch.root, 1, Silent())
        file = bench.counted(bench.audit.made_up_records(bench.problem, 1)[0], "made-up", "one")
        while draws > 0:
            outcome = bench.trial(file.problem, file.job, bench.key("many keys", len(next(iter(taken.values()), []))))
            parts = [(key, place, part) for key, own in outcome.items() for place, part in enumerate(own)]
            for key, place, (where, values, law) in sorted(parts, key=lambda part: -len(part[2][0]))[:LARGEST]:
                true_places, truth, _ = file.truth[key][place]
                assert (where == true_places).all()
                taken[(*key, place, law)].append((values - truth)[:MOST_CELLS].astype(np.int64))
                draws -= min(len(values), MOST_CELLS)
    return [
        Residuals(level, f"{query} {place}", np.stack(noise), (law,), "measured")
        for (level, query, place, law), noise in taken.items()
    ]


def lay_out(name: str, folder: Path) -> Project:
    """A copy of an example in a new folder, ready to run. The ledger holds what one release costs, and no more."""
    shutil.copytree(EXAMPLES / name, folder)
    project = Project(name, folder)
    if project.ledger is not None:
        privacy = project.values["privacy"]
        assert privacy["ledger"] == LEDGER
        Ledger.open_new(
            project.ledger,
            data_set=name,
            definition=privacy["definition"],
            neighbours=privacy["neighbours"],
            budget=privacy["budget"],
            delta=privacy["delta"] if privacy["definition"] == "approximate" else 0,
            unit=privacy.get("unit", "record"),
        )
    return project


def charged_once(name: str) -> list[str]:
    """What the ledger of an example holds once its release is sealed."""
    return ["open", "reserve", "measured", "sealed"] if accounted(name) else []


def findings_of(verb: Callable[[], object]) -> list[Finding]:
    """What a verb refuses with: at least one error, each with what, and a remedy. Nothing, if it does not refuse."""
    try:
        verb()
    except ConfideError as refusal:
        errors = [finding for finding in refusal.findings if finding.severity == "error"]
        assert errors, "refused without an error"
        for finding in errors:
            assert finding.what, finding
            assert finding.remedy, finding
        return errors
    return []


def tree(folder: Path) -> dict[str, bytes]:
    """Every file under a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Bytes


def digests(release: Path) -> dict[str, str]:
    """SHA-256 of every file of a release, the same for every version of Confide.

    Manifest and document name the version that made them, and the manifest has hash and size of the document. A new
    version with the same figures should not have to write down all bytes anew, because whoever does that does not look
    at them. So the version is taken out of both before they are hashed, and nothing else is.
    """
    files = tree(release)
    manifest = files[MANIFEST].decode()
    manifest = _once(manifest, f' "confide": "{__version__}",', ' "confide": "VERSION",')
    for path, content in files.items():
        if path.endswith(".html") or path == "README.txt":
            files[path] = _once(
                content.decode(), f"made by Confide {__version__} ", "made by Confide VERSION "
            ).encode()
            manifest = _once(manifest, _hash_and_size(content), _hash_and_size(files[path]))
    files[MANIFEST] = manifest.encode()
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def _hash_and_size(content: bytes) -> str:
    """As a manifest has them."""
    return f'"sha256": "{hashlib.sha256(content).hexdigest()}",\n   "bytes": {len(content)}'


def _once(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    return text.replace(old, new)


def written_down(file: Path) -> dict[str, dict[str, str]]:
    """The digests that the releases of the examples must have, by mechanism and path."""
    listed: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return listed
