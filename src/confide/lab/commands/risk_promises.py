"""``confide risk curve``, ``invariants`` and ``release``: what a promise comes to.

The guarantee as curves; what figures without noise do to the promise of the others; and what all noisy measurements of
a TopDown release give away together.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from confide.cli.requests import PICTURES, Given, Way, command
from confide.cli.show import Json, out, print_json, show_answer, table
from confide.errors import ParameterError, Place
from confide.exact import exact_text, fraction_up, positive, shortened_up, up
from confide.lab.risk import (
    CurveAnswer,
    EpsilonCurveAnswer,
    InvariantsAnswer,
    ReleaseRisk,
    curve_of_epsilon,
    shipped_invariants,
)
from confide.lab.risk import curve as answer_curve
from confide.lab.risk import invariants as answer_invariants
from confide.lab.risk import release as answer_release
from confide.lab.risk.release_risk import expected_posterior
from confide.lab.risk.testing.curve_answer import DELTA
from confide.privacy import Bracket
from confide.privacy.invariants.group_statements import DELTA as GROUP_DELTA
from confide.privacy.invariants.group_statements import group_concentration
from confide.privacy.invariants.single_record import Status
from confide.privacy.statements import factor, rounded_up
from confide.report.charts import Chart, chart


def _of_one_thing(values: dict[str, Any]) -> None:
    if sum(name in values for name in ("rho", "epsilon", "strategy")) != 1:
        raise ParameterError("curve-of-what/clear", where=Place(path="confide risk curve"))
    if "root" in values and "strategy" not in values:
        raise ParameterError("curve-of-what/none-several", where=Place(path="confide risk curve"))


def show_epsilon_curve(answer: EpsilonCurveAnswer) -> None:
    """Pure differential privacy, or approximate at each δ that was given."""
    epsilon = exact_text(answer.epsilon)
    if answer.posterior is None:
        title = f"The largest power of a test, if ({epsilon}, delta) is all that is known"
        rows = [(f"{float(p.level):g}", f"{float(p.delta or 0):g}", up(p.power, 6)) for p in answer.powers]
        table(["level ", "delta ", "power "], rows, title=title)
        out.print("\nOne pair of epsilon and delta says less than the release it was stated for. With rho, use --rho.")
        return
    title = f"The largest power of a test about one record, under pure epsilon = {epsilon}"
    table(["level ", "power "], [(f"{float(p.level):g}", up(p.power, 6)) for p in answer.powers], title=title)
    out.print(f"\nThe largest advantage, power less level: {up(answer.advantage or 0.0, 6)}.")
    words = answer.posterior.words
    out.print(f"One record multiplies no posterior probability by more than {words} = exp(2 epsilon).")


def show_curve(answer: CurveAnswer) -> None:
    """Power over level, epsilon over delta, and with a strategy the parts of its promise."""
    own = answer.powers[0].exact is not None
    columns = ["level ", "any release with this rho ", "Gaussian noise "] + (["these measurements "] if own else [])
    rows = [
        [f"{float(point.level):g}", up(point.zcdp, 6), up(point.gaussian, 6), *_bracket(point.exact, 6)]
        for point in answer.powers
    ]
    table(columns, rows, title=f"The largest power of a test about one record, rho = {fraction_up(answer.rho)}")
    out.print()
    columns = ["delta ", "Bun-Steinke ", "Canonne-Kamath-Steinke ", "Gaussian limit "]
    rows = [
        [f"{float(p.delta):g}", *(up(value, 4) for value in p.ways.values()), *_bracket(p.exact, 4)]
        for p in answer.epsilons
    ]
    table(columns + (["these measurements "] if own else []), rows, title="Epsilon over delta")
    out.print("\nThe columns for Gaussian noise are for comparison; they do not bound other noise of the same rho.")
    text = f"The largest advantage, power less level: {up(answer.advantage.zcdp, 4)} for any release"
    out.print(f"{text}, {up(answer.advantage.gaussian, 4)} for Gaussian noise.")
    out.print(
        f"One record multiplies no posterior probability by more than {answer.posterior.words}, "
        f"but for a probability of at most {shortened_up(Fraction(answer.posterior.exceeded), 3)}."
    )
    if answer.parts:
        _show_parts(answer)


def _show_parts(answer: CurveAnswer) -> None:
    rows, level = [], answer.levels[0]
    for part in answer.parts:
        (power,), (point,) = part.powers([level]), part.epsilons([DELTA])
        epsilon = up(point.ways["canonne_kamath_steinke"], 4)
        rows.append([part.words, fraction_up(part.rho), epsilon, up(power.zcdp, 4), *_bracket(power.exact, 4)])
    out.print()
    columns = ["one record differs", "rho ", "epsilon ", "any release ", "these measurements "]
    table(columns, rows, title=f"In part: epsilon at delta = {float(DELTA):g}, and the power at level {float(level):g}")
    out.print("\nEpsilon is that of Canonne, Kamath and Steinke. Figures published without noise are not covered.")


def _bracket(ends: Bracket | None, digits: int) -> list[str]:
    """The upper end, which is the one to quote."""
    return [] if ends is None else [up(ends.pessimistic, digits)]


curve = command(
    """The largest power of a test about one record at a level, and epsilon over delta, in every way that is known.

    With --strategy also what its own measurements allow, and the same by attribute and by block within each geolevel.
    """,
    answer_curve,
    show_curve,
    settings="levels deltas",
    options={"levels": "--level", "deltas": "--delta"},
    prepare=_of_one_thing,
    pictures=PICTURES,
    others={"epsilon": Way(curve_of_epsilon, show_epsilon_curve, PICTURES)},
)

# ``confide risk invariants``: what figures without noise do to the promise of the others.


STATUS = {
    Status.FREE: "free",
    Status.COARSE: "inside a cell",
    Status.DATA: "depends on the data",
    Status.FIXED: "fixed",
}


def invariants(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Invariants that ship, or paths of TOML files.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="The loss of the release, in pure ε.")] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="The loss of the release, in zCDP.")] = None,
    delta: Annotated[str, typer.Option("--delta", help="The δ at which a ρ is stated as an ε.")] = GROUP_DELTA,
    words: Annotated[bool, typer.Option("--explain", help="Say in sentences what it means.")] = False,
    as_json: Json = False,
) -> None:
    """What invariants do to the promise: for one record, and for the smallest group that hides what they fix.

    Without a name: the invariants that ship. No records are read.
    """
    if not names:
        _show_shipped(as_json=as_json)
        return
    answer = answer_invariants(names, epsilon=epsilon, rho=rho, delta=delta, explained=words)
    show_answer(answer, lambda: show_invariants(answer), as_json=as_json)


def show_invariants(answer: InvariantsAnswer) -> None:
    """One record, the smallest groups, and the sentences if they were asked for."""
    _show_single_record(answer)
    out.print()
    _show_groups(answer)
    out.print("\nWhat the invariants give away by themselves is not limited by these numbers.")
    for sentence in answer.sentences if answer.explained else ():
        out.print()
        out.print(sentence, markup=False)


def _show_single_record(answer: InvariantsAnswer) -> None:
    names, records = answer.invariants.names, answer.invariants.records.id
    out.print(f"[bold]Published without noise:[/] {', '.join(names)}; records {records}.\n")
    rows = []
    for item in answer.single_record.values():
        bound = "not quantified" if item.multiplier is None else f"{item.multiplier} ε"
        cells = "; ".join(item.cells) if item.status is not Status.FREE else ""
        rows.append((item.title, STATUS[item.status], bound, cells))
    table(["one record's", "is", "protected at", "cells that cannot be left"], rows, title="One record changed")
    situations = dict.fromkeys(words for item in answer.single_record.values() for words in item.depends_on)
    if situations:
        out.print("\nFewer values are possible where " + "; or ".join(situations) + ".", markup=False)


def _show_groups(answer: InvariantsAnswer) -> None:
    epsilon, rho, delta = answer.loss.epsilon, answer.loss.rho, answer.loss.delta
    columns = ["group that leaves open what is fixed", "records ", "protected at "]
    lines = []
    for mode, group in answer.groups.items():
        line = [mode.value, str(group.size), f"{group.multiplier} ε"]
        if epsilon is not None:
            line.append(factor(group.multiplier * positive(epsilon, "--epsilon")))
        if rho is not None:
            worst, distinct = group_concentration(group.size, rho, delta)
            line += [rounded_up(worst.rho), rounded_up(worst.epsilon, 2), factor(worst.log_factor)]
            line += [rounded_up(distinct.rho), rounded_up(distinct.epsilon, 2)]
        lines.append(line)
    columns += ["factor at most "] if epsilon is not None else []
    columns += ["k²ρ ", "ε at δ ", "factor, but for 2δ ", "kρ ", "ε at δ "] if rho is not None else []
    table(columns, lines, title="The smallest group")
    for mode, group in answer.groups.items():
        for when, size in group.exceptions:
            if size > group.size:
                out.print(f"{mode.value}: {size} records, {2 * size} ε, where {' and '.join(when)}.", markup=False)


def _show_shipped(*, as_json: bool) -> None:
    listed = shipped_invariants()
    if as_json:
        print_json([item.as_dict() for item in listed])
        return
    rows = [(item.name, item.title, item.records) for item in listed]
    table(["name", "published without noise", "records"], rows)


def show_release_risk(answer: ReleaseRisk) -> None:
    """The report as tables, from its plain values."""
    values = answer.as_dict()
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


release = command(
    """What every noisy measurement of a TopDown release, taken together, says about one person.

    Effective rho of each count by generalised least squares, and what it does to beliefs. From public files alone.
    """,
    answer_release,
    show_release_risk,
    options={
        "path": "RELEASE_OR_RUN",
        "priors": "--prior P",
        "worst": Given(least=0),
        "public_zeros": "--public-zeros/--without-public-zeros",
    },
    pictures=lambda answer, _: {
        "effective-rho": lambda: _effective(answer.as_dict()),
        "beliefs": lambda: _beliefs(answer.as_dict()),
    },
)
