"""``confide risk curve``: the guarantee as curves, what a test can find out and how epsilon depends on delta."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, Plots, number, out, print_json, table, write
from confide.errors import ParameterError, Place
from confide.mechanisms.topdown.strategy import plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.privacy import ZCDP, Bracket, PureDP
from confide.report.charts import Chart, chart
from confide.report.render import exact_text, fraction_up, up
from confide.risk.testing.curve import LEVELS, EpsilonPoint, Part, PowerPoint, epsilon_curve, parts_of, power_curve
from confide.risk.testing.level_power import PosteriorFactor, approximate_power, posterior_factor, pure_power
from confide.risk.testing.trade_off import gaussian_advantage, pure_advantage, zcdp_advantage

LEVEL, DELTAS = "0.05", ("1e-6", "1e-8", "1e-10", "1e-12")
LEAST, MOST = Fraction(1, 10**50), Fraction(10**6)
DELTA = Fraction(1, 10**10)
"""Where one delta must do: that of the certificates of the 2020 Census."""


def curve(
    rho: Annotated[str | None, typer.Option(help="A zCDP budget: an exact number such as 2.56.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Or an epsilon: pure, or with each --delta an (epsilon, delta).")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Or a TopDown strategy: shipped, or the path of a file.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="The root of the strategy.")] = None,
    level: Annotated[
        list[str] | None, typer.Option("--level", help="The level of the test; repeatable. Default: 0.05.")
    ] = None,
    delta: Annotated[
        list[str] | None, typer.Option("--delta", help="A delta; repeatable. Default: 1e-6, 1e-8, 1e-10, 1e-12.")
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """The largest power of a test about one record at a level, and epsilon over delta, in every way that is known.

    With --strategy also what its own measurements allow, and the same by attribute and by block within each geolevel.
    """
    if sum(option is not None for option in (rho, epsilon, strategy)) != 1:
        raise _needed("--rho, --epsilon or --strategy", "give exactly one of them")
    if root is not None and strategy is None:
        raise _needed("--strategy", "leave out --root, which is about a strategy")
    levels = [number(text, "level", LEAST, Fraction(1)) for text in level or [LEVEL]]
    chances = [number(text, "delta", LEAST, Fraction(1, 2)) for text in delta or DELTAS]
    if epsilon is not None:
        _of_epsilon(number(epsilon, "epsilon", LEAST, MOST), levels, chances if delta else [], plots, as_json)
        return
    parts: tuple[Part, ...] = ()
    head: dict[str, Any] = {}
    if strategy is not None:
        chosen = load_strategy(strategy, root=root)
        parts = parts_of(plan_of(chosen))
        head = {"strategy": chosen.id, "root": chosen.root, "neighbours": chosen.neighbours.value}
    cost = parts[0].rho if parts else number(rho or "", "rho", LEAST, MOST)
    powers = parts[0].powers(levels) if parts else power_curve(cost, levels)
    points = parts[0].epsilons(chances, exact=True) if parts else epsilon_curve(cost, chances)
    factor = posterior_factor(ZCDP(cost), DELTA)
    drawn = [] if plots is None else _draw(plots, cost, parts, levels[0])
    result = (
        head
        | {"rho": str(cost), "rho_decimal": float(cost)}
        | _powers(powers)
        | {
            "epsilons": [point.as_dict() for point in points],
            "advantage": _advantage(cost, parts),
            "posterior": {"delta": float(DELTA)} | factor.as_dict(),
        }
    )
    if parts:
        result["parts"] = [_part(part, levels, chances) for part in parts[1:]]
    if as_json:
        print_json(result | ({"plots": [str(path) for path in drawn]} if drawn else {}))
        return
    _show(cost, powers, points, result["advantage"], factor)
    if parts:
        _show_parts(parts, levels[0])
    _say(drawn)


def _of_epsilon(
    epsilon: Fraction, levels: Sequence[Fraction], deltas: Sequence[Fraction], plots: Path | None, as_json: bool
) -> None:
    """Pure differential privacy, or approximate at each δ that was given."""
    rows = [{"level": float(level), "pure_power": pure_power(epsilon, level)} for level in levels]
    pairs = [
        {"level": float(level), "delta": float(chance), "approximate_power": approximate_power(epsilon, chance, level)}
        for level in levels
        for chance in deltas
    ]
    drawn = [] if plots is None else write(plots, {"power.svg": lambda: _pure_power_chart(epsilon)})
    factor = posterior_factor(PureDP(epsilon))
    result: dict[str, Any] = {"epsilon": str(epsilon), "epsilon_decimal": float(epsilon)}
    if deltas:
        result |= (pairs[0] if len(pairs) == 1 else {}) | {"levels": pairs}
    else:
        result |= (rows[0] if len(rows) == 1 else {}) | {"levels": rows}
        result |= {"advantage": pure_advantage(epsilon), "posterior": factor.as_dict()}
    if as_json:
        print_json(result | ({"plots": [str(path) for path in drawn]} if drawn else {}))
        return
    if deltas:
        title = f"The largest power of a test, if ({exact_text(epsilon)}, delta) is all that is known"
        table(
            ["level ", "delta ", "power "],
            [(f"{r['level']:g}", f"{r['delta']:g}", up(r["approximate_power"], 6)) for r in pairs],
            title=title,
        )
        out.print("\nOne pair of epsilon and delta says less than the release it was stated for. With rho, use --rho.")
    else:
        title = f"The largest power of a test about one record, under pure epsilon = {exact_text(epsilon)}"
        table(["level ", "power "], [(f"{r['level']:g}", up(r["pure_power"], 6)) for r in rows], title=title)
        out.print(f"\nThe largest advantage, power less level: {up(result['advantage'], 6)}.")
        out.print(f"One record multiplies no posterior probability by more than {factor.words} = exp(2 epsilon).")
    _say(drawn)


def _powers(powers: Sequence[PowerPoint]) -> dict[str, Any]:
    """A list of levels; with one level its numbers stand on their own as well."""
    rows = [point.as_dict() for point in powers]
    alone: dict[str, Any] = {}
    if len(rows) == 1:
        alone = {"power_" + key if key.startswith("exact") else key: value for key, value in rows[0].items()}
    return alone | {"levels": rows}


def _advantage(rho: Fraction, parts: Sequence[Part]) -> dict[str, float]:
    found = {"zcdp": zcdp_advantage(rho), "gaussian": gaussian_advantage(rho)}
    if parts and parts[0].best is not None:
        ends = parts[0].best.advantage
        found |= {"exact_low": ends.optimistic, "exact_high": ends.pessimistic}
    return found


def _part(part: Part, levels: Sequence[Fraction], deltas: Sequence[Fraction]) -> dict[str, Any]:
    points = [point.as_dict() for point in part.epsilons(deltas)]
    return part.as_dict() | _powers(part.powers(levels)) | {"epsilons": points}


def _show(
    rho: Fraction,
    powers: Sequence[PowerPoint],
    points: Sequence[EpsilonPoint],
    advantage: dict[str, float],
    factor: PosteriorFactor,
) -> None:
    own = powers[0].exact is not None
    columns = ["level ", "any release with this rho ", "Gaussian noise "] + (["these measurements "] if own else [])
    rows = [
        [f"{float(point.level):g}", up(point.zcdp, 6), up(point.gaussian, 6), *_bracket(point.exact, 6)]
        for point in powers
    ]
    table(columns, rows, title=f"The largest power of a test about one record, rho = {fraction_up(rho)}")
    out.print()
    columns = ["delta ", "Bun-Steinke ", "Canonne-Kamath-Steinke ", "Gaussian limit "]
    rows = [
        [f"{float(p.delta):g}", *(up(value, 4) for value in p.ways.values()), *_bracket(p.exact, 4)] for p in points
    ]
    table(columns + (["these measurements "] if own else []), rows, title="Epsilon over delta")
    out.print("\nThe columns for Gaussian noise are for comparison; they do not bound other noise of the same rho.")
    text = f"The largest advantage, power less level: {up(advantage['zcdp'], 4)} for any release"
    out.print(f"{text}, {up(advantage['gaussian'], 4)} for Gaussian noise.")
    out.print(
        f"One record multiplies no posterior probability by more than {factor.words}, "
        f"but for a probability of at most {2 * float(DELTA):g}."
    )


def _show_parts(parts: Sequence[Part], level: Fraction) -> None:
    rows = []
    for part in parts:
        (power,), (point,) = part.powers([level]), part.epsilons([DELTA])
        epsilon = up(point.ways["canonne_kamath_steinke"], 4)
        rows.append([part.words, fraction_up(part.rho), epsilon, up(power.zcdp, 4), *_bracket(power.exact, 4)])
    out.print()
    columns = ["one record differs", "rho ", "epsilon ", "any release ", "these measurements "]
    table(columns, rows, title=f"In part: epsilon at delta = {float(DELTA):g}, and the power at level {float(level):g}")
    out.print("\nEpsilon is that of Canonne, Kamath and Steinke. Figures published without noise are not covered.")


def _draw(folder: Path, rho: Fraction, parts: Sequence[Part], level: Fraction) -> list[Path]:
    best = parts[0].best if parts else None
    pictures = {
        "power.svg": lambda: _power_chart(power_curve(rho, best=best)),
        "epsilon.svg": lambda: _epsilon_chart(epsilon_curve(rho)),
    }
    if parts:
        pictures["parts.svg"] = lambda: _parts_chart(parts, level)
    return write(folder, pictures)


_ANY = "any release with this ρ"
_EPSILONS = {
    "bun_steinke": "Bun and Steinke",
    "canonne_kamath_steinke": "Canonne, Kamath and Steinke",
    "gaussian_limit": "Gaussian noise (for comparison)",
}


def _own(point: PowerPoint) -> tuple[float, str]:
    """The power of a test of these measurements, or else of Gaussian noise; and of which of the two it is."""
    if point.exact is None:
        return point.gaussian, "Gaussian noise with this ρ"
    return point.exact.pessimistic, "these measurements"


def _power_chart(points: Sequence[PowerPoint]) -> Chart:
    """The largest power over the level."""
    rows = []
    for point in points:
        power, way = _own(point)
        rows.append({"level": float(point.level), "power": point.zcdp, "way": _ANY})
        rows.append({"level": float(point.level), "power": power, "way": way})
    return chart("curve-power", rows)


def _pure_power_chart(epsilon: Fraction) -> Chart:
    """The same under pure differential privacy."""
    way = f"any release with ε = {float(epsilon):g}"
    rows = [{"level": float(level), "power": pure_power(epsilon, level), "way": way} for level in LEVELS]
    return chart("curve-power", rows)


def _epsilon_chart(points: Sequence[EpsilonPoint]) -> Chart:
    """ε over δ, in three ways."""
    rows = [
        {"delta": float(point.delta), "epsilon": point.ways[way], "way": words}
        for point in points
        for way, words in _EPSILONS.items()
    ]
    return chart("curve-epsilon", rows)


def _parts_chart(parts: Sequence[Part], level: Fraction) -> Chart:
    """The largest power at one level, by what differs between the two hypotheses."""
    rows = []
    for part in parts:
        (point,) = part.powers([level])
        power, way = _own(point)
        rows.append({"name": part.words, "power": point.zcdp, "way": _ANY})
        rows.append({"name": part.words, "power": power, "way": way})
    return chart("curve-parts", rows, level=float(level))


def _bracket(ends: Bracket | None, digits: int) -> list[str]:
    """The upper end, which is the one to quote."""
    return [] if ends is None else [up(ends.pessimistic, digits)]


def _say(drawn: Sequence[Path]) -> None:
    for path in drawn:
        out.print(f"Drawn: {escape(str(path))}")


def _needed(expected: str, remedy: str) -> ParameterError:
    return ParameterError(
        "curve-of-what",
        "it is not clear what the curve is of",
        where=Place(path="confide risk curve"),
        found="none of them, or several",
        expected=expected,
        remedy=remedy,
    )
