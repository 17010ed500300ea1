"""The smallest group: the eight cases in four modes, the 2020 set, and brute force over groups and fills."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations_with_replacement

import pytest

from confide.errors import ParameterError
from confide.lab.risk.invariant_sets import load_invariants, parse_invariants
from confide.privacy.invariants import Invariants, Mode, Situation, group_size, record_groups
from confide.privacy.invariants.language import Need

# as printed, permutation product, refill, pairwise
TABLE = {
    "C1": (2, 2, 2, 2),
    "C1 C2": (4, 4, 4, 2),
    "C1 C3": (2, 2, 2, 2),
    "C1 C4": (2, 4, 4, 2),
    "C1 C5": (2, 2, 2, 2),
    "C3 C5": (1, 1, 1, 1),
    "C3 C5-vacant": (1, 1, 1, 1),
    "C1 C3 C5": (2, 2, 2, 2),
    "C1 C2 C3 C4 C5": (8, 8, 4, 2),
    "2020": (2, 2, 2, 2),
}
Signature = tuple[int | None, ...]
ALONE = ("the group quarters of its type in the block have one person each",)


@pytest.mark.parametrize(("names", "sizes"), TABLE.items())
def test_the_cases_in_four_modes(names: str, sizes: tuple[int, ...]) -> None:
    found = record_groups(load_invariants(names.split()))
    assert tuple(found[mode].size for mode in Mode) == sizes
    assert [group.multiplier for group in found.values()] == [2 * size for size in sizes]


@pytest.mark.parametrize("names", ["C1 C5", "C3 C5", "C1 C3 C5", "2020"])
def test_alone_in_group_quarters_it_takes_two(names: str) -> None:
    """Case 6, option 1: 4 epsilon for the only person of a facility; Case 5: still two when the bound binds."""
    for mode, group in record_groups(load_invariants(names.split())).items():
        assert dict(group.exceptions)[ALONE] == 2, mode
        assert group.as_dict()["exceptions"][0]["multiplier"] == 4


def test_if_vacant_quarters_are_counted_nobody_is_an_exception() -> None:
    assert all(not group.exceptions for group in record_groups(load_invariants(["C3", "C5-vacant"])).values())


def test_order_of_names_and_repetition_do_not_matter() -> None:
    one, other = (
        record_groups(load_invariants(["C1", "C2", "C4"])),
        record_groups(load_invariants(["C4", "C2", "C1", "C2"])),
    )
    assert {mode: group.size for mode, group in one.items()} == {mode: group.size for mode, group in other.items()}


def two_margins(*wheres: dict[str, list[str]]) -> Invariants:
    levels = {name: {"levels": ["yes", "no"]} for name in ("a", "b", "c")}
    counts = [{"by": "block", "where": where} for where in ({}, *wheres)]
    return parse_invariants({"id": "t", "attributes": levels, "counts": counts}, "t.toml")


def smallest(invariants: Invariants, *, pairwise: bool, at_most: int = 8) -> int:
    """Every group and every fill, smallest first, in plain Python: two blocks, A in the first."""
    world = invariants.world
    patterns = dict.fromkeys(world.counted[kind] for kind in world.kinds)
    signatures = list(dict.fromkeys(tuple(b if part else None for part in p) for b in (0, 1) for p in patterns))

    def totals(records: Iterable[Signature]) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((n, unit) for record in records for n, unit in enumerate(record) if unit is not None))

    def smallest_for(wanted: Iterable[Signature]) -> int:
        for size in range(1, at_most + 1):
            others = list(combinations_with_replacement(signatures, size - 1))
            filled = [{totals((target, *fill)) for fill in others} for target in wanted]
            if any(all(totals((signatures[0], *rest)) in found for found in filled) for rest in others):
                return size
        raise AssertionError("no group is small enough")

    return max(smallest_for([target]) for target in signatures) if pairwise else smallest_for(signatures)


@pytest.mark.parametrize(
    "wheres",
    [
        (),
        ({"a": ["yes"]},),
        ({"a": ["yes"]}, {"a": ["yes"], "b": ["yes"]}),
        ({"a": ["yes"]}, {"b": ["yes"]}),
    ],
)
def test_refill_and_pairwise_against_brute_force(wheres: tuple[dict[str, list[str]], ...]) -> None:
    invariants = two_margins(*wheres)
    first = Situation(invariants.world.kinds[0])
    assert group_size(invariants, Mode.REFILL, first) == smallest(invariants, pairwise=False)
    assert group_size(invariants, Mode.PAIRWISE, first) == smallest(invariants, pairwise=True)


def test_separate_margins_need_four_and_a_cross_table_eight() -> None:
    """Case 8 in small: with margins apart the gap can be filled otherwise; with their cross table only permuted."""
    apart = two_margins({"a": ["yes"]}, {"b": ["yes"]})
    crossed = two_margins({"a": ["yes"]}, {"b": ["yes"]}, {"a": ["yes"], "b": ["yes"]})
    for invariants, size in ((apart, 4), (crossed, 8)):
        found = record_groups(invariants)
        assert (found[Mode.REFILL].size, found[Mode.PRODUCT].size) == (size, 8)


def test_people_who_are_not_counted_need_no_block() -> None:
    """Only adults are counted: a minor's block is open, so three signatures are all there are."""
    levels = {"adult": {"levels": ["yes", "no"]}}
    count = {"by": "block", "where": {"adult": ["yes"]}}
    invariants = parse_invariants({"id": "t", "attributes": levels, "counts": [count]}, "t.toml")
    assert record_groups(invariants)[Mode.PRODUCT].size == 3


def test_bundles_end_where_a_personal_attribute_is_counted() -> None:
    """The rule behind the printed values: place and residence go together until something else is counted too."""
    printed = {
        names: record_groups(load_invariants(names.split()))[Mode.PRINTED].size for names in ("C1 C4", "C1 C2 C4")
    }
    assert printed == {"C1 C4": 2, "C1 C2 C4": 8}


def test_a_bound_that_binds_can_make_the_fill_harder() -> None:
    """All five invariants: the only person of a prison for adults needs five, not four."""
    refill = record_groups(load_invariants(["C1", "C2", "C3", "C4", "C5"]))[Mode.REFILL]
    assert (refill.size, dict(refill.exceptions)[ALONE]) == (4, 5)


def test_of_those_in_one_situation_the_one_who_needs_most_is_stated() -> None:
    """Blocks count people, the country counts adults, and no prison or home may be left empty. Who is alone in a home
    changes places with somebody of the other age elsewhere, and either of the two can be in the home after that. Who is
    alone in a prison for adults is a minor of the block only if another adult of it is in the prison: a third person.
    """
    invariants = parse_invariants(
        {
            "id": "t",
            "attributes": {"lives": {"levels": ["house", "prison", "home"]}, "age": {"levels": ["adult", "minor"]}},
            "counts": [{"by": "block"}, {"by": "all", "where": {"age": ["adult"]}}],
            "bounds": [
                {"by": "block", "attribute": "lives", "units": {"prison": "prisons", "home": "homes"}}
                | {"at_least": 1, "when_least": "one each"}
            ],
            "never": [{"where": {"lives": ["prison"], "age": ["minor"]}}],
        },
        "t.toml",
    )
    alone = [(kind, n) for kind in invariants.world.kinds for n in (0, 1) if invariants.world.bound[kind][n]]
    situations = [Situation(kind, frozenset({Need(bound, leaves=True)})) for kind, bound in alone]
    assert sorted(group_size(invariants, Mode.REFILL, situation) for situation in situations) == [2, 2, 3]
    assert record_groups(invariants)[Mode.REFILL].exceptions == ((("one each",), 3),)


def test_nobody_can_be_taken_from_a_group_that_is_empty() -> None:
    """In a block without occupied units no householder can be in the group: three signatures instead of four."""
    invariants = load_invariants(["C1", "C4"])
    world = invariants.world
    quarters = next(kind for kind in world.kinds if not world.bound[kind][0])
    assert group_size(invariants, Mode.PRODUCT, Situation(quarters, frozenset({Need(0, leaves=False)}))) == 3


def test_many_signatures_are_permuted_and_not_solved_for() -> None:
    levels = {"a": {"levels": [str(n) for n in range(40)]}}
    counts = [{"by": "block", "where": {"a": [str(n)]}} for n in range(40)]
    found = record_groups(parse_invariants({"id": "t", "attributes": levels, "counts": counts}, "t.toml"))
    assert found[Mode.REFILL].size == found[Mode.PRODUCT].size == 80


def test_too_many_kinds_are_refused() -> None:
    levels = {name: {"levels": [str(n) for n in range(40)]} for name in "ab"}
    counts = [{"by": "block", "where": {name: [str(n)]}} for n in range(40) for name in "ab"]
    invariants = parse_invariants({"id": "t", "attributes": levels, "counts": counts}, "t.toml")
    with pytest.raises(ParameterError, match="too many kinds"):
        record_groups(invariants)
