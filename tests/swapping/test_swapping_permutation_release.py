"""A release of permuted households: what it states, what it leaves out, and what ``verify`` and the audit find."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import failed, rehash
from tests.kits.swapping import KEY, TARGETED, block_table, release_of, town, tree, write_project
from typer.testing import CliRunner

import confide
from confide import api, drafting
from confide.cli.main import app
from confide.errors import ConfideError, ParameterError
from confide.mechanisms.swapping import swap, swap_records, swap_settings
from confide.mechanisms.swapping.core import PublishedHouseholds
from confide.mechanisms.swapping.output import plain_records
from confide.noise import ReleaseKey
from confide.privacy.conversion import exchange_epsilon, exchange_odds

PERMUTED = 'variant = "permutation"\nrate = "1/5"\nmatch = ["size", "adults"]\nwithin = "county"\nlargest_stratum = 200'


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of(tmp_path_factory.mktemp("permuted"), swapping=PERMUTED)


@pytest.fixture
def release(sealed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed, tmp_path / "release"))


def manifest_of(release: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((release / "manifest.json").read_text())
    return values


def records_of(release: Path) -> pa.Table:
    (path,) = (release / "microdata").glob("persons*.parquet")
    return pq.read_table(path)


def text_of(page: Path) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.read_text()))


# --- what is stated ------------------------------------------------------------------------------------------------


def test_the_manifest_states_the_loss_its_invariants_and_that_nothing_is_charged(sealed: Path) -> None:
    manifest = manifest_of(sealed)
    stated = manifest["privacy"]["subject_to_invariants"]
    assert manifest["privacy"]["loss"] is None
    assert (stated["definition"], stated["charged"]) == ("pure", False)
    assert Fraction(stated["epsilon"]) == exchange_epsilon(200, "1/5")
    assert Fraction(stated["odds"]) == exchange_odds(200, "1/5")
    assert stated["neighbours"] == "two households of one stratum, each in the place of the other"
    assert len(stated["invariants"]) == 3
    assert manifest["plan"]["question"]["swapping"]["settings"]["rate"] == "1/5"


def test_the_statement_says_what_is_promised_and_what_is_not(sealed: Path) -> None:
    page = text_of(sealed / "statement.html")
    epsilon = f"{float(exchange_epsilon(200, '1/5', 4)):.4f}"
    for words in (
        f"pure differential privacy with epsilon = {epsilon} for one exchange of places",
        "It protects where a household lives, among the places of its stratum",
        "households with the same size and number of people aged 18 or more in one county",
        "It promises nothing about the invariants themselves",
        "A household that is alone in its stratum can be seen where it lives",
        "It is not a promise for a person who takes part or not",
        "Every further permutation of the same records with the same strata adds its own epsilon",
        "The number of households in every block, by what their stratum has in common.",
        "Everyone who does not live in a household, with everything recorded about them, in their block.",
        "selected with a probability of 0.2",
        "at most 200",
    ):
        assert words in page, words
    assert "No differential privacy is promised" not in page
    assert "So are the swap rate" not in page


def test_invariants_of_the_release_are_those_of_the_records(sealed: Path) -> None:
    """From the files alone, without the code of the swap: the margins that the loss is subject to."""

    def households(table: pa.Table, household: str, county: Callable[[dict[str, Any]], str]) -> tuple[Any, Any, Any]:
        members: dict[Any, list[dict[str, Any]]] = {}
        outside = Counter[Any]()
        for row in table.to_pylist():
            content = (row["sex"], row["age"], row["race"], row["tenure"], row["hhgq"])
            if row["hhgq"] == 0:
                members.setdefault(row[household], []).append(row | {"content": content})
            else:
                outside[row["geocode"], content] += 1
        kind = Counter((of[0]["geocode"], len(of), sum(row["age"] >= 18 for row in of)) for of in members.values())
        whole = Counter((county(of[0]), tuple(sorted(row["content"] for row in of))) for of in members.values())
        return kind, whole, outside

    before = households(town(), "household_id", lambda row: row["geocode"][:2])
    after = households(records_of(sealed), "household", lambda row: row["county"])
    assert before == after
    moved = json.loads((sealed.parent / "confidential/measured/swap-confidential.json").read_text())["moved"]
    assert 50 <= moved <= 110


def test_a_run_in_which_nobody_moved_is_released_like_any_other(tmp_path: Path) -> None:
    """Whoever could tell from a release that somebody moved could tell the truth from it."""
    release = release_of(tmp_path, swapping=PERMUTED.replace("1/5", "1/1000000000000"))
    assert json.loads((release.parent / "confidential/measured/swap-confidential.json").read_text())["moved"] == 0
    assert failed(release) == []


def test_how_many_moved_is_nowhere_in_the_release(sealed: Path) -> None:
    script = (Path(confide.__file__).parent / "data/studio/explore.js").read_bytes().strip()
    page = (sealed / "explore.html").read_bytes()
    assert script in page
    public = b"".join(tree(sealed).values()).replace(page, page.replace(script, b""))
    tally = json.loads((sealed.parent / "confidential/measured/swap-confidential.json").read_text())
    for word in (b"moved", b"wanted", b"by_stage", tally["people"].encode()):
        assert word not in b"".join(line for line in public.split(b"\n") if b"<" not in line), word


def test_the_same_key_gives_the_same_bytes_in_any_order_of_rows(sealed: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(town().num_rows)
    assert tree(release_of(tmp_path, town().take(order), swapping=PERMUTED)) == tree(sealed)


def test_a_permutation_is_replayed_byte_by_byte_and_final_without_its_key(tmp_path: Path) -> None:
    release = release_of(tmp_path, swapping=PERMUTED)
    assert confide.replay(release.parent, processes=1).ok
    confide.destroy_key(release.parent)
    assert not list((release.parent / "confidential").rglob("partners*"))
    assert failed(release) == []


# --- verify --------------------------------------------------------------------------------------------------------


def test_an_untouched_release_passes(sealed: Path) -> None:
    names = {check.name for check in confide.verify(sealed).checks if check.ok}
    assert failed(sealed) == []
    assert {"no loss is charged", "invariants", "strata as the loss is stated for", "what is stated to stay"} <= names


def test_records_whose_invariants_are_not_those_of_the_truth(release: Path) -> None:
    """Two households of different kinds exchange their blocks: every table of people may still agree."""
    records = records_of(release)
    rows = records.to_pylist()
    sizes = Counter(row["household"] for row in rows if row["household"] is not None)
    places = {row["household"]: (row["geocode"], row["county"], row["tract"], row["place"]) for row in rows}
    one = next(i for i in sizes if sizes[i] == 1)
    other = next(i for i in sizes if sizes[i] == 3 and places[i][0] != places[one][0])
    for row in rows:
        if row["household"] in (one, other):
            target = places[other if row["household"] == one else one]
            row["geocode"], row["county"], row["tract"], row["place"] = target
    forged = pa.Table.from_pylist(rows, records.schema)
    _write(release, forged)
    assert "invariants" in failed(release)


def test_strata_that_are_larger_than_the_loss_is_stated_for(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without counties all households of a kind are one stratum; and one that is too large is noticed."""
    question = manifest_of(release)["plan"]["question"]
    records = plain_records(records_of(release), question["microdata"])
    facts = question["swapping"]
    by_county = PublishedHouseholds.of(records, "household", facts).largest_stratum()
    everywhere = PublishedHouseholds.of(
        records, "household", facts | {"settings": facts["settings"] | {"within": None}}
    )
    members = Counter(row["household"] for row in records.to_pylist() if row["household"] is not None)
    assert by_county < everywhere.largest_stratum() == Counter(members.values())[1]
    monkeypatch.setattr(PublishedHouseholds, "largest_stratum", lambda _: 201)
    assert failed(release) == ["strata as the loss is stated for"]


def test_a_smaller_loss_than_the_settings_have(release: Path) -> None:
    text = (release / "manifest.json").read_text()
    epsilon = manifest_of(release)["privacy"]["subject_to_invariants"]["epsilon"]
    (release / "manifest.json").write_text(text.replace(f'"epsilon": "{epsilon}"', '"epsilon": "0.5"'))
    assert {"plan hash", "what is stated to stay"} <= set(failed(release))


def _write(release: Path, records: pa.Table) -> None:
    (path,) = (release / "microdata").glob("persons*.parquet")
    pq.write_table(records, path)
    (path,) = (release / "microdata").glob("persons*.csv")
    pyarrow.csv.write_csv(records, path)
    rehash(release)


# --- the curator ---------------------------------------------------------------------------------------------------


class Noted:
    """Keeps what a run tells the person who waits for it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, title: str, steps: int) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(lambda _: None)

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_a_run_says_that_the_rate_is_a_floor_before_and_after(tmp_path: Path) -> None:
    swapping = TARGETED.replace('"1/5"', '"1/100"') + "\nk_anonymity = 3"
    spec = write_project(tmp_path, swapping=swapping.replace('["race"]', '["race", "age"]'))
    (warning,) = confide.check(spec, processes=1).findings
    assert (warning.code, warning.severity) == ("rate-is-a-floor", "warning")
    said = Noted()
    confide.run(spec, processes=1, insecure_key=KEY, progress=said)
    before, after = said.lines
    assert "more households may move than the rate says" in before
    tally = json.loads((tmp_path / "town/confidential/measured/swap-confidential.json").read_text())
    assert after.startswith(f"{tally['moved']:,} of 400 households moved ({tally['moved'] / 4:.2f} %)")
    assert "the rate asked for is 1/100. The rate is a floor" in after
    assert tally["moved"] > 200


def test_a_permutation_is_evaluated_and_its_draws_audited(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.report.charts.available", lambda: False)
    run = sealed.parent
    numbers = api.evaluate(run, processes=1).accuracy.reveal("a test")
    assert {row["name"] for row in numbers["kept"]} == {
        "households", "size", "adults", "households by kind", "households by county",
    }  # fmt: skip
    assert not any(row["changed"] for row in (*numbers["kept"], *numbers["exact"]))
    assert numbers["swap"]["left_unit"]["county"] == 0 < numbers["swap"]["left_unit"]["block"]
    assert numbers["swap"]["largest_stratum"] <= 200
    answer = confide.audit_noise(run)
    assert answer.ok, answer.checks
    assert {row.query for row in answer.measurements} >= {"selected", "order", "moved", "partners as drawn"}


def test_selections_of_another_law_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.report.charts.available", lambda: False)
    drawn = swap.choices_at
    monkeypatch.setattr(swap, "choices_at", lambda source, at, _: drawn(source, at, (Fraction(1, 2), Fraction(1, 2))))
    run = release_of(tmp_path, swapping=PERMUTED).parent
    assert not confide.audit_noise(run).ok


# --- specs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swapping", "code"),
    [
        (PERMUTED + "\npublish_rate = false", "swapping-publish_rate"),
        (PERMUTED + '\nrisk = ["race"]', "swapping-variant"),
        (PERMUTED + '\nlevels = ["county"]', "swapping-variant"),
        (PERMUTED + '\nmethod = "targeted"', "swapping-variant"),
        (TARGETED + '\nmatch = ["size"]', "swapping-variant"),
        (PERMUTED.replace('"county"', '"block"'), "swapping-within"),
        (PERMUTED.replace('"county"', '"nowhere"'), "swapping-within"),
        (PERMUTED.replace('"adults"', '"nobody"'), "unknown-variable"),
        (PERMUTED.replace('"adults"', '"age:some"'), "incomplete-recode"),
        (PERMUTED.replace('"1/5"', "1"), "swapping-rate"),
        (PERMUTED.replace("\nlargest_stratum = 200", ""), "swapping-largest_stratum"),
        (PERMUTED.replace("200", "20"), "stratum-too-large"),
    ],
)
def test_specs_that_state_no_loss_or_another_are_refused(tmp_path: Path, swapping: str, code: str) -> None:
    spec = write_project(tmp_path, swapping=swapping)
    with pytest.raises(ConfideError) as refused:
        confide.run(spec, processes=1, insecure_key=KEY)
    (finding,) = refused.value.findings
    assert finding.code == code
    assert finding.where.file is not None
    assert not (tmp_path / "town" / "release").exists()


def test_method_is_another_word_for_variant(sealed: Path, tmp_path: Path) -> None:
    assert tree(release_of(tmp_path, swapping=PERMUTED.replace("variant", "method"))) == tree(sealed)


def test_records_of_which_nobody_could_move_are_refused(tmp_path: Path) -> None:
    spec = write_project(tmp_path, town(3), swapping=PERMUTED.replace('"adults"', '"age", "sex"'))
    assert [finding.code for finding in confide.check(spec, processes=1).findings] == ["nobody-moves"]


def test_a_new_spec_of_each_method_can_be_run(population_folder: Path, tmp_path: Path) -> None:
    for method in ("targeted", "enhanced", "permutation"):
        folder = tmp_path / method
        shown = CliRunner().invoke(app, ["new", "swapping", str(folder), "--method", method])
        assert shown.exit_code == 0, shown.output
        for name in ("persons.parquet", "blocks.parquet"):
            (folder / name).write_bytes((population_folder / name).read_bytes())
        text = (folder / "spec.toml").read_text()
        assert f'variant = "{method}"' in text
        checked = confide.check(folder / "spec.toml", processes=1)
        assert checked.findings == ()
        assert checked.summary is not None
        assert ("subject to the invariants" in checked.summary.sentence) == (method == "permutation")
    assert confide.verify(confide.run(folder / "spec.toml", processes=1).release).ok


def test_methods_that_there_are_not(tmp_path: Path) -> None:
    for mechanism, method in (("swapping", "magic"), ("tables", "permutation"), ("comparison", "permutation")):
        with pytest.raises(ParameterError) as refused:
            drafting.new(mechanism, tmp_path / mechanism, method=method)
        assert [finding.code for finding in refused.value.findings] == ["method"]
        assert not (tmp_path / mechanism).exists()
    with pytest.raises(ParameterError):
        drafting.new("swapping", tmp_path / "both", product="light", method="permutation")


def test_recodes_in_memory_as_in_a_spec(tmp_path: Path) -> None:
    """``swap_records`` takes a schema by name or file, and says so where a recode has none."""
    asked = swap_settings(variant="targeted", rate="1/5", risk=["age:broad"], profiles=[["size", "age:broad"]])
    write_project(tmp_path)
    after = swap_records(town(), block_table(), asked, ReleaseKey.choose(KEY), schema=tmp_path / "town.toml")

    def broad(table: pa.Table) -> Counter[Any]:
        return Counter((row["geocode"], np.searchsorted([18, 65], row["age"], "right")) for row in table.to_pylist())

    assert broad(after) == broad(town())
    assert not after.equals(town())
    with pytest.raises(ParameterError) as refused:
        swap_records(town(), block_table(), asked, ReleaseKey.choose(KEY))
    assert [finding.code for finding in refused.value.findings] == ["no-schema"]
