"""The files of an inference: estimates by kind of area, what they were made of, and what they mean in words.

::

    DIR/
      estimates/GEOGRAPHY.parquet     every figure with both estimates and its interval (.csv, .sdmx.csv on request)
      shares/GEOGRAPHY.csv            shares, if they were asked for
      quantiles/GEOGRAPHY.csv         medians and other quantiles, if they were
      covariances/GEOGRAPHY.parquet   of the errors of two areas of a kind, on request
      inference.json                  source, rule, goodness of fit, warnings
      README.md                       the same in words

Rows are streamed, kind of area by kind of area. The folder is written beside its place and gets its name when it is
complete. Expected errors (``--accuracy``) are files of their own.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import TypedAnswer
from confide.engines.protocol import write_parquet, write_text
from confide.errors import ParameterError, Place
from confide.geography import AreaSet
from confide.inference.choosing import METHODS
from confide.inference.inferring import Inference
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.output.accuracy import PAGE, accuracy_table, page_of
from confide.mechanisms.topdown.released_problem import released_plan
from confide.report.charts import Chart, chart
from confide.report.geometry import read_geometry
from confide.version import __version__

ANSWER, README, ESTIMATES = "inference.json", "README.md", "estimates"
SHARES, QUANTILES, COVARIANCES = "shares", "quantiles", "covariances"
FORMATS = ("parquet", "csv", "sdmx")
FORM = "confide/inference/v1"
SDMX = {
    "estimate": "OBS_VALUE",
    "sd": "STD_ERROR",
    "low": "CI_LOWER",
    "high": "CI_UPPER",
    "level": "CONF_LEVEL",
    "method": "METHOD",
}
"""Columns of SDMX-CSV, by ours."""


def write_inference(
    answer: Inference, folder: Path, formats: Sequence[str] = ("parquet",), *, covariances: bool = False
) -> dict[str, Any]:
    """Writes an inference into a folder of its own: a new one, or that of an earlier inference, which it replaces.

    Args:
        answer: What :func:`confide.inference.infer` found.
        folder: Where to.
        formats: Of the estimates: ``parquet``, ``csv``, ``sdmx`` (SDMX-CSV), or several.
        covariances: Whether those between areas of a kind are written too.

    Returns:
        What ``inference.json`` says.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ParameterError(
            "bad-inference/format", where=Place(path="--format"), found=unknown[0], expected=", ".join(FORMATS)
        )
    if folder.exists() and not (folder / ANSWER).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError("bad-inference/something", where=Place(path="--out"), found=folder.name)
    for kind in answer.kinds if covariances else ():
        answer.statements(kind).require_pairs()
    beside = folder.parent / f".{folder.name}.being-written"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        (beside / ESTIMATES).mkdir(parents=True)
        rows = {kind.kind: _write_estimates(answer, beside, kind, formats) for kind in answer.kinds}
        _write_statements(beside / SHARES, {kind.kind: answer.share_rows(kind) for kind in answer.kinds})
        _write_statements(beside / QUANTILES, {kind.kind: answer.quantile_rows(kind) for kind in answer.kinds})
        if covariances:
            _write_covariances(answer, beside / COVARIANCES)
        facts = answer.facts() | {"form": FORM, "software": f"confide {__version__}", "rows": rows}
        (beside / ANSWER).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (beside / README).write_text(in_words(answer, facts), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except OSError as error:
        found = error.strerror or type(error).__name__
        raise ParameterError("bad-inference/estimates", where=Place(path="--out"), found=found) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return facts


def file_name(kind: str) -> str:
    """A kind of area as the name of a file: letters, digits and hyphens."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in kind)


def _write_estimates(answer: Inference, folder: Path, kind: Any, formats: Sequence[str]) -> int:
    stem, rows = folder / ESTIMATES / file_name(kind.kind), 0
    writers: list[Any] = []
    try:
        for name in formats:
            suffix = {"parquet": ".parquet", "csv": ".csv", "sdmx": ".sdmx.csv"}[name]
            path = stem.with_name(stem.name + suffix)
            schema = _sdmx_schema(answer.schema) if name == "sdmx" else answer.schema
            writers.append(pq.ParquetWriter(path, schema) if name == "parquet" else pyarrow.csv.CSVWriter(path, schema))
        for batch in answer.batches(kind):
            rows += batch.num_rows
            for name, writer in zip(formats, writers, strict=True):
                writer.write_batch(_sdmx_batch(batch, answer) if name == "sdmx" else batch)
    finally:
        for writer in writers:
            writer.close()
    return rows


def _sdmx_schema(schema: pa.Schema) -> pa.Schema:
    fixed = [("STRUCTURE", pa.string()), ("STRUCTURE_ID", pa.string()), ("ACTION", pa.string())]
    dimensions = [field for field in schema.names if field not in SDMX][: schema.names.index("estimate")]
    measured = [(SDMX[name], schema.field(name).type) for name in SDMX]
    return pa.schema([*fixed, *((name.upper(), pa.string()) for name in dimensions), *measured])


def _sdmx_batch(batch: pa.RecordBatch, answer: Inference) -> pa.RecordBatch:
    schema, rows = _sdmx_schema(answer.schema), batch.num_rows
    fixed = {"STRUCTURE": "dataflow", "STRUCTURE_ID": "CONFIDE:INFERENCE(1.0)", "ACTION": "I"}
    named = {name.upper(): name for name in batch.schema.names} | {theirs: ours for ours, theirs in SDMX.items()}
    columns = [pa.repeat(fixed[name], rows) if name in fixed else batch.column(named[name]) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _write_statements(folder: Path, by_kind: Mapping[str, Iterator[dict[str, Any]]]) -> None:
    """A CSV file for each kind of area of which something is said."""
    for kind, statements in by_kind.items():
        rows = list(statements)
        if rows:
            folder.mkdir(exist_ok=True)
            with (folder / f"{file_name(kind)}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)


def _write_covariances(answer: Inference, folder: Path) -> None:
    folder.mkdir()
    for kind in answer.kinds:
        statements = answer.statements(kind)
        tables = [statements.covariance_rows(query) for query in answer.queries]
        pq.write_table(pa.concat_tables(tables), folder / f"{file_name(kind.kind)}.parquet")


def in_words(answer: Inference, facts: dict[str, Any]) -> str:
    """What the files are, and what the margins in them mean, for people."""
    levels = " and ".join(f"{level:.0%}" for level in answer.levels)
    together = "All intervals of a query in an area hold at once with this probability." if answer.at_once else ""
    lines = [
        f"# Estimates with margins: {answer.source.title}",
        "",
        f"The intervals are of level {levels}: so often an interval has the confidential count in it. {together}",
        "",
        "## Files",
        "",
        *(f"- `{ESTIMATES}/{file_name(name)}`: {rows:,} rows" for name, rows in facts["rows"].items()),
        f"- `{ANSWER}`: the source, the rule, how the measurements fit, and warnings, for programs",
        "",
        "## Columns",
        "",
        "| column | what it is |",
        "|---|---|",
        *(f"| {field.name} | {field.metadata[b'description'].decode()} |" for field in answer.schema),
        "",
        "## Methods",
        "",
        *(f"- `{name}`: {words}" for name, words in METHODS.items()),
        "",
        "Both estimates and both standard deviations stand in every row. `method` says whose margin the interval is. "
        "It was chosen by a rule for kinds of area, queries and classes of figures, before any figure was looked at.",
        "",
        "## What to know",
        "",
        *(f"- {warning}" for warning in facts["warnings"]),
        f"- {facts['not_covered']}",
        "",
    ]
    if facts["fit"]:
        lines += [
            "## How the measurements fit",
            "",
            "The ratio is the realised variance of the residuals over the expected one, which is 1 but for chance.",
            "",
            "| level | query | measurements | ratio | |",
            "|---|---|---|---|---|",
        ]
        for fit in facts["fit"]:
            sign = "does not fit" if fit["suspicious"] else ""
            row = (fit["level"], fit["query"], f"{fit['measurements']:,}", f"{fit['ratio']:.4f}", sign)
            lines.append("| " + " | ".join(row).replace("*", "\\*") + " |")
        lines.append("")
    return "\n".join(lines)


# Pictures: intervals of areas side by side, and a map of how large margins are beside the figures.


MOST_INTERVALS = 60


def interval_chart(answer: Inference, kind: AreaSet) -> Chart:
    """The intervals of the first query in the areas of a kind, those with the largest figures first."""
    rows = _first_rows(answer, kind)
    rows = [row for row in rows if row["low"] is not None and row["estimate"] is not None]
    rows = sorted(rows, key=lambda row: -row["estimate"])[:MOST_INTERVALS]
    names = [name for name in answer.schema.names if name in answer.source.vocabulary.attributes]
    shown = [
        {
            "area": " ".join([row["code"], *(row[name] for name in names if row[name] != "all")]),
            "estimate": row["estimate"],
            "low": row["low"],
            "high": row["high"],
            "interval": f"{row['low']:,} to {row['high']:,}",
            "method": row["method"],
        }
        for row in rows
    ]
    return chart(
        "inference-intervals",
        shown,
        height=max(60, 14 * len(shown)),
        title=f"{answer.queries[0].name} in each {kind.kind}, with its {answer.levels[0]:.0%} interval",
    )


def margin_map(answer: Inference, kind: AreaSet, file: Path) -> Chart:
    """A map of half the width of the interval in per cent of the estimate, for the first query's first cell."""
    outlines = read_geometry(file, kind.kind, kind.codes)
    rows: dict[str, dict[str, Any]] = {}
    for row in _first_rows(answer, kind):
        rows.setdefault(row["code"], row)
    features: list[dict[str, Any]] = []
    for outline in outlines.outlines:
        row = rows[outline.code]
        known = row["low"] is not None and row["estimate"] and row["estimate"] > 0
        percent = 50 * (row["high"] - row["low"]) / row["estimate"] if known else None
        geometry = {"type": "MultiPolygon", "coordinates": outline.polygons}
        features.append({"type": "Feature", "geometry": geometry, "percent": percent})
    largest = max((feature["percent"] for feature in features if feature["percent"] is not None), default=1.0)
    return chart("inference-relative-margin", features, largest=min(100.0, largest))


def _first_rows(answer: Inference, kind: AreaSet) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = answer.table(kind.kind).to_pylist()
    first = answer.queries[0].name
    return [row for row in rows if row["query"] == first and row["level"] == answer.levels[0]]


# ``confide infer RELEASE --accuracy``: how far off figures may be, from the plan of a release alone.


ACCURACY_FILES = ("accuracy.parquet", "accuracy.csv", PAGE)


@dataclass(frozen=True, eq=False)
class Accuracy(TypedAnswer):
    """Expected errors of the figures of a release, by kind of area, query or line, and size."""

    manifest: Mapping[str, Any]
    table: pa.Table
    """The columns of :data:`confide.mechanisms.topdown.output.accuracy.ACCURACY_COLUMNS`."""
    method: str
    """How they were worked out."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "release": self.manifest["release"],
            "title": self.manifest["title"],
            "method": self.method,
            "accuracy": self.table.to_pylist(),
        }

    def page(self) -> str:
        """The page "How far off may a figure be?"."""
        return page_of(self.table, self.manifest, self.method, in_release=False)

    def write(self, folder: Path) -> list[Path]:
        """Writes the table, as Parquet and CSV, and the page into a folder."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_parquet(self.table, folder / ACCURACY_FILES[0])
            pyarrow.csv.write_csv(pq.read_table(folder / ACCURACY_FILES[0]), folder / ACCURACY_FILES[1])
            write_text(folder / ACCURACY_FILES[2], self.page())
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise ParameterError("bad-inference/files-written", where=Place(path="--out"), found=found) from None
        return [folder / name for name in ACCURACY_FILES]


def expected_accuracy(release: str | Path) -> Accuracy:
    """How far off the figures of a TopDown release may be expected to be, from its plan alone.

    Args:
        release: A sealed release, or the folder of its run.

    Returns:
        Expected errors by kind of area, query or line, and size of the figure.
    """
    released = released_plan(Path(release))
    problem = released.problem
    return Accuracy(released.manifest, accuracy_table(problem, problem.output), TopDownNoise(problem).method)
