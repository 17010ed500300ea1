"""Odd specs of every mechanism that states a loss, made at random, with neighbours of their records.

As many corners as fit: some are refused, and the others have to be priced rightly.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.engines import LocalEngine
from confide.mechanisms import MECHANISMS, SPECS
from confide.releases.abilities import AUDIT
from confide.releases.spec import load_spec
from tests.kits.odd_phsafe import odd_phsafe
from tests.kits.odd_project import OddProject, neighbours_of
from tests.kits.odd_topdown import odd_topdown


def odd_tables(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Recodes that overlap, areas with and without ``within``, pooled or not, every law, both relations."""
    rng = random.Random(seed)
    attributes = {name: [str(c) for c in range(rng.randint(2, 4))] for name in ("a", "b", "c")[: rng.randint(1, 3)]}
    schema = ['id = "odd"', 'provenance = "Made up for a test."']
    variables = []
    for name, codes in attributes.items():
        levels = ", ".join(f'["{code}", "{name}{code}"]' for code in codes)
        schema += [f"[attributes.{name}]", f"levels = [{levels}]"]
        variables.append(name)
        for recode in ("p", "q")[: rng.randint(0, 2)]:
            cut = rng.randint(1, len(codes) - 1)
            halves = (codes[:cut], codes[cut:]) if rng.random() < 0.95 else (codes[:cut],)
            schema.append(f"[attributes.{name}.recodes.{recode}.groups]")
            schema += [f'"{recode}{n}" = {[str(code) for code in half]}' for n, half in enumerate(halves)]
            variables.append(f"{name}:{recode}")
    blocks = sorted({f"{rng.randint(1, 2)}{rng.randint(0, 2)}{rng.randint(0, 9)}" for _ in range(rng.randint(2, 14))})
    rows = [f"{block},{rng.choice('xyz9')}" for block in blocks]
    names = ["land", "county", "tract"][rng.randint(0, 2) :]
    digits = {"land": 0, "county": 1, "tract": 2}
    geography = [f'[[geography.levels]]\nname = "{name}"\ndigits = {digits[name]}' for name in names]
    if rng.random() < 0.6:
        inside = f'within = "{names[0]}"\n' if rng.random() < 0.5 else ""
        nothing = 'none = "9"\n' if rng.random() < 0.7 else ""
        geography.append(f'[[geography.areas]]\nname = "place"\ncolumn = "place"\n{inside}{nothing}')
        names.append("place")
    definition, relation = rng.choice(["zcdp", "pure", "approximate"]), rng.choice(["change-one", "add-remove"])
    noise = ""
    if definition == "approximate":
        law = rng.choice(["two-sided-geometric", "discrete-gaussian"])
        cut_off = rng.choice(["", "truncated-"])
        bound = f"\nbound = {rng.randint(400, 900)}" if cut_off and rng.random() < 0.3 else ""
        noise = f'[noise]\nlaw = "{cut_off}{law}"{bound}'
    elif rng.random() < 0.2:
        noise = f'[noise]\nvariance = "{rng.randint(2000, 9000)}"'
    tables = []
    for number in range(rng.randint(1, 3)):
        chosen = rng.sample(variables, rng.randint(1, min(3, len(variables))))
        if rng.random() < 0.9:  # one variable of an attribute: two are refused
            chosen = list({variable.split(":")[0]: variable for variable in chosen}.values())
        on = rng.sample([*names, "block"], rng.randint(1, min(3, len(names) + 1)))
        margins, weight = rng.choice(["all", "none"]), Fraction(rng.randint(1, 5), 2)
        tables.append(
            f'[[tables]]\nname = "t{number}"\nvariables = {chosen}\nlevels = {on}\n'
            f'margins = "{margins}"\nweight = "{weight}"'
        )
    weights = f'level_weights = {{ block = "{Fraction(rng.randint(1, 5), 3)}" }}'
    budget = Fraction(rng.randint(1, 40), 10)
    text = f"""[release]
name = "odd"
mechanism = "tables"
[data]
records = "people.csv"
blocks = "blocks.csv"
schema = "schema.toml"
[privacy]
ledger = "none.ledger"
definition = "{definition}"
neighbours = "{relation}"
budget = "{budget}"
delta = "1e-7"
{noise}
[programme]
repeated = "{rng.choice(["pooled", "independent"])}"
{weights}
"""
    (folder / "blocks.csv").write_text("geocode,place\n" + "\n".join(rows) + "\n")
    (folder / "schema.toml").write_text("\n".join(schema) + "\n")
    (folder / "spec.toml").write_text(text + "\n".join([*geography, *tables]) + "\n")

    def person() -> str:
        return ",".join([rng.choice(blocks), *(rng.choice(codes) for codes in attributes.values())])

    people = [person() for _ in range(rng.randint(2, 30))]
    others = neighbours_of(rng, people, relation, person, versions)
    return OddProject(folder / "spec.toml", folder / "people.csv", ",".join(["geocode", *attributes]), people, others)


def odd_safetab(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Levels, budgets and thresholds at random, both definitions, dense and sparse, one to eight race codes."""
    from confide.official_runs import convert
    from tests.kits.safetab import ALL, CODES, GEOGRAPHY, PERSON_HEADER, budget_key, config, person, write_input

    rng = random.Random(seed)
    chosen: dict[str, Any] = {"privacy_defn": rng.choice(["zcdp", "puredp"])}
    for region in ALL:
        for level in (1, 2):
            chosen[budget_key(region, level)] = rng.choice([0, 0, 0.05, 0.5, 2.5])
    chosen[budget_key("COUNTY", 2)] = 0.5
    chosen["thresholds_p"] = {
        f"({region}, {level})": sorted(rng.randint(-3, 12) for _ in range(3)) for region in ALL for level in (1, 2)
    }
    chosen["max_race_codes"] = rng.randint(1, 8)
    chosen["run_pr"] = rng.random() < 0.6
    chosen["privacy_budget_p_stage_1_fraction"] = rng.choice([0.1, 0.25, 0.5])
    if rng.random() < 0.7:
        chosen["zero_suppression_chance"] = rng.choice([0.5, 0.99, 0.99999])

    def somebody() -> str:
        codes = rng.sample(CODES, rng.randint(1, 4))
        return person(
            rng.choice(GEOGRAPHY[1:]),
            *codes,
            age=str(rng.randint(0, 115)),
            sex=rng.choice("12"),
            span=rng.choice(CODES),
        )

    people = [somebody() for _ in range(rng.randint(2, 25))]
    spec = convert(*write_input(folder, config(**chosen), people=people), folder / "spec")
    others = neighbours_of(rng, people, "add-remove", somebody, versions)
    others[0] = [*people, _in_most_groups(spec, folder / "scratch")]
    return OddProject(spec, folder / "data" / "person-records.txt", PERSON_HEADER, people, others)


def _in_most_groups(spec: Path, scratch: Path) -> str:
    """A record that counts in as many groups of a spec as can be."""
    with LocalEngine(scratch, processes=1, memory="1GiB") as engine:
        loaded = load_spec(spec, SPECS)
        mechanism = MECHANISMS[loaded.spec.release.mechanism]
        problem = mechanism.prepare(loaded, engine)
    audit = AUDIT.of(mechanism)
    assert audit is not None
    _, without = audit(mechanism).made_up_records(problem, 1)
    return "|".join(without.slice(0, 1).to_pylist()[0].values())


def odd_safetab_h(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Budgets and thresholds at random, both definitions, published totals of some groups, some of them negative."""
    from tests.kits.programs import convert_h
    from tests.kits.safetab_h import HOUSEHOLD_HEADER, household, household_config, random_totals, write_households

    rng = random.Random(seed)
    chosen = household_config(rng)
    totals = random_totals(rng, chosen["run_pr"])

    def somebody() -> str:
        return household(rng)

    people = [somebody() for _ in range(rng.randint(2, 25))]
    spec = convert_h(*write_households(folder, chosen, people, totals), folder / "spec")
    others = neighbours_of(rng, people, "add-remove", somebody, versions)
    others[0] = [*people, _in_most_groups(spec, folder / "scratch")]
    return OddProject(spec, folder / "data" / "household-records.txt", HOUSEHOLD_HEADER, people, others)


ODD = {
    "tables": odd_tables,
    "topdown": odd_topdown,
    "safetab": odd_safetab,
    "safetab-h": odd_safetab_h,
    "phsafe": odd_phsafe,
}
"""For each accounted mechanism, what makes an odd project from a seed."""
