"""Attacks on the studio: whoever does not come in by the address that was printed gets nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kits.studio import ORIGIN, PORT, Visitor, entered, studio_of

from confide.studio.door import LARGEST_BODY, Door, Guard

PROMISES = {
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
}


def test_a_token_lets_one_browser_in_once(tmp_path: Path) -> None:
    browser, door, _ = studio_of(tmp_path)
    assert browser.get("/").status_code == 403
    token = door.new_token()
    came_in = browser.get("/", params={"token": token})
    assert came_in.status_code == 200
    assert token not in came_in.text, "the page leads to an address without the token"
    cookie = came_in.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert browser.get("/").status_code == 200
    assert browser.get("/", params={"token": token}).status_code == 200, "the same browser may reload"
    another = Visitor(browser.application)
    assert another.get("/", params={"token": token}).status_code == 403
    assert another.get("/").status_code == 403
    assert another.get("/api/folder").status_code == 403


def test_a_token_of_a_studio_that_stopped_is_refused_by_the_next_one(tmp_path: Path) -> None:
    first, door, _ = studio_of(tmp_path)
    unused, used = door.new_token(), door.new_token()
    first.get("/", params={"token": used})
    second, _, _ = studio_of(tmp_path)
    for token in (unused, used):
        assert second.get("/", params={"token": token}).status_code == 403
    second.cookies.update(first.cookies)
    assert second.get("/").status_code == 403, "a session ends with its studio"


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"0.0.0.0:{PORT}", ""]
)
def test_another_host_is_refused(tmp_path: Path, host: str) -> None:
    browser = entered(tmp_path)
    for path in ("/", "/api/folder", "/assets/studio.css"):
        assert browser.get(path, headers={"host": host}).status_code == 421
    assert browser.get("/", headers={"host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", f"http://127.0.0.1:{PORT + 1}", "null", f"http://localhost:{PORT}"]
)
def test_another_origin_is_refused(tmp_path: Path, origin: str) -> None:
    browser = entered(tmp_path)
    assert browser.get("/api/folder", headers={"origin": origin}).status_code == 403
    assert browser.post("/api/another-browser", headers={"origin": origin}).status_code == 403


def test_what_changes_something_says_where_it_comes_from(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    assert browser.post("/api/another-browser").status_code == 403
    assert browser.post("/api/another-browser", headers=ORIGIN).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_or_port_gets_nothing_with_the_cookie(tmp_path: Path, site: str) -> None:
    browser = entered(tmp_path)
    for mode in ("no-cors", "cors", "navigate"):
        asked = {"sec-fetch-site": site, "sec-fetch-mode": mode}
        assert browser.get("/api/folder", headers=asked).status_code == 403


def test_a_new_address_lets_another_browser_in(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    address = browser.post("/api/another-browser", headers=ORIGIN).json()["address"]
    another = Visitor(browser.application)
    assert another.get(address).status_code == 200
    assert another.get("/").status_code == 200
    assert Visitor(browser.application).get(address).status_code == 403


def test_every_answer_forbids_copies_scripts_and_frames(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    stranger = Visitor(browser.application)
    answers = [browser.get("/"), browser.get("/api/folder"), browser.get("/nothing"), stranger.get("/")]
    for answer in answers:
        assert {name: answer.headers[name] for name in PROMISES} == PROMISES
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    assert stranger.get("/assets/studio.js").status_code == 200


def test_an_upload_of_ten_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    for length in (str(10 << 30), "9" * 40, "-1", "many"):
        answer = browser.put("/api/maps/big.geojson", headers=ORIGIN | {"content-length": length}, content=b"")
        assert answer.status_code == 413, length
    assert list(tmp_path.iterdir()) == []


def test_an_upload_that_does_not_say_its_length_ends_at_the_limit(tmp_path: Path) -> None:
    browser, sent = entered(tmp_path), 0

    def endless() -> Any:
        nonlocal sent
        while True:
            sent += 1 << 20
            yield b" " * (1 << 20)
            if sent > 4 * LARGEST_BODY:
                return

    answer = browser.put("/api/maps/big.geojson", headers=ORIGIN, content=endless())
    assert answer.status_code == 413
    assert list(tmp_path.iterdir()) == []


def test_a_header_twice_is_refused() -> None:
    sent: list[Any] = []

    async def nothing(*_: Any) -> None:
        raise AssertionError("not to be reached")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", f"127.0.0.1:{PORT}".encode()), (b"host", b"evil.example")],
    }
    import asyncio

    asyncio.run(Guard(nothing, Door(PORT), print)(scope, nothing, send))
    assert sent[0]["status"] == 400


def test_a_mistake_of_ours_shows_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, door, said = studio_of(tmp_path)
    browser.get("/", params={"token": door.new_token()})

    def broken(*_: object) -> None:
        raise KeyError("a confidential value")

    monkeypatch.setattr("confide.studio.explorer.home_values", broken)
    answer = browser.get("/")
    assert answer.status_code == 500
    assert "confidential value" not in answer.text + "".join(said)
    assert any("KeyError" in line for line in said)
