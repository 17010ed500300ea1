"""Age groups as data, and what is known of an age that is not exact."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from confide.errors import InputError, ParameterError
from confide.lab.attacks.reidentification import load_age_bins
from confide.lab.attacks.reidentification.matching import code
from confide.lab.attacks.reidentification.people_files import OLDEST, range_of_label


def test_the_38_groups_of_block_tables():
    """Single years 0 to 21 are 22 groups; 22-24, seven of five years to 59, 60-61, 62-64, 65-66, 67-69, three of five
    years to 84, and 85 and over: 16 more."""
    bins = load_age_bins()
    assert len(bins) == 38
    assert bins.labels[:22] == tuple(map(str, range(22)))
    assert " ".join(bins.labels[22:]) == (
        "22-24 25-29 30-34 35-39 40-44 45-49 50-54 55-59 60-61 62-64 65-66 67-69 70-74 75-79 80-84 85+"
    )
    assert len(load_age_bins("sf1-p12")) == 23
    edges = np.array([-1, 0, 21, 22, 24, 25, 61, 62, 84, 85, 115])
    assert bins.of(edges).tolist() == [-1, 0, 21, 22, 22, 23, 30, 31, 36, 37, 37]


def test_every_label_reads_back():
    for bins in (load_age_bins(), load_age_bins("sf1-p12"), load_age_bins("0,18,65"), load_age_bins([0, 5])):
        for place, label in enumerate(bins.labels):
            low, high = range_of_label(label)
            assert bins.of_ranges(np.array([low]), np.array([high])).tolist() == [place]


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("45 - 49", (45, 49)),
        ("45–49", (45, 49)),
        ("60 to 61", (60, 61)),
        ("85 and over", (85, OLDEST)),
        ("4", (4, 4)),
        ("9-5", None),
        ("", None),
        ("old", None),
        ("-1", None),
    ],
)
def test_labels(label, found):
    assert range_of_label(label) == found


@pytest.mark.parametrize("name", ["sf1", "0,x", "5,10", "0,10,10", "0,300", ""])
def test_other_groups_are_refused(name):
    with pytest.raises(ParameterError):
        load_age_bins(name)


def _table(**columns):
    number = len(next(iter(columns.values())))
    return pa.table(
        {"geocode": ["a"] * number, "sex": [1] * number, "cenrace": [0] * number, "hispanic": [0] * number} | columns
    )


PERSON = pa.table({"person_id": [1], "geocode": ["a"], "sex": [1], "age": [30], "cenrace": [0], "hispanic": [0]})


def test_an_age_may_be_a_year_a_range_or_a_label():
    """A year wins over a range, a range over a label. One year is exact. 30-34 is one of the 38 groups, 30-36 lies in
    two and is in none, an open range from 85 is 85+, one from 80 is in two."""
    table = _table(
        age=pa.array([31, None, None, None, None, None, None, None]),
        age_low=pa.array([20, 7, 30, 30, 85, 80, None, None]),
        age_high=pa.array([29, 7, 34, 36, None, None, None, None]),
        age_bin=["old", "old", "4", "4", "4", "4", "22 - 24", None],
    )
    coding = code(table, PERSON, PERSON, load_age_bins())
    assert coding.reconstructed.age.tolist() == [31, 7, -1, -1, -1, -1, -1, -1]
    labels = load_age_bins().labels
    told = [labels[place] if place >= 0 else None for place in coding.reconstructed.bin]
    assert told == ["30-34", "7", "30-34", None, "85+", None, "22-24", None]


def test_codes_are_the_same_however_they_are_written():
    ours = pa.table(
        {
            "geocode": pa.array(["a"]).dictionary_encode(),
            "sex": ["01"],
            "age": [30.0],
            "cenrace": [0.0],
            "hispanic": ["00"],
        }
    )
    coding = code(ours, PERSON, PERSON, load_age_bins())
    for name in ("block", "known", "age", "bin", "group"):
        assert getattr(coding.reconstructed, name).tolist() == getattr(coding.truth, name).tolist(), name


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"geocode": [1]}, "geocodes are not text"),
        ({"age": [-7]}, "an age is out of range"),
        ({"age": [201]}, "an age is out of range"),
        ({"age": [1.5]}, "not a whole number"),
        ({"sex": pa.array([None], pa.int64())}, "lacks a value"),
    ],
)
def test_a_truth_that_is_wrong_is_refused_without_showing_it(changed, words):
    wrong = pa.table({name: changed.get(name, PERSON.column(name)) for name in PERSON.column_names})
    with pytest.raises(InputError, match=words) as error:
        code(PERSON, PERSON, wrong, load_age_bins())
    assert all(text not in str(error.value) for text in ("201", "-7", "1.5"))


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match="cenrace"):
        code(PERSON.drop_columns(["cenrace"]), PERSON, PERSON, load_age_bins())
