"""The pictures of ``docs/studio.md``, taken in Chromium: ``make screenshots``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from confide.lab.comparison import compare
from confide.lab.demonstration import demo_studio
from confide.lab.studio.comparisons import SMALL, SMALL_OUT, SMALL_SPEC
from confide.report.rendering import render
from tests.contract.kit import EXAMPLES
from tests.kits.messy_office import messy_office
from tests.kits.studio import browsing, missing

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
RELEASE = "release=census%2Frelease"
TABLE = f"/explore/table?{RELEASE}&chosen=1"
SHOTS = {
    "studio-rows": f"{TABLE}&table=activity&where=level%3Dnuts3&where=cas%3Amain%3D_T",
    "studio-pyramid": f"{TABLE}&table=age-and-sex&show=pyramid&where=level%3Dcountry",
    "studio-map": f"{TABLE}&table=activity&show=map&measure=margin&map=nuts3.geojson&where=level%3Dnuts3",
    "studio-board": "/board?spec=census.toml&at=persons%3D30000&lock=age-and-sex%3Acountry"
    "&typed.margin%3Aactivity%3Anuts3=12",
    "studio-board-topdown": "/board?spec=examples%2Ftopdown%2Fspec.toml&typed.margin%3Acounty%3Ahispanic%2Acenrace=12",
    "studio-board-cellkey": "/board?spec=examples%2Fcellkey%2Fspec.toml&at=D%3D5%3BV%3D3",
    "studio-laboratory": "/laboratory?experiment=belief&rho=0.2&prior=0.1&released=4",
    "studio-invariants": "/laboratory?experiment=invariants&chosen=1&set=C2&by-0=block&who-0=age%3Dunder+18",
    "studio-reconstruction": "/laboratory?experiment=reconstruction&step=2",
    "studio-compare": "/compare?comparison=comparison%2Fmade",
    "studio-cockpit": "/cockpit?spec=education.toml",
    "studio-doctor": "/doctor?file=office%2Fpeople.csv&areas=office%2Fareas.csv&column=civil",
}
"""For each picture the page that it is of."""
FILES = {"studio-file": "census/release/explore.html"}
"""Pages of a release that are opened from the folder."""
CHOSEN = {"studio-rows": (("a", 1), ("a", 4), ("b", 2), ("b", 5))}
"""The cells that are marked before it is taken."""


def take(folder: Path, into: Path) -> list[Path]:
    """The pictures of the demonstration in a folder, with a small comparison."""
    taken = []
    for name in ("topdown", "cellkey"):
        shutil.copytree(EXAMPLES / name, folder / "examples" / name)
    office = folder / "office"
    office.mkdir(exist_ok=True)
    messy_office(office)
    if not (folder / SMALL_OUT).exists():
        (folder / SMALL).mkdir()
        (folder / SMALL_SPEC).write_text(render("studio_comparison.toml.j2"), encoding="utf-8")
        compare(folder / SMALL_SPEC, folder / SMALL_OUT, also=["topdown=1/2"], processes=1)
    with browsing(folder, width=1180, height=760) as watched:
        for name, path in SHOTS.items():
            watched.page.goto(watched.home + path)
            watched.page.wait_for_load_state("networkidle")
            if name == "studio-cockpit":
                watched.page.get_by_role("button", name="Check").click()
                watched.page.wait_for_selector("text=no problems", timeout=120_000)
                watched.page.get_by_role("button", name="Rehearse").click()
                watched.page.wait_for_selector("text=Counting records", timeout=120_000)
            for choice, place in CHOSEN.get(name, ()):
                watched.page.locator(f"input[name={choice}]").nth(place).check()
                watched.page.wait_for_load_state("networkidle")
            taken.append(into / f"{name}.png")
            watched.page.screenshot(path=taken[-1])
        for name, path in FILES.items():
            watched.page.goto((folder / path).absolute().as_uri())
            taken.append(into / f"{name}.png")
            watched.page.screenshot(path=taken[-1])
        assert watched.complaints == []
    return taken


if __name__ == "__main__":
    if missing():
        sys.exit(missing())
    with tempfile.TemporaryDirectory() as own:
        demo_studio(Path(own) / "demo")
        for each in take(Path(own) / "demo", PICTURES):
            sys.stdout.write(f"{each} {each.stat().st_size:,} bytes\n")
