"""Imports between the rooms of Confide, written short: ``python tools/rooms.py`` after names have moved.

A module imports what it needs of a room in one line, from the package, and the package loads each name from its module
when it is used (:mod:`confide.lazy_names`). Which module has which name stands in the package's ``__init__.pyi``: first
the names for users, then, below :data:`INSIDE`, those that other modules of Confide use; this tool writes the second
part. A line that would be too long is divided: names of one module come from that module.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "src" / "confide"
INSIDE = "# For the modules of Confide alone."
LAZY = "__getattr__, __dir__, __all__ = lazy_names(__name__)"
WIDTH = 120
Names = dict[str, dict[str, str]]
"""For each package, the module of each of its names."""


def dotted(path: Path) -> str:
    """The name by which a file is imported."""
    parts = path.relative_to(HOUSE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {dotted(path): path for path in HOUSE.rglob("*.py")}


def package_of(module: str) -> str:
    """The package that gives the names of a module."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def is_lazy(package: str) -> bool:
    """Whether a package loads its names when they are used, or has no code at all and may do so."""
    text = MODULES[package].read_text(encoding="utf-8")
    return package != "confide" and (LAZY in text or not [n for n in ast.parse(text).body if not _is_words(n)])


def _is_words(node: ast.stmt) -> bool:
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return future or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def stub_names(package: str) -> tuple[dict[str, str], dict[str, str]]:
    """The names of a package's stub that are for users, and the others, each with its module."""
    stub = MODULES[package].with_suffix(".pyi")
    text = stub.read_text(encoding="utf-8") if stub.exists() else ""
    both = [ast.parse(part).body for part in (text.partition(INSIDE)[0], text.partition(INSIDE)[2])]
    imports = [[node for node in part if isinstance(node, ast.ImportFrom)] for part in both]
    public, inside = (
        {alias.asname or alias.name: str(node.module) for node in part for alias in node.names} for part in imports
    )
    return public, inside


def imports_of(tree: ast.Module) -> list[ast.ImportFrom]:
    """The imports at the top of a module from modules of Confide that lie in a lazy package."""
    nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 0]
    return [node for node in nodes if node.module in MODULES and is_lazy(package_of(str(node.module)))]


def home(module: str, name: str, public: Names) -> str:
    """The module that an imported name is really from: a package is only a door. Nowhere for a module itself."""
    if MODULES[module].name == "__init__.py":
        return public[module].get(name, "")
    return module


def collect(public: Names) -> tuple[Names, dict[str, set[str]]]:
    """Every name that some module imports, by package; and those that two modules of one package share."""
    homes: Names = defaultdict(dict)
    ambiguous: dict[str, set[str]] = defaultdict(set)
    for package, names in public.items():
        homes[package].update(names)
    for path in MODULES.values():
        for node in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            for alias in node.names:
                module = home(str(node.module), alias.name, public)
                package = package_of(str(node.module))
                if not module or alias.name.startswith("_"):
                    continue
                if homes[package].setdefault(alias.name, module) != module:
                    ambiguous[package].add(alias.name)
    for package in homes:
        below = {each.rpartition(".")[2] for each in MODULES if each.rpartition(".")[0] == package}
        ambiguous[package] |= below & set(homes[package])
    return homes, ambiguous


def written(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def line(module: str, names: list[str]) -> str:
    return f"from {module} import {', '.join(sorted(names))}"


def shorter(package: str, names: dict[str, str], direct: dict[str, str]) -> list[str]:
    """The least lines that import names of a package: ``names`` through its door, ``direct`` from their modules."""
    lines: list[str] = []
    by_module: dict[str, list[str]] = defaultdict(list)
    for name, module in direct.items():
        by_module[module].append(name)
    door = dict(names)
    for name, module in list(door.items()):  # what is imported from a module anyway takes its neighbours along
        if module in by_module and len(line(module, [*by_module[module], name])) <= WIDTH:
            by_module[module].append(name)
            del door[name]
    while door and len(line(package, list(door))) > WIDTH:
        groups: dict[str, list[str]] = defaultdict(list)
        for name, module in door.items():
            if module not in by_module and module != package:
                groups[module].append(name)
        if not groups:
            break
        module = max(groups, key=lambda each: (len(", ".join(groups[each])), each))
        taken: list[str] = []
        for name in sorted(groups[module]):
            if len(line(module, [*taken, name])) <= WIDTH:
                taken.append(name)
        if not taken:
            break
        by_module[module] = taken
        for name in taken:
            del door[name]
    if door:
        lines.append(line(package, list(door)))
    return lines + [line(module, listed) for module, listed in by_module.items()]


def rewrite(path: Path, public: Names, homes: Names, ambiguous: dict[str, set[str]]) -> None:
    """Writes the imports of one module anew."""
    text = path.read_text(encoding="utf-8")
    nodes = imports_of(ast.parse(text))
    if not nodes or path.name == "__init__.py":
        return
    door: Names = defaultdict(dict)
    direct: Names = defaultdict(dict)
    for node in nodes:
        package = package_of(str(node.module))
        for alias in node.names:
            module = home(str(node.module), alias.name, public)
            if not module:
                direct[package][written(alias)] = package
            elif alias.name in ambiguous[package] or alias.name not in homes[package]:
                direct[package][written(alias)] = module
            else:
                door[package][written(alias)] = module
    lines = text.splitlines()
    for node in reversed(nodes[1:]):
        del lines[node.lineno - 1 : node.end_lineno]
    new = [each for package in {**door, **direct} for each in shorter(package, door[package], direct[package])]
    lines[nodes[0].lineno - 1 : nodes[0].end_lineno] = new
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_stub(package: str, public: dict[str, str], used: dict[str, str], keep: set[str]) -> None:
    """The table of a package's names: those for users as they were, and those that modules of Confide import."""
    inside = {name: module for name, module in used.items() if name not in public and name not in keep}
    if not inside and not public:
        return
    stub = MODULES[package].with_suffix(".pyi")
    shown = stub.read_text(encoding="utf-8").partition(INSIDE)[0].strip() if stub.exists() else ""
    parts = [shown, *([INSIDE, _table(inside)] if inside else [])]
    stub.write_text("\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    path = MODULES[package]
    text = path.read_text(encoding="utf-8")
    if LAZY not in text:
        text = text.replace("from __future__ import annotations\n", "").rstrip()
        head = f"{text}\n\n" if text else ""
        imports = "from __future__ import annotations\n\nfrom confide.lazy_names import lazy_names\n\n"
        path.write_text(f"{head}{imports}{LAZY}\n", encoding="utf-8")


def _table(names: dict[str, str]) -> str:
    by_module: dict[str, list[str]] = defaultdict(list)
    for name, module in names.items():
        by_module[module].append(f"{name} as {name}")
    return "\n".join(f"from {module} import ({', '.join(sorted(by_module[module]))})" for module in sorted(by_module))


def main() -> None:
    """Writes imports and stubs anew."""
    packages = [name for name, path in MODULES.items() if path.name == "__init__.py" and is_lazy(name)]
    everything = {package: stub_names(package) for package in packages}
    public = {package: shown for package, (shown, _) in everything.items()}
    known = {package: {**inside, **shown} for package, (shown, inside) in everything.items()}
    homes, ambiguous = collect(known)
    for path in MODULES.values():
        rewrite(path, known, homes, ambiguous)
    used: Names = defaultdict(dict)
    for path in MODULES.values():
        for node in imports_of(ast.parse(path.read_text(encoding="utf-8"))):
            if MODULES[str(node.module)].name == "__init__.py":
                package = str(node.module)
                used[package].update({a.name: homes[package][a.name] for a in node.names if a.name in homes[package]})
    for package in packages:
        write_stub(package, public[package], used[package], ambiguous[package])
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        subprocess.run([str(ruff), *command, str(HOUSE)], check=True)


if __name__ == "__main__":
    main()
