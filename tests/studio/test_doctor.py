"""The data doctor: an office's files become a schema and a spec, and what records hold is on the page alone."""

from __future__ import annotations

import html
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.kits.messy_office import messy_office
from tests.kits.studio import ORIGIN, Answer, Visitor, entered, studio_of

import confide
from confide import drafting
from confide.errors import ConfideError
from confide.inputs import ColumnProposal, propose_column, read_column
from confide.releases.ledger import Ledger

FILES = {"file": "people.csv", "areas": "areas.csv"}
VALUES = ("924A", "widowed", "Female", "100+", "Höje")
"""What only records say, and a file of areas."""
ASKED = {
    "schema": "people-schema.toml", "mechanism": "tables", "folder": "office", "ledger": "new", "data_set": "people",
    "budget": "2", "note": "decided by the board", "typed": "people",
}  # fmt: skip
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    messy_office(tmp_path)
    return tmp_path


def version(page: Answer) -> str:
    found = re.search(r'name="version" value="([0-9a-f]+)"', page.text)
    assert found is not None
    return found[1]


def fields(page: Answer) -> dict[str, str]:
    """The form of the column, as a browser would send it untouched."""
    form = re.search(r'<form id="column-form".*?</form>', page.text, re.DOTALL)
    assert form is not None
    values = {name: html.unescape(value) for name, value in re.findall(r'name="([^"]+)"[^>]* value="([^"]*)"', form[0])}
    boxes = re.findall(r'<input type="checkbox" name="([^"]+)"[^>]*?( checked)?(?: aria-label="[^"]*")?>', form[0])
    for name, checked in boxes:
        if not checked:
            values.pop(name)
    for name, options in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', form[0]):
        chosen = re.search(r'value="([^"]*)" selected', options)
        values[name] = chosen[1] if chosen else ""
    return values


def change(browser: Visitor, column: str, **changes: str) -> Answer:
    view = FILES | {"column": column}
    form = fields(browser.get("/doctor", params=view)) | changes
    sent = browser.post("/doctor/column", params=view, headers=ORIGIN, form={k: v for k, v in form.items() if v != "-"})
    assert sent.status_code == 303, sent.text
    assert "means" not in sent.headers["location"]
    return browser.get(sent.headers["location"])


def number_of(page: Answer, text: str) -> str:
    """The number of the text in the list of values."""
    found = re.search(
        rf'<select name="means-(\d+)"[^>]*aria-label="What {re.escape(html.escape(text))} means"', page.text
    )
    assert found is not None, text
    return found[1]


def test_what_records_hold_is_on_the_page_and_in_no_address(office: Path) -> None:
    browser = entered(office)
    page = browser.get("/doctor", params=FILES | {"column": "civil"})
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert "widowed" in page.text
    assert "Norra" not in page.text
    for address in re.findall(r'(?:href|action|src)="([^"]*)"', page.text):
        assert not any(value.lower() in html.unescape(address).lower() for value in VALUES), address
    answer = browser.get("/api/doctor", params=FILES)
    assert answer.json()["areas"] == 7
    assert [each["name"] for each in answer.json()["columns"] if not each["left_out"]] == ["kön", "age", "civil"]
    assert not any(value in answer.text for value in VALUES)
    assert sorted(path.name for path in office.iterdir()) == ["areas.csv", "people.csv"], "nothing is kept in a file"


def test_numbers_of_persons_and_their_like_are_not_listed(office: Path) -> None:
    page = entered(office).get("/doctor", params=FILES | {"column": "person_no"})
    assert "10005" not in page.text
    assert "like a person number" in page.text


def test_a_finding_comes_and_goes_with_what_one_changes(office: Path) -> None:
    browser = entered(office)
    first = browser.get("/doctor", params=FILES | {"column": "civil"})
    assert "✓ none" in first.text
    wrong = change(browser, "civil", **{f"means-{number_of(first, 'NS')}": "none"})
    assert "Some values are no level of the attribute" in wrong.text
    rows = sum(1 for line in (office / "people.csv").read_text("latin-1").splitlines() if line.split(";")[6] == "NS")
    assert f"Found: {rows} rows with 1 different values" in wrong.text
    right = change(browser, "civil", **{f"means-{number_of(wrong, 'NS')}": "missing", "label-1": "unmarried"})
    assert "✓ none" in right.text
    assert 'value="unmarried"' in right.text
    removed = change(browser, "civil", **{"gone-0": "yes"})
    assert "Some values are no level" in removed.text
    back = change(browser, "civil", **{f"means-{number_of(removed, 'married')}": "own"})
    assert "✓ none" in back.text
    assert "✓ none" in browser.get("/doctor", params={"file": "people.csv"}).text
    assert 'value="unmarried"' in browser.get("/doctor", params={"file": "people.csv", "column": "civil"}).text


def test_a_page_that_is_behind_changes_nothing(office: Path) -> None:
    browser = entered(office)
    view = FILES | {"column": "civil"}
    old = fields(browser.get("/doctor", params=view))
    change(browser, "civil", title="Status")
    sent = browser.post("/doctor/column", params=view, headers=ORIGIN, form=old | {"title": "Other"})
    assert sent.status_code == 400
    assert "on another page meanwhile" in sent.text
    assert 'value="Status"' in browser.get("/doctor", params=view).text


def test_it_writes_what_the_command_line_writes_and_leads_to_the_cockpit(office: Path) -> None:
    browser = entered(office)
    assert (
        browser.post("/doctor/merged", params=FILES, headers=ORIGIN, form={"old-0": "017", "now-0": "018"}).status_code
        == 303
    )
    change(browser, "kön", **{"label-0": "women", "label-1": "men", "title": "Sex"})
    sent = browser.post("/doctor/write", params=FILES, headers=ORIGIN, form=ASKED)
    assert (sent.status_code, sent.headers.get("location")) == (303, "/cockpit?spec=office%2Fspec.toml"), sent.text
    schema = office / "people-schema.toml"
    assert schema.stat().st_mode & 0o777 == 0o600
    written = tomllib.loads(schema.read_text("utf-8"))
    assert written["attributes"]["kön"]["levels"] == [["F", "women"], ["M", "men"]]
    assert written["attributes"]["kön"]["title"] == "Sex"
    assert (office / "office/schema.toml").read_text("utf-8") == schema.read_text("utf-8")
    again = drafting.new(
        "tables", office / "again", from_file=office / "people.csv", geography=office / "areas.csv", schema=schema,
        merged={"017": "018"}, ledger_file=office / "again/data-set.ledger",
    )  # fmt: skip
    assert again.spec.read_text("utf-8") == (office / "office/spec.toml").read_text("utf-8")
    account = Ledger(office / "office/data-set.ledger").account()
    assert (account.data_set, account.budget, account.spent) == ("people", 2, 0)
    assert not [each for each in confide.check(office / "office/spec.toml").findings if each.severity == "error"]
    assert browser.get(sent.headers["location"]).status_code == 200


@pytest.mark.parametrize("changes", [{"typed": ""}, {"typed": "peopl"}, {"data_set": "", "typed": ""}])
def test_a_ledger_is_opened_only_for_a_name_that_was_typed_twice(office: Path, changes: dict[str, str]) -> None:
    sent = entered(office).post("/doctor/write", params=FILES, headers=ORIGIN, form=ASKED | changes)
    assert sent.status_code == 400
    assert "type the name of the data set" in sent.text
    assert not (office / "office").exists()


def test_a_mechanism_without_a_budget_opens_no_ledger(office: Path) -> None:
    form = ASKED | {"mechanism": "suppression", "typed": ""}
    sent = entered(office).post("/doctor/write", params=FILES, headers=ORIGIN, form=form)
    assert sent.status_code == 303, sent.text
    assert not list(office.rglob("*.ledger"))


def test_units_that_do_not_nest_are_red(office: Path) -> None:
    lines = ["id,kommun,region,sex", *(f"{n},{n % 6:03d},{'NS'[n % 6 > 2]},{'MF'[n % 2]}" for n in range(240))]
    lines[7] = "6,000,S,M"
    (office / "split.csv").write_text("\n".join(lines))
    page = entered(office).get("/doctor", params={"file": "split.csv"})
    assert "are in several larger areas" in page.text
    wrong = re.findall(r'<span class="wrong">(.*?)</span>', page.text)
    assert wrong == ["000 <small>40 records; 1 of them have region S</small>"]
    answer = entered(office).get("/api/doctor", params={"file": "split.csv"}).json()
    assert (answer["areas"], answer["areas_that_do_not_nest"]) == (6, 1)


def test_codes_that_the_file_of_areas_lacks_are_red_until_somebody_says_what_they_are(office: Path) -> None:
    people = office / "people.csv"
    people.write_text(re.sub("017 ?;Näs", "999;Xxx", people.read_text("latin-1")), "latin-1")
    browser = entered(office)
    page = browser.get("/doctor", params=FILES)
    assert re.search(r'class="wrong">999 <small>\d+ records; not in the file of areas', page.text)
    assert "Records have codes that the file of areas lacks" in page.text
    browser.post("/doctor/merged", params=FILES, headers=ORIGIN, form={"old-0": "999", "now-0": "018"})
    assert "not in the file of areas" not in browser.get("/doctor", params=FILES).text


def test_script_in_records_columns_and_areas_is_text(tmp_path: Path) -> None:
    rows = "\n".join(f"{SCRIPT if n % 4 else 'plain'},{SCRIPT},{'MF'[n % 2]}" for n in range(60))
    (tmp_path / "odd.csv").write_text(f'"kommun","{SCRIPT}","sex"\n{rows}\n')
    browser = entered(tmp_path)
    for column in ("kommun", SCRIPT, "sex"):
        page = browser.get("/doctor", params={"file": "odd.csv", "column": column})
        assert page.status_code == 200
        assert SCRIPT not in page.text
        assert html.escape(SCRIPT) in page.text


@pytest.mark.parametrize(
    "name", ["../people.csv", "/etc/passwd", "a/../../people.csv", "out/people.csv", "\\people.csv", ""]
)
def test_no_name_leads_out_of_the_folder(office: Path, tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    messy_office(elsewhere)
    (office / "out").symlink_to(elsewhere)
    browser = entered(office)
    assert browser.get("/doctor", params={"file": name}).status_code == 400
    if name:
        assert browser.get("/doctor", params=FILES | {"areas": name}).status_code == 400
        for field in ("schema", "folder", "ledger"):
            sent = browser.post("/doctor/write", params=FILES, headers=ORIGIN, form=ASKED | {field: name})
            assert sent.status_code == 400, field
            assert "leads out of the folder" in sent.text
    assert sorted(path.name for path in elsewhere.iterdir()) == ["areas.csv", "people.csv"]


@pytest.mark.parametrize("path", ["/doctor/column", "/doctor/merged", "/doctor/write"])
def test_nobody_else_changes_or_writes_anything(office: Path, path: str) -> None:
    stranger, door, _ = studio_of(office)
    assert stranger.post(path, params=FILES, headers=ORIGIN, form=ASKED).status_code == 403
    assert stranger.get("/doctor", params=FILES).status_code == 403
    stranger.get("/", params={"token": door.new_token()})
    for headers in ({}, {"origin": "https://example.org"}, ORIGIN | {"host": "example.org"}):
        assert stranger.post(path, params=FILES, headers=headers, form=ASKED).status_code in (403, 421)
    huge = stranger.post(path, params=FILES, headers=ORIGIN | {"content-length": str(10 << 30)}, content=b"a")
    assert huge.status_code == 413
    assert sorted(each.name for each in office.iterdir()) == ["areas.csv", "people.csv"]


@pytest.mark.parametrize("content", ["", "a,b\n", "1,2\n3,4\n", "\x00\x01"])
def test_a_file_that_is_no_table_of_records_is_a_finding(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.csv").write_text(content)
    browser, door, said = studio_of(tmp_path)
    browser.get("/", params={"token": door.new_token()})
    assert browser.get("/doctor", params={"file": "bad.csv"}).status_code == 400
    assert said == []


def test_a_given_schema_is_taken_as_it_is_and_must_fit_the_columns(office: Path) -> None:
    schema = office / "own.toml"
    text = 'id = "own"\nprovenance = "by hand"\n[attributes.civil]\nlevels = [["married", "yes"], ["x", "no"]]\n'
    schema.write_text(text)
    drafted = drafting.new(
        "tables", office / "office", from_file=office / "people.csv", geography=office / "areas.csv", schema=schema
    )
    assert (office / "office/schema.toml").read_text() == text
    tables = tomllib.loads(drafted.spec.read_text("utf-8"))["tables"]
    assert [table["variables"] for table in tables] == [["civil"]]
    schema.write_text(text.replace("attributes.civil", "attributes.other"))
    with pytest.raises(ConfideError) as error:
        drafting.new(
            "tables", office / "b", from_file=office / "people.csv", geography=office / "areas.csv", schema=schema
        )
    assert error.value.findings[0].code == "missing-column"


def test_a_proposal_reads_the_same_as_the_schema_that_is_written(office: Path) -> None:
    text = drafting.new_schema(office / "people.csv").text.reveal("a test, of made-up people")
    written: dict[str, Any] = tomllib.loads(text)["attributes"]
    looked = drafting.look_at_office(office / "people.csv", None, None)
    for column in looked.attributes:
        own = json.loads(json.dumps(column.schema_values))
        own.pop("trim")
        assert own.pop("ignore_case") is False
        assert {key: value for key, value in own.items() if value} == written[column.name]


def test_a_reading_counts_what_a_level_has_and_says_what_it_does_not_explain() -> None:
    values = {"M": 5, "m": 2, "F": 3, "x": 4, "": 6}
    column = ColumnProposal("sex", levels=(("M", "male"), ("F", "female")), aliases={"M": ("m",)})
    reading = read_column(column, values)
    assert reading.levels == (("M", "male", 7), ("F", "female", 3))
    assert [(each.code, each.found) for each in reading.findings] == [
        ("empty-values", "6 rows"),
        ("unknown-values", "4 rows with 1 different values"),
    ]
    assert read_column(propose_column("sex", values), values).findings == ()
    twice = ColumnProposal("sex", levels=(("M", "male"), ("F", "female")), aliases={"M": ("m",), "F": ("m",)})
    assert read_column(twice, values).findings[0].code == "ambiguous-code"


def test_the_ledger_of_other_people_is_never_the_first_choice(office: Path) -> None:
    """No ledger is chosen for somebody; one that is there is taken for its own name alone."""
    Ledger.open_new(office / "a.ledger", data_set="made-up land", definition="zcdp", neighbours="change-one", budget=1)
    browser = entered(office)
    page = browser.get("/doctor", params=FILES).text
    select = re.search(r'<select name="ledger".*?</select>', page, re.DOTALL)
    assert select is not None
    assert re.findall(r'<option value="([^"]*)" selected', select[0]) == [""]
    assert "the same people as in made-up land" in select[0]
    for answer in (
        {"ledger": "", "typed": "made-up land"},
        {"ledger": "a.ledger", "typed": ""},
        {"ledger": "a.ledger", "typed": "people"},
        {"ledger": "a.ledger", "typed": "a.ledger"},
    ):
        sent = browser.post("/doctor/write", params=FILES, headers=ORIGIN, form=ASKED | answer)
        assert sent.status_code == 400, answer
        assert not (office / "office").exists()
    sent = browser.post(
        "/doctor/write", params=FILES, headers=ORIGIN, form=ASKED | {"ledger": "a.ledger", "typed": "made-up land"}
    )
    assert sent.status_code == 303, sent.text
    assert tomllib.loads((office / "office/spec.toml").read_text())["privacy"]["ledger"] == "../a.ledger"


@pytest.mark.parametrize("folder", ["confidential", "run/confidential/counts", "run/dossier-confidential"])
def test_nothing_below_a_confidential_folder_is_opened(office: Path, folder: str) -> None:
    (office / folder).mkdir(parents=True)
    (office / folder / "secret.csv").write_text("SEX,CANARY924\nf,1\nm,2\n")
    (office / "link").symlink_to(office / folder)
    browser = entered(office)
    for name in (f"{folder}/secret.csv", "link/secret.csv"):
        for path, view in (("/doctor", {"file": name}), ("/doctor", FILES | {"areas": name})):
            answer = browser.get(path, params=view)
            assert answer.status_code == 400
            assert "CANARY924" not in answer.text
            assert browser.get("/api/doctor", params=view).status_code == 400
        sent = browser.post("/doctor/write", params={"file": name}, headers=ORIGIN, form=ASKED)
        assert sent.status_code == 400
