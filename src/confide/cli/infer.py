"""``confide infer`` and ``confide infer replicate``: estimates with margins, and what figures are off by.

And ``confide rehearse``: a release of made-up records, before anything is spent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

import confide
from confide.cli.commands import setting
from confide.cli.requests import command
from confide.cli.show import Json, Plots, err, out, print_json, table, write
from confide.cli.verbs import show_headline
from confide.errors import ParameterError, Place
from confide.geography import AreaSet
from confide.inference import Replicates, open_source
from confide.inference import infer as answer_of
from confide.inference.areas import read_areas
from confide.inference.inferring import NOT_COVERED, Inference
from confide.inference.opened_source import no_spec
from confide.inference.writing import FORMATS, expected_accuracy, interval_chart, margin_map, write_inference
from confide.rehearsal import EVALUATING, Rehearsal

MOST_ROWS = 40
ACCURACY_SHOWN = ("total", "votingage", "hispanic", "hispanic*cenrace")
"""The queries whose expected errors the terminal shows; all of them are in the files."""
MOST_JSON = 200_000
"""So many rows are printed as JSON; more belong into files."""


def infer(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A TopDown release, the folder of its run, or a folder of noisy measurements."
        ),
    ],
    geography: Annotated[
        list[str] | None, typer.Option(help="A level or kind of area; several times for several. Default: all.")
    ] = None,
    areas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other areas: CSV or Parquet, a block code and area codes in each line."),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="A query such as total or 'hispanic*cenrace'; several times for several.")
    ] = None,
    table_name: Annotated[
        list[str] | None,
        typer.Option("--table", help="A table of the product by name, such as p1: all its lines; may be repeated."),
    ] = None,
    level: Annotated[
        list[float] | None, typer.Option(help="The coverage of the intervals; several times for several.")
    ] = None,
    method: Annotated[
        Literal["auto", "gls", "release"],
        typer.Option(help="Whose margins: by the fixed rule, of least squares, or of the released records."),
    ] = "auto",
    replicates: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Replicates of the release, made by `confide infer replicate`.")
    ] = None,
    share: Annotated[
        list[str] | None, setting(help="A share of two counts, such as 'hispanic=1/total'; may be repeated.")
    ] = None,
    difference: Annotated[
        tuple[str, str] | None, setting(metavar="A B", help="The codes of two areas: what one has more.")
    ] = None,
    median: Annotated[
        list[str] | None, setting(help="The median of an ordered attribute, such as age; may be repeated.")
    ] = None,
    quantile: Annotated[
        list[str] | None, setting(metavar="NAME=SHARE", help="Another quantile of one, such as age=0.9.")
    ] = None,
    ranks: Annotated[bool, setting("--ranks", help="Which ranks the areas of a kind may have.")] = False,
    covariances: Annotated[
        bool, setting("--covariances", help="Write the covariances between areas of a kind too; needs --out.")
    ] = False,
    at_once: Annotated[
        bool, setting("--at-once", help="Let all intervals of a query in an area hold at once.")
    ] = False,
    totals: Annotated[
        Path | None,
        setting(metavar="FILE", help="Known totals, such as those of the States: CSV with code and total."),
    ] = None,
    study: Annotated[
        Path | None,
        setting(
            metavar="FILE", help="Coarser groups, where the histogram of a measurement file is too large: a TOML file."
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(
            "--spec",
            metavar="FILE",
            help="Of measurements: the spec with their strategy.",
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write all estimates into DIR.")] = None,
    formats: Annotated[
        list[str] | None, setting("--format", help=f"Of the files in DIR: {', '.join(FORMATS)}.")
    ] = None,
    geometry: Annotated[
        list[str] | None,
        setting(metavar="KIND=FILE", help="GeoJSON outlines of a kind of area, for a map; needs --plots."),
    ] = None,
    accuracy: Annotated[
        bool, setting("--accuracy", help="Expected errors from the plan alone, by kind of area, query and size.")
    ] = False,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """Estimates with margins for any query and area, from a TopDown release or a file of noisy measurements.

    No confidential record is read and nothing is spent. Every row has two estimates: by least squares over all noisy
    measurements, and of the released records. A rule that looks at no figure says whose margin is given.
    """
    if accuracy:
        no_spec(spec)
        _accuracy(source, folder, as_json=as_json)
        return
    if covariances and folder is None:
        raise ParameterError("bad-inference/covariances", where=Place(path="--covariances"))
    opened = open_source(source, totals=totals, replicates=replicates, spec=spec, study=study)
    given = [] if areas is None else read_areas(areas, opened.block_codes)
    answer = answer_of(
        opened,
        query or (),
        geography or (),
        areas=given,
        levels=level or (0.9,),
        method=method,
        at_once=at_once,
        shares=share or (),
        tables=table_name or (),
        quantiles=[*(median or ()), *(quantile or ())],
    )
    drawn = [] if plots is None else _draw(answer, plots, geometry or [])
    written = formats or ("parquet",)
    facts = None if folder is None else write_inference(answer, folder, written, covariances=covariances)
    extra: dict[str, list[dict[str, Any]]] = {}
    if difference is not None:
        extra["difference"] = _differences(answer, difference)
    if ranks:
        extra["ranks"] = [row for kind in answer.kinds for row in answer.rank_rows(kind)]
    if as_json:
        values = _values(answer) if facts is None else facts | {"folder": str(folder)}
        print_json(values | extra | ({"plots": [str(path) for path in drawn]} if drawn else {}))
        return
    _show(answer, extra, written=folder is not None)
    if folder is not None:
        out.print(f"Written: {escape(str(folder))}")
    for path in drawn:
        out.print(f"Drawn: {escape(str(path))}")


def _accuracy(source: Path, folder: Path | None, *, as_json: bool) -> None:
    answer = expected_accuracy(source)
    written = [] if folder is None else answer.write(folder)
    if as_json:
        print_json(answer.as_dict() | ({"files": [str(path) for path in written]} if written else {}))
        return
    rows = [row for row in answer.table.to_pylist() if row["query"] in ACCURACY_SHOWN]
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    lines: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        margin, error = (None if row[name] is None else f"{row[name]:,.1f}" for name in ("margin_90", "expected_error"))
        head = lines.setdefault((row["query"], row["geography"]), ["" if margin is None else f"±{margin}"])
        head.append(error or "")
    title = "How far off may a figure be? The margin of the noise alone, and the expected error by size of the figure"
    columns = ["query", "areas", "90% ", *(f"{size} " for size in sizes)]
    table(columns, [(*key, *values) for key, values in lines.items()], title=title)
    out.print(f"[yellow]note[/] {NOT_COVERED}")
    for path in written:
        out.print(f"Written: {escape(str(path))}")


def _values(answer: Inference) -> dict[str, Any]:
    number = sum(kind.areas for kind in answer.kinds) * sum(query.cells for query in answer.queries)
    if number * len(answer.levels) > MOST_JSON:
        raise ParameterError(
            "too-many-rows/printed", where=Place(path="--json"), number=number * len(answer.levels), most_json=MOST_JSON
        )
    return answer.as_dict()


def _differences(answer: Inference, codes: tuple[str, str]) -> list[dict[str, Any]]:
    if len(answer.kinds) != 1:
        raise ParameterError(
            "bad-inference/two", where=Place(path="--difference"), found=", ".join(kind.kind for kind in answer.kinds)
        )
    return answer.difference_rows(answer.kinds[0], *codes)


def _show(answer: Inference, extra: dict[str, list[dict[str, Any]]], *, written: bool) -> None:
    out.print(f"[bold]{escape(answer.source.title)}[/]")
    out.print("No confidential record was read, and nothing was spent.\n")
    room = MOST_ROWS
    for kind in answer.kinds:
        room -= _rows(answer, kind, room, to_the_end=not written)
    _shares(answer)
    _quantiles(answer)
    _ranks(extra.get("ranks", []))
    if "difference" in extra:
        shown = [
            (
                row["query"],
                row["cell"],
                f"{row['difference']:,.1f}",
                f"{row['low']:,} to {row['high']:,}",
                f"{row['level']:.0%}",
                f"{row['first_is_larger']:.3f}",
            )
            for row in extra["difference"][:MOST_ROWS]
        ]
        columns = ["query", "cell", "difference ", "interval ", "level ", "first is larger "]
        table(columns, shown, title="The first area less the second")
        out.print()
    _fit(answer)
    for warning in answer.warnings:
        out.print(f"[yellow]note[/] {escape(warning)}")
    out.print(f"[yellow]note[/] {NOT_COVERED}")


def _rows(answer: Inference, kind: AreaSet, room: int, *, to_the_end: bool) -> int:
    """Prints the first rows of a kind of area, at most ``room``; returns how many. Where no files were written, the
    whole of them is made, some at a time: which figures catch the eye is counted on the way."""
    rows: list[dict[str, Any]] = []
    total = kind.areas * sum(query.cells for query in answer.queries) * len(answer.levels)
    for batch in answer.batches(kind) if to_the_end or room else ():
        rows += batch.slice(0, room - len(rows)).to_pylist()
        if not to_the_end and len(rows) == room:
            break
    if not rows:
        return 0
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
    title = escape(f"{kind.kind}{asked}{at}")
    folded = "cell" if several["cell"] else "code"
    table(list(shown[0]), [list(row.values()) for row in shown], title=title, folded=folded)
    if total > len(rows):
        out.print(f"and {total - len(rows):,} more; --out writes all of them")
    out.print()
    return len(rows)


def _plain(number: float | None) -> str:
    return "" if number is None else f"{number:,.1f}"


def _margin(row: dict[str, Any]) -> str:
    """Half of the interval, where the estimate is about its middle; elsewhere it would mislead."""
    if row["low"] is None or row["estimate"] is None:
        return ""
    half = (row["high"] - row["low"]) / 2
    return f"±{half:,.1f}" if abs(row["low"] + half - row["estimate"]) <= 1 else ""


def _shares(answer: Inference) -> None:
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
        for row in rows[:MOST_ROWS]
    ]
    if shown:
        columns = ["geography", "code", "share", "estimate ", "interval ", "level ", "more than half "]
        table(columns, shown, title="Shares")
        out.print()


def _quantiles(answer: Inference) -> None:
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
        for row in rows[:MOST_ROWS]
    ]
    if shown:
        columns = ["geography", "code", "attribute", "quantile ", "lies in", "level "]
        table(columns, shown, title="Medians and other quantiles")
        out.print()


def _ranks(rows: list[dict[str, Any]]) -> None:
    room = MOST_ROWS
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
            title = escape(f"Ranks among {kind}; all intervals of a cell hold at once")
            table(columns, shown, title=title, folded="cell")
            out.print()
        room -= len(shown)


def _fit(answer: Inference) -> None:
    """The ratio of realised to expected variance: queries by levels."""
    fits = {(fit["query"], fit["level"]): fit for fit in answer.fit_rows()}
    if not fits:
        return
    queries = list(dict.fromkeys(query for query, _ in fits))
    levels = list(dict.fromkeys(level for _, level in fits))
    rows = [(query, *(_ratio(fits.get((query, level))) for level in levels)) for query in queries]
    title = "How the measurements fit: realised over expected variance, 1 but for chance; ! does not fit"
    table(["query", *(f"{level} " for level in levels)], rows, title=title)
    out.print()


def _ratio(fit: dict[str, Any] | None) -> str:
    return "" if fit is None else f"{fit['ratio']:.3f}" + (" !" if fit["suspicious"] else "")


def _draw(answer: Inference, folder: Path, geometry: list[str]) -> list[Path]:
    pictures: dict[str, Any] = {
        f"intervals-{number + 1}.svg": (lambda kind=kind: interval_chart(answer, kind))
        for number, kind in enumerate(answer.kinds)
    }
    for text in geometry:
        name, sign, file = text.partition("=")
        kinds = [kind for kind in answer.kinds if kind.kind == name]
        if not sign or not kinds:
            raise ParameterError("geometry/kind", where=Place(path="--geometry"), found=text)
        pictures[f"relative-margin-{name}.svg"] = lambda kind=kinds[0], file=file: margin_map(answer, kind, Path(file))
    return write(folder, pictures)


def _show_rehearsal(answer: Rehearsal) -> None:
    plan = answer.run.plan
    by_size = f", in proportion to the column {answer.sizes!r}" if answer.sizes else ""
    out.print(
        f"\nRehearsed with {answer.records:,} made-up records{by_size}. Nothing was spent, and no record was read."
    )
    accuracy = answer.evaluated.accuracy.reveal("the people of a rehearsal are made up")
    show_headline(accuracy, "Made-up records: released compared with true")
    said = confide.MECHANISMS[plan.mechanism].explain
    if plan.has_loss:
        out.print(f"A real run would have {said.contents(plan)} and cost {plan.loss} ({plan.neighbours.value}).")
    else:
        out.print(f"A real run would have {said.contents(plan)}. {said.unaccounted(plan)}")
    table(["stage", "seconds "], [(stage, f"{taken:,.1f}") for stage, taken in answer.seconds.items()])
    out.print(_estimate(answer))
    verified = "verified" if answer.verification.ok else "NOT AS SEALED"
    out.print(f"release      {escape(str(answer.run.release))}  ({verified})")
    out.print(f"{answer.document.stem:11}  {escape(str(answer.document))}")
    out.print(f"dossier      {escape(str(answer.evaluated.dossier))}")
    err.print("[bold red]NOT FOR RELEASE[/]: a rehearsal on made-up records")


def _estimate(answer: Rehearsal) -> str:
    said = f"The run took {answer.run_seconds:,.1f} s, the dossier {answer.seconds[EVALUATING]:,.1f} s."
    bounds = answer.estimate()
    if bounds is None:
        return f"{said} For an estimate with all your records: --expected N."
    least, most = (_duration(seconds) for seconds in bounds)
    return f"{said} With {answer.expected:,} records a run should take from {least} to {most} on this machine."


def _duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is read most easily."""
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


# ``confide infer replicate``: a TopDown release made again from its own records, to learn what its figures are off by.

SHOWN = "total"
"""The query that the terminal shows; all of them are in the file."""


def show_replicates(answer: Replicates) -> None:
    """The answer as tables."""
    manifest = answer.source.released.manifest
    out.print(
        f"\n{answer.number} replicates of [bold]{escape(str(manifest['release']))}[/], from its own records. "
        "Nothing was spent, and no confidential record was read.\n"
    )
    queries = list(dict.fromkeys(row["query"] for row in answer.rows))
    query = SHOWN if SHOWN in queries else queries[0]
    rows = [
        (
            row["kind"],
            "on it" if row["on_spine"] else "off it",
            row["size"],
            f"{row['cells']:,}",
            "" if row["mse"] is None else f"{row['mse'] ** 0.5:,.1f}",
            *("" if row[f"below_{q}"] is None else f"−{row[f'below_{q}']:,} +{row[f'above_{q}']:,}" for q in (90, 95)),
            f"{row['factor']:.2f}",
        )
        for row in answer.rows
        if row["query"] == query
    ]
    columns = ["areas", "spine", "figure ", "figures ", "rmse ", "90 % ", "95 % ", "factor "]
    table(columns, rows, title=f"Errors of figures of {query!r}, by kind of area and by what the figure shows")
    if answer.factors:
        listed = [
            (
                row.areas_of,
                row.query,
                f"{row.areas:,}",
                f"{row.ratio:.2f} ± {row.standard_error:.2f}",
                f"{row.factor:.2f}",
            )
            for row in answer.factors
        ]
        table(
            ["areas", "query", "number ", "realised / replicated ", "factor "],
            listed,
            title="Made-up people, whose truth is known: how much larger errors are than replicates say",
        )
    out.print(
        "A margin covers the error of the noise and of the estimation, among figures of that size. It does not cover "
        "errors of the census itself."
    )
    out.print(f"all queries  {escape(str(answer.folder / str(answer.as_dict()['margins'])))}")
    err.print("[bold red]NOT FOR RELEASE[/]: replicates of a release")


rehearse = command(
    """Try a spec on made-up records: tables, certificate, dossier and timing. Spends nothing and reads no record.

    Everything is stamped NOT FOR RELEASE. The real records may be absent, and the real ledger is not touched.
    """,
    confide.rehearse,
    _show_rehearsal,
    settings="margins sizes expected seed",
    options={"spec": "SPEC", "margins": "--margins FILE", "sizes": "--sizes COLUMN", "expected": "--expected N"},
)
replicate = command(
    """Make a TopDown release again and again from its own records, and learn what its figures are off by.

    It is post-processing: no record is read but those that are published, and nothing is spent. Everything is stamped
    NOT FOR RELEASE. After an interruption, the same command goes on.
    """,
    confide.replicate,
    show_replicates,
    settings="calibration",
    options={"release": "RELEASE", "out": "--out DIR"},
)
