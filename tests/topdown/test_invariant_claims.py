"""What is claimed beside invariants: certificate, manifest, account, board and check say what ``risk invariants`` says.

Strategies are drawn at random, with invariants of all forms. What every way of stating the promise claims is compared
with the answers of ``confide risk invariants`` for the same counts, written as a file of their own, and with a brute
force: all records that a person of a tiny nation could have instead, with every published figure recounted.
"""

from __future__ import annotations

import html
import itertools
import random
import re
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from confide import risk
from confide.errors import SpecError
from confide.lab.risk.testing.curve_answer import DifferenceKind, parts_of
from confide.mechanisms.topdown.board import TopDownBoard
from confide.mechanisms.topdown.statement import documents
from confide.mechanisms.topdown.strategy import Strategy, account_of, plan_of
from confide.mechanisms.topdown.strategy_file import parse_strategies
from confide.privacy.invariants import Holding
from confide.releases.folder import privacy_of
from confide.releases.loss_account import StatedPrice
from confide.releases.plan import Plan, summary_of_levels
from confide.schema import NO_GROUP

DELTA = Fraction(1, 10**10)
LEVELS = ("land", "county", "block")
BLOCKS = ("11", "12", "21", "22")
"""The first letter is the county."""
TITLES = ("Sex", "Возраст", "宗教")


def drawn(seed: int) -> Strategy:
    """A strategy of a land of counties and blocks, with attributes, recodes and invariants at random."""
    for attempt in itertools.count():
        chance = random.Random(f"{seed}/{attempt}")
        try:
            return parse_strategies(_text(chance), "random.toml")[0]["land"]
        except SpecError:
            continue  # such as bounds and invariants of the frame on different queries
    raise AssertionError


def _text(chance: random.Random) -> str:
    sizes = [chance.choice([1, 2, 3, 4, 4]) for _ in range(chance.randint(1, 3))]
    names = ["a", "b", "c"][: len(sizes)]
    attributes, variables = [], {}
    for name, size, title in zip(names, sizes, TITLES, strict=False):
        levels = [[f"{name}{code}", f"{name}{code}"] for code in range(size)]
        chance.shuffle(levels)
        attributes.append(f'[schema.attributes.{name}]\ntitle = "{title}"\nlevels = {levels}'.replace("'", '"'))
        variables[name] = size
        if size > 1:
            # A recode with two groups.
            codes = [code for code, _ in levels]
            chance.shuffle(codes)
            cut = chance.randint(1, size - 1)
            groups = f'"one" = {codes[:cut]}\n"two" = {codes[cut:]}'.replace("'", '"')
            attributes.append(f"[schema.attributes.{name}.recodes.two.groups]\n{groups}")
            variables[f"{name}:two"] = 2
    limited = chance.choice(list(variables))
    key = "one" if limited.endswith(":two") else f"{limited}0"
    parts: list[str] = []
    forms = chance.sample(["root", "county", "told-total", "told", "told-cross", "frame", "bound", "met", "zero"], 3)
    for form in forms:
        if form in ("root", "county"):
            level = {"root": "land", "county": "county"}[form]
            parts.append(f'[[invariants]]\nname = "n-{form}"\nlevel = "{level}"\nquery = "total"')
        elif form == "told-total":
            parts.append('[[invariants]]\nname = "n-told"\nlevel = "block"\nquery = "total"\nframe = ["people"]')
        elif form in ("told", "told-cross"):
            chosen = [limited]
            if form == "told-cross":
                chosen += [v for v in variables if v.partition(":")[0] != limited.partition(":")[0]][:1]
            chance.shuffle(chosen)
            frame = str([f"{form[-1]}{n}" for n in range(_cells(chosen, variables))]).replace("'", '"')
            head = f'[[invariants]]\nname = "q-{form}"\nlevel = "block"\nquery = "{"*".join(chosen)}"'
            parts.append(f"{head}\nframe = {frame}")
        elif form == "frame":
            parts.append('[[invariants]]\nname = "homes"\nlevel = "block"\nframe = ["homes"]')
        elif form in ("bound", "met"):  # the second is an invariant in two sentences
            for side in ["lower", "upper"] if form == "met" else [chance.choice(["lower", "upper"])]:
                head = f'[[bounds]]\nname = "{form}-{side}"\nvariable = "{limited}"\nside = "{side}"\nper_unit = 1'
                parts.append(f'{head}\nframe = {{ {key} = "{form}" }}')
        elif form == "zero" and len(names) > 1:
            where = f'{names[0]} = ["{names[0]}0"], {names[1]} = ["{names[1]}0"]'
            parts.append(f'[[zeros]]\nname = "never"\nwhere = {{ {where} }}')
    chance.shuffle(parts)
    rest = '"detailed" = ["1", "1", "1"]'
    return f"""
id = "random"
title = "Drawn at random"
provenance = "Made up for tests."
definition = "zcdp"
neighbours = "change-one"
root = "land"
record = "person"

[schema]
id = "random-people"
provenance = "Made up for tests."
{chr(10).join(attributes)}

[roots.land]
budget = "2"
levels = ["land", "county", "block"]
shares = ["1/5", "2/5", "2/5"]
estimation = ["once", "once", "once"]

[roots.land.queries]
{rest}

[estimation.once]
least_squares = [{{ queries = ["detailed"] }}]
rounding = [["detailed"]]

{chr(10).join(parts)}
"""


def _cells(chosen: list[str], variables: dict[str, int]) -> int:
    cells = 1
    for name in chosen:
        cells *= variables[name]
    return cells


# --- What is claimed, in every place where something is ---


def claims(strategy: Strategy) -> dict[str, tuple[set[str], set[str]]]:
    """By place the attributes and the levels of moves for which a loss is stated as what protects them."""
    plan = plan_of(strategy, record="person")
    privacy, account = privacy_of(plan, DELTA), account_of(strategy)
    curves = [(part.kind, part.name) for part in parts_of(plan)]
    return {
        "manifest": (set(privacy["by_attribute"]), set(privacy["by_move_within"])),
        "certificate": _rows(plan, privacy),
        "account": (set(account.by_attribute), set(account.by_move_within)),
        "account --json": (set(account.as_dict()["by_attribute"]), set(account.as_dict()["by_move_within"])),
        "curves": (
            {name for kind, name in curves if kind is DifferenceKind.ATTRIBUTE},
            {name for kind, name in curves if kind is DifferenceKind.BLOCK_WITHIN},
        ),
    }


def page_of(plan: Plan, privacy: dict[str, Any]) -> str:
    manifest: dict[str, Any] = {
        "title": "A title", "release": "a-release", "confide": "0", "mechanism": "topdown", "statistics": {},
        "noise": {"sampler": "confide/v1", "key": "from the operating system"},
        "privacy": privacy, "plan_hash": plan.hash, "plan": plan.as_dict(),
    }  # fmt: skip
    return documents(manifest)["certificate.html"]


def _rows(plan: Plan, privacy: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The rows of the two tables of the certificate that state a loss for a part of a record."""
    page = page_of(plan, privacy)
    pair = page[page.index('<div class="pair">') :]
    tables = [html.unescape(text) for text in re.findall(r"<tbody>(.*?)</tbody>", pair, re.DOTALL)[:2]]
    rows = [re.findall(r"<tr><td>([^<]*)</td>", text) for text in tables]
    names = {title: name for name, title in plan.question["attributes"].items()}
    moves = set(rows[1]) & set(LEVELS) if privacy["by_move_within"] else set()
    return {names[title] for title in rows[0]}, moves


def words_of(strategy: Strategy) -> dict[str, str]:
    """What stands before anything is spent, and beside it: check, board, account, certificate."""
    plan = plan_of(strategy, record="person")
    stub = SimpleNamespace(problem=SimpleNamespace(strategy=strategy), total=strategy.budget, delta=DELTA)
    board = TopDownBoard.claim.func(stub)  # type: ignore[attr-defined]
    return {
        "check": " ".join(summary_of_levels(plan, "counts").notes),
        "price": StatedPrice.of(plan, DELTA).in_words,
        "board": " ".join(board.not_protected),
        "promise": privacy_of(plan, DELTA)["in_words"][0],
        "certificate": html.unescape(page_of(plan, privacy_of(plan, DELTA))),
    }


# --- The same invariants as a file of their own, for ``confide risk invariants`` ---


def counts_of(strategy: Strategy) -> list[dict[str, Any]]:
    """Every count of records that the invariants of a strategy publish, two bounds that meet among them."""
    counts: list[dict[str, Any]] = []
    for invariant in strategy.constraints.invariants:
        if invariant.query is None:
            continue
        query = strategy.query(invariant.query)
        groups = [[[str(code) for code in group.codes] for group in variable.groups] for variable in query.variables]
        names = [variable.attribute.name for variable in query.variables]
        by = {"by": "all" if invariant.level == "land" else invariant.level}
        counts += [by | {"where": dict(zip(names, cell, strict=True))} for cell in itertools.product(*groups)]
    for bound in (bound for bound in strategy.constraints.bounds if bound.name == "met-lower"):
        codes_of = [str(code) for code in bound.variable.groups[0].codes]
        counts.append({"by": "block", "where": {bound.variable.attribute.name: codes_of}})
    return counts


def of_risk(strategy: Strategy) -> dict[str, Any] | None:
    """The answers of ``confide risk invariants`` for the invariants of a strategy; None where it has none."""
    constraints, schema = strategy.constraints, strategy.schema
    codes = {attribute.name: [str(level.code) for level in attribute.levels] for attribute in schema.attributes}
    bounds = [
        {"by": "block", "attribute": bound.variable.attribute.name, "units": {"bound": "beds"}, "name": bound.name}
        | ({"at_least": 1} if bound.side.value == "lower" else {"at_most": 1})
        for bound in constraints.bounds
    ]
    never = [{"where": {name: list(map(str, c)) for name, c in zero.where.items()}} for zero in constraints.zeros]
    counts = counts_of(strategy)
    if not counts and not bounds and not never:
        return None
    attributes: dict[str, Any] = {name: {"title": name, "levels": values} for name, values in codes.items()}
    for bound in constraints.bounds:
        group = [str(code) for code in bound.variable.groups[0].codes]
        attributes[bound.variable.attribute.name]["groups"] = {"bound": group}
    own = {"geography": list(LEVELS[1:]), "attributes": attributes, "counts": counts, "bounds": bounds, "never": never}
    answer: dict[str, Any] = risk.invariants(["own"], own={"own": own}).as_dict()["single_record"]
    return answer


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_no_place_claims_more_than_risk_invariants_says(first: int) -> None:
    limited = 0
    for seed in range(first, first + 40):
        strategy = drawn(seed)
        answers = of_risk(strategy)
        stated = claims(strategy)
        assert len({(frozenset(a), frozenset(m)) for a, m in stated.values()}) == 1, (seed, stated)
        attributes, moves = stated["manifest"]
        if answers is None:
            assert attributes == {attribute.name for attribute in strategy.schema.attributes}
            assert moves == set(LEVELS[:-1])
            continue
        counted = {name for count in counts_of(strategy) for name in count["where"]}
        for name in attributes & counted:
            answer = answers[name]
            assert answer["status"] != "fixed", (seed, name)
            assert not answer["never_changed"], (seed, name)
            assert answer["alone"], (seed, name)
        for above, level in itertools.pairwise(LEVELS):
            # In another unit of the level, of the same unit above.
            if above in moves:
                assert answers[level]["status"] != "fixed", (seed, level)
                assert not answers[level]["never_changed"]
        plan = plan_of(strategy)
        parts = plan.left_by_invariants
        silent = {part.title for part in parts.limited}
        for place, text in words_of(strategy).items():
            for part in parts.limited:
                assert part.words() in text, (seed, place)
        fixed = {name for name in counted if answers[name]["status"] == "fixed"}
        assert {parts.attributes[name].title for name in fixed} <= silent
        assert all(parts.attributes[name].holding is Holding.FIXED for name in fixed)
        limited += bool(silent)
    assert limited > 10, "hardly any strategy limits the promise: the test shows little"


# --- Brute force ---


def published(strategy: Strategy, people: tuple[tuple[str, ...], ...]) -> list[Any]:
    """Every figure about the records that is published exactly, counted from a data set: block first, then codes."""
    figures: list[Any] = []
    for invariant in strategy.constraints.invariants:
        if invariant.query is None:
            continue
        counted: dict[tuple[Any, ...], int] = {}
        for person in people:
            groups = _groups(strategy, invariant.query, person[1:])
            if NO_GROUP not in groups:
                unit = person[0][: {"land": 0, "county": 1, "block": 2}[invariant.level]]
                counted[unit, *groups] = counted.get((unit, *groups), 0) + 1
        figures.append(counted)
    met = [bound for bound in strategy.constraints.bounds if bound.name == "met-lower"]
    for bound in met:  # at least and at most as many as the frame counts
        groups_of = ((person[0], _groups(strategy, bound.variable.name, person[1:])) for person in people)
        figures.append(sorted(block for block, group in groups_of if group == (0,)))
    return figures


def _groups(strategy: Strategy, query: str, codes: tuple[str, ...]) -> tuple[int, ...]:
    place = {attribute.name: number for number, attribute in enumerate(strategy.schema.attributes)}
    variables = strategy.query(query).variables
    return tuple(int(v.assignment[v.attribute.index[codes[place[v.attribute.name]]]]) for v in variables)


@pytest.mark.parametrize("first", [1000, 2000])
def test_what_is_claimed_can_be_changed_and_what_is_fixed_cannot(first: int) -> None:
    """An attribute is given away for a person if no consistent data set differs in it alone."""
    seen = set()
    for seed in range(first, first + 40):
        strategy, chance = drawn(seed), random.Random(seed)
        codes = [[level.code for level in attribute.levels] for attribute in strategy.schema.attributes]
        kinds = list(itertools.product(BLOCKS, *codes))
        parts = plan_of(strategy).left_by_invariants
        zero = strategy.constraints.zeros
        others = tuple(chance.choice(kinds) for _ in range(3))

        @cache
        def consistent(person: tuple[str, ...], other: tuple[str, ...]) -> bool:
            figures = [published(strategy, (*others, one)) for one in (person, other)]  # noqa: B023
            return figures[0] == figures[1]

        for number, attribute in enumerate(strategy.schema.attributes, start=1):
            can = {}
            for person in kinds:
                others_of = (code for code in codes[number - 1] if code != person[number])
                alternatives = ((*person[:number], code, *person[number + 1 :]) for code in others_of)
                can[person] = any(consistent(person, other) for other in alternatives)
            holding = parts.attributes[attribute.name].holding
            if attribute.size == 1:
                continue  # everybody has it
            if not zero:
                seen.add(holding)
                if holding in (Holding.HOLDS, Holding.INSIDE):
                    assert all(can.values()), (seed, attribute.name)
                elif holding is Holding.FIXED:
                    assert not any(can.values()), (seed, attribute.name)
                else:
                    assert not all(can.values()), (seed, attribute.name, holding)
            elif parts.attributes[attribute.name].claimed:
                assert all(can.values()), (seed, attribute.name)
        for above, level in itertools.pairwise(LEVELS):
            digits = LEVELS.index(above)
            moves = {
                person: all(
                    consistent(person, (block, *person[1:]))
                    for block in BLOCKS
                    if block[:digits] == person[0][:digits] and block[: digits + 1] != person[0][: digits + 1]
                )
                for person in kinds
            }
            holding = parts.places[level].holding
            if holding is Holding.HOLDS:
                assert all(moves.values()), (seed, level)
            elif not zero:
                assert (not any(moves.values())) if holding is Holding.FIXED else not all(moves.values()), (seed, level)
    assert {Holding.HOLDS, Holding.PARTLY, Holding.FIXED} <= seen


def test_a_query_of_the_frame_is_not_promised_to_be_hidden() -> None:
    """Voting age by block, published exactly as in the block table: named as fixed, in no table of what is promised."""
    text = _text(random.Random(0))
    start, end = text.index("[schema]"), text.index("[roots.land]")
    schema = """[schema]
id = "people"
provenance = "Made up for tests."
[schema.attributes.votingage]
title = "Voting age"
levels = [[0, "under 18"], [1, "18 and over"]]
[schema.attributes.race]
title = "Race"
levels = [[0, "a"], [1, "b"]]

"""
    invariant = '[[invariants]]\nname = "vap"\nlevel = "block"\nquery = "votingage"\nframe = ["minors", "adults"]\n'
    rest = text[end : text.index("rounding")] + 'rounding = [["detailed"]]\n\n'
    strategy = parse_strategies(text[:start] + schema + rest + invariant, "own.toml")[0]["land"]
    plan = plan_of(strategy, record="person")
    privacy = privacy_of(plan, DELTA)
    assert set(privacy["by_attribute"]) == {"race"}
    assert privacy["by_move_within"] == {}
    fixed = {"holds": "fixed", "because_of": ["vap"]}
    assert privacy["left_by_invariants"] == {
        "attributes": {"votingage": fixed}, "places": {"county": fixed, "block": fixed},
    }  # fmt: skip
    page = html.unescape(page_of(plan, privacy))
    assert "Voting age (vap): published exactly, not protected" in page
    assert "Block (vap): published exactly, not protected" in page
    assert "they equal the confidential counts" in page
    assert "do not come from the records." in page
    assert "This holds for Race, whatever the data." in page
    assert "Everything one person's record says is protected" not in page
    assert "could not be taken into account" not in page
    assert "Voting age (vap): published exactly, not protected" in " ".join(summary_of_levels(plan, "x").notes)


def test_what_cannot_differ_alone_is_not_claimed_by_itself() -> None:
    """Three counts that leave one value of a for each b: a record that is in none of them changes both, or neither."""
    plan = plan_of(drawn(3))
    told = [{"where": {"a": [x for x in "012" if x != b], "b": [b]}, "column": b} for b in "012"]
    invariant = {"name": "three", "level": "block", "query": "a*b", "frame": list("012")}
    question = {
        "strategy": {"id": "x", "constraints": {"invariants": [invariant], "bounds": [], "zeros": []}},
        "attributes": {"a": "A", "b": "B"}, "told": [{"name": "three", "cells": told}],
        "output": {"codes": {"a": list("012"), "b": list("012")}},
    }  # fmt: skip
    parts = Plan("topdown", plan.neighbours, plan.definition, (), LEVELS, question).left_by_invariants
    assert parts.attributes["a"].holding is Holding.TOGETHER
    assert not parts.attributes["a"].claimed
    assert parts.attributes["b"].holding is Holding.PARTLY, "whoever is counted cannot change b"
    assert parts.places["block"].holding is Holding.PARTLY, "whoever is not counted can move"


def test_what_is_not_worked_out_is_not_claimed() -> None:
    """A plan that does not tell the groups of a recode that it publishes: nothing of it is promised."""
    strategy = drawn(3)
    plan = plan_of(strategy)
    question = dict(plan.question)
    hidden = {"name": "secret", "level": "county", "query": "a:unknown", "frame": ["x"]}
    constraints = {"invariants": [hidden], "bounds": [], "zeros": []}
    question["strategy"] = {**question["strategy"], "constraints": constraints}
    question |= {"bounds": [], "told": []}
    unclear = Plan("topdown", plan.neighbours, plan.definition, plan.measures, plan.spine, question)
    privacy = privacy_of(unclear, DELTA)
    assert privacy["by_attribute"] == {}
    assert set(privacy["by_move_within"]) == {"county"}
    assert {part["holds"] for part in privacy["left_by_invariants"]["attributes"].values()} == {"not-worked-out"}


def test_too_many_kinds_are_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.privacy.invariants.language.MOST_KINDS", 1)
    for seed in range(60):
        plan = plan_of(drawn(seed))
        asked = {name for item in plan.question["told"] for cell in item["cells"] for name in cell["where"]}
        assert not asked & set(privacy_of(plan, DELTA)["by_attribute"])
        if plan.question["told"] and plan.left_by_invariants.answers is None:
            assert privacy_of(plan, DELTA)["by_move_within"] == {}
