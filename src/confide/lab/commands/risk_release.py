"""``confide risk release``: what all noisy measurements of a TopDown release give away together."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from confide.cli.show import Json, Plots, out, show_answer, table, write
from confide.lab.risk import release as answer_release
from confide.lab.risk.release_risk import expected_posterior
from confide.report.charts import Chart, chart


def release(
    folder: Annotated[Path, typer.Argument(metavar="RELEASE_OR_RUN", help="A sealed release, or the folder of a run.")],
    prior: Annotated[
        list[str] | None,
        typer.Option("--prior", metavar="P", help="What the adversary believes beforehand; repeatable."),
    ] = None,
    worst: Annotated[int, typer.Option("--worst", min=0, help="How many units of each level are listed.")] = 3,
    without_public_zeros: Annotated[
        bool,
        typer.Option(
            "--without-public-zeros",
            help="As if nobody knew what the frame rules out in a block.",
        ),
    ] = False,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """What every noisy measurement of a TopDown release, taken together, says about one person.

    Effective rho of each count by generalised least squares, and what it does to beliefs. From public files alone.
    """
    answer = answer_release(folder, priors=prior or (), worst=worst, public_zeros=not without_public_zeros)
    drawn = [] if plots is None else _draw(plots, answer.as_dict())
    show_answer(answer, lambda: show_release_risk(answer.as_dict()), as_json=as_json, drawn=drawn)


def show_release_risk(values: dict[str, Any]) -> None:
    """The report as tables, from its plain values."""
    for part in (_head, _questions, _levels, _queries, _published, _worst):
        part(values)


def _head(values: dict[str, Any]) -> None:
    published = (
        "are published with it"
        if values["measurements_published"]
        else "are not published; the records follow from them"
    )
    out.print(f"[bold]{escape(values['title'])}[/] ({escape(values['release'])})")
    out.print(f"All noisy measurements taken together. They {published}. No confidential record was read.\n")


def _questions(values: dict[str, Any]) -> None:
    """Both ends, question by question, in a block."""
    everybody, block, record = values["knows_everybody_else"], values["by_level"][-1], values["record"]
    (detailed,) = (row for row in block["queries"] if row["query"] == "detailed")
    rows = [(f"is one {record} in this cell?", _number(everybody["cell"]), *_range(detailed))]
    rows += [
        (f"which {name} has one {record}?", _number(everybody["by_attribute"].get(name)), *_range(between))
        for name, between in block["between"].items()
    ]
    columns = ["question", "all others ", "there: least ", "median ", "largest "]
    what = f"Rho of questions about one {record} in a {block['level']}"
    table(columns, rows, title=f"{what}, for someone who knows all others, or those there alone")
    out.print()


def _levels(values: dict[str, Any]) -> None:
    """Effective rho of a histogram cell, and beliefs, level by level."""
    priors = values["priors"]
    rows = []
    for level in values["by_level"]:
        (detailed,) = (row for row in level["queries"] if row["query"] == "detailed")
        chances = (_chance(detailed["posterior_most"][prior]) for prior in priors)
        rows.append((level["level"], f"{level['units']:,}", *_range(detailed), *chances))
    everybody = values["knows_everybody_else"]
    chances = (_chance(everybody["posterior_cell"][prior]) for prior in priors)
    rows.append(("all others known", "", "", "", _number(everybody["cell"]), *chances))
    columns = ["", "units ", "least ", "median ", "largest ", *(f"{prior} " for prior in priors)]
    table(columns, rows, title="Effective rho of a histogram cell, and the largest expected posterior by prior")
    quantiles = values["by_record"]["rho"]
    out.print(
        f"Half of the {values['by_record']['records']:,} published records are in block cells with rho "
        f"{_number(quantiles['0.5'])} or less, nine in ten with {_number(quantiles['0.9'])} or less.\n"
    )


def _queries(values: dict[str, Any]) -> None:
    """The median of each query on each level."""
    levels = values["by_level"]
    rows = []
    for position, query in enumerate(row["query"] for row in levels[0]["queries"]):
        cells = (level["queries"][position] for level in levels)
        rows.append((query, *("as it is" if cell["as_it_is"] else _number(cell["rho_median"]) for cell in cells)))
    table(["query", *(f"{level['level']} " for level in levels)], rows, title="Effective rho of a count, median")
    out.print()


def _published(values: dict[str, Any]) -> None:
    counts = values["published_counts"]
    sizes = list(counts[0]["counts"])
    rows = [
        (row["level"], f"{row['units']:,}", *(f"{row['counts'][size]['cells']:,}" for size in sizes)) for row in counts
    ]
    table(
        ["official level", "units ", *(f"{size} " for size in sizes)], rows, title="Published histogram cells by count"
    )
    out.print("A published count of one does not mean one real person: the counts are those of protected records.\n")


def _worst(values: dict[str, Any]) -> None:
    rows = [
        (
            row["level"],
            row["code"] or row["unit"],
            row["cell"],
            _number(row["rho"]),
            row["siblings"],
            f"{float(Fraction(row['share'])):.1%}" if Fraction(row["share"]) else "at its parent",
            f"{row['records']:,}",
        )
        for row in values["least_protected"]
    ]
    if rows:
        columns = ["level", "unit", "cells", "rho ", "siblings ", "share ", "published records "]
        table(columns, rows, title="Least protected units, and which cells")


def _draw(folder: Path, values: dict[str, Any]) -> list[Path]:
    return write(
        folder,
        {
            "effective-rho.svg": lambda: _effective(values),
            "beliefs.svg": lambda: _beliefs(values),
        },
    )


def _effective(answer: dict[str, Any]) -> Chart:
    """Effective rho of the finest queries and of the total on each level: least, median, largest."""
    levels = [level["level"] for level in answer["by_level"]]
    queries = [row["query"] for row in answer["by_level"][0]["queries"]]
    queries = ["detailed", *[name for name in reversed(queries) if name not in ("detailed", "total")][:2], "total"]
    rows = [
        {"level": level["level"], "query": row["query"]}
        | {key: row[f"rho_{key}"] for key in ("least", "median", "most")}
        for level in answer["by_level"]
        for row in level["queries"]
        if row["query"] in queries and row["rho_median"] is not None and row["rho_least"] > 0
    ]
    everybody = answer["knows_everybody_else"]["cell"]
    lowest = min((row["least"] for row in rows), default=everybody / 10)
    return chart(
        "release-effective-rho",
        rows,
        levels=levels,
        queries=queries,
        everybody=everybody,
        domain=[lowest / 1.5, everybody * 2.5],
    )


def _beliefs(answer: dict[str, Any]) -> Chart:
    """The expected posterior by prior, for some adversaries about one cell of a block."""
    (block,) = (row for row in answer["by_level"][-1]["queries"] if row["query"] == "detailed")
    unit = answer["by_level"][-1]["level"]
    adversaries = {
        f"others in the cell, median {unit}": block["rho_median"],
        f"others in the cell, least protected {unit}": block["rho_most"],
        "everybody else": answer["knows_everybody_else"]["cell"],
    }
    priors = np.unique(np.concatenate([np.geomspace(1e-3, 0.5, 60), 1 - np.geomspace(1e-3, 0.5, 40)]))
    rows = [
        {"prior": float(prior), "posterior": float(expected_posterior(f"{prior:.9f}", rho)[0]), "knows": knows}
        for knows, rho in adversaries.items()
        if rho is not None
        for prior in priors
    ]
    return chart("release-beliefs", rows)


def _range(row: dict[str, Any]) -> tuple[str, str, str]:
    return _number(row["rho_least"]), _number(row["rho_median"]), _number(row["rho_most"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _chance(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
