"""Published reconstructions of 28 tracts of the 2010 Census, from the tables before and after the 2020 system."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from confide.lab.attacks.reidentification import (
    AttackerSettings,
    make_attacker,
    reidentification_rates,
    with_person_ids,
)

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "recon2010_0solvar"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FOLDER.exists(), reason="../shared/data has no reconstructions of the 2010 Census"),
]


@pytest.fixture(scope="module")
def before():
    return with_person_ids(pq.read_table(FOLDER / "rhdf_bt_0solvar.parquet"))


@pytest.fixture(scope="module")
def after():
    return with_person_ids(pq.read_table(FOLDER / "rmdf_bt_0solvar.parquet"))


def attack(reconstructed, truth):
    return reidentification_rates(reconstructed, make_attacker(truth, AttackerSettings()), truth)


def test_population_uniques(before, after):
    """The shares, and the flags of the file record by record as sums, for both files."""
    for table, share, with_group in ((before, 0.642, 0.654), (after, 0.307, 0.311)):
        rates = attack(table, table)
        assert round(rates.population_unique_share, 3) == share
        assert round(rates.population_unique_share_with_group, 3) == with_group
        unique = sum(table["bsab_unique"].to_pylist())
        assert rates.universe("unique").attacker_records == unique
        assert rates.population_unique_share == unique / len(table)
        assert rates.population_unique_share_with_group == sum(table["bsaber_unique"].to_pylist()) / len(table)


def test_before_against_itself(before):
    """Everything agrees; whoever is unique is found. Among people who share sex and age group some are taken for each
    other."""
    rates = attack(before, before)
    assert rates.agreement_in("all").rate == rates.agreement_in("all").exact_age_rate == 1.0
    assert rates.universe("unique").precision == 1.0
    assert rates.universe("all").putative_rate == 1.0
    assert 0.99 < rates.universe("all").precision < 1.0


def test_after_against_before(before, after):
    """Agreement is a fifth, least in small blocks; about unique people of other groups the attack is as good as a
    guess by shares, though 95 % of all its matches are right."""
    rates = attack(after, before)
    assert rates.truth_records == 63_969
    assert rates.reconstructed_records == 63_953
    assert round(rates.agreement_in("all").rate, 3) == 0.216
    sizes = [rates.agreement_in(f"size:{label}").rate for label in ("1-9", "10-49", "50-99", "100-249", "250-499")]
    assert sizes == sorted(sizes)
    everyone, exposed = rates.universe("all"), rates.universe("unique&nonmodal")
    assert everyone.precision > 0.94
    assert everyone.modal_guesser_precision > everyone.precision
    assert exposed.modal_guesser_confirmed == 0
    spread = (0.2 * 0.8 / exposed.putative) ** 0.5
    assert abs(exposed.precision - exposed.proportional_guesser_precision) < 3 * spread
    # Agreement cannot exceed what the cells allow: the smaller count of each, summed.
    names = ["geocode", "sex", "age_binned", "cenrace", "hispanic"]
    cells = [table.group_by(names).aggregate([([], "count_all")]) for table in (before, after)]
    both = cells[0].join(cells[1], names, join_type="inner", right_suffix="_after").to_pydict()
    most = sum(map(min, both["count_all"], both["count_all_after"]))
    assert rates.agreement_in("all").agree == most
