"""``confide tune cellkey``: bound and variance of a cell key release, from what its programme would give away."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import typer

from confide.cli.show import Json, Plots, out, show_answer, table, write
from confide.lab.commands.risk_bounded import (
    Alpha,
    Areas,
    Country,
    LeaveOut,
    ProgrammeName,
    RuleOption,
    Unit,
    own_areas,
)
from confide.lab.risk import tune_cellkey as answer_tune
from confide.lab.risk.bounded_noise.averaging import Optimum, target_name
from confide.lab.risk.bounded_noise.static_programme import BreakdownRule
from confide.lab.risk.bounded_noise.withstanding import ProtectedRegion


def cellkey(
    programme: ProgrammeName = "eu-2021",
    country: Country = None,
    areas: Areas = None,
    unit: Unit = None,
    leave_out: LeaveOut = None,
    rule: RuleOption = BreakdownRule.INNER_LEVELS,
    optimum: Annotated[Optimum, typer.Option("--optimum", help="Which mean an attacker takes.")] = Optimum.GREEDY,
    largest_noise: Annotated[
        int, typer.Option("--largest-noise", min=1, max=100, help="The largest noise that users accept.")
    ] = 10,
    small_areas: Annotated[
        int | None, typer.Option("--small-areas", min=1, help="How many small areas; default: the finest geography.")
    ] = None,
    area_bound: Annotated[
        int, typer.Option("--area-bound", min=1, help="The noise that no small area should exceed, for ε.")
    ] = 20,
    alpha: Alpha = "0.68",
    relaxed: Annotated[
        str, typer.Option("--relaxed", help="The averaging success that relaxed limits accept.")
    ] = "0.8",
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """Bounds D and variances V that withstand averaging and protect the bound, for a programme and a country.

    A recommended pair, and the band that is left for the ε of noise without a bound.
    """
    answer = answer_tune(
        programme,
        country=country,
        areas=own_areas(areas),
        unit=unit,
        leave_out=leave_out or (),
        rule=rule,
        optimum=optimum,
        largest_noise=largest_noise,
        small_areas=small_areas,
        area_bound=area_bound,
        alpha=alpha,
        relaxed=relaxed,
    )
    drawn = [] if plots is None else write(plots, answer.pictures())
    show_answer(answer, lambda: _show(answer.region), as_json=as_json, drawn=drawn)


def _show(region: ProtectedRegion) -> None:
    question, worst = region.question, region.with_same_noise[0]
    where = ", ".join(f"{number:,} {name}" for name, number in question.areas.items())
    out.print(f"[bold]{question.programme.title or question.programme.id}[/]{', ' + where if where else ''}.\n")
    mean = worst.mean(question.optimum)
    low = region.least_variance(question.optimum)
    out.print(
        f"Averaging: the riskiest statistic is {target_name(worst.target)}, k/t² = {mean.ratio:.4g} "
        f"({mean.t:,} representations, {mean.k:,} cells): V at least {float(low):g}."
    )
    best = region.least_variance(Optimum.INVERSE_VARIANCE)
    if best > low:
        out.print(f"  An attacker who weights representations by their size is withstood from V {float(best):g} on.")
    out.print(f"Revealing the bound: {region.triples:,} triples F + M = T; V at most, by D, below.")
    out.print(f"Utility: D at most {question.largest_noise}.\n")
    rows = [
        (row.bound, _span(row.low, row.high, ok=row.strict), _span(row.relaxed_low, row.relaxed_high, ok=row.relaxed))
        for row in region.rows
        if row.useful
    ]
    table(["D ", "V, all limits", "V, relaxed limits"], rows)
    recommended = region.recommended
    if recommended is None:
        out.print("\n[bold red]Nothing is left.[/] Publish less, or accept more noise.")
    else:
        limits = "all limits" if recommended.strict else "relaxed limits alone"
        out.print(
            f"\n[bold green]D = {recommended.risk.row.bound}, V = {float(recommended.variance):g}[/] "
            f"satisfies {limits}: "
            f"the bound is revealed with probability {recommended.risk.revealed(region.triples):.2g}."
        )
        plain = region.least_noise(question.optimum)
        if plain is not None and plain.variance != recommended.variance:
            out.print(
                f"It withstands weighted means too. Against the {question.optimum.value} mean alone, "
                f"D = {plain.risk.row.bound}, V = {float(plain.variance):g} would be enough."
            )
    _show_epsilon(region)


def _show_epsilon(region: ProtectedRegion) -> None:
    limits, bound = region.epsilon, region.question.small_area_bound
    least, most = limits["utility_at_least"], limits["averaging_at_most"]
    second = limits["relaxed_averaging_at_most"]
    assert most is not None
    assert second is not None
    text = f"Noise without a bound (Laplace, noise of its own in every table): averaging allows ε up to {most:.3f}"
    if second != most:
        text += f" ({second:.3f} for the second statistic)"
    if least is not None:
        text += f"; small areas stay within ±{bound} from ε {least:.3f} on"
        text += ": a band is left." if least <= most else ": no ε satisfies both."
    out.print(text)


def _span(low: Fraction, high: Fraction, *, ok: bool) -> str:
    return f"{float(low):.3f} to {float(high):.3f}" if ok else "none"
