"""Random projects of SafeTab-P."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

from hypothesis import strategies as st

from tests.contract.kit import EXAMPLES
from tests.kits.random_specs.project import LEDGER, Draw, RandomProject

REGIONS = ["USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH", "PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"]
FILES = {
    "records": "person-records.txt",
    "blocks": "GRF-C.txt",
    "codes": "race-and-ethnicity-codes.txt",
    "race_iterations": "race-characteristic-iterations.txt",
    "ethnicity_iterations": "ethnicity-characteristic-iterations.txt",
    "code_to_iteration": "race-and-ethnicity-code-to-iteration.txt",
}


def safetab(draw: Draw, folder: Path) -> Path:
    """Other settings over the files of the example, of which some people and some blocks are taken."""
    project = RandomProject(draw, folder, "safetab")
    for name in FILES.values():
        shutil.copy(EXAMPLES / "safetab" / name, folder / name)
    header, *people = (folder / FILES["records"]).read_text().splitlines()
    start, number = draw(st.integers(0, len(people) - 1)), project.choose([3, 8, 20], [0, 1])
    chosen = [people[(start + 37 * place) % len(people)] for place in range(number)] * project.choose([1, 1, 2])
    (folder / FILES["records"]).write_text("\n".join([header, *chosen]) + "\n")
    _blocks(project, chosen)
    levels = [
        {"region": region, "iterations": iterations}
        | {"budget": project.choose(["1", "1/2", "3", "1000000007/998244353"], ["1e-9", "0"])}
        | {"thresholds": project.choose([[5, 10, 20], [1, 2, 3], [0, 0, 0], [-5, 10, 10**6]], [[3, 2, 1], [5]])}
        for region, iterations in project.some([(r, i) for r in REGIONS for i in ("regional", "detailed")], None, 1, 3)
    ]
    passes = [[level for level in levels if level["region"].startswith("PR-") == of_pr] for of_pr in (False, True)]
    budget = max(sum((Fraction(level["budget"]) for level in levels), Fraction(0)) for levels in passes)
    project.spec["data"] = dict(FILES)
    definition = draw(st.sampled_from(["zcdp", "pure"]))
    project.spec["privacy"] = {
        "ledger": LEDGER, "budget": project.choose([str(budget)], ["1"]), "definition": definition,
        "neighbours": project.choose(["add-remove"], ["change-one"]),
    }  # fmt: skip
    states = [["01", "02"], ["01"], ["02"]] if passes[0] else [[]]
    project.spec["safetab"] = {
        "states": project.choose(states, [["01", "01"], ["72"], ["99"], []]),
        "puerto_rico": project.choose([bool(passes[1])], [True, False]),
        "max_race_codes": draw(st.integers(1, 8)),
        "stage_1_fraction": project.choose(["0.1", "1/2", "1/1000003"], ["1", "1e-9"]),
        "negative_counts": draw(st.booleans()),
    }
    if draw(st.booleans()):
        project.spec["safetab"]["zero_suppression"] = project.choose(["0.9", "0.99", "1/3"], ["0", "1"])
    project.spec["levels"] = levels
    neighbours = draw(st.sampled_from(["add-remove", "change-one"]))
    project.ledger = {"definition": definition, "neighbours": neighbours, "budget": 10**6}
    if project.sometimes(5):
        project.ledger = {"definition": "approximate", "neighbours": neighbours, "budget": 10**6, "delta": "1e-3"}
        project.spec["privacy"]["delta"] = "1e-6"
    project.output("parquet", "csv", tabulation_suppression=draw(st.booleans()))
    if draw(st.booleans()):
        project.spec["output"]["coterminous"] = "derived"
    return project.write()


def _blocks(project: RandomProject, people: list[str]) -> None:
    """Only some blocks, those of the people with them, in any order; one twice if anything may be wrong."""
    file = project.folder / FILES["blocks"]
    header, *blocks = file.read_text().splitlines()
    lived_in = {tuple(person.split("|")[3:7]) for person in people}
    kept = [block for block in blocks if tuple(block.split("|")[:4]) in lived_in or project.draw(st.booleans())]
    if project.sometimes(3):
        kept.reverse()
    if project.wrong and project.sometimes(6) and kept:
        kept.append(kept[0])
    file.write_text("\n".join([header, *kept]) + "\n")
