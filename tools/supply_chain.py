"""Locks with hashes, the bill of materials, and digests of images and actions (``make lock``, ``sbom``, ``pins``).

Versions are chosen in one place, ``constraints.txt``; ``pyproject.toml`` says what is needed for what. From both, a
lock has every package of a set with its version and the hashes of all files of that version on the index, for every
platform, so that ``pip install --require-hashes -r locks/SET.txt`` takes the files that were looked at, from whatever
index, and no others. A lock has no address.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INDEX = "https://pypi.org/simple"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SETS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "image": (("plots", "studio", "excel", "formats"), ()),
    "develop": (("plots", "studio"), ("test", "lint")),
    "spark": (("spark",), ()),
}
"""What the image, the tests and the tests with Spark install: extras and groups of pyproject.toml."""
EDITABLE = "editables"
"""What hatchling asks for where a project is installed in place."""
HEAD = (
    "# Written by `make lock` from constraints.txt and pyproject.toml: change those. Taken by\n"
    "#   python -m pip install --require-hashes -r locks/{name}.txt\n"
)
LINE = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")


def canonical(name: str) -> str:
    """The name of a package as an index has it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file: Path) -> dict[str, str]:
    """The versions in a file of constraints, or in a lock."""
    lines = (LINE.match(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {canonical(line[1]): line[2] for line in lines if line}


def requirements(name: str, project: Mapping[str, Any]) -> list[str]:
    """What a set asks for, and what builds Confide itself."""
    extras, groups = SETS[name]
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"], EDITABLE]
    for extra in extras:
        asked += project["project"]["optional-dependencies"][extra]
    for group in groups:
        asked += project["dependency-groups"][group]
    return asked


def closure(asked: Iterable[str], needs: Callable[[str], Iterable[str] | None]) -> set[str]:
    """The names of all packages that are needed on Linux, by any of the Pythons.

    Args:
        asked: Requirements.
        needs: The requirements of a package; None if they are not known.
    """
    from packaging.requirements import Requirement

    names: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in asked]
    while waiting:
        requirement = waiting.pop()
        name = canonical(requirement.name)
        for extra in {"", *requirement.extras} - {extra for known, extra in names if known == name}:
            names.add((name, extra))
            for text in needs(name) or ():
                needed = Requirement(text)
                if needed.marker is None or any(needed.marker.evaluate(each) for each in _environments(extra)):
                    waiting.append(needed)
    return {name for name, _ in names}


def _environments(extra: str) -> Iterable[dict[str, str]]:
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"}
    for python in PYTHONS:
        full = {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
        yield {**linux, **full, "platform_python_implementation": "CPython", "extra": extra}


def _resolved(asked: list[str]) -> dict[str, list[str]]:
    """What pip would install here, each with its requirements."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "constraints.txt"), *asked], stdout=subprocess.PIPE, text=True, check=True
    )
    metadata = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    return {canonical(each["name"]): each.get("requires_dist") or [] for each in metadata}


class _Links(HTMLParser):
    """The files of a page of the index: name and hash."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href") or "" if tag == "a" else ""
        path, _, fragment = address.partition("#sha256=")
        if re.fullmatch("[0-9a-f]{64}", fragment):
            self.files[path.rpartition("/")[2]] = fragment


def _hashes(name: str, version: str) -> list[str]:
    """Of all files of a version, sorted."""
    from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as page:
        links = _Links()
        links.feed(page.read().decode())
    hashes = set()
    for file, digest in links.files.items():
        try:
            parsed = parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
        except (InvalidSdistFilename, InvalidWheelFilename):
            continue
        if str(parsed) == version:
            hashes.add(digest)
    if not hashes:
        sys.exit(f"the index has no file of {name} {version}")
    return sorted(hashes)


def lock() -> None:
    """Writes the locks."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions, known = pinned(ROOT / "constraints.txt"), dict[str, list[str]]()
    for name in SETS:
        asked = requirements(name, project)
        missing = set(asked)
        while missing:  # what only another Python needs is asked for by name
            known |= _resolved([*asked, *sorted(missing - set(asked))])
            missing = closure(asked, known.get) - set(known)
        names = sorted(closure(asked, known.get))
        if loose := [each for each in names if each not in versions]:
            sys.exit(f"constraints.txt has no version of {', '.join(loose)}")
        parts = [
            " \\\n    ".join(
                [f"{each}=={versions[each]}", *(f"--hash=sha256:{own}" for own in _hashes(each, versions[each]))]
            )
            for each in names
        ]
        file = ROOT / "locks" / f"{name}.txt"
        file.write_text(HEAD.format(name=name) + "\n".join(parts) + "\n", encoding="utf-8")
        sys.stdout.write(f"{file.relative_to(ROOT)}: {len(names)} packages\n")


def sbom() -> dict[str, Any]:
    """What the image holds beside Confide, as CycloneDX 1.6: a function of the lock and the version alone."""
    file = ROOT / "locks" / "image.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src" / "confide" / "version.py").read_text(encoding="utf-8"))
    assert version is not None
    confide = {"type": "application", "bom-ref": f"pkg:pypi/confide@{version[1]}", "name": "confide"}
    confide |= {"version": version[1], "purl": f"pkg:pypi/confide@{version[1]}"}
    packages = {name: f"pkg:pypi/{name}@{own}" for name, own in pinned(file).items()}
    components = [
        {"type": "library", "bom-ref": purl, "name": name, "version": purl.rpartition("@")[2], "purl": purl}
        for name, purl in packages.items()
    ]
    direct = {canonical(re.split(r"[\[<>=!~; ]", text)[0]) for text in requirements("image", project)}
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'confide {version[1]} {digest}')}",
        "version": 1,
        "metadata": {
            "component": {**confide, "licenses": [{"license": {"id": project["project"]["license"]}}]},
            "properties": [{"name": "confide:sha256 of locks/image.txt", "value": digest}],
        },
        "components": components,
        "dependencies": [
            {"ref": confide["bom-ref"], "dependsOn": [packages[name] for name in sorted(direct) if name in packages]}
        ],
    }


USES = re.compile(r"(uses: )([\w.-]+/[\w.-]+)@(\S+)(?: # (\S+))?")
FROM = re.compile(r"^(FROM )([\w./-]+):([\w.-]+)(?:@\S+)?$", re.MULTILINE)


def pins_of_actions(text: str, digest: Callable[[str, str], str]) -> str:
    """A workflow with every action by the digest of its tag, which stays beside it for people."""

    def by_digest(match: re.Match[str]) -> str:
        tag = match[4] or match[3]
        return f"{match[1]}{match[2]}@{digest(match[2], tag)} # {tag}"

    return USES.sub(by_digest, text)


def pins_of_images(text: str, digest: Callable[[str, str], str]) -> str:
    """A Dockerfile with every image by its digest."""
    return FROM.sub(lambda match: f"{match[1]}{match[2]}:{match[3]}@{digest(match[2], match[3])}", text)


def _commit_of_tag(action: str, tag: str) -> str:
    command = ["git", "ls-remote", f"https://github.com/{action}", f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}"]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    return lines[1 if len(lines) > 2 else 0].split()[0]  # the commit of a tag that is an object of its own


def _digest_of_image(image: str, tag: str) -> str:
    name = image if "/" in image else f"library/{image}"
    login = f"https://auth.docker.io/token?service=registry.docker.io&scope=repository:{name}:pull"
    with urllib.request.urlopen(login, timeout=60) as answer:
        token = json.load(answer)["token"]
    kinds = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
    headers = {"Authorization": f"Bearer {token}", "Accept": kinds}
    asked = urllib.request.Request(
        f"https://registry-1.docker.io/v2/{name}/manifests/{tag}", headers=headers, method="HEAD"
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return str(answer.headers["Docker-Content-Digest"])


def pins() -> None:
    """Writes the digests of today into the Dockerfile and the workflows; without a network, nothing."""
    changes = {ROOT / "Dockerfile": (pins_of_images, _digest_of_image)}
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    changes |= dict.fromkeys(workflows, (pins_of_actions, _commit_of_tag))
    try:
        texts = {file: pin(file.read_text(encoding="utf-8"), ask) for file, (pin, ask) in changes.items()}
    except (OSError, subprocess.CalledProcessError) as problem:
        sys.exit(f"no digest was written, since the registries do not answer: {problem}")
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["lock"]:
            lock()
        case ["sbom"]:
            sys.stdout.write(json.dumps(sbom(), indent=2) + "\n")
        case ["pins"]:
            pins()
        case _:
            sys.exit("one of lock, sbom, pins")
