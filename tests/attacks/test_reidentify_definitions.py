"""Every definition on people made by hand, and the whole attack against a slow one written from the definitions."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest

from confide.errors import ParameterError
from confide.lab.attacks.reidentification import load_age_bins, reidentification_rates, reidentify

A, B, C = "440010001001001", "440010001001002", "440010001002001"
TRUTH = ("person_id", "geocode", "sex", "age", "cenrace", "hispanic")
OURS = TRUTH[1:]
KNOWN = TRUTH[:4]


def table(names, rows):
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def test_agreement():
    """Four people. The reconstruction has the first as is; the second with the age 33 for 31, which is the same group;
    the third with another race; the fourth in another block. Two of four agree, one with the exact age."""
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 1, 31, 0, 0), (3, A, 2, 50, 1, 0), (4, A, 2, 60, 0, 1)])
    ours = table(OURS, [(A, 1, 30, 0, 0), (A, 1, 33, 0, 0), (A, 2, 50, 0, 0), (B, 2, 60, 0, 1)])
    row = reidentification_rates(ours, truth, truth).agreement_in("all")
    assert (row.records, row.agree, row.agree_on_exact_age) == (4, 2, 1)
    assert (row.rate, row.exact_age_rate) == (0.5, 0.25)


def test_agreement_divides_by_all_people():
    """Of two people one is reconstructed, rightly: a half, not all."""
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 1, 70, 0, 0)])
    assert reidentification_rates(truth.slice(0, 1), truth, truth).agreement_in("all").rate == 0.5


def test_agreement_needs_ethnicity():
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0)])
    assert reidentification_rates(table(OURS, [(A, 1, 30, 0, 1)]), truth, truth).agreement_in("all").rate == 0.0


def test_agreement_is_without_replacement():
    """Three reconstructed records are like the one person there is: one agrees."""
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 2, 30, 0, 0)])
    rates = reidentification_rates(table(OURS, [(A, 1, 30, 0, 0)] * 3), truth, truth)
    assert rates.agreement_in("all").agree == 1
    assert rates.universe("all").putative == 1


def test_putative_confirmed_precision():
    """The attacker knows five people, one of them (9) whom the truth does not have in block A. The reconstruction has
    the right sex and age for 1, 2, 3 and 9, and not for 4. Putative: 4 of 5. Race and ethnicity are right for 1 and 2,
    wrong for 3; 9 is not there. Confirmed: 2 of 5. Precision: 2 of 4. Person 2 is matched in the group 30-34 only, so
    that with exact ages there are three putative and one confirmed."""
    truth = table(
        TRUTH,
        [(1, A, 1, 20, 0, 0), (2, A, 1, 31, 0, 0), (3, A, 2, 50, 1, 0), (4, A, 2, 60, 0, 0), (5, A, 1, 70, 0, 0)],
    )
    known = table(KNOWN, [(1, A, 1, 20), (2, A, 1, 31), (3, A, 2, 50), (4, A, 2, 60), (9, A, 1, 70)])
    ours = table(OURS, [(A, 1, 20, 0, 0), (A, 1, 33, 0, 0), (A, 2, 50, 0, 0), (A, 2, 3, 0, 0), (A, 1, 70, 0, 0)])
    rates = reidentification_rates(ours, known, truth)
    row = rates.universe("all")
    assert (row.divided_by, row.putative, row.confirmed) == (5, 4, 2)
    assert (row.putative_rate, row.confirmed_rate, row.precision) == (0.8, 0.4, 0.5)
    assert (row.exact_age_putative, row.exact_age_confirmed) == (3, 1)
    # Of the four putative, persons 1, 2 and 3 are there; the mode 0 is right about 1 and 2, the shares are 4/5 and 1/5.
    assert row.modal_guesser_confirmed == 2
    assert row.proportional_guesser_expected == pytest.approx(4 / 5 + 4 / 5 + 1 / 5)
    gone = rates.universe("not-there")
    assert (gone.attacker_records, gone.putative, gone.confirmed) == (1, 1, 0)


@pytest.mark.parametrize(
    ("known", "confirmed"),
    [
        ((1, A, 1, 30), 1),
        ((1, A, 1, 34), 1),
        ((1, A, 1, 35), 0),
        ((1, A, 2, 30), 0),
        ((1, B, 1, 30), 0),
        ((2, A, 1, 30), 0),
    ],
)
def test_confirmed_is_about_person_block_sex_and_age(known, confirmed):
    """One person, 30; reconstructed as whatever the attacker believes, with the right race. It is confirmed if the
    attacker's age is in the same group, and not if the age, the sex, the block or the person is wrong."""
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0)])
    row = reidentification_rates(table(OURS, [(*known[1:], 0, 0)]), table(KNOWN, [known]), truth).universe("all")
    assert (row.putative, row.confirmed) == (1, confirmed)
    assert row.exact_age_confirmed == (1 if known == (1, A, 1, 30) else 0)


def test_race_or_ethnicity_wrong_is_not_confirmed():
    truth = table(TRUTH, [(1, A, 1, 30, 3, 1)])
    for group, right in (((3, 1), 1), ((3, 0), 0), ((2, 1), 0)):
        row = reidentification_rates(table(OURS, [(A, 1, 30, *group)]), truth, truth).universe("all")
        assert (row.putative, row.confirmed) == (1, right)


def test_exact_age_first():
    """Two people of one group, 30 and 34, of different races. The reconstruction lists 34 before 30. By groups alone
    they could be crossed; by years first each meets their own, whatever the seed."""
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 1, 34, 1, 0)])
    ours = table(OURS, [(A, 1, 34, 1, 0), (A, 1, 30, 0, 0)])
    for seed in range(20):
        assert reidentification_rates(ours, truth, truth, seed=seed).universe("all").confirmed == 2
    binned = table(("geocode", "sex", "age_bin", "cenrace", "hispanic"), [(A, 1, "30-34", 1, 0), (A, 1, "30-34", 0, 0)])
    crossed = {reidentification_rates(binned, truth, truth, seed=seed).universe("all").confirmed for seed in range(20)}
    assert crossed == {0, 2}


def test_data_defined():
    """The truth has six records: 1 once, 2 twice in one block, 3 in two blocks, one without an id. Data-defined are one
    record for each person and block: 1, 2, 3 in A, 3 in B. The attacker's file, the same, loses two records."""
    truth = pa.table(
        {
            "person_id": pa.array([1, 2, 2, 3, 3, None]),
            "geocode": [A, A, A, A, B, B],
            "sex": [1, 2, 2, 1, 1, 2],
            "age": [5, 6, 6, 7, 7, 8],
            "cenrace": [0] * 6,
            "hispanic": [0] * 6,
        }
    )
    rates = reidentification_rates(truth, truth, truth)
    assert (rates.data_defined_persons, rates.attacker_records, rates.attacker_left_out) == (4, 4, 2)
    assert (rates.universe("all").putative, rates.universe("all").confirmed) == (4, 4)
    assert rates.agreement_in("all").records == 6


def test_rates_over_persons_of_the_truth():
    """The attacker knows one of four people: 100 % of what they know, 25 % of the people."""
    truth = table(TRUTH, [(n, A, 1, 10 * n, 0, 0) for n in range(1, 5)])
    one = truth.slice(0, 1)
    assert reidentification_rates(truth, one, truth).universe("all").confirmed_rate == 1.0
    assert reidentification_rates(truth, one, truth, divide_by="data-defined").universe("all").confirmed_rate == 0.25


def test_population_unique():
    """In A two women of 30 and 34 are of one group, 30-34, and not unique; a man of 30 and a woman of 35 are, and so is
    the woman of 30 in B: 3 of 5. With race the two women differ and all five are unique."""
    truth = table(
        TRUTH,
        [(1, A, 2, 30, 0, 0), (2, A, 2, 34, 1, 0), (3, A, 1, 30, 0, 0), (4, A, 2, 35, 0, 0), (5, B, 2, 30, 0, 0)],
    )
    rates = reidentification_rates(truth, truth, truth)
    assert rates.population_unique_share == 0.6
    assert rates.population_unique_share_with_group == 1.0
    assert rates.universe("unique").attacker_records == 3
    coarse = reidentification_rates(truth, truth, truth, age_bins="0,18")
    assert coarse.universe("unique").attacker_records == 2


def test_uniques_of_an_attacker_with_errors():
    """The truth has a man of 20 and a man of 40 in A. The attacker has the first as he is and the second as 21, which
    is nobody's age there: that record is not in the universe of uniques."""
    truth = table(TRUTH, [(1, A, 1, 20, 0, 0), (2, A, 1, 40, 0, 0)])
    known = table(KNOWN, [(1, A, 1, 20), (2, A, 1, 21)])
    row = reidentification_rates(truth, known, truth).universe("unique")
    assert (row.attacker_records, row.data_defined_persons, row.putative) == (1, 2, 1)


def test_modal_and_unique_crossed():
    """Block A: races 0 0 1, mode 0. The person of race 1 is alone in their age group, the other two share one."""
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 1, 31, 0, 0), (3, A, 1, 60, 1, 0)])
    rates = reidentification_rates(truth, truth, truth)
    numbers = {
        name: rates.universe(name).attacker_records
        for name in ("modal", "nonmodal", "unique", "unique&modal", "unique&nonmodal", "not-there")
    }
    assert numbers == {"modal": 2, "nonmodal": 1, "unique": 1, "unique&modal": 0, "unique&nonmodal": 1, "not-there": 0}
    # Ethnicity is half of the group: the same race and another ethnicity is not modal.
    mixed = table(TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 1, 31, 0, 0), (3, A, 1, 60, 0, 1)])
    assert reidentification_rates(mixed, mixed, mixed).universe("nonmodal").attacker_records == 1


def test_block_sizes():
    """Blocks of 9, 10, 49, 50, 99, 100, 249, 250, 499, 500, 999 and 1000 people, at the edges of the classes."""
    sizes = [9, 10, 49, 50, 99, 100, 249, 250, 499, 500, 999, 1000]
    block = np.repeat([f"4400100010010{place:02d}" for place in range(len(sizes))], sizes)
    number = len(block)
    truth = pa.table(
        {
            "person_id": np.arange(number),
            "geocode": block,
            "sex": [1] * number,
            "age": np.arange(number) % 90,
            "cenrace": [0] * number,
            "hispanic": [0] * number,
        }
    )
    rates = reidentification_rates(truth, truth, truth)
    told = {row.universe: row.records for row in rates.agreement if row.universe.startswith("size:")}
    assert told == {
        "size:1-9": 9,
        "size:10-49": 59,
        "size:50-99": 149,
        "size:100-249": 349,
        "size:250-499": 749,
        "size:500-999": 1499,
        "size:1000+": 1000,
    }
    assert sum(rates.universe(name).putative for name in told) == rates.universe("all").putative == number


def without_numbers(ours):
    """The column is there, and says nothing."""
    place = ours.column_names.index("solution_variability")
    return ours.set_column(place, "solution_variability", pa.nulls(len(ours), pa.float64()))


def test_solution_variability():
    """A is certain (0), B is not (12.5), C has no reconstructed record: one block of three, with two people. In it the
    person of race 1 is unique; a tie, so the mode is the block group's, which B decides: 0."""
    truth = table(
        TRUTH, [(1, A, 1, 30, 0, 0), (2, A, 2, 30, 1, 0), (3, B, 1, 5, 0, 0), (4, B, 1, 6, 0, 0), (5, C, 1, 7, 0, 0)]
    )
    names = (*OURS, "solution_variability")
    ours = table(names, [(A, 1, 30, 0, 0, 0.0), (A, 2, 30, 1, 0, 0.0), (B, 1, 5, 0, 0, 12.5), (B, 1, 6, 0, 0, 12.5)])
    rates = reidentification_rates(ours, truth, truth)
    assert rates.universe("solvar0").attacker_records == 2
    assert rates.universe("unique&nonmodal&solvar0").attacker_records == 1
    assert rates.agreement_in("solvar0").rate == 1.0
    without = reidentification_rates(ours.drop_columns(["solution_variability"]), truth, truth)
    assert not without.has("solvar0")
    empty = without_numbers(ours)
    assert not reidentification_rates(empty, truth, truth).has("solvar0")
    with pytest.raises(ParameterError, match="solution_variability"):
        without.universe("solvar0")


def made_up(rng, number):
    blocks = [f"44001{t:06d}{g}{b:03d}" for t in range(2) for g in (1, 2) for b in range(3)]
    return pa.table(
        {
            "person_id": np.arange(number),
            "geocode": rng.choice(blocks, number),
            "sex": rng.integers(1, 3, number),
            "age": rng.integers(15, 40, number),
            "cenrace": rng.choice([0, 0, 0, 1, 2], number),
            "hispanic": rng.integers(0, 2, number),
        }
    )


def slow(ours, known, truth, seed):
    """Putative, confirmed, modal and proportional by universe, record by record, from the definitions."""
    bins = load_age_bins()
    group = lambda row: int(bins.of(np.array([row["age"]]))[0])  # noqa: E731
    ours, known, truth = ours.to_pylist(), known.to_pylist(), truth.to_pylist()
    uniform = [
        np.random.default_rng(s).random(len(rows))
        for s, rows in zip(np.random.SeedSequence(seed).spawn(3), (ours, known, truth), strict=True)
    ]
    left = sorted(range(len(ours)), key=lambda row: uniform[0][row])
    right = sorted(range(len(known)), key=lambda row: uniform[1][row])
    pairs = []
    for age in (lambda row: row["age"], group):
        for row in list(left):
            for other in right:
                a, b = ours[row], known[other]
                if (a["geocode"], a["sex"], age(a)) == (b["geocode"], b["sex"], age(b)):
                    pairs.append((row, other))
                    left.remove(row)
                    right.remove(other)
                    break
    races = {}
    for row in truth:
        for unit in (row["geocode"], row["geocode"][:12], ""):
            races.setdefault(unit, Counter())[(row["cenrace"], row["hispanic"])] += 1

    def mode(block):
        for unit in (block, block[:12]):
            first = races[unit].most_common(2)
            if races[unit].total() > 1 and (len(first) == 1 or first[0][1] > first[1][1]):
                return first[0][0]
        return races[""].most_common(1)[0][0]

    cells = Counter((row["geocode"], row["sex"], group(row)) for row in truth)
    person = {(row["person_id"], row["geocode"]): row for row in truth}
    found = Counter()
    for row, other in pairs:
        a, b = ours[row], known[other]
        true = person.get((b["person_id"], b["geocode"]))
        there = true is not None and (true["sex"], group(true)) == (b["sex"], group(b))
        names = ["all"]
        unique = cells[(b["geocode"], b["sex"], group(b))] == 1
        if true is not None:
            own = (true["cenrace"], true["hispanic"])
            kind = "modal" if own == mode(b["geocode"]) else "nonmodal"
            names += [kind] + ([f"unique&{kind}"] if unique else [])
        names += ["unique"] if unique else []
        for name in names:
            found[name, "putative"] += 1
            if there:
                found[name, "confirmed"] += own == (a["cenrace"], a["hispanic"])
                found[name, "modal"] += own == mode(b["geocode"])
                found[name, "proportional"] += races[b["geocode"]][own] / races[b["geocode"]].total()
    return found


@pytest.mark.parametrize("seed", range(6))
def test_against_the_slow_attack(seed):
    """With errors everywhere: a reconstruction of other ages and races, an attacker with wrong sexes and blocks."""
    rng = np.random.default_rng(seed)
    truth = made_up(rng, 150)
    change = lambda column, value, share: np.where(rng.random(150) < share, value, column)  # noqa: E731
    ours = pa.table(
        {
            "geocode": truth["geocode"],
            "sex": truth["sex"],
            "age": change(truth["age"].to_numpy(), rng.integers(15, 40, 150), 0.3),
            "cenrace": change(truth["cenrace"].to_numpy(), 0, 0.3),
            "hispanic": truth["hispanic"],
        }
    )
    known = pa.table(
        {
            "person_id": truth["person_id"],
            "geocode": change(np.array(truth["geocode"].to_pylist()), truth["geocode"][0].as_py(), 0.1),
            "sex": change(truth["sex"].to_numpy(), 1, 0.1),
            "age": truth["age"],
        }
    )
    expected = slow(ours, known, truth, seed)
    rates = reidentification_rates(ours, known, truth, seed=seed)
    for name in ("all", "unique", "modal", "nonmodal", "unique&modal", "unique&nonmodal"):
        row = rates.universe(name)
        assert row.putative == expected[name, "putative"] > 0, name
        assert row.confirmed == expected[name, "confirmed"], name
        assert row.modal_guesser_confirmed == expected[name, "modal"], name
        assert row.proportional_guesser_expected == pytest.approx(expected[name, "proportional"]), name


def test_seeds_reproduce_and_numbers_of_matches_do_not_depend_on_them():
    truth = made_up(np.random.default_rng(3), 400)
    ours = pa.table(
        {name: truth[name] if name != "age" else pa.array(truth["age"].to_numpy() // 5 * 5) for name in OURS}
    )
    first, again = (reidentification_rates(ours, truth, truth, seed=1).as_dict() for _ in range(2))
    assert first == again
    others = [reidentification_rates(ours, truth, truth, seed=seed) for seed in range(2, 8)]
    assert {rates.universe("all").putative for rates in others} == {first["reidentification"]["all"]["putative"]}
    assert {rates.agreement_in("all").agree for rates in others} == {first["agreement"]["all"]["agree"]}
    assert len({rates.universe("all").confirmed for rates in others}) > 1


def test_nothing_confidential_is_shown():
    truth = table(TRUTH, [(987654, A, 1, 30, 0, 0)])
    found = reidentify(truth, truth, truth)
    assert "987654" not in repr(found)
    assert A not in repr(found)
    assert repr(found.matches()) == "<confidential>"
    (row,) = found.matches().reveal("a test").to_pylist()
    assert row == {
        "reconstructed_row": 1,
        "attacker_row": 1,
        "person_id": 987654,
        "geocode": A,
        "sex": 1,
        "age": 30,
        "age_matched": "year",
        "cenrace": 0,
        "hispanic": 0,
        "confirmed": True,
    }


def test_an_empty_reconstruction_finds_nobody():
    truth = table(TRUTH, [(1, A, 1, 30, 0, 0)])
    rates = reidentification_rates(truth.slice(0, 0), truth, truth)
    row = rates.universe("all")
    assert (row.putative_rate, row.confirmed_rate, row.precision) == (0.0, 0.0, None)
    with pytest.raises(ParameterError, match="no records"):
        reidentification_rates(truth, truth, truth.slice(0, 0))


def test_ages_across_groups_match_nobody_and_are_counted():
    """30-36 lies in two of the 38 groups. With groups from 30 and from 40 it lies in one, and matches."""
    truth = table(TRUTH, [(1, A, 1, 33, 0, 0)])
    ours = table(("geocode", "sex", "age_bin", "cenrace", "hispanic"), [(A, 1, "30-36", 0, 0)])
    rates = reidentification_rates(ours, truth, truth)
    assert (rates.ages_in_no_group, rates.universe("all").putative) == (1, 0)
    wider = reidentification_rates(ours, truth, truth, age_bins="0,30,40")
    assert (wider.ages_in_no_group, wider.universe("all").confirmed) == (0, 1)


def test_a_hundred_thousand_people_take_seconds():
    """0.6 s when measured alone; the bound leaves room for a busy machine."""
    rng = np.random.default_rng(1)
    number = 100_000
    blocks = np.array([f"44001{b // 100:06d}{b % 100 // 25 + 1}{b % 25:03d}" for b in range(3_000)])
    truth = pa.table(
        {
            "person_id": np.arange(number),
            "geocode": blocks[rng.integers(0, 3_000, number)],
            "sex": rng.integers(1, 3, number),
            "age": rng.integers(0, 100, number),
            "cenrace": rng.choice([0, 0, 0, 1, 2], number),
            "hispanic": rng.integers(0, 2, number),
        }
    )
    began = perf_counter()
    rates = reidentification_rates(truth, truth, truth)
    assert perf_counter() - began < 10
    assert rates.universe("unique").precision == rates.agreement_in("all").rate == 1.0
