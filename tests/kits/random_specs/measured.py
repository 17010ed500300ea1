"""Random projects of post-processing: measurements of a random TopDown release, made again with another spec."""

from __future__ import annotations

import atexit
import shutil
import tomllib
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis import strategies as st

import confide
from confide.errors import ConfideError
from tests.kits.random_specs.project import Draw, RandomProject, toml
from tests.kits.random_specs.topdown import own_strategy, shipped_strategy

KEY = "0dd5bec5" * 8


SOURCES = 100
"""How many releases the measurements are of: fewer take less time, where few specs are tried."""


def postprocess(draw: Draw, folder: Path) -> Path:
    """The measurements of a TopDown release that is right, with other output, other estimation, no block table; now and
    then with a file that is damaged or gone."""
    source, release = _measured(draw(st.integers(0, SOURCES - 1)))
    again = RandomProject(draw, folder, "postprocess")
    shutil.copytree(release / "measurements", folder / "measurements")
    for name in ("own.toml", "tables.toml", "blocks.csv", "blocks.parquet"):
        if (source.folder / name).exists():
            shutil.copy(source.folder / name, folder / name)
    again.spec["data"] = {"measurements": again.choose(["measurements"], ["nowhere", "own.toml", ""])}
    if "delimiter" in source.spec["data"]:
        again.spec["data"]["delimiter"] = source.spec["data"]["delimiter"]
    geography = source.spec["geography"]
    needed = geography["areas"] or any("column" in level for level in geography["levels"]) or draw(st.booleans())
    if needed or source.spec["topdown"]["strategy"] != "own.toml":
        again.spec["data"]["blocks"] = source.spec["data"]["blocks"]
    again.spec["geography"] = geography
    part = {key: value for key, value in source.spec["topdown"].items() if key in ("strategy", "root")}
    again.spec["topdown"] = part
    if part["strategy"] == "own.toml":
        _other_estimation(again)
    again.output("parquet", "csv")
    again.spec["output"] |= {
        key: value for key, value in source.spec["output"].items() if key in ("tabulation", "table_levels", "microdata")
    }
    if again.wrong:
        _damage(again)
    return again.write()


@cache
def _measured(number: int) -> tuple[RandomProject, Path]:
    """A random TopDown project and its release with measurements, made once: the first of a seed that is released."""
    made: list[tuple[RandomProject, Path]] = []
    one = settings(deadline=None, database=None, derandomize=False, phases=[Phase.generate], max_examples=1)
    one = settings(one, suppress_health_check=list(HealthCheck))

    @seed(number)
    @settings(one)
    @given(st.data())
    def release(data: st.DataObject) -> None:
        if not data.draw(st.integers(0, 999)):
            reject()  # the simplest of all, with which every seed begins
        source = RandomProject(data.draw, Path(mkdtemp()) / "project", "topdown", wrong=False)
        atexit.register(shutil.rmtree, source.folder.parent, ignore_errors=True)
        if source.sometimes(15):
            shipped_strategy(source)
        else:
            own_strategy(source)
        source.spec["output"] |= {"measurements": True, "formats": ["parquet"]}
        try:
            made.append((source, confide.run(source.write(), processes=1, insecure_key=KEY).release))
        except ConfideError:
            reject()

    release()
    return made[-1]


def _other_estimation(project: RandomProject) -> None:
    """Everything at once, without slack; zeros and bounds left out or not."""
    if not project.sometimes(3):
        return
    file = project.folder / "own.toml"
    strategy: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    for key in project.some(["zeros", "bounds"], ["invariants", "estimation"], 0, 2):
        strategy.pop(key, None)
    for part in strategy.get("estimation", {}).values():
        part["least_squares"] = [{"queries": [query for step in part["least_squares"] for query in step["queries"]]}]
        part.pop("slack", None)
    file.write_text(toml(strategy), encoding="utf-8")


def _damage(project: RandomProject) -> None:
    files = sorted(file for file in (project.folder / "measurements").rglob("*") if file.is_file())
    if not files or not project.sometimes(2):
        return
    file = files[project.draw(st.integers(0, len(files) - 1))]
    how = project.draw(st.sampled_from(["gone", "empty", "cut", "swapped"]))
    if how == "gone":
        file.unlink()
    elif how == "swapped":
        shutil.copy(files[0], file) if file != files[0] else None
    else:
        file.write_bytes(file.read_bytes()[: 0 if how == "empty" else 40])
