"""The house keeps its promises: one word means one thing, rooms are few, the walk is short, and nobody asks a mechanism
for its name."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from tests.kits.source import trees
from tests.kits.times import costly, is_there

from confide.walk import first_sentence

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "confide"
MODULES = sorted(path for path in HOUSE.rglob("*.py"))
EXAMPLES = ROOT / "tests" / "contract" / "examples"
WALKS = {"tables": 49, "topdown": 82}
"""The most files between `confide run` and the sealed folder."""

VAGUE = {"found", "told", "made", "left", "whole", "spread"}
"""Words that say how a value came about, or how much of it there is, where a name should say what it is."""
VAGUE_FOR_A_REASON = {
    ("errors.py", "Finding", "found"): "the field of a finding: what stands there",
    ("errors.py", "of", "found"): "the same field, which a text may say instead",
    ("documents/settings_file.py", "Problem", "found"): "the same field, before the file is known",
    ("releases/ledger/account.py", "Account", "left"): "a key of what `confide ledger` prints",
    ("lab/population/settings.py", "BlockSettings", "spread"): "a key of the settings of a population",
    ("lab/population/settings.py", "GroupQuarters", "spread"): "a key of the settings of a population",
    ("lab/population/settings.py", "PopulationGroup", "spread"): "a key of the settings of a population",
    ("lab/population/settings.py", "EuVariableRule", "spread"): "a key of the settings of a population",
    ("lab/population/settings.py", "Places", "spread"): "a key of the settings of a population",
}
"""The places that may bind such a word, with the reason; `found` and `left` have a rule each besides."""
POSITION_OF_FOUND = {"Finding": {3}, "Problem": {4}}
"""Where a constructor takes what it found, counted from 0; errors take it where a finding does."""
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BINDING = {
    **dict.fromkeys((*SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.alias: "asname",
}
"""The nodes that can give a name to something, and the field that has the name."""
STORE = ast.Store()


def classes(module: ast.Module) -> list[str]:
    return [node.name for node in module.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for place, module in trees().items():
        for name in classes(module):
            places[name].append(place)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_module_name_stands_twice_outside_mechanisms() -> None:
    places = defaultdict(list)
    for path in MODULES:
        inside = path.relative_to(HOUSE)
        if inside.parts[0] != "mechanisms" and path.stem not in ("__init__", "__main__"):
            places[path.stem].append(str(inside))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def own(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a scope, without those of the functions and classes in it."""
    waiting = [scope]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            yield node
            if not isinstance(node, SCOPES):
                waiting.append(node)


def names_bound(scope: ast.AST) -> set[str]:
    """What a scope gives a name to: variables, parameters, attributes, functions, classes, imports under another."""
    bound = {
        getattr(node, BINDING[type(node)])
        for node in own(scope)
        if type(node) in BINDING and isinstance(getattr(node, "ctx", STORE), ast.Store)
    }
    return bound - {None}


def positions_of_found(trees: list[ast.Module]) -> dict[str, set[int]]:
    """For each function that takes `found`, at which places of a call it may stand. Two may share a name."""
    positions = defaultdict(set, {name: set(places) for name, places in POSITION_OF_FOUND.items()})
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args if argument.arg not in ("self", "cls")]
                if "found" in names:
                    positions[node.name].add(names.index("found"))
    return positions


def hands_found_on(function: ast.AST, positions: dict[str, set[int]]) -> bool:
    """Whether `found` is the text of a finding here: given to a call as `found=`, or where it takes what it found."""
    for call in (node for node in own(function) if isinstance(node, ast.Call)):
        callee = getattr(call.func, "id", getattr(call.func, "attr", ""))
        places = POSITION_OF_FOUND["Finding"] if callee.endswith("Error") else positions.get(callee, set())
        given = [call.args[place] for place in places if place < len(call.args)]
        given += [keyword.value for keyword in call.keywords if keyword.arg == "found"]
        if any(isinstance(node, ast.Name) and node.id == "found" for value in given for node in ast.walk(value)):
            return True
    return False


def vague_names(modules: dict[str, ast.Module]) -> set[tuple[str, str, str]]:
    """Module, scope and name wherever a vague word is bound, apart from the two rules: `found` is handed on as the text
    of a finding, and `left` is a side that has a `right`."""
    positions = positions_of_found(list(modules.values()))
    places = set()
    for module, tree in modules.items():
        for scope in ast.walk(tree):
            if isinstance(scope, (ast.Module, *SCOPES)):
                names = names_bound(scope)
                vague = names & VAGUE
                if "right" in names:
                    vague.discard("left")
                if "found" in vague and hands_found_on(scope, positions):
                    vague.discard("found")
                places |= {(module, getattr(scope, "name", ""), name) for name in vague}
    return places


def test_names_say_what_a_value_is() -> None:
    assert vague_names(trees()) == set(VAGUE_FOR_A_REASON)


@pytest.mark.parametrize(
    "text",
    [
        "def rows():\n    found = [1]\n    return found",
        "def rows():\n    return [found for found in (1, 2)]",
        "def rows(found):\n    raise ParameterError('code', f'{found}', Place(), 'nothing')",
        "def rows(found):\n    return Problem(path, 'code', what, found)",
        "def whole(name): ...",
        "def pairs(left, other): ...",
        "class Rows:\n    spread: int = 0",
        "def rows(self):\n    self.made = 1",
        "import numpy as told",
        "def rows():\n    try:\n        pass\n    except OSError as told:\n        pass",
    ],
)
def test_a_vague_name_is_noticed(text: str) -> None:
    assert len(vague_names({"rows.py": ast.parse(text)})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def rows(found):\n    return ParameterError('code', 'what', Place(), str(found)[:80])",
        "def rows(found):\n    return kind.error('code', 'what', found=found)",
        "def rows():\n    found = 'a'\n    raise wrong(found)\n\ndef wrong(found):\n    return Finding(1, 2, 3, found)",
        "def pairs(left, right): ...",
    ],
)
def test_the_text_of_a_finding_and_a_pair_of_sides_may_have_their_names(text: str) -> None:
    assert vague_names({"rows.py": ast.parse(text)}) == set()


def test_there_are_few_modules_and_none_is_long() -> None:
    assert len(MODULES) <= 385
    lines = {
        path: sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines()) for path in MODULES
    }
    assert [str(path) for path, number in lines.items() if number > 600] == []


def room_of(parts: tuple[str, ...] | list[str]) -> str | None:
    """The room of a module: a folder of the house, or of its mechanisms or its laboratory."""
    inside = [part for place, part in enumerate(parts) if HOUSE.joinpath(*parts[: place + 1]).is_dir()]
    return "/".join(inside[: 2 if inside[0] in ("mechanisms", "lab") else 1]) if inside else None


def test_no_door_between_rooms_opens_in_both_directions() -> None:
    doors = set()
    for place, module in trees().items():
        own = room_of(Path(place).parts)
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("confide"):
                names = [
                    str(node.module).split(".")[1:],
                    *([*str(node.module).split(".")[1:], a.name] for a in node.names),
                ]
                doors |= {(own, room) for name in names if (room := room_of(name)) and own and room != own}
    assert {frozenset(door) for door in doors if door[::-1] in doors} == set()


IMPORTED_IN_FUNCTIONS = 43
"""Imports inside functions: at the three seams of docs/architecture.md, of libraries that are heavy or an extra, and
where two modules need each other."""
IMPORTED_SHARE = Fraction(55, 1000)
"""Of the lines that are not blank, those that import."""


IMPORTS, FUNCTIONS = (ast.Import, ast.ImportFrom), (ast.FunctionDef, ast.AsyncFunctionDef)


def imports_of(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import, and whether it is in a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, IMPORTS):
            yield node, inside
        yield from imports_of(node, inside or isinstance(node, FUNCTIONS))


def test_few_lines_import_and_few_of_them_in_functions() -> None:
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in MODULES]
    imports = [each for module in modules for each in imports_of(module)]
    inside = [node for node, in_function in imports if in_function]
    assert len(inside) <= IMPORTED_IN_FUNCTIONS
    lines = sum(bool(line.strip()) for path in MODULES for line in path.read_text(encoding="utf-8").splitlines())
    imported = sum((node.end_lineno or 0) - node.lineno + 1 for node, _ in imports)
    assert Fraction(imported, lines) <= IMPORTED_SHARE


def test_no_name_of_a_room_is_that_of_one_of_its_modules() -> None:
    """Whoever imports the module first would find it where the function should be."""
    clashes = [
        f"{stub.parent.name}: {alias.name}"
        for stub in HOUSE.rglob("__init__.pyi")
        for node, _ in imports_of(ast.parse(stub.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if HOUSE.parent.joinpath(*str(node.module).split(".")) != stub.parent
        if any(stub.parent.joinpath((alias.asname or alias.name) + ending).exists() for ending in ("", ".py"))
    ]
    assert clashes == []


READERS_OF_A_MANIFEST = {"releases/folder.py"}
"""Who reads a manifest: everybody else asks the release that was opened there."""


def test_a_release_is_opened_in_one_place() -> None:
    readers = {
        place
        for place, module in trees().items()
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "read_manifest"
    }
    assert readers == READERS_OF_A_MANIFEST


def _importable(module: str, name: str) -> bool:
    package = importlib.import_module(module)
    return hasattr(package, name) or importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py")))
def test_every_benchmark_finds_what_it_imports(name: str) -> None:
    """Nothing else in the tests runs most of them; what they use is renamed with the rest."""
    source = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom) and node.level == 0]
    ours = [node for node in imported if (node.module or "").partition(".")[0] in ("confide", "tests", "benchmarks")]
    lacking = [
        f"{node.module}.{alias.name}"
        for node in ours
        for alias in node.names
        if not _importable(str(node.module), alias.name)
    ]
    assert lacking == []


def test_nothing_outside_its_folder_asks_a_mechanism_for_its_name() -> None:
    asking = [
        f"{path.relative_to(HOUSE)}: {line.strip()}"
        for path in MODULES
        if path.relative_to(HOUSE).parts[0] != "mechanisms"
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"mechanism(\.name)?\"?\]? (==|!=)", line)
    ]
    assert asking == []


def test_a_build_says_where_its_project_is() -> None:
    """No name that somebody could register is made up: whoever publishes a build sets these."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*project["urls"]} == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert all(re.match(r"https://confide\.example/", address) for address in project["urls"].values())
    assert "sets these first" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_picture_of_the_layers_is_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = page.partition("```\n")[2].partition("```")[0].splitlines()
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("layers = [")[2].partition("]")[0]
    layers = [re.findall(r"\w+", line) for line in contract.strip().splitlines()]
    assert len(layers) == len(picture) <= 7
    for names, line in zip(layers, picture, strict=True):
        assert [name for name in names if name not in line] == []


def test_the_page_opens_with_a_picture_whose_rooms_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert re.match(r"# Architecture\n\n!\[[^\]]+\]\(pictures/architecture\.svg\)\n", page)
    picture = (ROOT / "docs" / "pictures" / "architecture.svg").read_text(encoding="utf-8")
    said = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture))
    rooms = set(re.findall(r"[\w/]+/(?!\w)", said)) - {"release/"}
    assert {"lab/", "mechanisms/", "noise/", "releases/ledger/", "engines/", "inputs/"} <= rooms
    assert [room for room in rooms if not (HOUSE / room).is_dir()] == []


@pytest.mark.process
@pytest.mark.parametrize("mechanism", ["tables", pytest.param("topdown", marks=pytest.mark.slow)])
def test_the_walk_is_short(mechanism: str) -> None:
    spec = EXAMPLES / mechanism / "spec.toml"
    command = [sys.executable, "-m", "confide.walk", str(spec), "--files"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].startswith("cli/")
    assert "releases/run.py" in lines
    assert f"mechanisms/{mechanism}/mechanism.py" in lines
    files = [line for line in lines if line.endswith(".py")]
    assert len(files) <= WALKS[mechanism], lines[-1]
    assert not list(spec.parent.glob("*.ledger")), "a walk spends nothing and keeps nothing"


WALK_OF_INFER = 39
"""The most files that `confide infer` enters for a sealed release."""
INFERRING = """
import sys
from pathlib import Path
from confide import walk
from confide.cli.main import app
spec, folder = sys.argv[1], Path(sys.argv[2])
with walk._instead(folder):
    app(["run", spec, "--processes", "1", "--json", "--insecure-key", walk.TRIAL_KEY], standalone_mode=False)
steps = walk._Steps()
sys.setprofile(steps)
app(["infer", str(folder / "run" / "release"), "--out", str(folder / "inferred")], standalone_mode=False)
sys.setprofile(None)
print(*walk.Walk(steps.visits).files, sep="\\n")
"""


@pytest.mark.process
@pytest.mark.slow
def test_the_walk_of_infer_is_short(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INFERRING, str(EXAMPLES / "topdown" / "spec.toml"), str(tmp_path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [line for line in lines if re.fullmatch(r"[\w/]+\.py", line)]
    assert "inference/inferring.py" in files
    assert len(files) <= WALK_OF_INFER, files


TRUSTED = (ROOT / "docs" / "walks" / "trusted-base.md").read_text(encoding="utf-8")
ROWS = re.compile(r"^\| `(.+\.py)` \| (.*) \| (.+) \|$", re.MULTILINE)
LISTED = {file: (said, needed) for file, said, needed in ROWS.findall(TRUSTED)}
"""The modules of the trusted base, each with what it is and which mechanisms need it."""


@pytest.mark.process
@pytest.mark.parametrize("mechanism", ["tables", pytest.param("topdown", marks=pytest.mark.slow)])
def test_the_page_of_the_trusted_base_has_what_a_release_enters(mechanism: str) -> None:
    command = [sys.executable, "-m", "confide.walk", str(EXAMPLES / mechanism / "spec.toml"), "--trusted"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    base = [line for line in lines if line.endswith(".py")]
    assert base == sorted(file for file, (_, needed) in LISTED.items() if {"all", mechanism} & {*needed.split(", ")})
    assert f"| `{mechanism}` | {len(base)} |" in TRUSTED
    assert {"inputs/records.py", f"mechanisms/{mechanism}/mechanism.py", "noise/sample.py", "releases/folder.py"} <= {
        *base
    }


def test_the_trusted_base_has_neither_laboratory_nor_studio() -> None:
    rooms = {file.partition("/")[0] for file in LISTED if "/" in file}
    assert rooms.isdisjoint({"lab", "studio", "inference", "utility"})
    assert {file for file in LISTED if file.startswith("cli/")} == {"cli/show.py"}
    assert f"{len(LISTED)} of the {len(MODULES)} modules" in TRUSTED
    assert [file for file, (said, _) in LISTED.items() if not said or said != first_sentence(HOUSE / file)] == []


def test_the_list_of_costly_tests_names_tests_that_are_there() -> None:
    assert len(costly()) > 500
    assert [name for name in costly() if not is_there(name)] == []
    assert not is_there("tests/docs/test_house.py::test_of_nothing")
