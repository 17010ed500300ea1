"""``confide studio`` and ``confide studio page`` as a person types them."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.lab import demonstration
from confide.studio import serving


@pytest.mark.process
def test_the_studio_prints_an_address_answers_and_stops(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "confide", "studio", str(tmp_path), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=\S+", line)
            assert address is not None, line
            home = address[0].partition("?")[0]
            visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            assert "Open the studio" in visitor.open(address[0]).read().decode()
            page = visitor.open(home)
            assert "There is no release in this folder yet" in page.read().decode()
            assert page.headers["server"] is None
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address[0])
            assert refused.value.code == 403
            refused.value.close()
            with (
                pytest.raises(ConnectionRefusedError),
                socket.create_connection((_own_address(), int(address[1])), timeout=1),
            ):
                pass
            running.send_signal(signal.SIGINT)
            said, complained = running.communicate(timeout=60)
        finally:
            running.kill()  # one that answers what it should not would be waited for
    assert running.returncode == 0
    assert "Stopped." in said
    assert complained == ""
    with pytest.raises(urllib.error.URLError):
        visitor.open(home)


def _own_address() -> str:
    """Another address of this machine than 127.0.0.1; on Linux all of 127.0.0.0/8 lead here."""
    return "127.0.0.2"


def test_the_browser_is_led_in_by_a_file_that_nobody_else_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(serving.webbrowser, "open", opened.append)
    serving._show("http://127.0.0.1:1/?token=secret", tmp_path / "own")
    assert "secret" not in opened[0]
    file = tmp_path / "own" / "studio.html"
    assert opened == [file.as_uri()]
    assert "token=secret" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


def test_without_its_extra_the_studio_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "uvicorn" else object())
    done = CliRunner().invoke(app, ["studio", "--no-browser"])
    assert isinstance(done.exception, ConfideError)
    finding = done.exception.findings[0]
    assert finding.code == "no-studio"
    assert "confide[studio]" in str(finding.remedy)
    assert "fastapi" not in str(finding.found)


@pytest.mark.process
@pytest.mark.parametrize("package", serving.NEEDED)
def test_no_package_of_the_extra_is_needed_to_say_that_it_is_missing(package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from confide.cli.main import main; main()"
    command = [sys.executable, "-c", program, "studio", "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "confide[studio]" in done.stderr


def test_a_port_in_use_is_a_finding(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy, pytest.raises(ConfideError) as error:
        serving.StudioServer(tmp_path, busy.getsockname()[1])
    assert error.value.findings[0].code == "port-in-use"


def test_explore_writes_a_page(seal: Any, tmp_path: Path) -> None:
    file = tmp_path / "explore.html"
    done = CliRunner().invoke(app, ["studio", "page", str(seal("tables")), "--out", str(file), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"file": str(file), "bytes": file.stat().st_size, "rows": 528, "left_out": {}}
    assert "528 rows" in CliRunner().invoke(app, ["studio", "page", str(seal("tables")), "--out", str(file)]).stdout


@pytest.mark.slow
def test_the_demonstration_has_a_release_a_spec_that_waits_and_a_map(tmp_path: Path) -> None:
    done = demonstration.demo_studio(tmp_path / "demo", persons=600)
    assert done.ok
    release = confide.open_release(tmp_path / "demo" / "census")
    assert set(release.tables) == {"age-and-sex", "activity", "citizenship"}
    codes = set(release.tables["activity"].rows(level="nuts3").arrow().column("area").to_pylist())
    features = json.loads((tmp_path / "demo" / "nuts3.geojson").read_text())["features"]
    assert {feature["properties"]["code"] for feature in features} == codes
    checked = confide.check(tmp_path / "demo" / "education.toml")
    assert checked.errors == ()
    assert checked.price is not None
    assert checked.price.left_after == 0
