"""The pages of the trade-off board: the board itself, the spec that it writes, and a memo for those who decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from confide.exact import probability
from confide.mechanisms.tables.tuning import TablesTuning
from confide.report.certificate import short_probability
from confide.report.render import exact_text
from confide.studio import board as boards
from confide.studio.board import PINS, Board
from confide.studio.explorer import Folder
from confide.studio.opened_folder import OpenedFolder
from confide.studio.pages import address, page

router = APIRouter(tags=["trade-off board"])


class BoardRow(BaseModel):
    """A table on a level."""

    table: str
    level: str
    budget: str
    margin: int
    share_of_typical_area: float | None


class BoardAnswer(BaseModel):
    """Parts of the budget, the margins that they give, and what the whole of it protects from."""

    budget: str
    epsilon: float
    in_words: str
    power: float
    expected_posterior: float
    rows: list[BoardRow]
    at: str
    command: str


def asked_board(
    folder: Folder,
    spec: Annotated[str, Query(description="A spec in the folder.")],
    at: Annotated[str, Query(max_length=20_000, description="Parts of the budget in the order of the rows.")] = "",
    lock: Annotated[Sequence[str], Query(description="TABLE:LEVEL, repeated.")] = (),
    budget_follows: Annotated[bool, Query(description="Whether the budget follows, and not the other rows.")] = False,
    prior: str = "0.01",
    persons: Annotated[str, Query(max_length=20)] = "",
    pin: Annotated[Sequence[str], Query(max_length=3, description="Alternatives, as `at`.")] = (),
) -> Board:
    """An address as a board."""
    opened = _opened(folder, spec)
    number = int(persons) if persons.isascii() and persons.isdigit() and int(persons) > 0 else None
    start = _started(opened, number)
    tuning = boards.from_text(start, at) if at else start
    locked = frozenset(boards.parsed_rows(f"{each}=0" for each in lock)) & set(start.budgets)
    chance = probability(prior, "prior")
    pins = boards.pinned(start, pin)
    return Board(opened.loaded, start, tuning, locked, not budget_follows, chance, pins)


AskedBoard = Annotated[Board, Depends(asked_board)]


@router.get("/board", include_in_schema=False)
def shown_board(request: Request, board: AskedBoard, spec: str) -> HTMLResponse:
    """The board; what was typed is worked in, and the page says under which address it stands now."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    typed = boards.differing(board, dict(pairs))
    moved, findings = boards.moved(board, typed)
    for letter in PINS:
        if ("do", f"pin {letter}") in pairs:
            moved = replace(moved, pins={**(moved.pins or {}), letter: moved.tuning})
        if ("do", f"free {letter}") in pairs:
            moved = replace(moved, pins={key: own for key, own in (moved.pins or {}).items() if key != letter})
    values = _values(moved, spec) | {"findings": findings}
    return page("studio_board.html.j2", moved.loaded.spec.release.title or spec, **values)


@router.get("/board/memo", include_in_schema=False)
def memo(board: AskedBoard, spec: str) -> HTMLResponse:
    """Two pages for those who decide, to print."""
    crumbs = [("Trade-off board", _address(board, spec))]
    return page("studio_memo.html.j2", "Memo", crumbs=crumbs, **_values(board, spec))


@router.post("/board/spec", include_in_schema=False)
async def written_spec(request: Request, board: AskedBoard, spec: str) -> HTMLResponse:
    """Writes the spec of the board under a new name, beside the first."""
    form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
    written = boards.write_tuned(board.loaded, board.tuning, form.get("name", ""))
    crumbs = [("Trade-off board", _address(board, spec))]
    changes = boards.spec_changes(board)
    return page("studio_written.html.j2", "The spec is written", crumbs=crumbs, written=written, changes=changes)


@router.get("/api/board")
def answered_board(board: AskedBoard) -> BoardAnswer:
    """Margins and protection for parts of the budget of a programme of tables."""
    shield = board.protection
    return BoardAnswer(
        budget=str(board.tuning.total),
        epsilon=shield.price.epsilon,
        in_words=shield.price.in_words,
        power=shield.power,
        expected_posterior=shield.posterior,
        rows=[
            BoardRow(
                table=row.table,
                level=row.level,
                budget=str(row.budget),
                margin=row.margin,
                share_of_typical_area=row.share,
            )
            for row in board.tuning.rows
        ],
        at=boards.as_text(board.tuning),
        command=board.command(),
    )


def _opened(folder: OpenedFolder, name: str) -> Board:
    path = folder.inside(name)
    stamp = path.stat().st_mtime_ns if path.is_file() else 0
    return _kept(path, stamp)


@lru_cache(maxsize=16)
def _kept(path: Any, stamp: int) -> Board:  # noqa: ARG001 - a spec that has changed is opened anew
    return boards.opened_board(path)


@lru_cache(maxsize=64)
def _started(opened: Board, persons: int | None) -> TablesTuning:
    """The board as the spec has it, kept with its rows: every page shows what was before."""
    return opened.start.with_persons(persons)


def _address(board: Board, spec: str, path: str = "/board", **changes: Any) -> str:
    pins = [boards.as_text(board.pins[letter]) if letter in (board.pins or {}) else "" for letter in PINS]  # type: ignore[index]
    values: dict[str, Any] = {
        "spec": spec,
        "at": "" if board.tuning.budgets == board.start.budgets else boards.as_text(board.tuning),
        "lock": [":".join(row) for row in board.start.budgets if row in board.locked],
        "budget_follows": "" if board.keep_total else "true",
        "prior": "" if board.prior == boards.PRIOR else exact_text(board.prior),
        "persons": board.tuning.persons or "",
        "pin": [],
    }
    values |= changes
    text = address(path, **values)
    if any(pins):  # a free letter keeps its place
        text += "".join(f"&{_pin(each)}" for each in pins)
    return text


def _pin(text: str) -> str:
    return address("", pin=text)[1:] or "pin="


def _values(board: Board, spec: str) -> dict[str, Any]:
    tuning = board.tuning
    rows = list(enumerate(zip(board.start.rows, tuning.rows, strict=True)))
    alternatives = [(letter, each, boards.protected(each, board.prior)) for letter, each in (board.pins or {}).items()]
    return {
        "board": board,
        "spec": spec,
        "rows": rows,
        "shield": board.protection,
        "epsilon": boards.epsilon_text(board),
        "start_epsilon": boards.epsilon_text(replace(board, tuning=board.start)),
        "delta": short_probability(board.protection.price.delta),
        "at": lambda other: _address(replace(board, tuning=other), spec),
        "exact": exact_text,
        "letters": PINS,
        "alternatives": sorted(alternatives, key=lambda each: each[0]),
        "changes": boards.spec_changes(board),
        "command": board.command(),
        "here": _address(board, spec),
        "memo_address": _address(board, spec, "/board/memo"),
        "spec_address": _address(board, spec, "/board/spec"),
        "pin_texts": [
            boards.as_text(board.pins[letter]) if board.pins and letter in board.pins else "" for letter in PINS
        ],
        "new_name": f"{board.loaded.path.stem}-tuned.toml",
        "largest": max(row.budget for row in tuning.rows),
    }
