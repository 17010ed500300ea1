"""What tests ask of a page: its landmarks, whether it asks another host for anything, and what axe-core says of it."""

from __future__ import annotations

import base64
import html
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZES = ("1280,900", "400,800")
"""A desk and a phone."""
SERIOUS = ("serious", "critical")
_RUN = """
axe.run(document, {resultTypes: ["violations"]}).then(found => {
  const result = document.createElement("pre");
  result.id = "axe-result";
  result.textContent = JSON.stringify(found.violations.map(each => ({
    id: each.id, impact: each.impact, where: each.nodes.map(node => node.html.slice(0, 200))})));
  document.body.appendChild(result);
});
"""


def browser() -> str | None:
    """Debian's Chromium, or another of its family."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def axe_script() -> Path | None:
    """axe.min.js, from the newest of the packages that bring it, or from node_modules; it is not a part of Confide."""
    roots = [Path("node_modules/axe-core")]
    for package in ("axe_playwright_python", "axe_core_python"):
        found = importlib.util.find_spec(package)
        roots += [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    return next((file for root in roots if (file := root / "axe.min.js").is_file()), None)


def missing() -> str:
    """Why pages cannot be tried in a browser here; nothing where they can."""
    if browser() is None:
        return f"no browser: none of {', '.join(BROWSERS)} is installed"
    return "" if axe_script() else "no axe-core: neither axe-core-python nor node_modules/axe-core is installed"


def violations(page: str, size: str, folder: Path) -> list[dict[str, Any]]:
    """What axe-core finds on a page that is shown in a window of this size."""
    program, script = browser(), axe_script()
    assert program is not None
    assert script is not None
    file = folder / "page.html"
    axe = script.read_text(encoding="utf-8")
    file.write_text(page.replace("</body>", f"<script>{axe}</script><script>{_RUN}</script></body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={size}", "--virtual-time-budget=60000"]
    command = [program, *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout
    result = re.search(r'<pre id="axe-result">(.*?)</pre>', shown, re.DOTALL)
    assert result is not None, "axe-core did not come to an end"
    listed: list[dict[str, Any]] = json.loads(html.unescape(result[1]))
    return listed


def requests(page: str, *, scripted: bool = False) -> list[str]:
    """Whatever in a page, or in a picture, makes a browser ask for something: places in the page itself are none, and
    neither are links to other pages in the same folder, which a person follows or not. A page that is ``scripted`` may
    have scripts of its own, under a policy that forbids them to ask anybody."""
    page = re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    page = re.sub(r'<a href="[a-z]+\.html">', "", page)
    named = re.findall(r'\b(?:src|srcset|href|action|data|poster|background)\s*=\s*"([^"]*)"', page)
    named += re.findall(r"url\(([^)]*)\)", page)
    if scripted:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
        policy += "form-action 'none'; base-uri 'none'"
        page = page.replace(f'http-equiv="Content-Security-Policy" content="{policy}"', "", 1)
        page = re.sub(r'<script( type="application/json" id="content")?>', "", page)
    tags = re.findall(r"<(?:link|script|iframe|object|embed|img|image|base)\b[^>]*>|@import[^;]*|http-equiv[^>]*", page)
    return tags + [name for name in named if not name.startswith("#")]


def form(page: str) -> list[str]:
    """What a page lacks: a language, a title, one main part, one heading, links that lead somewhere, named pictures."""
    wrong = []
    if not re.search(r'<html lang="[a-z]{2}">', page):
        wrong.append("a language")
    if not re.search(r"<title>[^<]+</title>", page):
        wrong.append("a title")
    wrong += [f"one {tag}" for tag in ("main", "h1") if len(re.findall(rf"<{tag}[ >]", page)) != 1]
    names = set(re.findall(r'\bid="([^"]+)"', page))
    wrong += [f"a place #{name}" for name in re.findall(r'<a href="#([^"]+)"', page) if name not in names]
    headings = re.findall(r"<h2\b([^>]*)>", page)
    wrong += [f"an address of {heading}" for heading in headings if 'id="section-' not in heading]
    if len(headings) >= 5 and '<nav class="contents"' not in page:
        wrong.append("a list of contents")
    wrong += ["a title of a picture" for svg in re.findall(r"<svg\b[^>]*>(.{0,7})", page) if svg != "<title>"]
    wrong += ["a name of a picture" for svg in re.findall(r"<svg\b([^>]*)>", page) if 'aria-label="' not in svg]
    wrong += ["a head of a column" for text in re.findall(r"<th\b[^>]*>(.*?)</th>", page) if not text.strip()]
    return wrong


def explore_content(page: str) -> dict[str, Any]:
    """What the script of ``explore.html`` reads."""
    content = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert content is not None
    read: dict[str, Any] = json.loads(content[1])
    return read


def explored(page: str) -> dict[str, list[dict[str, Any]]]:
    """The tables that ``explore.html`` has, as rows by column: read back from what its script reads."""
    tables = {}
    for table in explore_content(page)["tables"]:
        columns = {}
        for each in table["dimensions"]:
            packed, width = base64.b64decode(each["places"]), each["width"]
            places = [int.from_bytes(packed[at : at + width], "little") for at in range(0, len(packed), width)]
            columns[each["column"]] = [each["codes"][place][0] for place in places]
        columns |= dict(zip(table["heads"], table["figures"], strict=True))
        tables[table["name"]] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return tables
