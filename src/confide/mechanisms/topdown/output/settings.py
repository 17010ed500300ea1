"""What a TopDown release contains besides the plain records: a layout of microdata, and tables.

Both are decided by the spec, the strategy and public definitions before a record is read. They are part of the plan's
question, whole, so that the plan hash binds them and a release can be checked from its own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from confide.documents import FileKind, load_named
from confide.errors import Finding, SpecError
from confide.geography import Spine
from confide.mechanisms.topdown.output.layouts import Layout, LayoutFile
from confide.mechanisms.topdown.output.tabulation import RESERVED, Axes, Table, TabulationFile, axes_of
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.strategies.strategy import Strategy
from confide.releases.spec import LoadedSpec, Part, Problem

LAYOUT, TABULATION = (
    FileKind(name, code=f"bad-{name}", own_codes=False, shipped=f"{name}s", remedy=f"correct the {name} file")
    for name in ("layout", "tabulation")
)
RECORDS, UNITS, MDF = RESERVED
"""The tables of a release that count nothing: protected records, what the frame says of the blocks, and the layout."""

Model = TypeVar("Model", bound=Part)


@dataclass(frozen=True)
class Output:
    """The layout of the microdata beside the records, and the tables, each for these levels and areas."""

    axes: Axes = field(default_factory=dict)
    layout: LayoutFile | None = None
    tabulation: TabulationFile | None = None
    levels: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables, with the cells of each line."""
        return () if self.tabulation is None else self.tabulation.build(self.axes)

    @property
    def microdata(self) -> Layout | None:
        """The layout, for the attributes of the records."""
        return None if self.layout is None else Layout(self.layout, self.axes)

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides what is written, for the plan."""
        return {
            "codes": {name: list(codes) for name, codes in self.axes.items()},
            "layout": None if self.layout is None else self.layout.model_dump(exclude_defaults=True),
            "tabulation": None if self.tabulation is None else self.tabulation.model_dump(exclude_defaults=True),
            "levels": list(self.levels),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Output:
        """From the plan of a release."""
        layout, tabulation = values["layout"], values["tabulation"]
        return cls(
            dict(values["codes"]),
            None if layout is None else LayoutFile.model_validate(layout),
            None if tabulation is None else TabulationFile.model_validate(tabulation),
            tuple(values["levels"]),
        )


def prepare_output(loaded: LoadedSpec, strategy: Strategy, spine: Spine) -> Output:
    """The output that a spec asks for. Raises with all findings."""
    spec = loaded.spec
    assert isinstance(spec, TopDownSpec)
    asked, axes = spec.output, axes_of(strategy.schema)
    findings = list(_clashes(loaded, spine, strategy.constraints.frame_columns))
    layout = tabulation = None
    if asked.microdata is None or MDF in asked.microdata:
        must = asked.microdata is not None or asked.layout is not None
        name = asked.layout or f"mdf-{strategy.id}"
        columns = strategy.constraints.frame_columns
        layout, wrong = _load(loaded, LAYOUT, name, LayoutFile, lambda file: file.problems(axes, columns), must)
        if layout is not None and not _fits(layout, spine):
            wrong = [_digits(loaded, layout)] if must else []
            layout = None
        findings += wrong
    if asked.tables is None or asked.tables:
        must = asked.tabulation is not None or asked.tables is not None
        name = asked.tabulation or strategy.id
        tabulation, wrong = _load(loaded, TABULATION, name, TabulationFile, lambda file: file.problems(axes), must)
        findings += wrong
    if tabulation is not None and asked.tables is not None:
        known = [table.name for table in tabulation.tables]
        for position, table in enumerate(asked.tables):
            if table not in known:
                place, what = loaded.place("output", "tables", position), f"there is no table {table!r}"
                expected = "one of " + ", ".join(known)
                findings.append(Finding("unknown-table", what, place, repr(table), expected, "correct the name"))
        if not findings:
            tabulation = tabulation.only(asked.tables)
    if findings:
        raise SpecError(findings)
    levels = [name for name in spine.names if asked.table_levels is None or name in asked.table_levels]
    return Output(axes, layout, tabulation, tuple(levels if tabulation else ()))


def _load(
    loaded: LoadedSpec,
    kind: FileKind,
    name: str,
    model: type[Model],
    problems: Callable[[Model], Iterable[Problem]],
    must: bool,
) -> tuple[Model | None, list[Finding]]:
    """A definition, shipped or the user's; or none, and why. One that nobody asked for may be absent or not fit."""
    if name not in kind.names and not must:
        return None, []
    key = kind.name
    try:
        read = load_named(name, loaded.path.parent, model, kind=kind, where=loaded.place("output", key))
    except SpecError as error:
        return None, list(error.findings)
    remedy = f"correct the {key}, or name another under [output] {key}"
    wrong = [read.finding(replace(problem, remedy=remedy)) for problem in problems(read.value)]
    return (None, wrong if must else []) if wrong else (read.value, [])


def _fits(layout: LayoutFile, spine: Spine) -> bool:
    """Whether every block code has the digits that the layout cuts."""
    codes = np.array(spine.blocks.codes)
    return bool((np.char.str_len(codes) == layout.block_digits).all() and np.char.isdigit(codes).all())


def _digits(loaded: LoadedSpec, layout: LayoutFile) -> Finding:
    return Finding(
        "layout-blocks",
        f"the layout {layout.id!r} cannot be cut from these block codes",
        loaded.place("output", "microdata"),
        "codes of another form",
        f"{layout.block_digits} digits in every block code",
        'leave "mdf" out, or give a layout for these codes',
    )


def _clashes(loaded: LoadedSpec, spine: Spine, columns: tuple[str, ...]) -> Iterable[Finding]:
    """Levels, areas and counts of the frame stand beside the block code in one released table."""
    spec = loaded.spec
    taken = {spec.geography.block, *columns}
    for name in spine.names[:-1]:
        if name in taken:
            yield Finding(
                "level-name",
                f"the level or area {name!r} has the name of a column of the block table that is released too",
                loaded.place("geography"),
                repr(name),
                "a name that differs from " + ", ".join(sorted(taken)),
                "give the level another name",
            )
