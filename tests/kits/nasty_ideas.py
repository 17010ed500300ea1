"""Nasty things to do to a project: what a tired person, another program or a full disk leaves behind.

Each takes a copy of an example and spoils it in one way; it says so by returning ``None`` where the mechanism has no
such file or key. Whether the project is still right is for Confide to say: it is refused, or it ends in a release.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.contract.kit import Project

Idea = Callable[[Project], object]
IDEAS: dict[str, Idea] = {}
SKIP = "no such thing here"


def idea(function: Idea) -> Idea:
    """Lists one under its name."""
    IDEAS[function.__name__.replace("_", " ")] = function
    return function


def spec_of(project: Project, old: str, new: str) -> object:
    """Changes the spec where it says so."""
    text = project.spec.read_text(encoding="utf-8")
    if old not in text:
        return SKIP
    project.spec.write_text(text.replace(old, new, 1), encoding="utf-8")
    return None


def with_key(project: Project, part: str, line: str) -> object:
    """Adds a line to a part of the spec."""
    return spec_of(project, f"[{part}]", f"[{part}]\n{line}\n#")


def file_of(project: Project, key: str) -> Path | None:
    """The file that the spec names under ``[data]``."""
    name = str(project.values["data"].get(key, ""))
    path = project.folder / name
    return path if name and path.is_file() else None


def rows_of(file: Path) -> pa.Table:
    if file.suffix == ".parquet":
        return pq.read_table(file)
    delimiter = "|" if file.suffix == ".txt" else ","
    strings = pyarrow.csv.read_csv(file, parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter)).column_names
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(strings, pa.string()), strings_can_be_null=False)
    options = pyarrow.csv.ParseOptions(delimiter=delimiter)
    return pyarrow.csv.read_csv(file, parse_options=options, convert_options=convert)


def write_rows(file: Path, table: pa.Table) -> None:
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    else:
        delimiter = "|" if file.suffix == ".txt" else ","
        lines = [delimiter.join(table.column_names)]
        lines += [delimiter.join("" if v is None else str(v) for v in row.values()) for row in table.to_pylist()]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def change_rows(project: Project, key: str, change: Callable[[pa.Table], pa.Table]) -> object:
    file = file_of(project, key)
    if file is None:
        return SKIP
    write_rows(file, change(rows_of(file)))
    return None


def change_schema(project: Project, old: str, new: str) -> object:
    if project.schema is None or old not in project.schema.read_text(encoding="utf-8"):
        return SKIP
    project.schema.write_text(project.schema.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    return None


def replace_file(project: Project, key: str, make: Callable[[Path], object]) -> object:
    file = file_of(project, key)
    if file is None:
        return SKIP
    file.unlink()
    make(file)
    return None


# Labels and names.


@idea
def labels_that_normalise_alike(project: Project) -> object:
    return change_schema(project, '"male"], [2, "female"', '"caf\u00e9"], [2, "cafe\u0301"')


@idea
def labels_that_differ_in_a_blank_at_the_end(project: Project) -> object:
    return change_schema(project, '"male"], [2, "female"', '"one"], [2, "one "')


@idea
def labels_that_differ_in_case(project: Project) -> object:
    return change_schema(project, '"male"], [2, "female"', '"M"], [2, "m"')


@idea
def a_label_of_many_characters(project: Project) -> object:
    return change_schema(project, '"male"', '"' + "long " * 4000 + '"')


@idea
def a_label_with_a_sign_that_turns_text_around(project: Project) -> object:
    return change_schema(project, '"male"', '"\u202emale"')


@idea
def a_code_beyond_64_bits(project: Project) -> object:
    return change_schema(project, '[1, "male"]', f'[1, "male"], [{2**63}, "more"]')


@idea
def a_code_at_the_end_of_64_bits(project: Project) -> object:
    return change_schema(project, '[1, "male"]', f'[1, "male"], [{-(2**63)}, "more"]')


@idea
def attributes_that_normalise_alike(project: Project) -> object:
    more = (
        '[attributes."\u00e9"]\nlevels = [["x", "x"]]\n[attributes."e\u0301"]\nlevels = [["x", "x"]]\n[attributes.sex]'
    )
    return change_schema(project, "[attributes.sex]", more)


@idea
def an_attribute_with_a_very_long_name(project: Project) -> object:
    return change_schema(
        project, "[attributes.sex]", f"[attributes.{'x' * 5000}]\nlevels = [[1, 'a']]\n[attributes.sex]"
    )


@idea
def a_title_of_signs(project: Project) -> object:
    return spec_of(project, 'title = "', 'title = "\u202e<script>{{ 7*7 }}</script>\u0000'.replace("\0", "\\u0007"))


@idea
def a_release_named_as_a_file_of_ours(project: Project) -> object:
    return spec_of(project, f'name = "{project.values["release"]["name"]}"', 'name = "confidential"')


# What is written, and where.


@idea
def a_format_twice(project: Project) -> object:
    return spec_of(project, '"parquet", "csv"', '"csv", "csv"')


@idea
def the_folder_of_the_spec_as_the_folder_of_the_run(project: Project) -> object:
    return with_key(project, "output", 'folder = "."')


@idea
def the_ledger_as_the_folder_of_the_run(project: Project) -> object:
    return with_key(project, "output", 'folder = "data-set.ledger"')


@idea
def a_folder_that_is_a_dangling_link(project: Project) -> object:
    project.run_folder.symlink_to(project.folder / "nowhere")
    return None


@idea
def a_folder_that_is_a_link_in_a_circle(project: Project) -> object:
    project.run_folder.symlink_to(project.run_folder)
    return None


@idea
def a_folder_with_a_name_beyond_what_a_disk_takes(project: Project) -> object:
    return with_key(project, "output", f'folder = "{"x" * 300}"')


# Files that are none.


@idea
def records_that_are_a_folder(project: Project) -> object:
    return replace_file(project, "records", Path.mkdir)


@idea
def records_that_are_a_pipe(project: Project) -> object:
    return replace_file(project, "records", os.mkfifo)


@idea
def records_that_are_a_socket(project: Project) -> object:
    def bind(path: Path) -> None:
        # Paths of sockets are short: bound from the folder itself.
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as unread:
                unread.bind(path.name)
        finally:
            os.chdir(before)

    return replace_file(project, "records", bind)


@idea
def records_that_link_in_a_circle(project: Project) -> object:
    return replace_file(project, "records", lambda path: path.symlink_to(path))


@idea
def blocks_that_are_a_pipe(project: Project) -> object:
    return replace_file(project, "blocks", os.mkfifo)


@idea
def a_schema_that_is_a_pipe(project: Project) -> object:
    return replace_file(project, "schema", os.mkfifo)


@idea
def a_schema_that_is_a_folder(project: Project) -> object:
    return replace_file(project, "schema", Path.mkdir)


@idea
def a_list_of_codes_that_is_a_pipe(project: Project) -> object:
    return replace_file(project, "code_to_iteration", os.mkfifo)


@idea
def a_perturbation_table_that_is_a_pipe(project: Project) -> object:
    if project.name != "cellkey":
        return SKIP
    os.mkfifo(project.folder / "p.csv")
    text = project.spec.read_text(encoding="utf-8")
    start, end = text.index("[cellkey]"), text.index("[[tables]]")
    project.spec.write_text(text[:start] + '[cellkey]\nptable = "p.csv"\n' + text[end:], encoding="utf-8")
    return None


@idea
def a_strategy_that_is_a_pipe(project: Project) -> object:
    os.mkfifo(project.folder / "s.toml")
    return spec_of(project, 'strategy = "pl94-persons"', 'strategy = "s.toml"')


@idea
def settings_that_are_a_pipe(project: Project) -> object:
    os.mkfifo(project.folder / "s.toml")
    return spec_of(project, 'variant = "targeted"', 'settings = "s.toml"\nvariant = "targeted"')


@idea
def sets_of_areas_that_are_a_pipe(project: Project) -> object:
    os.mkfifo(project.folder / "s.txt")
    return spec_of(project, 'coterminous = "derived"', 'coterminous = "s.txt"')


@idea
def measurements_with_a_pipe_among_them(project: Project) -> object:
    folder = project.folder / "measurements"
    if not folder.is_dir():
        return SKIP
    file = next(path for path in sorted(folder.rglob("*.parquet")) if path.is_file())
    os.mkfifo(file.parent / "part-99999.parquet")
    return None


@idea
def a_ledger_that_is_a_pipe(project: Project) -> object:
    if project.ledger is None:
        return SKIP
    project.ledger.unlink()
    os.mkfifo(project.ledger)
    return None


@idea
def a_ledger_that_is_a_folder(project: Project) -> object:
    if project.ledger is None:
        return SKIP
    project.ledger.unlink()
    project.ledger.mkdir()
    return None


@idea
def a_ledger_that_is_the_records(project: Project) -> object:
    records = project.values["data"].get("records")
    return SKIP if project.ledger is None else spec_of(project, 'ledger = "data-set.ledger"', f'ledger = "{records}"')


# Rows that are none, or too many, or of other types.


@idea
def an_empty_frame(project: Project) -> object:
    return change_rows(project, "blocks", lambda table: table.slice(0, 0))


@idea
def a_frame_with_a_row_twice(project: Project) -> object:
    return change_rows(project, "blocks", lambda table: pa.concat_tables([table, table.slice(0, 1)]))


@idea
def a_frame_of_one_block(project: Project) -> object:
    """The block of the first record, which has all records."""
    frame, records = file_of(project, "blocks"), file_of(project, "records")
    if frame is None or records is None or project.name in ("safetab", "safetab-h", "phsafe"):
        return SKIP
    people = rows_of(records)
    block = people.column("geocode")[0].as_py()
    homes = rows_of(frame).to_pylist()
    write_rows(frame, pa.Table.from_pylist([row for row in homes if row["geocode"] == block]))
    place = people.column_names.index("geocode")
    only = [row for row in people.to_pylist() if row["geocode"] == block]
    write_rows(records, pa.Table.from_pylist(only, people.schema) if place >= 0 else people)
    return None


@idea
def a_frame_with_a_negative_size(project: Project) -> object:
    return _size(project, -1)


@idea
def a_frame_with_a_size_that_limits_nobody(project: Project) -> object:
    return _size(project, 7 * 10**8)


@idea
def a_frame_with_an_enormous_size(project: Project) -> object:
    return _size(project, 10**17)


@idea
def a_frame_with_a_size_at_the_end_of_64_bits(project: Project) -> object:
    return _size(project, 2**63 - 1)


@idea
def a_frame_with_a_size_beyond_64_bits(project: Project) -> object:
    return _size(project, 2**70)


def _size(project: Project, number: int) -> object:
    file = file_of(project, "blocks")
    if file is None or "housing_units" not in (table := rows_of(file)).column_names:
        return SKIP
    rows = [row | {"housing_units": str(number)} for row in table.to_pylist()]
    write_rows(file, pa.Table.from_pylist(rows))
    return None


@idea
def one_record(project: Project) -> object:
    return change_rows(project, "records", lambda table: table.slice(0, 1))


@idea
def no_record(project: Project) -> object:
    return change_rows(project, "records", lambda table: table.slice(0, 0))


@idea
def records_in_utf_16(project: Project) -> object:
    return _bytes(project, lambda content: content.decode().encode("utf-16"))


@idea
def records_with_a_byte_order_mark(project: Project) -> object:
    return _bytes(project, lambda content: b"\xef\xbb\xbf" + content)


@idea
def records_with_lines_of_windows(project: Project) -> object:
    return _bytes(project, lambda content: content.replace(b"\n", b"\r\n"))


@idea
def records_with_a_quote_that_is_never_closed(project: Project) -> object:
    return _bytes(project, lambda content: content + b'"')


@idea
def records_with_a_zero_byte(project: Project) -> object:
    return _bytes(project, lambda content: content + b"\x00\n")


@idea
def records_with_a_row_that_is_too_long(project: Project) -> object:
    return _bytes(project, lambda content: content + content.splitlines()[-1] + b",|9,|9\n")


@idea
def records_with_a_column_twice(project: Project) -> object:
    def doubled(content: bytes) -> bytes:
        sign = b"|" if b"|" in content else b","
        return b"\n".join(line + sign + line.split(sign)[0] for line in content.splitlines()) + b"\n"

    return _bytes(project, doubled)


def _bytes(project: Project, change: Callable[[bytes], bytes]) -> object:
    file = file_of(project, "records")
    if file is None or file.suffix == ".parquet":
        return SKIP
    file.write_bytes(change(file.read_bytes()))
    return None


@idea
def records_of_other_types(project: Project) -> object:
    """Dictionaries, and whole numbers of another width."""

    def other(table: pa.Table) -> pa.Table:
        columns: dict[str, Any] = {}
        for name in table.column_names:
            column = table.column(name).combine_chunks()
            columns[name] = column.dictionary_encode() if pa.types.is_string(column.type) else column.cast(pa.int64())
        return pa.table(columns)

    file = file_of(project, "records")
    return SKIP if file is None or file.suffix != ".parquet" else change_rows(project, "records", other)


@idea
def weights_that_overflow(project: Project) -> object:
    if project.name != "cellkey":
        return SKIP

    def heavy(table: pa.Table) -> pa.Table:
        place = table.column_names.index("weight")
        return table.set_column(place, "weight", pa.array([2**62] * table.num_rows, pa.int64()))

    return change_rows(project, "records", heavy)


# Settings against each other.


@idea
def around_an_area_twice(project: Project) -> object:
    return spec_of(project, 'around = ["place"]', 'around = ["place", "place", "cousub"]')


@idea
def two_names_for_one_column(project: Project) -> object:
    return with_key(project, "data", 'columns = { sex = "age" }')


@idea
def a_column_with_the_name_of_the_block(project: Project) -> object:
    return with_key(project, "data", 'columns = { geocode = "sex" }')


@idea
def a_budget_of_many_digits(project: Project) -> object:
    budget = str(project.values.get("privacy", {}).get("budget"))
    return spec_of(project, f'budget = "{budget}"', f'budget = "{"1" * 99}/{"3" * 99}"')


@idea
def a_noise_margin_of_nearly_one(project: Project) -> object:
    if "noise_margin" in project.spec.read_text():
        return spec_of(project, 'noise_margin = "0.95"', f'noise_margin = "0.{"9" * 60}"')
    return with_key(project, "output", f'noise_margin = "0.{"9" * 60}"')


@idea
def a_table_of_one_cell(project: Project) -> object:
    return spec_of(project, 'variables = ["sex"', "variables = [] #")


@idea
def a_spec_with_a_byte_order_mark(project: Project) -> object:
    project.spec.write_bytes(b"\xef\xbb\xbf" + project.spec.read_bytes())
    return None


@idea
def a_spec_in_utf_16(project: Project) -> object:
    project.spec.write_bytes(project.spec.read_text(encoding="utf-8").encode("utf-16"))
    return None
