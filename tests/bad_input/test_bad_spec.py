"""Kinds of bad spec. Each is refused by `check` and by `run` with file, line, finding and remedy, and costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kits.bad_input import (
    SPEC,
    Bad,
    assert_refused,
    both,
    confide,
    content,
    make_project,
    removed,
    replaced,
    spec,
)

MISSING = (("check", "@missing.toml"), ("run", "@missing.toml"))
FOLDER = (("check", "@"), ("run", "@"))


def bad_budget(name: str, text: str, code: str, remedy: str = ".") -> Bad:
    change = spec('budget = "1/2"', f"budget = {text}")
    return Bad(name, change, code, r"spec\.toml, line \d+, path privacy\.budget", "budget =", remedy)


def too_large(project: Path) -> None:
    (project / "spec.toml").write_text(SPEC + "#" * (1 << 20))


KINDS = [
    Bad(
        "no such file",
        lambda _: None,
        "spec-unreadable",
        r"missing\.toml$",
        remedy="path of the spec",
        commands=MISSING,
    ),
    Bad("a folder without a run", lambda _: None, "no-run", r"/$|\w$", remedy="run it first", commands=FOLDER),
    Bad("an empty file", content("spec.toml", ""), "mechanism", r"spec\.toml, path release\.mechanism"),
    Bad("not UTF-8", content("spec.toml", b'[release]\nname = "\xff"\n'), "spec-unreadable", r"spec\.toml, line 2"),
    Bad("a file of another kind", content("spec.toml", bytes(range(256)) * 9), "spec-unreadable", r"spec\.toml"),
    Bad("too large a file", too_large, "spec-unreadable", r"spec\.toml"),
    Bad("a line that is not TOML", spec("[privacy]", "[privacy"), "toml-syntax", r"line \d+$", "[privacy"),
    Bad("a text without quotes", spec('"1/2"', "1/2"), "toml-syntax", r"line \d+$", "budget = 1/2"),
    Bad("a text that never ends", spec('"1/2"', "'''"), "toml-syntax", r"line \d+$"),
    Bad(
        "a key twice", spec("[data]", '[data]\nblocks = "b"'), "toml-syntax", r"line \d+$", 'blocks = "blocks.parquet"'
    ),
    Bad("brackets without end", content("spec.toml", "x = " + "[" * 9999), "toml-syntax", r"spec\.toml"),
    bad_budget("a number of 5,000 digits", "0x" + "f" * 5000, "number-too-long"),
    Bad("a decimal of 5,000 digits", spec('"1/2"', "9" * 5000), "toml-syntax", r"spec\.toml"),
    Bad(
        "an unknown key",
        spec("[privacy]", '[privacy]\nbugdet = "1"'),
        "unknown-key",
        r"spec\.toml, line \d+, path privacy\.bugdet",
        "bugdet",
        remedy='did you mean "budget"',
    ),
    Bad("an unknown table", content("spec.toml", SPEC + "[outputs]\n"), "unknown-key", r"path outputs$", "[outputs]"),
    Bad("a missing key", spec('ledger = "people.ledger"\n', ""), "missing-key", r"path privacy\.ledger", "[privacy]"),
    Bad("a missing table", spec("[privacy]", "[privates]"), "missing-key", r"path privacy", also=["unknown-key"]),
    Bad("a value of another type", spec('"persons.parquet"', "7"), "bad-value", r"path data\.records", "records = 7"),
    Bad("a list for a text", spec('"schema.toml"', '["a"]'), "bad-value", r"path data\.schema", "schema ="),
    Bad(
        "a text for a number", spec("digits = 3", 'digits = "3"'), "bad-value", r"geography\.levels\[1\]\.digits", '"3"'
    ),
    Bad(
        "a number below its range",
        spec("digits = 3", "digits = -3"),
        "bad-value",
        r"levels\[1\]\.digits",
        "digits = -3",
    ),
    Bad("a choice that is none", spec('["parquet", "csv"]', '["dbf"]'), "bad-value", r"output\.formats\[0\]", "dbf"),
    Bad(
        "a list of nothing",
        spec('["state", "county", "place"]', "[]"),
        "bad-value",
        r"tables\[0\]\.levels",
        "levels = []",
    ),
    bad_budget("a float for a budget", "0.5", "float-refused", 'budget="0.5"'),
    bad_budget("a negative budget", '"-1"', "not-positive"),
    bad_budget("a budget of zero", "0", "not-positive"),
    bad_budget("a budget that is not a number", "nan", "not-a-number"),
    bad_budget("an infinite budget", "inf", "not-a-number"),
    bad_budget("a budget in words", '"plenty"', "not-a-number"),
    bad_budget("a fraction over zero", '"1/0"', "not-a-number"),
    bad_budget("a boolean for a budget", "true", "not-a-number"),
    bad_budget("an exponent out of all proportion", '"1e9999"', "number-too-long"),
    bad_budget("a tiny number out of all proportion", '"1e-9999"', "number-too-long"),
    bad_budget("an exponent that is no number any more", '"1e999999999"', "not-a-number"),
    bad_budget("a budget that promises nothing", '"1e16"', "budget-too-large"),
    bad_budget("a budget with a delta that promises nothing", '"1e5"\ndefinition = "approximate"', "budget-too-large"),
    bad_budget("a budget whose noise cannot be drawn", '"1e-40"', "law-too-wide", "more budget"),
    Bad("delta of one", spec("[privacy]", '[privacy]\ndelta = "1"'), "probability", r"privacy\.delta", "delta"),
    Bad("a margin above one", spec("[output]", '[output]\nnoise_margin = "1.5"'), "probability", "noise_margin"),
    Bad(
        "an unknown mechanism",
        spec('"tables"', '"tabels"'),
        "mechanism",
        r"line 3, path release\.mechanism",
        "tabels",
        remedy='did you mean "tables"',
    ),
    Bad("a name that climbs out", spec('"tiny"', '"../tiny"'), "bad-value", r"release\.name", "../tiny"),
    Bad("a name with capitals", spec('"tiny"', '"Tiny"'), "bad-value", r"release\.name", "Tiny"),
    Bad("an empty name", spec('"tiny"', '""'), "bad-value", r"release\.name", 'name = ""'),
    Bad("a table name that is a path", spec('"kinds"', '"a/b"'), "bad-value", r"tables\[1\]\.name", "a/b"),
    Bad("two tables of one name", spec('"kinds"', '"sex-by-age"'), "duplicate-table", r"tables\[0\]\.name"),
    Bad(
        "a table named as a file of ours",
        spec('"kinds"', '"frame"'),
        "reserved-name",
        r"tables\[1\]\.name",
        '"frame"',
        remedy='did you mean "frames"',
    ),
    Bad("a level named as a file of ours", spec('name = "county"', 'name = "histogram"'), "reserved-name", "levels"),
    Bad("an unknown variable", spec('"kind"', '"kinder"'), "unknown-variable", r"tables\[1\]\.variables", "kinder"),
    Bad("an unknown recode", spec('"age:halves"', '"age:thirds"'), "unknown-variable", r"tables\[0\]\.variables"),
    Bad(
        "an attribute twice",
        spec('["kind"]', '["age", "age:halves"]'),
        "repeated-attribute",
        r"tables\[1\]\.variables",
        "age",
    ),
    Bad("an incomplete recode", spec('"age:halves"', '"age:young"'), "incomplete-recode", r"tables\[0\]\.variables"),
    Bad("an unknown level", spec('  "block",', '  "blok",'), "unknown-level", r"tables\[1\]\.levels\[1\]", "blok"),
    Bad("a level twice", spec('  "block",', '  "county",'), "repeated-level", r"tables\[1\]\.levels\[1\]", '"county",'),
    Bad(
        "a weight for no level",
        content("spec.toml", SPEC + "[programme]\nlevel_weights = { tract = 1 }\n"),
        "unknown-level",
        r"programme\.level_weights\.tract",
        "tract",
    ),
    Bad("two levels of one name", spec('name = "county"', 'name = "state"'), "duplicate-level", r"levels\[1\]\.name"),
    Bad("an area named as a level", spec('name = "place"', 'name = "state"'), "duplicate-level", r"areas\[0\]\.name"),
    Bad("a level named block", spec('name = "county"', 'name = "block"'), "duplicate-level", r"levels\[1\]\.name"),
    Bad("a level without a rule", spec("digits = 3\n", ""), "level-rule", r"levels\[1\]", "[[geography.levels]]"),
    Bad("a level with two rules", spec("digits = 3", 'digits = 3\ncolumn = "district"'), "level-rule", r"levels\[1\]"),
    Bad("a path that is none", spec('"persons.parquet"', '"a\\u0000b"'), "bad-path", r"data\.records", "records"),
    Bad("an empty path", spec('"people.ledger"', '""'), "bad-path", r"privacy\.ledger", "ledger"),
    Bad("a folder of no name", spec("[output]", '[output]\nfolder = " "'), "bad-path", r"output\.folder", "folder"),
    Bad("a delimiter that cannot be", spec("[data]", '[data]\ndelimiter = "\\n"'), "delimiter", r"data\.delimiter"),
    Bad("two characters for one", spec("[data]", '[data]\ndelimiter = "ab"'), "bad-value", r"data\.delimiter"),
    Bad(
        "no schema of that name",
        removed("schema.toml"),
        "no-schema",
        r"spec\.toml, line 8, path data\.schema",
        "schema",
    ),
    Bad("a schema that is a folder", spec('"schema.toml"', '"."'), "bad-schema", "."),
    Bad(
        "a schema that is not TOML",
        replaced("schema.toml", "= [0, 9]", "= [0, 9"),
        "bad-schema",
        r"schema\.toml, line \d+",
    ),
    Bad("a schema not in UTF-8", content("schema.toml", b"id = '\xff'"), "bad-schema", r"schema\.toml"),
    Bad("an empty schema", content("schema.toml", ""), "schema", r"schema\.toml, path id"),
    Bad(
        "a recode with a level twice",
        replaced("schema.toml", '"0..4" }', '"0..4", "old" = "4..9" }'),
        "schema-recode",
        r"schema\.toml, line \d+, path attributes\.age\.recodes\.young",
        "recodes.young",
    ),
    Bad(
        "a recode with a code of nobody",
        replaced("schema.toml", '"0..4" }', '"0..14" }'),
        "schema-recode",
        r"schema\.toml, line \d+, path attributes\.age\.recodes\.young",
        "recodes.young",
    ),
    Bad(
        "a code twice in an attribute",
        replaced("schema.toml", '[2, "female"]', '[1, "female"]'),
        "schema-attribute",
        r"schema\.toml, line \d+, path attributes\.sex",
        "attributes.sex",
    ),
    Bad(
        "codes of two kinds", replaced("schema.toml", '[2, "fem', '["2", "fem'), "schema-attribute", r"attributes\.sex"
    ),
    Bad("an attribute of no levels", replaced("schema.toml", "range = [0, 9]", ""), "schema", r"attributes\.age"),
    Bad("a range without end", replaced("schema.toml", "[0, 9]", "[0, 9999999999]"), "schema", r"attributes\.age"),
    Bad("float codes", replaced("schema.toml", "[[1, ", "[[1.5, "), "schema", r"attributes\.sex", "levels = [[1.5"),
    Bad(
        "an attribute named total",
        replaced("schema.toml", "[attributes.sex]", "[attributes.total]"),
        "reserved-name",
        r"schema\.toml, line \d+, path attributes\.total",
        "attributes.total",
        remedy='call it "total_code"',
    ),
    *(
        Bad(
            f"an attribute named {name!r}",
            replaced("schema.toml", "[attributes.sex]", f'[attributes."{name}"]'),
            "reserved-name",
            r"schema\.toml, line \d+, path attributes\.",
            remedy="call it",
        )
        for name in ("Total ", "detailed", "a*b", "in:c", "a/b", " sex", "se\\tx", "")
    ),
    Bad(
        "a recode with a colon",
        replaced("schema.toml", "[attributes.age.recodes.young]", '[attributes.age.recodes."you:ng"]'),
        "reserved-name",
        r"schema\.toml, line \d+, path attributes\.age\.recodes",
    ),
    Bad(
        "names that differ in case alone",
        replaced("schema.toml", "[attributes.sex]", '[attributes.AGE]\nlevels = [[1, "x"]]\n[attributes.sex]'),
        "reserved-name",
        r"schema\.toml, line \d+, path attributes",
    ),
    *(
        Bad(
            f"a label {label!r}",
            replaced("schema.toml", '[2, "female"]', f'[2, "{label}"]'),
            "repeated-label",
            r"schema\.toml, line \d+, path attributes\.sex",
            "attributes.sex",
            remedy="change the label",
        )
        for label in ("male", "all", "_T", "a\\nb")
    ),
    Bad(
        "a group labelled as a total",
        replaced("schema.toml", '"0..4" }', '"0..4", "all" = "5..9" }'),
        "repeated-label",
        r"path attributes\.age\.recodes\.young",
    ),
    Bad(
        "everything wrong at once in the spec",
        both(spec('"1/2"', "0.5"), spec('name = "kinds"', 'nam = "kinds"'), spec("digits = 1", 'digits = "1"')),
        "float-refused",
        r"privacy\.budget",
        "0.5",
        also=["unknown-key", "missing-key", "bad-value"],
    ),
    Bad(
        "everything wrong at once in what the spec names",
        both(
            removed("people.ledger"),
            spec('column = "place"', 'column = "town"'),
            spec('"kind"', '"kinder"'),
            content("persons.parquet", b"PAR1"),
        ),
        "unknown-variable",
        r"tables\[1\]\.variables",
        "kinder",
        also=["no-ledger", "missing-column", "unreadable"],
    ),
    Bad(
        "two things wrong with the schema",
        both(replaced("schema.toml", '[2, "female"]', '[1, "female"]'), replaced("schema.toml", '"0..4"', '"0..14"')),
        "schema-recode",
        r"recodes\.young",
        also=["schema-attribute"],
    ),
]


@pytest.mark.parametrize("bad", KINDS, ids=lambda bad: bad.name)
def test_a_bad_spec_is_refused_with_its_line_and_a_remedy(bad: Bad, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    bad.change(project)
    assert_refused(bad, project)


def test_the_project_that_all_this_is_done_to_is_good(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    outcome = confide("check", project / "spec.toml", "--json", "--processes", "1")
    assert outcome.exit_code == 0
    assert outcome.findings == []


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    for name in ("spec.toml", "schema.toml"):
        (project / name).write_bytes(b"\xef\xbb\xbf" + (project / name).read_bytes())
    assert confide("check", project / "spec.toml", "--processes", "1").exit_code == 0


def test_of_a_thousand_problems_the_first_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    with (project / "spec.toml").open("a") as file:
        file.writelines(f"key{i} = 1\n" for i in range(1000))
    outcome = confide("check", project / "spec.toml", "--json")
    assert outcome.codes == ["unknown-key"] * 100 + ["more-findings"]
    assert outcome.findings[-1]["what"].startswith("900 ")
