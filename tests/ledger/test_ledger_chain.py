"""The chain and the fold as pure functions, and what tampering with the file does to them."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.ledger import MANIFEST, PLAN, RECORDS, START, TRIGGERS, new_ledger, reserve, rows, sha, tamper

from confide.errors import LedgerError
from confide.releases.ledger import Ledger
from confide.releases.ledger.account import fold
from confide.releases.ledger.entries import (
    GENESIS,
    Entry,
    Event,
    KeyDestroyed,
    Measured,
    Opened,
    Reserved,
    Sealed,
    Voided,
    decode,
    digest,
    encode,
    following,
    read,
    stamp,
)

OPENED = Opened(
    ledger_id=sha("ledger"), data_set="d", definition="pure", neighbours="change-one", budget=Fraction(2), note="é\n"
)


def reserved(run_id: str, cost: int | Fraction = 1) -> Reserved:
    return Reserved(run_id=run_id, release="r", plan_hash=PLAN, records_fingerprint=RECORDS, cost=Fraction(cost))


def chain(*events: Event) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for number, event in enumerate(events):
        entries.append(following(entries[-1] if entries else None, event, START + timedelta(seconds=number)))
    return tuple(entries)


def test_the_hash_of_an_entry_is_the_documented_one() -> None:
    """Known answer, spelled out byte by byte: changing it makes every existing ledger unreadable."""
    payload = '{"run_id":"r"}'
    text = '["confide-ledger/1",2,"2020-04-01T12:00:00.000000Z","measured","{\\"run_id\\":\\"r\\"}","' + GENESIS + '"]'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert digest(2, stamp(START), "measured", payload, GENESIS) == expected
    assert encode(Measured(run_id="r")) == payload


def test_an_event_has_one_written_form() -> None:
    text = encode(OPENED)
    assert text.startswith('{"budget":"2/1","data_set":"d","definition":"pure","ledger_id":')
    assert '"note":"\\u00e9\\n"' in text
    for event in (OPENED, reserved("a"), Measured(run_id="a"), Sealed(run_id="a", manifest_sha256=MANIFEST),
                  Voided(run_id="a", reason="b"), KeyDestroyed(run_id="a")):  # fmt: skip
        assert decode(event.kind, encode(event)) == event


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("top-up", '{"budget":"1/1"}'),
        ("measured", '{"run_id": "r"}'),
        ("measured", '{"run_id":"r","x":"y"}'),
        ("measured", "{}"),
        ("measured", '{"run_id":1}'),
        ("measured", '{"run_id":"r","run_id":"r"}'),
        ("measured", '"run_id"'),
        ("measured", "not json"),
        ("measured", "[" * 100_000),
        ("reserve", encode(reserved("a")).replace("1/1", "2/2")),
        ("reserve", encode(reserved("a")).replace("1/1", "1.0")),
        ("reserve", encode(reserved("a")).replace("1/1", "-1/1")),
        ("reserve", encode(reserved("a")).replace("1/1", "1/0")),
    ],
)
def test_any_other_form_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(kind, text)


def test_rows_read_back_are_the_entries() -> None:
    entries = chain(OPENED, reserved("a"), Measured(run_id="a"))
    assert read(entry.row() for entry in entries) == entries


@given(st.data())
def test_any_change_of_any_column_is_found(data: st.DataObject) -> None:
    """One column of one entry set to another value, hashes left as they are: never read."""
    entries = chain(OPENED, reserved("a"), Measured(run_id="a"), Sealed(run_id="a", manifest_sha256=MANIFEST))
    table = [list(entry.row()) for entry in entries]
    at = data.draw(st.integers(0, len(table) - 1))
    column = data.draw(st.integers(0, 5))
    other = data.draw(st.sampled_from([row[column] for row in table]) | st.text() | st.integers() | st.none())
    if type(other) is type(table[at][column]) and other == table[at][column]:
        return
    table[at][column] = other
    with pytest.raises(LedgerError, match=r"entry [1-5] is"):
        read(tuple(row) for row in table)


@given(st.permutations(range(5)), st.integers(1, 5))
def test_only_a_beginning_of_the_chain_is_a_chain(order: list[int], length: int) -> None:
    """Removed, repeated, moved: refused. Cut off at the end: not to be seen here (that is what reconcile is for)."""
    table = [entry.row() for entry in chain(OPENED, reserved("a"), *(Measured(run_id=name) for name in "bcd"))]
    chosen = order[:length]
    if chosen == list(range(length)):
        assert len(read(table[i] for i in chosen)) == length
    else:
        with pytest.raises(LedgerError, match=f"entry {next(i for i, j in enumerate(chosen) if i != j) + 1} is"):
            read(table[i] for i in chosen)


@pytest.mark.parametrize(
    ("events", "entry"),
    [
        ((reserved("a"),), 1),
        ((OPENED, OPENED), 2),
        ((OPENED, reserved("a"), reserved("a")), 3),
        ((OPENED, reserved("a", 2), reserved("b", Fraction(1, 10**9))), 3),
        ((OPENED, Measured(run_id="a")), 2),
        ((OPENED, reserved("a"), Measured(run_id="a"), Voided(run_id="a", reason="b")), 4),
        ((OPENED, reserved("a"), Sealed(run_id="a", manifest_sha256=MANIFEST)), 3),
        ((OPENED, reserved("a"), KeyDestroyed(run_id="a")), 3),
        ((OPENED, reserved("a"), Voided(run_id="a", reason="b"), *[KeyDestroyed(run_id="a")] * 2), 5),
    ],
)
def test_entries_that_break_a_rule_are_named_though_their_hashes_are_right(
    events: tuple[Event, ...], entry: int
) -> None:
    entries = read(entry.row() for entry in chain(*events))
    with pytest.raises(LedgerError, match=f"entry {entry} .* breaks the rules"):
        fold(entries)


def test_an_empty_list_of_entries_is_no_ledger() -> None:
    for function in (read, fold):
        with pytest.raises(LedgerError, match=r"no entries|missing"):
            function(())


def test_an_entry_forged_with_its_own_hash_breaks_the_link_of_the_next() -> None:
    first, second, third = chain(OPENED, reserved("a", 2), Measured(run_id="a"))
    forged = following(first, reserved("a", Fraction(1, 100)), second.time)
    with pytest.raises(LedgerError, match="entry 3 is unlinked"):
        read((first.row(), forged.row(), third.row()))


def test_a_gap_in_the_numbers_is_refused_though_links_and_hashes_are_right() -> None:
    first = following(None, OPENED, START)
    fields = (7, stamp(START), "reserve", encode(reserved("a")), first.hash)
    with pytest.raises(LedgerError, match="entry 2 is missing"):
        read((first.row(), (*fields, digest(*fields))))


def test_a_time_before_the_last_one_is_refused() -> None:
    first = following(None, OPENED, START)
    second = following(first, reserved("a"), START - timedelta(seconds=1))
    with pytest.raises(LedgerError, match="entry 2 is out of time"):
        read((first.row(), second.row()))


@pytest.fixture
def used(tmp_path: Path) -> Ledger:
    """A ledger of six entries."""
    ledger = new_ledger(tmp_path / "census.ledger")
    reserve(ledger, "a", "1/2")
    ledger.mark_measured("a")
    ledger.mark_sealed("a", MANIFEST)
    reserve(ledger, "b", "1/4")
    ledger.mark_measured("b")
    return ledger


@pytest.mark.parametrize(
    ("statements", "entry"),
    [
        (["UPDATE entries SET payload = replace(payload, '1/2', '1/9') WHERE sequence = 2"], 2),
        (["UPDATE entries SET payload = replace(payload, '1/1', '9/1') WHERE sequence = 1"], 1),
        (["UPDATE entries SET kind = 'void' WHERE sequence = 3"], 3),
        (["UPDATE entries SET time = '2019-01-01T00:00:00.000000Z' WHERE sequence = 4"], 4),
        (["UPDATE entries SET time = '2021-01-01T00:00:00.000000Z' WHERE sequence = 6"], 6),
        (["DELETE FROM entries WHERE sequence = 3"], 3),
        (["DELETE FROM entries WHERE sequence = 1"], 1),
        (["DELETE FROM entries"], 1),
        (["DELETE FROM entries WHERE sequence = 2", "UPDATE entries SET sequence = sequence - 1 WHERE sequence > 2"],
         2),
        (["UPDATE entries SET sequence = 99 WHERE sequence = 3", "UPDATE entries SET sequence = 3 WHERE sequence = 4",
          "UPDATE entries SET sequence = 4 WHERE sequence = 99"], 3),
        (["UPDATE entries SET hash = previous WHERE sequence = 5"], 5),
        (["UPDATE entries SET payload = CAST(payload AS BLOB) WHERE sequence = 2"], 2),
        (["INSERT INTO entries SELECT 7, time, kind, payload, previous, hash FROM entries WHERE sequence = 6"], 7),
    ],
)  # fmt: skip
def test_tampering_with_the_file_is_found_and_the_entry_named(used: Ledger, statements: list[str], entry: int) -> None:
    tamper(used.path, *statements)
    before = rows(used.path)
    for attempt in (lambda: Ledger(used.path), used.verify, used.account, lambda: reserve(used, "c", "1/100")):
        with pytest.raises(LedgerError) as caught:
            attempt()
        finding = caught.value.findings[0]
        assert finding.code == "ledger-broken"
        assert f"entry {entry} is" in finding.what
        assert finding.where.file == str(used.path)
        assert finding.where.path == f"entry {entry}"
        assert finding.found
        assert finding.expected
        assert finding.remedy
    assert rows(used.path) == before


def test_text_that_is_no_text_is_damage(used: Ledger) -> None:
    tamper(used.path, "UPDATE entries SET payload = CAST(x'ff' AS TEXT) WHERE sequence = 2")
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(used.path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET payload = '{}' WHERE sequence = 2",
        "DELETE FROM entries WHERE sequence = 2",
        "INSERT OR REPLACE INTO entries VALUES (2, 't', 'k', '{}', 'p', 'h')",
        "INSERT INTO entries VALUES (9, 't', 'k', '{}', 'p', 'h')",
        "INSERT INTO entries VALUES (NULL, 't', 'k', '{}', 'p', 'h')",
        "UPDATE entries SET sequence = 9 WHERE sequence = 6",
    ],
)
def test_triggers_forbid_change_and_removal(used: Ledger, statement: str) -> None:
    before = rows(used.path)
    with closing(sqlite3.connect(used.path)) as connection, pytest.raises(sqlite3.IntegrityError, match="an entry of"):
        connection.execute(statement)
    assert rows(used.path) == before


@pytest.mark.parametrize(
    "statement",
    [*(f"DROP TRIGGER {name}" for name in TRIGGERS), "CREATE TABLE other (a)", "CREATE INDEX i ON entries (kind)"],
)
def test_a_changed_structure_is_found(used: Ledger, statement: str) -> None:
    tamper(used.path, statement, dropping=())
    with pytest.raises(LedgerError, match="structure of the ledger"):
        Ledger(used.path)


def test_a_dropped_table_is_damage(used: Ledger) -> None:
    tamper(used.path, "DROP TABLE entries", dropping=())
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(used.path)


def test_another_journal_mode_is_refused(used: Ledger) -> None:
    tamper(used.path, "PRAGMA journal_mode = WAL", dropping=())
    with pytest.raises(LedgerError, match="journal mode"):
        Ledger(used.path)
    tamper(used.path, "PRAGMA journal_mode = DELETE", dropping=())
    assert used.account().left == Fraction(1, 4)


def test_a_cut_off_tail_is_whole_but_not_for_who_noted_a_hash(used: Ledger) -> None:
    noted = used.verify().hash
    assert used.verify([noted]).sequence == 6
    tamper(used.path, "DELETE FROM entries WHERE sequence > 4")
    fresh = Ledger(used.path)  # a chain does not know where it ended
    assert fresh.account().left == Fraction(1, 2)
    with pytest.raises(LedgerError, match="forgotten"):
        fresh.verify([noted])


def test_a_handle_notices_that_the_ledger_was_put_back(used: Ledger) -> None:
    tamper(used.path, "DELETE FROM entries WHERE sequence > 4")
    for attempt in (used.account, lambda: reserve(used, "c", "1/100")):
        with pytest.raises(LedgerError, match="forgotten entries"):
            attempt()
    reserve(Ledger(used.path), "c", "1/8")
    reserve(Ledger(used.path), "d", "1/8")
    with pytest.raises(LedgerError, match="forgotten entries"):
        used.account()


AS_BEFORE = {
    "open": '{"budget":"1/1","data_set":"people","definition":"zcdp","ledger_id":"' + "ab" * 32
    + '","neighbours":"change-one","note":""}',
    "reserve": '{"cost":"1/2","plan_hash":"' + "cd" * 32 + '","records_fingerprint":"' + "ef" * 32
    + '","release":"small","run_id":"r"}',
    "measured": '{"run_id":"r"}',
    "sealed": '{"manifest_sha256":"' + "12" * 32 + '","run_id":"r"}',
    "key-destroyed": '{"run_id":"r"}',
}  # fmt: skip
"""The entries of a ledger that was written before runs were bound to their keys."""


def test_a_ledger_of_before_keeps_its_hashes_and_is_read() -> None:
    previous, written = GENESIS, []
    for number, (kind, payload) in enumerate(AS_BEFORE.items(), 1):
        row = (number, "2030-04-01T00:00:00.000000Z", kind, payload, previous)
        previous = digest(*row)
        written.append((*row, previous))
    assert previous == "2c67a124bf5e059a0347301c42bcf25c27580c948e09010a04b89cceeb5294a9"  # as version 0.1.0 wrote it
    entries = read(written)
    assert [entry.row() for entry in entries] == written
    (run,) = fold(entries).runs.values()
    assert (run.state, run.key_commitment, run.key_destroyed) == ("sealed", None, True)


def test_a_run_is_bound_to_its_key_from_the_entry_before_the_first_draw(ledger: Ledger) -> None:
    reserve(ledger, "r", "1/2")
    assert ledger.mark_measured("r", sha("key")).key_commitment == sha("key")
    assert ledger.mark_measured("r", sha("key")).state == "measured"
    for other in (sha("another key"), ""):
        with pytest.raises(LedgerError) as refusal:
            ledger.mark_measured("r", other)
        assert refusal.value.findings[0].code == "ledger-other-key"
        assert sha("another key") not in str(refusal.value)
    assert [entry.kind for entry in ledger.history()] == ["open", "reserve", "measured"]


def test_a_run_that_was_measured_before_commitments_goes_on(ledger: Ledger) -> None:
    reserve(ledger, "r", "1/2")
    ledger.mark_measured("r")
    assert ledger.mark_measured("r", sha("key")).key_commitment is None
    assert [entry.kind for entry in ledger.history()] == ["open", "reserve", "measured"]
