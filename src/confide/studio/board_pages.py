"""The pages of the trade-off board: the board itself, the spec that it writes, and a memo for those who decide."""

from __future__ import annotations

import atexit
import gc
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup
from pydantic import BaseModel

from confide import api
from confide import trade_offs as boards
from confide.errors import ParameterError, Place
from confide.exact import exact_text, probability
from confide.lazy_names import meaning
from confide.releases.boards import Board, BoardColumn, BoardEntry, BoardRow, Moving, spec_changes
from confide.report.rendering import environment
from confide.studio.explorer import Folder
from confide.studio.opened_folder import OpenedFolder
from confide.studio.pages import address, page
from confide.trade_offs import PINS, OpenedBoard, Shield, shield_of

router = APIRouter(tags=["trade-off board"])
_ONE_BY_ONE = Lock()
"""Boards are worked out one after the other: threads that take turns at it need more time in all, and nobody is earlier
than the last."""
MANY_ROWS = 30
"""A memo has two pages: so many rows are put side by side."""
MOST_DIFFERING = 12
MOST_TEXT = 30_000
NAMED = "~"
"""What the name of secret choices begins with."""
TUNE = "confide.trade_offs:tune"
"""The function whose documentation says what these arguments mean."""
TYPED = "typed."
"""What the names of the fields of a board begin with."""


class BoardAnswer(BaseModel):
    """What is chosen, what it does row by row, and what it protects from."""

    mechanism: str
    choices: dict[str, str]
    rows: list[dict[str, str]]
    entries: dict[str, str]
    protection: dict[str, Any]
    at: str
    command: str


def asked_board(
    folder: Folder,
    spec: Annotated[str, Query(description="A spec in the folder.")],
    at: Annotated[
        str, Query(max_length=MOST_TEXT, description=f"NAME=VALUE;NAME=VALUE. {meaning(TUNE, 'choices')}")
    ] = "",
    lock: Annotated[Sequence[str], Query(description=meaning(TUNE, "locked"))] = (),
    budget_follows: Annotated[bool, Query(description="Whether the budget follows, and not the other rows.")] = False,
    prior: Annotated[str, Query(description=meaning(TUNE, "prior"))] = "0.01",
    pin: Annotated[Sequence[str], Query(max_length=3, description="Alternatives, as `at`.")] = (),
) -> OpenedBoard:
    """An address as a board."""
    opened = _opened(folder, spec)
    start = opened.start
    if start.secret:
        at, pin = _recalled(folder, at), [_recalled(folder, each) for each in pin]
    rows = {row.name for row in start.rows}
    moving = Moving(frozenset(lock) & rows, not budget_follows)
    chance, pins = probability(prior, "prior"), boards.pinned(start, pin)
    now = boards.from_text(start, at)
    keep = partial(_kept_secret, folder) if start.secret else str
    return OpenedBoard(opened.loaded, start, now, moving, chance, pins, in_address=keep)


def _kept_secret(folder: OpenedFolder, choices: str) -> str:
    """A name for secret choices, which stay in the memory of the studio."""
    if choices in ("", "-"):
        return choices
    name: str = folder.desk.setdefault(("board", choices), NAMED + secrets.token_hex(8))
    folder.desk["board", name] = choices
    return name


def _recalled(folder: OpenedFolder, name: str) -> str:
    """The choices of a name. Choices themselves are not taken from an address: it would be in the browser's history."""
    if name in ("", "-"):
        return name
    if not name.startswith(NAMED) or ("board", name) not in folder.desk:
        raise ParameterError("secret-choices", where=Place(path="at"), named=name.startswith(NAMED))
    return str(folder.desk["board", name])


AskedBoard = Annotated[OpenedBoard, Depends(asked_board)]


@router.get("/board", include_in_schema=False)
def shown_board(request: Request, board: AskedBoard, spec: str, folder: Folder) -> HTMLResponse:
    """The board; what was typed is worked in, and the page says under which address it is now."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    if board.start.secret and any(name.startswith(TYPED) for name, _ in pairs):
        _recalled(folder, "typed")
    return _moved_page(board, spec, pairs)


@router.post("/board/typed", include_in_schema=False)
async def typed_board(request: Request, folder: Folder, spec: str) -> HTMLResponse:
    """The same for settings that are secret: what was typed comes in the body, and is in no address."""
    pairs = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
    form = dict(pairs)

    def answer() -> HTMLResponse:
        board = asked_board(
            folder,
            spec,
            form.get("at", "")[:MOST_TEXT],
            [text for name, text in pairs if name == "lock"],
            form.get("budget_follows") == "true",
            form.get("prior") or exact_text(boards.PRIOR),
            [text for name, text in pairs if name == "pin"][: len(PINS)],
        )
        return _moved_page(board, spec, pairs)

    return await run_in_threadpool(answer)


def _moved_page(board: OpenedBoard, spec: str, pairs: Sequence[tuple[str, str]]) -> HTMLResponse:
    fields = ((name.removeprefix(TYPED), text) for name, text in pairs if name.startswith(TYPED))
    with _ONE_BY_ONE:
        now, findings = boards.moved(board, boards.typed_entries(board.now, fields))
        for letter in PINS:
            if ("do", f"pin {letter}") in pairs:
                now = replace(now, pins={**now.pins, letter: now.now})
            if ("do", f"free {letter}") in pairs:
                now = replace(now, pins={key: own for key, own in now.pins.items() if key != letter})
        values = _values(now, spec) | {"findings": findings}
        return page("studio_board.html.j2", _title(now, spec), **values)


@router.get("/board/memo", include_in_schema=False)
def memo(board: AskedBoard, spec: str) -> HTMLResponse:
    """Two pages for those who decide, to print."""
    crumbs = [("Trade-off board", _address(board, spec))]
    values = _values(board, spec)
    values |= {"pivot": _pivot(board.now)} | _differing(values["compared"], len(board.now.rows))
    return page("studio_memo.html.j2", "Memo", crumbs=crumbs, heading=_title(board, spec), **values)


@router.post("/board/spec", include_in_schema=False)
async def written_spec(request: Request, board: AskedBoard, spec: str) -> Response:
    """Writes the spec of the board under a new name, beside the first, and shows it under an address of its own."""
    form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
    written = await run_in_threadpool(boards.write_tuned, board, board.loaded.path.parent / form.get("name", ""))
    name = (PurePosixPath(spec).parent / written.file.name).as_posix()
    return RedirectResponse(address("/board/written", spec=name, before=spec), 303)


@router.get("/board/written", include_in_schema=False)
def shown_spec(folder: Folder, spec: str, before: str) -> HTMLResponse:
    """A spec that was written, what it has that the first one has not, and where to go on."""
    loaded, first = api.load(folder.inside(spec)), api.load(folder.inside(before))
    crumbs = [("Trade-off board", address("/board", spec=before))]
    changes = spec_changes(dict(first.values), dict(loaded.values))
    values: dict[str, Any] = {"spec": spec, "file": loaded.path, "changes": changes}
    return page("studio_written.html.j2", "The spec is written", crumbs=crumbs, **values)


@router.get("/api/board")
def answered_board(board: AskedBoard) -> BoardAnswer:
    """What choices do and what they protect from, for the spec of any mechanism that has a board."""
    plain = board.now.board_dict()
    return BoardAnswer(
        mechanism=board.loaded.spec.release.mechanism,
        choices=plain["choices"],
        rows=plain["rows"],
        entries=plain["entries"],
        protection=board.shield.as_dict(),
        at=board.in_address(boards.as_text(board.start, board.now)),
        command=board.command,
    )


def _title(board: OpenedBoard, spec: str) -> str:
    return board.loaded.spec.release.title or spec


def _opened(folder: OpenedFolder, name: str) -> OpenedBoard:
    path = folder.inside(name)
    stamp = path.stat().st_mtime_ns if path.is_file() else 0
    return _kept(path, stamp)


@lru_cache(maxsize=16)
def _kept(path: Path, stamp: int) -> OpenedBoard:  # noqa: ARG001 - a spec that has changed is opened anew
    opened = boards.opened_board(path)
    list(opened.start.entries())
    # What is there by now stays: a collection that looks at all of it would keep everybody waiting for 200 ms.
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else libraries complain at the end of what they find there
    return opened


def _address(board: OpenedBoard, spec: str) -> str:
    pins = _pin_texts(board)
    return address(
        "/board",
        spec=spec,
        at=board.in_address(boards.choices_text(board.differing)),
        lock=sorted(board.moving.locked),
        budget_follows="" if board.moving.keep_total else "true",
        prior="" if board.prior == boards.PRIOR else exact_text(board.prior),
    ) + ("&" + urlencode([("pin", each) for each in pins]) if any(pins) else "")


def _pin_texts(board: OpenedBoard) -> list[str]:
    """The alternatives as an address has them: a free letter keeps its place."""
    pins = board.pins
    texts = [boards.as_text(board.start, pins[letter]) or "-" if letter in pins else "" for letter in PINS]
    return [board.in_address(text) for text in texts]


def _values(board: OpenedBoard, spec: str) -> dict[str, Any]:
    now, shield = board.now, board.shield
    here = _address(board, spec)
    pins: list[tuple[str, Board, Shield]] = [
        (letter, board.pins[letter], shield_of(board.pins[letter].claim, board.prior))
        for letter in PINS
        if letter in board.pins
    ]
    return {
        "board": now,
        "moving": board.moving,
        "spec": spec,
        "columns": now.columns,
        "rows": now.rows,
        "lines": _lines(board),
        "settings": list(zip(now.settings, board.start.settings, strict=True)),
        "dials": list(zip(now.dials, board.start.dials, strict=True)),
        "prior": exact_text(board.prior),
        "asks_prior": shield.asks_prior,
        "shield": shield,
        "at_text": board.in_address(boards.choices_text(board.differing)),
        "secret": board.start.secret,
        "alternatives": [
            (letter, other, protects, _address(replace(board, now=other), spec)) for letter, other, protects in pins
        ],
        "compared": _compared(board, pins) if pins else [],
        "letters": PINS,
        "pin_texts": _pin_texts(board),
        "changes": board.changes(),
        "command": board.command,
        "here": here,
        "memo_address": here.replace("/board", "/board/memo", 1),
        "spec_address": here.replace("/board", "/board/spec", 1),
        "new_name": boards.new_name(board.loaded),
        "is_entry": lambda each: isinstance(each, BoardEntry),
    }


def _lines(board: OpenedBoard) -> list[tuple[str, BoardRow, bool, list[_Cell]]]:
    """The rows as they are drawn: the group where another one begins, the row, whether it is locked, and its cells."""
    columns, locked, lines, last = board.now.columns, board.moving.locked, [], ""
    for row, start in zip(board.now.rows, board.start.rows, strict=True):
        cells = [_cell(row, start, column, column is columns[-1]) for column in columns]
        lines.append(("" if row.group == last else row.group, row, row.name in locked, cells))
        last = row.group
    return lines


def _pivot(board: Board) -> dict[str, Any] | None:
    """Many rows on half a page: by what rows are compared, titles down and groups across, or the other way round."""
    columns = [column for column in board.columns if column.compared]
    if len(board.rows) < MANY_ROWS or len(columns) != 1:
        return None
    texts = {(row.title, row.group): _text(row.entries.get(columns[0].name, "")) for row in board.rows}
    down, across = (list(dict.fromkeys(names)) for names in zip(*texts, strict=True))
    turned = len(across) > len(down)
    lines, heads = (across, down) if turned else (down, across)
    listed = [(line, [texts.get((head, line) if turned else (line, head), "") for head in heads]) for line in lines]
    return {"title": columns[0].title, "heads": heads, "lines": listed}


def _differing(compared: list[tuple[str, list[str]]], rows: int) -> dict[str, Any]:
    """Of what is side by side that which differs, and of many rows those that differ most."""
    differing = [(what, texts) for what, texts in compared if len(set(texts)) > 1]
    if rows < MANY_ROWS:
        return {"compared": differing, "left_out": 0}
    of_rows = [line for line in compared[: len(compared) // rows * rows] if line in differing]
    most = sorted(of_rows, key=lambda line: _spread(line[1]), reverse=True)[:MOST_DIFFERING]
    kept = [line for line in differing if line not in of_rows or line in most]
    return {"compared": kept, "left_out": len(differing) - len(kept)}


def _spread(texts: list[str]) -> float:
    """The largest number by the least."""
    numbers = [float(text) for text in texts if text.replace(".", "", 1).isdigit() and float(text)]
    return max(numbers) / min(numbers) if numbers else 1.0


_Cell = tuple[bool, str, Markup | None, str, str]
"""Whether it is a number; the width of a bar; a field up to its value, if it is one; the text, and what it was."""


def _cell(row: BoardRow, start: BoardRow, column: BoardColumn, is_last: bool) -> _Cell:
    entry, before = row.entries.get(column.name, ""), start.entries.get(column.name)
    text = _text(entry)
    same = not column.compared or before is None or isinstance(before, str) is not isinstance(entry, str)
    was = "" if same or before is None or _text(before) == text else _text(before)
    if isinstance(entry, str):
        return column.numeric, "", None, text, was
    width = f"{100 * row.amount:.1f}" if is_last and row.amount is not None else ""
    return column.numeric, width, _field(entry.name, entry.title, entry.kind), text, was


@lru_cache(maxsize=16384)
def _field(name: str, title: str, kind: str) -> Markup:
    """A field of a row up to its value, which is all of it that changes."""
    return Markup(environment().get_template("studio_field.html.j2").render(name=name, title=title, kind=kind))  # noqa: S704 - a template escapes


def _compared(board: OpenedBoard, pins: list[tuple[str, Board, Shield]]) -> list[tuple[str, list[str]]]:
    """Rows, settings and protection of the spec, the alternatives and the board as it stands, side by side."""
    start = shield_of(board.start.claim, board.prior)
    sides = [(board.start, start), *((other, protects) for _, other, protects in pins), (board.now, board.shield)]
    columns = [column for column in board.now.columns if column.compared]
    lines = []
    for place, row in enumerate(board.now.rows):
        for column in columns:
            title = ", ".join(each for each in (row.group, row.title) if each)
            what = title if len(columns) == 1 else f"{title}: {column.title}"
            lines.append((what, [_text(side.rows[place].entries.get(column.name, "–")) for side, _ in sides]))
    for place, entry in enumerate((*board.now.settings, *board.now.dials)):
        texts = [(*side.settings, *side.dials)[place].text or "–" for side, _ in sides]
        lines.append((entry.title, texts))
    named = [dict(protects.compared) for _, protects in sides]
    lines += [(title, [each.get(title, "–") for each in named]) for title in named[-1]]
    return lines


def _text(entry: BoardEntry | str) -> str:
    return entry if isinstance(entry, str) else entry.text
