"""The guessers: the ten-person example, and modes with their ties."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.attacks.reidentification import (
    load_age_bins,
    modal_guesser,
    proportional_guesser,
    proportional_guesser_as_printed,
    proportional_guesser_of_others,
    reidentification_rates,
)
from confide.lab.attacks.reidentification.baselines import ModeFrom, composition
from confide.lab.attacks.reidentification.matching import code


def people(blocks):
    """Records of blocks, each given as geocode: races in a row; every person of a sex and age of their own."""
    rows = [(block, race) for block, races in blocks.items() for race in races]
    number = len(rows)
    return pa.table(
        {
            "person_id": np.arange(number),
            "geocode": [block for block, _ in rows],
            "sex": np.arange(number) % 2 + 1,
            "age": np.arange(number) // 2 % 20,
            "cenrace": [race for _, race in rows],
            "hispanic": [0] * number,
        }
    )


def test_ten_people_nine_and_one():
    """Nine of one group and one of another. The mode is right about 9 of 10. Draws by share: nine people with chance
    0.9 and one with 0.1, that is (9 x 0.9 + 0.1) / 10 = 0.82. From the nine others alone: nine people with chance 8/9
    and one with 0, that is 0.80. The printed 81.1 % is neither; (9 x 8/9 + 1 x 1/9) / 10 = 73/90 rounds to it, and so
    does 0.9^2 + 0.1^3 = 0.811."""
    assert modal_guesser([9, 1]) == Fraction(9, 10)
    assert proportional_guesser([9, 1]) == Fraction(82, 100)
    assert proportional_guesser_of_others([9, 1]) == Fraction(80, 100)
    assert proportional_guesser_as_printed([9, 1]) == Fraction(73, 90)
    assert round(100 * float(proportional_guesser_as_printed([9, 1])), 1) == 81.1
    assert round(100 * float(Fraction(9, 10) ** 2 + Fraction(1, 10) ** 3), 1) == 81.1


def test_ten_people_through_the_whole_attack():
    """The same ten, reconstructed perfectly and known to the attacker: all are matched and confirmed, and the guessers
    reach 90 % and 82 % of the same ten matches; 100 % and 90 % of the nine, 0 % and 10 % of the one."""
    ten = people({"440010001001001": [0] * 9 + [1]})
    rates = reidentification_rates(ten, ten, ten)
    told = {
        name: (
            rates.universe(name).putative,
            rates.universe(name).precision,
            rates.universe(name).modal_guesser_precision,
            rates.universe(name).proportional_guesser_precision,
        )
        for name in ("all", "modal", "nonmodal")
    }
    assert told["all"] == (10, 1.0, 0.9, pytest.approx(0.82, abs=1e-15))
    assert told["modal"] == (9, 1.0, 1.0, pytest.approx(0.9, abs=1e-15))
    assert told["nonmodal"] == (1, 1.0, 0.0, pytest.approx(0.1, abs=1e-15))


counts = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(sum)


@given(counts)
def test_guessers_are_in_order(numbers):
    assert proportional_guesser(numbers) <= modal_guesser(numbers) <= 1
    assert proportional_guesser_of_others(numbers) <= proportional_guesser(numbers)
    number = sum(numbers)
    if number > 1:  # Σn²/N² and Σn(n-1)/N(N-1) tell the same
        assert proportional_guesser(numbers) == (proportional_guesser_of_others(numbers) * (number - 1) + 1) / number


@pytest.mark.parametrize("numbers", [[], [0, 0], [3, -1]])
def test_no_block_is_refused(numbers):
    with pytest.raises(ParameterError):
        modal_guesser(numbers)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=6))
def test_the_proportional_guesser_of_an_attack_is_the_formula(blocks):
    """A perfect reconstruction known to a perfect attacker: expected confirmed is the sum over blocks of n Σp²."""
    table = people({f"4400100010010{place:02d}": races for place, races in enumerate(blocks)})
    row = reidentification_rates(table, table, table).universe("all")
    formula = sum(len(races) * proportional_guesser([races.count(race) for race in range(4)]) for races in blocks)
    assert row.proportional_guesser_expected == pytest.approx(float(formula), rel=1e-12)


def test_where_a_mode_comes_from():
    """Block group 1: block 1001 has a mode of its own, race 2. Block 1002 is a tie of 0 and 1, block 1003 one person of
    race 3: both get the block group's mode, which is 2 (three people; 0, 1 and 3 have one each). Block group 2: block
    2001 is a tie of 4 and 5, and so is the block group: the whole file's mode, 2. Block group 3 is one person of race
    6: the whole file's, too."""
    table = people(
        {
            "440010001001001": [2, 2, 2],
            "440010001001002": [0, 1],
            "440010001001003": [3],
            "440010001002001": [4, 5],
            "440010001003001": [6],
        }
    )
    coding = code(table, table, table, load_age_bins())
    made = composition(coding, coding.truth)
    groups = {int(block): int(group) for block, group in zip(coding.truth.block, coding.truth.group, strict=True)}
    two = groups[0]
    assert made.mode.tolist() == [two] * 5
    assert made.source.tolist() == [
        ModeFrom.BLOCK,
        ModeFrom.BLOCK_GROUP,
        ModeFrom.BLOCK_GROUP,
        ModeFrom.WHOLE,
        ModeFrom.WHOLE,
    ]
    assert made.people.tolist() == [3, 2, 1, 2, 1]
    rates = reidentification_rates(table, table, table)
    assert rates.modes_from == {"block": 1, "block-group": 2, "whole": 2}
    assert rates.universe("modal").attacker_records == 3
    assert rates.universe("nonmodal").attacker_records == 6


def test_block_groups_from_a_column():
    """The second block has one person. By digits it is in a block group with the third and takes the mode of both; by
    the column it is a block group of its own, and takes the whole file's."""
    table = people({"440010001001001": [0, 1, 1], "440010001002001": [0], "440010001002002": [0, 0]})
    split = reidentification_rates(table, table, table)
    assert split.modes_from == {"block": 2, "block-group": 1, "whole": 0}
    named = table.append_column("block_group", pa.array(["a", "a", "a", "b", "c", "c"]))
    assert reidentification_rates(table, table, named).modes_from == {"block": 2, "block-group": 0, "whole": 1}
    fewer = reidentification_rates(table, table, table, block_group_digits=11)
    assert fewer.modes_from == {"block": 2, "block-group": 1, "whole": 0}


def test_guessing_from_the_reconstruction():
    """The reconstruction has the wrong majority: whoever guesses from it is right about one of three, by shares about
    (1 x 2/3 + 2 x 1/3) / 3 = 4/9."""
    truth = people({"440010001001001": [0, 0, 1]})
    wrong = people({"440010001001001": [1, 0, 1]})
    row = reidentification_rates(wrong, truth, truth, guess_from="reconstructed").universe("all")
    assert (row.modal_guesser_confirmed, row.confirmed) == (1, 2)
    assert row.proportional_guesser_expected == pytest.approx(4 / 3)
    assert reidentification_rates(wrong, truth, truth).universe("all").modal_guesser_confirmed == 2
