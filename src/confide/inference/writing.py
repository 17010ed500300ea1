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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer, note
from confide.engines.protocol import write_parquet
from confide.errors import ParameterError, Place
from confide.file_system import write_text
from confide.geography import AreaSet
from confide.inference.area_statements import METHODS
from confide.inference.asked import read_areas
from confide.inference.inferring import LEVELS, NOT_COVERED, Inference, infer
from confide.inference.opened_source import no_spec, open_source
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.output.accuracy import PAGE, accuracy_table, page_of
from confide.mechanisms.topdown.released_problem import released_plan
from confide.report.charts import Chart, Pictures, chart, read_geometry
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
    """A CSV file for each kind of area that has rows."""
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


QUERIES_DESCRIBED = ("total", "votingage", "hispanic", "hispanic*cenrace")
"""The queries whose expected errors are described; all of them are in the files."""
ACCURACY_FILES = ("accuracy.parquet", "accuracy.csv", PAGE)


@dataclass(frozen=True, eq=False)
class Accuracy(TypedAnswer):
    """Expected errors of the figures of a release, by kind of area, query or line, and size."""

    manifest: Mapping[str, Any]
    table: pa.Table
    """The columns of :data:`confide.mechanisms.topdown.output.accuracy.ACCURACY_COLUMNS`."""
    method: str
    """How they were worked out."""
    files: tuple[Path, ...] = ()
    """Where they were written to."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "release": self.manifest["release"],
            "title": self.manifest["title"],
            "method": self.method,
            "accuracy": self.table.to_pylist(),
        } | ({"files": [str(path) for path in self.files]} if self.files else {})

    def described(self) -> Iterator[AnswerPart]:
        """The margin of the noise alone, and the expected error by size, of a few queries."""
        rows = [row for row in self.table.to_pylist() if row["query"] in QUERIES_DESCRIBED]
        sizes = list(dict.fromkeys(row["size"] for row in rows))
        lines: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            margin, error = (
                "" if row[name] is None else f"{row[name]:,.1f}" for name in ("margin_90", "expected_error")
            )
            lines.setdefault((row["query"], row["geography"]), [margin and f"±{margin}"]).append(error)
        columns = ["query", "areas", "90% ", *(f"{size} " for size in sizes)]
        title = (
            "How far off may a figure be? The margin of the noise alone, and the expected error by size of the figure"
        )
        yield ShownTable(columns, [(*key, *values) for key, values in lines.items()], title)
        yield note(NOT_COVERED)
        yield from (f"Written: {path}" for path in self.files)

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


# ``confide infer``: an answer with all that was asked beside its estimates, in sentences and tables.


MOST_DESCRIBED = 40
"""So many rows of each table are described."""
MOST_JSON = 200_000
"""So many rows are plain values; more belong into files."""


@dataclass(frozen=True, eq=False)
class WrittenInference(TypedAnswer):
    """Estimates from files, with what was asked beside them, and the folder that they were written to."""

    inference: Inference
    difference: Sequence[Mapping[str, Any]] | None = None
    """What one area has more than another."""
    ranks: Sequence[Mapping[str, Any]] | None = None
    """Which ranks the areas of a kind may have."""
    geometry: Mapping[str, Path] = field(default_factory=dict)
    """Outlines of kinds of areas, for maps."""
    folder: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What ``inference.json`` of the folder says."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``: all estimates, unless they were written."""
        asked = {"difference": self.difference, "ranks": self.ranks}
        values = self._values() if self.folder is None else {**self.facts, "folder": str(self.folder)}
        return values | {name: rows for name, rows in asked.items() if rows is not None}

    def _values(self) -> dict[str, Any]:
        answer = self.inference
        number = sum(kind.areas for kind in answer.kinds) * sum(query.cells for query in answer.queries)
        if number * len(answer.levels) > MOST_JSON:
            rows = number * len(answer.levels)
            raise ParameterError("too-many-rows/printed", where=Place(path="--json"), number=rows, most_json=MOST_JSON)
        return answer.as_dict()

    def pictures(self) -> Pictures:
        """The intervals of each kind of area, and a map of each kind with outlines."""
        answer = self.inference
        drawn: Pictures = {
            f"intervals-{number}": partial(interval_chart, answer, kind) for number, kind in enumerate(answer.kinds, 1)
        }
        kinds = {kind.kind: kind for kind in answer.kinds}
        for name, file in self.geometry.items():
            if name not in kinds:
                raise ParameterError("geometry/kind", where=Place(path="--geometry"), found=f"{name}={file}")
            drawn[f"relative-margin-{name}"] = partial(margin_map, answer, kinds[name], file)
        return drawn

    def described(self) -> Iterator[AnswerPart]:
        """The first rows of each kind of area, what was asked beside them, and how the measurements fit."""
        answer = self.inference
        yield Said(answer.source.title)
        yield "No confidential record was read, and nothing was spent.\n"
        room = MOST_DESCRIBED
        for kind in answer.kinds:
            rows = _first_rows_of(answer, kind, room, to_the_end=self.folder is None)
            room -= len(rows)
            yield from _estimates_described(answer, kind, rows)
        yield from _shares_described(answer)
        yield from _quantiles_described(answer)
        yield from _ranks_described(self.ranks or ())
        yield from _difference_described(self.difference)
        yield from _fit_described(answer)
        yield from map(note, (*answer.warnings, NOT_COVERED))
        if self.folder is not None:
            yield f"Written: {self.folder}"


def infer_files(
    source: str | Path,
    *,
    geographies: Sequence[str] = (),
    areas: str | Path | None = None,
    queries: Sequence[str] = (),
    tables: Sequence[str] = (),
    levels: Sequence[float] = LEVELS,
    method: Literal["auto", "gls", "release"] = "auto",
    replicates: str | Path | None = None,
    shares: Sequence[str] = (),
    difference: tuple[str, str] | None = None,
    medians: Sequence[str] = (),
    quantiles: Sequence[str] = (),
    ranks: bool = False,
    covariances: bool = False,
    at_once: bool = False,
    totals: str | Path | None = None,
    study: str | Path | None = None,
    spec: str | Path | None = None,
    out: str | Path | None = None,
    formats: Sequence[str] = ("parquet",),
    geometry: Mapping[str, str | Path] | None = None,
    accuracy: bool = False,
) -> WrittenInference | Accuracy:
    """Estimates with margins from a release or a file of noisy measurements, and files of them.

    Args:
        source: A TopDown release, the folder of its run, or a folder of noisy measurements.
        geographies: A level or kind of area. Default: all.
        areas: Other areas: CSV or Parquet, a block code and area codes in each line.
        queries: A query such as total or 'hispanic*cenrace'.
        tables: A table of the product by name, such as p1: all its lines.
        levels: The coverage of the intervals.
        method: Whose margins: by the fixed rule, of least squares, or of the released records.
        replicates: Replicates of the release, made by `confide infer replicate`.
        shares: A share of two counts, such as 'hispanic=1/total'.
        difference: The codes of two areas: the rows are differences between them.
        medians: The median of an ordered attribute, such as age.
        quantiles: Another quantile of one, such as age=0.9.
        ranks: Which ranks the areas of a kind may have.
        covariances: Write the covariances between areas of a kind too; needs ``out``.
        at_once: Let all intervals of a query in an area hold at once.
        totals: Known totals, such as those of the States: CSV with code and total.
        study: Coarser groups, where the histogram of a measurement file is too large: a TOML file.
        spec: Of measurements: the spec with their strategy.
        out: Write all estimates into DIR.
        formats: Of the files in DIR: parquet, csv, sdmx.
        geometry: GeoJSON outlines of a kind of area, for a map.
        accuracy: Expected errors from the plan alone, by kind of area, query and size.

    Returns:
        The estimates with what was asked beside them; with ``accuracy`` the expected errors.
    """
    folder = None if out is None else Path(out)
    if accuracy:
        no_spec(spec)
        expected = expected_accuracy(source)
        return expected if folder is None else replace(expected, files=tuple(expected.write(folder)))
    if covariances and folder is None:
        raise ParameterError("bad-inference/covariances", where=Place(path="--covariances"))
    opened = open_source(source, totals=totals, replicates=replicates, spec=spec, study=study)
    answer = infer(
        opened,
        queries,
        geographies,
        areas=[] if areas is None else read_areas(Path(areas), opened.block_codes),
        levels=levels,
        method=method,
        at_once=at_once,
        shares=shares,
        tables=tables,
        quantiles=[*medians, *quantiles],
    )
    facts = {} if folder is None else write_inference(answer, folder, formats, covariances=covariances)
    return WrittenInference(
        answer,
        None if difference is None else _differences(answer, difference),
        [row for kind in answer.kinds for row in answer.rank_rows(kind)] if ranks else None,
        {kind: Path(file) for kind, file in (geometry or {}).items()},
        folder,
        facts,
    )


def _differences(answer: Inference, codes: tuple[str, str]) -> list[dict[str, Any]]:
    if len(answer.kinds) != 1:
        raise ParameterError(
            "bad-inference/two", where=Place(path="--difference"), found=", ".join(kind.kind for kind in answer.kinds)
        )
    return answer.difference_rows(answer.kinds[0], *codes)


def _first_rows_of(answer: Inference, kind: AreaSet, room: int, *, to_the_end: bool) -> list[dict[str, Any]]:
    """The first rows of a kind of area, at most ``room``. Where no files were written, the whole of them is made, some
    at a time: small positive counts are counted on the way."""
    rows: list[dict[str, Any]] = []
    for batch in answer.batches(kind) if to_the_end or room else ():
        rows += batch.slice(0, room - len(rows)).to_pylist()
        if not to_the_end and len(rows) == room:
            break
    return rows


def _estimates_described(answer: Inference, kind: AreaSet, rows: Sequence[Mapping[str, Any]]) -> Iterator[AnswerPart]:
    if not rows:
        return
    total = kind.areas * sum(query.cells for query in answer.queries) * len(answer.levels)
    names = [name for name in answer.schema.names if name in answer.source.vocabulary.attributes]
    several = {"query": len(answer.queries) > 1, "cell": bool(names) or "label" in rows[0]}
    several["level"] = len(answer.levels) > 1
    shown = []
    for row in rows:
        values = {
            "code": row["code"],
            "query": row["query"],
            "cell": row.get("label") or ", ".join(row[name] for name in names if row[name] != "all"),
            "estimate ": _plain(row["estimate"]),
            "margin ": _margin(row),
            "interval ": "no interval" if row["low"] is None else f"{row['low']:,} to {row['high']:,}",
            "level ": f"{row['level']:.0%}",
            "method": row["method"] + (" *" if row["catches_the_eye"] else ""),
            "other ": _plain(row["released"] if row["method"] == "gls" else row["gls"]),
        }
        shown.append({name: text for name, text in values.items() if several.get(name.strip(), True)})
    asked = "" if several["query"] else f", {answer.queries[0].name}"
    at = "" if several["level"] else f", {answer.levels[0]:.0%}"
    folded = "cell" if several["cell"] else "code"
    yield ShownTable(list(shown[0]), [list(row.values()) for row in shown], f"{kind.kind}{asked}{at}", folded)
    if total > len(rows):
        yield f"and {total - len(rows):,} more; --out writes all of them"
    yield ""


def _difference_described(rows: Sequence[Mapping[str, Any]] | None) -> Iterator[AnswerPart]:
    if rows is None:
        return
    shown = [
        (
            row["query"],
            row["cell"],
            f"{row['difference']:,.1f}",
            f"{row['low']:,} to {row['high']:,}",
            f"{row['level']:.0%}",
            f"{row['first_is_larger']:.3f}",
        )
        for row in rows[:MOST_DESCRIBED]
    ]
    columns = ["query", "cell", "difference ", "interval ", "level ", "first is larger "]
    yield ShownTable(columns, shown, "The first area less the second")
    yield ""


def _shares_described(answer: Inference) -> Iterator[AnswerPart]:
    rows = [row for kind in answer.kinds for row in answer.share_rows(kind)] if answer.shares else []
    shown = [
        (
            row["geography"],
            row["code"],
            f"{row['part']} / {row['base']}",
            "" if row["share"] is None else f"{row['share']:.1%}",
            f"{row['low']:.1%} to {row['high']:.1%}" if row["bounded"] else "no bounded interval",
            f"{row['level']:.0%}",
            f"{row['more_than_half']:.3f}",
        )
        for row in rows[:MOST_DESCRIBED]
    ]
    if shown:
        columns = ["geography", "code", "share", "estimate ", "interval ", "level ", "more than half "]
        yield ShownTable(columns, shown, title="Shares")
        yield ""


def _quantiles_described(answer: Inference) -> Iterator[AnswerPart]:
    rows = [row for kind in answer.kinds for row in answer.quantile_rows(kind)] if answer.quantiles else []
    shown = [
        (
            row["geography"],
            row["code"],
            row["attribute"],
            f"{row['quantile']:g}",
            row["low"] if row["low"] == row["high"] else f"{row['low']} to {row['high']}",
            f"{row['level']:.0%}",
        )
        for row in rows[:MOST_DESCRIBED]
    ]
    if shown:
        columns = ["geography", "code", "attribute", "quantile ", "lies in", "level "]
        yield ShownTable(columns, shown, title="Medians and other quantiles")
        yield ""


def _ranks_described(rows: Sequence[Mapping[str, Any]]) -> Iterator[AnswerPart]:
    room = MOST_DESCRIBED
    for kind in dict.fromkeys(row["geography"] for row in rows):
        own = [row for row in rows if row["geography"] == kind]
        shown = [
            (
                row["code"],
                row["query"],
                row["cell"],
                f"{row['estimate']:,.1f}",
                str(row["rank"]),
                f"{row['low']} to {row['high']}",
                f"{row['level']:.0%}",
                f"{row['has_the_most']:.3f}",
            )
            for row in sorted(own, key=lambda row: (row["query"], row["cell"], row["level"], row["rank"]))[:room]
        ]
        if shown:
            columns = ["code", "query", "cell", "estimate ", "rank ", "may be ", "level ", "has the most "]
            title = f"Ranks among {kind}; all intervals of a cell hold at once"
            yield ShownTable(columns, shown, title=title, folded="cell")
            yield ""
        room -= len(shown)


def _fit_described(answer: Inference) -> Iterator[AnswerPart]:
    """The ratio of realised to expected variance: queries by levels."""
    fits = {(fit["query"], fit["level"]): fit for fit in answer.fit_rows()}
    if not fits:
        return
    queries = list(dict.fromkeys(query for query, _ in fits))
    levels = list(dict.fromkeys(level for _, level in fits))
    rows = [(query, *(_ratio(fits.get((query, level))) for level in levels)) for query in queries]
    title = "How the measurements fit: realised over expected variance, 1 but for chance; ! does not fit"
    yield ShownTable(["query", *(f"{level} " for level in levels)], rows, title=title)
    yield ""


def _ratio(fit: dict[str, Any] | None) -> str:
    return "" if fit is None else f"{fit['ratio']:.3f}" + (" !" if fit["suspicious"] else "")


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:,.1f}"


def _margin(row: Mapping[str, Any]) -> str:
    """Half of the interval, where the estimate is about its middle; elsewhere it would mislead."""
    if row["low"] is None or row["estimate"] is None:
        return ""
    half = (row["high"] - row["low"]) / 2
    return f"±{half:,.1f}" if abs(row["low"] + half - row["estimate"]) <= 1 else ""
