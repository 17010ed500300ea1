"""Every mechanism, and what holds its releases against the truth, by name.

A mechanism brings solvers and readers with it that take a second to import, and a run needs one mechanism. So each
name stands for a function that imports, and is looked up through :class:`Loaded`. Static checks see every import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from confide.releases.mechanism import Mechanism
from confide.releases.spec import Spec
from confide.releases.unpriced import Unpriced
from confide.report.dossier import Evaluator

Value = TypeVar("Value")


class Loaded(Mapping[str, Value]):
    """Values by name, each made when it is first looked up and then kept. To go through the names makes nothing."""

    def __init__(self, makers: Mapping[str, Callable[[], Value]]):
        self._makers = dict(makers)
        self._made: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _tables() -> Mechanism:
    from confide.mechanisms.tables import Tables

    return Tables()


def _topdown() -> Mechanism:
    from confide.mechanisms.topdown.mechanism import TopDown

    return TopDown()


def _safetab() -> Mechanism:
    from confide.mechanisms.safetab.mechanism import SafeTab

    return SafeTab()


def _cellkey() -> Unpriced:
    from confide.mechanisms.cellkey.mechanism import CellKey

    return CellKey()


def _swapping() -> Unpriced:
    from confide.mechanisms.swapping.mechanism import Swapping

    return Swapping()


def _suppression() -> Unpriced:
    from confide.mechanisms.suppression.mechanism import Suppression

    return Suppression()


def _postprocess() -> Unpriced:
    from confide.mechanisms.postprocess.mechanism import Postprocess

    return Postprocess()


MECHANISMS: Mapping[str, Mechanism | Unpriced] = Loaded(
    {
        "tables": _tables,
        "topdown": _topdown,
        "safetab": _safetab,
        "cellkey": _cellkey,
        "swapping": _swapping,
        "suppression": _suppression,
        "postprocess": _postprocess,
    }
)
"""Every mechanism by name."""


def _spec(name: str) -> type[Spec]:
    return MECHANISMS[name].spec


SPECS: Mapping[str, type[Spec]] = Loaded({name: partial(_spec, name) for name in MECHANISMS})
"""For each mechanism, the model of its spec."""


def _evaluate_tables() -> Evaluator:
    from confide.mechanisms.tables.evaluate import evaluate_tables

    return evaluate_tables


def _evaluate_topdown() -> Evaluator:
    from confide.mechanisms.topdown.evaluation.dossier import evaluate_topdown

    return evaluate_topdown


def _evaluate_safetab() -> Evaluator:
    from confide.mechanisms.safetab.evaluation.dossier import evaluate_safetab

    return evaluate_safetab


def _evaluate_cellkey() -> Evaluator:
    from confide.mechanisms.cellkey.evaluate import evaluate_cellkey

    return evaluate_cellkey


def _evaluate_suppression() -> Evaluator:
    from confide.mechanisms.suppression.evaluate import evaluate_suppression

    return evaluate_suppression


def _evaluate_swapping() -> Evaluator:
    from confide.mechanisms.swapping.evaluate import evaluate_swapping

    return evaluate_swapping


EVALUATORS: Mapping[str, Evaluator] = Loaded(
    {
        "tables": _evaluate_tables,
        "topdown": _evaluate_topdown,
        "safetab": _evaluate_safetab,
        "cellkey": _evaluate_cellkey,
        "suppression": _evaluate_suppression,
        "swapping": _evaluate_swapping,
    }
)
"""For each mechanism, what holds its releases against the truth."""
