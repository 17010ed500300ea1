"""The messages of all languages: the same keys and places, every one of them used, numbers as the language has them."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from confide.cli.main import main
from confide.errors import Finding, Place
from confide.messages import LANGUAGES, SPOKEN, Messages, choices, messages, texts_of_findings
from confide.report.rendering import environment

SOURCE = Path(__file__).parents[2] / "src" / "confide"
OTHERS = [language for language in LANGUAGES if language != "en"]


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def marks(text: str) -> tuple[int, int]:
    """How many pieces are set as code and in bold type."""
    return len(re.findall(r"`[^`]+`", text)), len(re.findall(r"\*\*[^*]+\*\*", text))


def test_every_file_is_a_language_and_every_language_a_file() -> None:
    files = (SOURCE / "data" / "messages").glob("??.toml")
    assert sorted(path.stem for path in files) == sorted(LANGUAGES)


@pytest.mark.parametrize("language", OTHERS)
def test_all_languages_have_the_same_keys_places_and_marks(language: str) -> None:
    english, other = messages("en").texts, messages(language).texts
    assert set(english) == set(other)
    for key, text in english.items():
        assert places(text) == places(other[key]), key
        assert marks(text) == marks(other[key]), key


@pytest.mark.parametrize("language", OTHERS)
def test_no_sentence_was_left_in_english(language: str) -> None:
    """A text of several words is another one in another language, unless it is all places and names."""
    english, other = messages("en").texts, messages(language).texts
    same = [key for key, text in english.items() if text == other[key] and re.search(r"[a-z]{3,} [a-z]{3,}", text)]
    assert same == []


def test_every_message_is_used() -> None:
    """By its key, or by a key that is put together from a beginning in the code and an end that is named somewhere."""
    files = [*SOURCE.rglob("*.py"), *(SOURCE / "data" / "templates").glob("*.j2")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    begun = set(re.findall(r"[\"']([a-z]+\.[a-z_]*_)(?:\{|[\"'] ~)", text))
    for key in messages("en").texts:
        section, _, name = key.partition(".")
        if section in ("language", "units", "lists"):
            continue
        if section == "places":
            assert any(f"{{{name.partition('.')[2]}_block}}" in message for message in messages("en").texts.values())
            continue
        plain = name.removesuffix("_one").removesuffix("_many").removesuffix("_carried")
        assembled = any(key.startswith(beginning) for beginning in begun)
        named = f"{section}.{plain}" in text or f'"{name}"' in text
        assert assembled or named, key


def test_numbers_are_written_as_the_language_writes_them() -> None:
    german, english = messages("de"), messages("en")
    for value in ("1,234.5", 1234, "± 4", "1.29 × 10^26", "35.13 %"):
        assert english.number(value) == (f"{value:,}" if isinstance(value, int) else value)
    assert german.number("1,234.5") == "1\u202f234,5"
    assert german.number("1.29 × 10^26") == "1,29 × 10^26"
    assert german.number("35.13 %") == "35,13 %"
    for value in ("confide/v1", "0.2.0", "64/25", "1e-10", "be9dc969", True, None):
        assert german.number(value) == value


def test_lists_of_one_two_and_three() -> None:
    words: Messages = messages("fr")
    assert (words.listed(["a"]), words.listed(["a", "b"]), words.either(["a", "b", "c"])) == (
        "a",
        "a et b",
        "a, b ou c",
    )
    assert messages("de").unit("housing unit") == "Wohneinheit"
    assert messages("de").unit("grid cell") == "grid cell"


def test_what_comes_from_a_spec_is_escaped() -> None:
    text = environment("de").globals["t"]
    made = text("page.made_by", release="<script>", version="`1`", mechanism="{x}")
    assert "<code>&lt;script&gt;</code>" in made
    assert "{x}" in made


@pytest.mark.parametrize("name", ["../en", "xx", ""])
def test_there_is_no_other_language(name: str) -> None:
    with pytest.raises(LookupError):
        messages(name)


def places_of_finding(text: str) -> set[str]:
    """The names of all facts that a text has places for, also within choices."""
    names: set[str] = set()
    for _, name, form, _ in Formatter().parse(text):
        if name is not None:
            names.add(name)
        if form and form.startswith("?"):
            names = names.union(*map(places_of_finding, choices(form)))
    return names


@pytest.mark.parametrize("language", OTHERS)
def test_findings_have_the_same_keys_and_places_in_all_languages(language: str) -> None:
    english, other = texts_of_findings(), texts_of_findings(language)
    assert {key: set(texts) for key, texts in english.items()} == {key: set(texts) for key, texts in other.items()}
    for key, texts in english.items():
        for field, text in texts.items():
            assert places_of_finding(text) == places_of_finding(other[key][field]), (key, field)


@pytest.mark.parametrize("language", OTHERS)
def test_no_finding_was_left_in_english(language: str) -> None:
    """But for texts that are all names, options and places, such as ``rho1 > rho2``."""
    english, other = texts_of_findings(), texts_of_findings(language)
    both = [(key, text, other[key][field]) for key, texts in english.items() for field, text in texts.items()]
    same = [key for key, text, theirs in both if text == theirs and re.search(r"\b(the|is|are|of|and|no|not)\b", text)]
    assert same == []


def test_a_finding_is_said_in_the_language_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def finding() -> Finding:
        return Finding.of("unknown-language", where=Place(row=12), found="xx", variable=SPOKEN, languages="en, de")

    english = finding()
    monkeypatch.setenv(SPOKEN, "de")
    german = finding()
    assert (german.code, german.found, german.severity) == (english.code, english.found, english.severity)
    assert str(german).startswith(f"Datensatz 12: {texts_of_findings('de')['unknown-language']['what']}"[:14])
    assert ["gefunden: xx" in str(german), "found: xx" in str(german)] == [True, False]
    assert german.what != english.what
    assert str(english) != str(german)


@pytest.mark.parametrize(("language", "said"), [("de", "Fehler"), ("fr", "erreur"), (None, "error")])
def test_the_command_says_findings_in_the_language_that_was_chosen(
    language: str | None, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if language:
        monkeypatch.setenv(SPOKEN, language)
    monkeypatch.setattr("sys.argv", ["confide", "check", str(tmp_path / "none.toml")])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 1
    assert capsys.readouterr().err.startswith(said)


def test_a_language_without_texts_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(SPOKEN, "tlh")
    monkeypatch.setattr("sys.argv", ["confide", "--version"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 1
    said = capsys.readouterr()
    assert not said.out
    assert "found: tlh" in said.err
    assert "one of en, de, fr" in said.err


def command(monkeypatch: pytest.MonkeyPatch, file: Path, *words: str) -> object:
    monkeypatch.setenv(SPOKEN, str(file))
    monkeypatch.setattr("sys.argv", ["confide", *words])
    with pytest.raises(SystemExit) as ending:
        main()
    return ending.value.code


def test_an_office_brings_a_language_as_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What the file does not say is said in English."""
    file = tmp_path / "italiano.toml"
    file.write_text(
        '[words]\nerror = "errore"\nfound = "trovato"\n[no-settings.file]\nwhat = "manca"\n', encoding="utf-8"
    )
    assert command(monkeypatch, file, "check", str(tmp_path / "none.toml")) == 1
    said = capsys.readouterr().err
    assert said.startswith("errore ")
    assert ": manca\n  trovato: " in said
    assert "remedy: " in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[unknown-language]\nwhat = "{variable} {nome}"\n', "unknown-language, what: nome"),
        ('[no-such-finding]\nwhat = "x"\n', "no-such-finding, what: no such finding"),
        ("what", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_language_that_cannot_be_spoken_is_refused(
    text: str | None,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / "own.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    assert command(monkeypatch, file, "--version") == 1
    shown = capsys.readouterr()
    assert not shown.out
    assert said in " ".join(shown.err.split())
