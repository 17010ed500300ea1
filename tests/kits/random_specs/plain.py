"""Random projects of the mechanisms whose tables a spec lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.kits.random_specs.project import Draw, RandomProject

WEIGHTS = ["1", "1/3", "7", "1e-3", "22/7"]


def tables(draw: Draw, folder: Path) -> Path:
    """Every definition and law, noise by the budget or by its variance or margin, weights, shared margins."""
    project = RandomProject(draw, folder, "tables")
    project.geography()
    project.write_schema()
    project.records()
    definition = draw(st.sampled_from(["zcdp", "pure", "approximate"]))
    project.accounted(definition, draw(st.sampled_from(["change-one", "add-remove"])))
    project.spec["tables"] = project.tables(
        levels=project.of_levels,
        margins=lambda: draw(st.sampled_from(["all", "none"])),
        weight=lambda: project.choose(WEIGHTS, ["0", "-1", "1e99"]),
    )
    weights = {level: project.choose(WEIGHTS) for level in project.of_levels(0)}
    repeated = draw(st.sampled_from(["independent", "pooled"]))
    project.spec["programme"] = {"repeated": repeated, "level_weights": weights}
    if definition == "approximate":
        _approximate(project)
    elif project.sometimes(5):
        project.spec["noise"] = project.choose([{"variance": "900"}, {"margin": 900}], [{"variance": "1/9"}])
        project.spec["privacy"]["budget"] = "1000"
        project.ledger = project.ledger and project.ledger | {"budget": 10**7}
    project.output("parquet", "csv")
    if project.sometimes(4):
        project.spec["output"]["noise_margin"] = project.choose(["0.5", "0.999", "1/3"], ["1", "0", "1e-30"])
    return project.write()


def _approximate(project: RandomProject) -> None:
    """Noise with a bound or without. Where all counts have the same noise, the budget is what it may cost."""
    law = project.choose(["two-sided-geometric", "discrete-gaussian"])
    bounded = project.draw(st.booleans())
    assert project.ledger is not None
    noise: dict[str, Any] = {"law": f"truncated-{law}" if bounded else law}
    if project.sometimes(3):
        noise["variance"] = project.choose(["9000", "3000"], ["1"])
        if bounded:
            noise["bound"] = project.choose([1_000, 700], [1, 9])
        project.spec["privacy"]["budget"] = project.ledger["budget"] = "1000"
    project.spec["noise"] = noise
    delta = project.choose(["1e-6", "1/1000003", "0.01"], ["1e-30", "0.99", "1"])
    project.spec["privacy"]["delta"] = delta
    project.ledger["delta"] = "0.99"


PTABLES = [{"D": 2, "V": "1", "js": 0}, {"D": 5, "V": "2", "js": 2}, {"D": 5, "V": "3"}, {"D": 3, "V": "1.5", "js": 1}]
PTABLES += [
    {"D": 10, "V": "4", "js": 3},
    {"D": 2, "V": "1/2"},
    {"D": 4, "V": "22/7"},
    {"D": 4, "V": "1", "pstay": "1/2"},
]
ODD_PTABLES = [{"D": 1, "V": "9"}, {"D": 1, "V": "1", "js": 2}, {"D": 100, "V": "1e-9"}, {"D": 0, "V": "1"}, {"V": "1"}]


def cellkey(draw: Draw, folder: Path) -> Path:
    """Perturbation tables of all kinds, shuffled or by bytes, weights, thresholds; areas; sums in place of counts."""
    project = RandomProject(draw, folder, "cellkey")
    areal = draw(st.booleans())
    if areal:
        project.geography()
    project.write_schema()
    magnitude = project.sometimes(4)
    part = _magnitude(project) if magnitude else _perturbation(project)
    keys = part.get("big_n", part.get("keys", 10**8))
    extra: dict[str, Callable[[int], Any]] = {"record_key": lambda _: draw(st.integers(1, min(keys, 10**8) - 1))}
    if magnitude:
        extra["turnover"] = lambda _: project.choose([0, 1, 7, 50, 10**9], [-1, 2**62])
        project.spec["data"]["value"] = "turnover"
    elif draw(st.booleans()):
        extra["weight"] = lambda _: project.choose([0, 1, 3, 10**6], [-1])
        project.spec["data"]["weight"] = "weight"
    project.records(extra, block=areal)
    project.spec["cellkey"] = part
    levels: dict[str, Any] = {"levels": project.of_levels} if areal else {}
    project.spec["tables"] = project.tables(margins=lambda: draw(st.sampled_from(["all", "none"])), **levels)
    project.output("parquet", "csv", "sdmx-csv", "argus")
    return project.write()


def _perturbation(project: RandomProject) -> dict[str, Any]:
    """What perturbs counts."""
    part: dict[str, Any] = dict(project.choose(PTABLES, ODD_PTABLES))
    if project.sometimes(3):
        part |= {
            "lookup": "abs",
            "table_size": project.choose([20, 256], [2]),
            "small_n": project.choose([5, 32], [999]),
            "big_n": project.choose([4_294_967_291, 257], [256, 300]),
        }
    else:
        if project.sometimes(3):
            part["keys"] = project.choose([10**8, 1 << 32, 10**6], [2, 3, 7])
        if project.sometimes(3):
            part |= {"pieces": project.choose(["0.01", "1/3", "1e-3"], ["1e-9", "2"]), "shuffle": "5a" * 32}
    if project.draw(st.booleans()):
        part["threshold"] = project.choose([1, 3, 10**9], [0])
    return part


def _magnitude(project: RandomProject) -> dict[str, Any]:
    """What perturbs sums: the part of the spec for counts has the keys alone."""
    noise = [{"D": 2, "V": "1"}, {"D": 3, "V": "1.5", "step": 2}, {"D": 5, "V": "2", "icat": [1, 3, 5]}]
    odd = [{"D": 1, "V": "9"}, {"D": 5, "V": "2", "icat": [5, 1]}, {"D": 49, "V": "1", "step": 49}, {"D": 3}]
    part: dict[str, Any] = {"p_small": project.choose(["0.25", "1/3", "1"], ["0", "-1", "1e9"])}
    if project.sometimes(3):
        part |= {"even": project.choose(noise, odd), "odd": project.choose(noise, odd)}
    else:
        part["noise"] = project.choose(noise, odd)
        if project.sometimes(3):
            part["factors"] = project.choose([["1"], ["1", "1/2"], ["1", "0.6", "0.4"]], [["1", "2"], [], ["0"]])
        else:
            part["contributions"] = project.choose(["largest", "mean", "range", "sum"], ["median"])
    if project.sometimes(3):
        part["small"] = project.choose(noise, odd)
    if project.sometimes(3):
        part |= {"p_large": "0.05", "fp": project.choose(["100", "1e6"], ["0", "-1"]), "q": project.choose([3, 4], [2])}
    if project.sometimes(3):
        rule = project.choose([{"threshold": 2}, {"p": "10"}, {"threshold": 1, "p": "10"}], [{}, {"p": "-1"}])
        part |= {"mu_c": project.choose(["1", "3/2"], ["-1", "1e9"]), "sensitive": rule}
    part["zero_keys"] = project.draw(st.booleans())
    project.spec["magnitude"] = part
    return {"keys": 10**8}


def suppression(draw: Draw, folder: Path) -> Path:
    """Counts and magnitudes, every rule and method, with levels and without."""
    project = RandomProject(draw, folder, "suppression")
    project.geography(areas=1 if project.sometimes(4) else 0)
    project.write_schema()
    magnitude = draw(st.integers(0, 3)) == 2
    values: dict[str, Callable[[int], Any]] = {}
    if magnitude:
        negative = project.sometimes(4)
        usual = [0, 1, 7, 50, 10**9, *([-3] if negative else [])]
        values["turnover"] = lambda _: project.choose(usual, [-1, 2**62])
        if negative:
            project.spec["data"]["below_zero"] = project.choose(["3", "100"], ["0", "2"])
        if project.sometimes(3):
            values["firm"] = lambda row: f"f{row // 2}"
            project.spec["data"]["contributor"] = "firm"
        if project.sometimes(3):
            values["weight"] = lambda _: project.choose([1, 2, 30], [0, -1])
            project.spec["data"]["weight"] = "weight"
    project.records(values)
    part: dict[str, Any] = {
        "method": project.choose(["heuristic", "auto", "optimal", "modular"], ["best"]),
        "zeros": project.choose(["secondary", "published", "primary"]),
        "singletons": draw(st.booleans()),
        "weights": project.choose(["log", "constant", "value"], ["none"]),
        "threshold": project.choose([1, 2, 4, 1000], [0]),
    }
    if magnitude:
        project.spec["data"]["value"] = "turnover"
        part |= project.choose(
            [{"p": "10"}, {"p": "10", "q": "50"}, {"dominance": {"n": 2, "k": "85"}}, {"range": "1/3"}]
        )
    else:
        part["lower"] = project.choose([0, 1, 2], [-1, 99])
    part["keep"] = project.some(["total", *project.codes], ["nobody"], 0, 1) if project.sometimes(3) else []
    project.spec["suppression"] = part
    project.spec["tables"] = project.tables(levels=lambda: project.some(project.levels, ["nowhere"], 0, 2))
    project.output("parquet", "csv", "sdmx-csv", "argus", "csvw")
    return project.write()


def swapping(draw: Draw, folder: Path) -> Path:
    """All variants with all their settings, households of one and more, tables or microdata or both."""
    project = RandomProject(draw, folder, "swapping")
    project.geography()
    project.write_schema()
    together = draw(st.integers(1, 3))
    extra: dict[str, Callable[[int], Any]] = {"household_id": lambda row: f"{row // together}"}
    project.records(extra, number=project.choose([24, 27, 48], [0, 1, 3]))
    # Who lives together lives in one block.
    columns = project.columns_of_records
    first = dict(zip(columns["household_id"][::-1], columns["geocode"][::-1], strict=True))
    theirs = project.spec["data"].get("columns", {})
    columns["geocode"] = [first[home] for home in columns["household_id"]]
    project.spec["data"]["records"] = project.table(
        "persons", {theirs.get(name, name): values for name, values in columns.items()}
    )
    if project.sometimes(6):  # those of one code live in households, and the others never move
        name = project.choose(list(project.codes))
        project.spec["data"]["in_households"] = {name: project.choose(project.codes[name], ["nobody"])}
    ages = [name for name, codes in project.codes.items() if isinstance(codes[0], int)]
    adults = ["adults"] if ages and project.sometimes(3) else []
    swap: dict[str, Any] = {"rate": project.choose(["0.5", "0.8", "1", "22/23"], ["2", 0, "-1", "1e-9"])}
    above = len(project.spec["geography"]["levels"])
    # Those of a household have names of their own.
    variables = [name for name in project.variables if name not in ("size", "adults")] or project.variables
    variant = draw(st.sampled_from(["targeted", "permutation", "enhanced"] if above else ["targeted", "permutation"]))
    if variant == "permutation":
        swap |= {"variant": "permutation", "largest_stratum": project.choose([50, 10**6], [3, 0])}
        swap["match"] = project.some(["size", *variables], ["nobody"], 0, 1) + adults
        if above and draw(st.booleans()):
            swap["within"] = project.choose(project.levels, ["nowhere"])
    elif variant == "targeted":
        swap |= {"variant": "targeted", "risk": project.some(variables, ["nobody"], 1, min(2, len(variables)))}
        profiles = [[["size", *adults]], [["size", *adults], ["size"]], [["size", variables[0]], ["size", *adults]]]
        swap |= {"profiles": project.choose(profiles, [[], [[]], [["adults"]]]), "k_anonymity": draw(st.integers(0, 3))}
        swap["near"] = draw(st.booleans())
        if project.sometimes(6):
            swap["within"] = project.choose(project.levels, ["nowhere"])
    else:
        swap |= {"variant": "enhanced"}
        adults = []
        swap["groups"] = [["1"], ["1/2", "1/2"], ["1/3", "1/3", "1/3"], ["1", 0, 0, 0]][above - 1]
        swap["key_noise"] = project.choose([[0, 1, 0], ["1/4", "1/2", "1/4"]], [[0, 0], ["1/3"] * 2])
    if adults:
        project.spec["data"]["age"] = project.choose(ages, ["nobody"])
        swap["adult_age"] = project.choose([0, 1, 18], [201])
    if project.sometimes(6):
        swap["method"] = swap.pop("variant")
    if variant != "permutation" and project.sometimes(6):
        swap["levels"] = project.of_levels()
    if project.sometimes(5):
        looked_at = {name.split(":")[0] for name in [*swap.get("risk", []), variables[0]]}
        swap["carry"] = [name for name in project.codes if name not in looked_at or project.wrong][:1]
    if variant != "permutation" or project.wrong:
        swap["publish_rate"] = draw(st.booleans())
    project.spec["swapping"] = swap
    project.output("parquet", "csv", microdata=draw(st.booleans()))
    if not project.spec["output"]["microdata"] or draw(st.booleans()):
        project.spec["tables"] = project.tables(
            levels=project.of_levels, margins=lambda: draw(st.sampled_from(["all", "none"]))
        )
    return project.write()
