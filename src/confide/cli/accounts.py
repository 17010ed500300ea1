"""``confide account``: what a budget means, and what noise does; and ``confide cellkey ptable``: perturbation tables.

No records are read.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.requests import Given, Way, command, requests
from confide.cli.show import out, show_findings, table
from confide.errors import ParameterError, Place
from confide.exact import Exact, down, fraction_up, up
from confide.mechanisms import MECHANISMS
from confide.mechanisms.topdown.strategy import StrategyAccount, StrategyLoss
from confide.mechanisms.topdown.strategy_file import account_strategy
from confide.noise import fitting
from confide.noise.ptables import Design, EpsilonDeltaReading, PTable, ptable_answer
from confide.privacy import PureDP
from confide.releases import loss_account
from confide.releases.plan import NO_BUDGET

WAYS = ("canonne_kamath_steinke", "bun_steinke", "gaussian_limit")
WORDS = {
    "bun_steinke": "Bun and Steinke (2016): the simplest bound; older documents use it",
    "canonne_kamath_steinke": "Canonne, Kamath and Steinke (2020): the bound to quote",
    "gaussian_limit": "what a continuous Gaussian mechanism of this cost has; for comparison",
}


def show_strategy(account: StrategyAccount, delta: Exact) -> None:
    """The loss and the noise of a strategy."""
    chosen = account.strategy
    out.print(f"[bold]{chosen.title}[/] ({chosen.id}), root {chosen.root}: {' > '.join(chosen.level_names)}\n")
    _costs(account)
    out.print()
    _variances(account)
    out.print(f"\n{chosen.provenance}")
    out.print(f"rho = {account.total.rho} ({chosen.neighbours.value}), delta = {delta}; every bound is rounded up.")


def _costs(account: StrategyAccount) -> None:
    """The loss, whole and in parts."""
    rows = [_row("in everything", account.total)]
    rows += [_row(f"in {attribute} alone", stated) for attribute, stated in account.by_attribute.items()]
    rows += [_row(f"in its block, same {level}", stated) for level, stated in account.by_move_within.items()]
    columns = ["one record differs", "rho ", "epsilon ", "Bun-Steinke ", "Gaussian limit "]
    table(columns, rows, title="What is promised (epsilon by Canonne, Kamath and Steinke is the one to quote)")
    for part in account.left_by_invariants.limited:
        out.print(f"Beside the invariants: {part.words()}.", markup=False)


def _row(what: str, stated: StrategyLoss) -> Sequence[str]:
    return [what, fraction_up(stated.rho), *(up(stated.epsilon[way], 4) for way in WAYS)]


def _variances(account: StrategyAccount) -> None:
    """The variance of a noisy count, a row for each query and a column for each level."""
    variance = account.as_dict()["variance"]
    fullest = max(account.strategy.levels, key=lambda level: len(level.queries))
    cells = {asked.name: asked.query.cells for asked in fullest.queries}
    cells |= {measure.query: measure.cells for measure in account.measures}
    levels = account.strategy.level_names
    rows = [
        [
            query,
            f"{count:,}",
            *(f"{variance[level][query]:.4g}" if query in variance[level] else "-" for level in levels),
        ]
        for query, count in cells.items()
    ]
    title = "The variance of each noisy count, in a unit with the share of its level"
    table(["query", "cells ", *(f"{level} " for level in levels)], rows, title=title)


def show_release(answer: loss_account.ReleaseAccount, delta: Exact) -> None:
    """The cost of a release, in every way that it can be stated."""
    plan, ways, bracket = answer.plan, answer.epsilons, answer.loss_distribution
    if not plan.has_loss:
        said = MECHANISMS[plan.mechanism].explain.unaccounted(plan) if plan.mechanism in MECHANISMS else NO_BUDGET
        none = "No privacy loss is accounted for: this release promises no differential privacy."
        out.print(none if said == NO_BUDGET else said)
        return
    if ways is None:
        holds = "; it holds with delta = 0" if isinstance(plan.loss, PureDP) else ""
        out.print(f"{plan.loss} ({plan.neighbours.value}){holds}.")
        return
    _table(ways)
    if bracket is None:
        out.print("\nThe privacy loss distribution is not computed for groups that overlap.")
    else:
        exact = f"{down(bracket.optimistic, 4)} to {up(bracket.pessimistic, 4)}"
        out.print(f"\nThe privacy loss distribution of these {len(plan.measures):,} measurements gives {exact}.")
    if bracket is not None and len(plan.paths) > 1:
        out.print(f"It is that of the worst move between {len(plan.paths):,} kinds of places with different noise.")
    ends = "" if bracket is None else ", the lower end down"
    out.print(f"{plan.loss} ({plan.neighbours.value}) at delta = {delta}; every bound is rounded up{ends}.")


def _show_rho(answer: loss_account.RhoOfEpsilon) -> None:
    text = f"rho = {answer.rho} (about {float(answer.rho):.6g})"
    out.print(f"{text} gives at most epsilon {answer.epsilon} at delta {answer.delta}.")


def _show_epsilons(answer: loss_account.EpsilonOfRho, delta: Exact) -> None:
    _table(answer.epsilons)
    out.print(f"\nrho = {answer.rho} at delta = {delta}; every figure is rounded up.")


def _table(ways: Mapping[str, float]) -> None:
    table(["epsilon ", "by"], [(up(value, 4), WORDS[name]) for name, value in ways.items()])


def _one_of_both(values: dict[str, Any]) -> None:
    if ("rho" in values) == ("epsilon" in values):
        raise typer.BadParameter("give either --rho or --epsilon")


strategy = command(
    "The cost of a TopDown strategy, whole and in parts, and the variance of each of its measurements.",
    account_strategy,
    show_strategy,
    options={"name": "NAME", "renormalise": "--renormalise/--keep-noise"},
)
convert = command(
    "Epsilon of a zCDP budget at a delta, three ways, each rounded up; or the rho of an epsilon, rounded down.",
    loss_account.epsilon_of_rho,
    _show_epsilons,
    prepare=_one_of_both,
    others={"epsilon": Way(loss_account.rho_of_epsilon, _show_rho)},
)
release = command(
    "The cost of a release, composed anew from its measurements, with its privacy loss distribution.",
    loss_account.account_release,
    show_release,
    options={"folder": "RELEASE"},
)


OF_LAW: dict[str, tuple[Any, Any]] = {
    "kind": (Annotated[fitting.NoiseKind, typer.Option("--law", help="The noise law.")], inspect.Parameter.empty),
    "sigma2": (Annotated[str | None, typer.Option(help="The parameter of a discrete Gaussian (exact).")], None),
    "epsilon": (Annotated[str | None, typer.Option(help="The parameter of a two-sided geometric (exact).")], None),
    "bound": (Annotated[int | None, typer.Option(help="The largest noise, for a truncated law.")], None),
}
"""The options that say what noise is meant."""

TITLES = {
    fitting.NoiseKind.GEOMETRIC: "geometric",
    fitting.NoiseKind.GAUSSIAN: "Gaussian",
    fitting.NoiseKind.TRUNCATED_GEOMETRIC: "truncated geometric",
    fitting.NoiseKind.TRUNCATED_GAUSSIAN: "truncated Gaussian",
}


def _law(values: dict[str, Any]) -> None:
    kind, sigma2, epsilon, bound = (values.pop(name, None) for name in OF_LAW)
    parameter, other = (epsilon, sigma2) if kind.by_epsilon else (sigma2, epsilon)
    if parameter is None or other is not None:
        raise typer.BadParameter(f"{kind.value} takes {'--epsilon' if kind.by_epsilon else '--sigma2'}")
    if kind.bounded != (bound is not None):
        raise typer.BadParameter(f"{kind.value} takes {'a' if kind.bounded else 'no'} --bound")
    values["law"] = fitting.noise_law(kind, sigma2=sigma2, epsilon=epsilon, bound=bound)


def _points(text: str) -> list[int]:
    try:
        return [int(point) for point in text.split(",")]
    except ValueError:
        raise typer.BadParameter("--at takes whole numbers, separated by commas") from None


def _show_pmf(answer: fitting.NoiseProbabilities) -> None:
    rows = [
        (x, f"{pmf:.10g}", f"{cdf:.10g}") for x, pmf, cdf in zip(answer.values, answer.pmf, answer.cdf, strict=True)
    ]
    table(["x ", "P(noise = x) ", "P(noise ≤ x) "], rows)


def _show_quantile(answer: fitting.NoiseQuantile, probability: str) -> None:
    out.print(f"The noise is at most {answer.quantile} with probability {probability}.")


def _show_margin(answer: fitting.NoiseMargin, probability: str) -> None:
    text = f"The noise is within ±{answer.noise_margin} with probability {probability}"
    out.print(f"{text}; its variance is {answer.variance:.6g}.")


pmf = command(
    "The probability of values of the noise, and of values up to them.",
    fitting.noise_probabilities,
    _show_pmf,
    options={"at": Given("--at", _points, str)},
    extra=OF_LAW,
    prepare=_law,
    without="law",
)
quantile = command(
    "The smallest value that the noise stays at or below with a probability.",
    fitting.noise_quantile,
    _show_quantile,
    options={"probability": "-p --probability"},
    extra=OF_LAW,
    prepare=_law,
    without="law",
)
margin = command(
    "The noise margin: the smallest distance from zero that the noise keeps within with a probability.",
    fitting.noise_margin,
    _show_margin,
    options={"probability": "-p --probability"},
    extra=OF_LAW,
    prepare=_law,
    without="law",
)


# ``confide cellkey ptable``: make, check, convert and show perturbation tables of the cell key method.


def _settings_or_a_file(values: dict[str, Any]) -> None:
    settings = [
        each.name
        for each in requests(ptable_answer.perturbation_table)
        if values.get(each.name, each.default) != each.default
    ]
    if "path" not in values and not {"D", "V"} <= set(values):
        raise ParameterError("bad-option/needs", where=Place(path="-D"))
    if "path" in values and not {"kind", "modify_at", "seed", "form", "out"} >= set(settings):
        raise ParameterError("bad-option/read", where=Place(path="--import"))


def show_ptable(answer: ptable_answer.PTableAnswer) -> None:
    """The text alone where it is not written to a file; else the table, its findings and its reading."""
    if answer.text is not None and answer.out is None:
        typer.echo(answer.text, nl=False)
        return
    if answer.design is not None:
        show_design(answer.design)
    else:
        show_table(answer.table)
    show_findings(answer.findings)
    if answer.reading is not None:
        show_reading(answer.reading)
    out.print(f"\n{answer.table.modulus:,} keys, fingerprint {answer.table.fingerprint[:16]}")
    if answer.out is not None:
        out.print(f"Written: {escape(str(answer.out))}")


_MOST_COLUMNS = 8
_LIKELY = 5
_MOST_ROWS = 40


def show_design(design: Design) -> None:
    """Rows by counts, columns by noise; then variance, whether it is V, and the certificate."""
    settings = design.settings
    conditions = f"D = {settings.bound}, V = {settings.variance}, js = {settings.js}"
    laws = [dict(zip(row.noise, row.p, strict=True)) for row in design.rows[1:]]
    names = [str(row.i) for row in design.rows[1:]]
    if settings.icat is None:
        names[-1] += "+"
    _laws(f"Perturbation table, {conditions}", names, laws)
    out.print()
    rows = [
        (
            name,
            f"{row.variance:.6f}",
            "yes" if row.attained else "no",
            f"{row.largest_variance:.6f}",
            ", ".join(row.active) or "none",
            f"{row.certificate.primal:.0e}",
            f"{row.certificate.gap:.0e}",
        )
        for name, row in zip(names, design.rows[1:], strict=True)
    ]
    table(["count", "variance ", "is V", "largest ", "active", "missed by ", "gap, bits "], rows)


def show_table(ptable: PTable) -> None:
    """A table that was read."""
    places = range(1, min(len(ptable.rows), _MOST_ROWS + 1))
    names = [str(ptable.rows[place].i) for place in places]
    laws = [{value: float(p) for value, p in ptable.probabilities(place).items()} for place in places]
    _laws("Perturbation table", names, laws)
    out.print()
    rows = [
        (n, f"{float(ptable.mean(k)):.2e}", f"{float(ptable.variance(k)):.6f}")
        for n, k in zip(names, places, strict=True)
    ]
    table(["count", "mean ", "variance "], rows)
    if len(ptable.rows) > _MOST_ROWS + 1:
        out.print(f"... and rows up to {ptable.top}")


def show_reading(reading: EpsilonDeltaReading) -> None:
    large, worst = reading.large_counts, max(reading.pairs, key=lambda pair: pair.remaining_delta)
    out.print(
        f"\nTwo large counts that differ by one: epsilon {large.epsilon:.4g} with delta {large.remaining_delta:.3g}. "
        f"Counts {worst.i} and {worst.i + 1}: delta {worst.remaining_delta:.3g} at any epsilon."
    )
    out.print("[dim]This is one cell with one key, and no differential privacy of a release.[/]")


def _laws(title: str, names: list[str], laws: Sequence[dict[Fraction, float]]) -> None:
    """A column for each count if they fit eighty characters, else a line for each with its most likely values."""
    if len(names) <= _MOST_COLUMNS:
        noise = sorted({value for law in laws for value in law})
        columns = ["noise ", *(f"{name} " for name in names)]
        rows = [(_signed(value), *(_share(law.get(value)) for law in laws)) for value in noise]
        table(columns, rows, title=title)
        return
    rows = []
    for name, law in zip(names, laws, strict=True):
        likely = sorted(sorted(law, key=lambda value: -law[value])[:_LIKELY])
        rows.append((name, "  ".join(f"{_signed(value)}: {law[value]:.3f}" for value in likely)))
    table(["count", f"the {_LIKELY} most likely noise values"], rows, title=title)


def _share(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.5f}" if p >= 1e-4 or p == 0 else f"{p:.1e}"


def _signed(value: Fraction) -> str:
    return f"{float(value):+g}" if value else "0"


def _rows(option: str) -> Given:
    return Given(f"{option} I[,I...]", lambda text: _whole_numbers(option, text), str)


def _whole_numbers(option: str, text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise ParameterError("bad-option/list", where=Place(path=option), found=text[:40], option=option)
    return [int(part) for part in parts]


ptable = command(
    """Compute a perturbation table for the cell key method: for each count the noise of maximum entropy, with a
    proof.
    """,
    ptable_answer.perturbation_table,
    show_ptable,
    settings="mono no_mono_rows equality icat step kind keys modify_at seed",
    options={
        "D": "-D --max-noise",
        "V": "-V --variance",
        "pstay": Given("--pstay P[,P...]", lambda text: text.split(","), str),
        "no_mono_rows": _rows("--no-mono-rows"),
        "icat": _rows("--icat"),
        "kind": "--type",
        "modify_at": "--modify SHARE",
        "seed": "--seed HEX",
        "path": Given("--import FILE", meaning="Read and check a table instead of making one."),
        "form": "--format",
        "out": "--out FILE",
    },
    prepare=_settings_or_a_file,
    others={"path": Way(ptable_answer.perturbation_table_from, show_ptable)},
)
