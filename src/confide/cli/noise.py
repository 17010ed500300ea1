"""``confide noise``: the noise laws, exactly."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from confide.cli.show import Json, out, print_json, table
from confide.noise import DiscreteGaussian, Law, TwoSidedGeometric

app = typer.Typer(help="The noise laws: probabilities, quantiles, noise margins.", no_args_is_help=True)


class LawName(StrEnum):
    """The laws by the names that plans use."""

    discrete_gaussian = "discrete-gaussian"
    two_sided_geometric = "two-sided-geometric"


LawOption = Annotated[LawName, typer.Option("--law", help="The noise law.")]
Sigma2 = Annotated[str | None, typer.Option("--sigma2", help="The parameter of the discrete Gaussian (exact).")]
Epsilon = Annotated[str | None, typer.Option("--epsilon", help="The parameter of the two-sided geometric (exact).")]
Probability = Annotated[str, typer.Option("-p", "--probability", help="A probability between 0 and 1 (exact).")]


def _law(name: LawName, sigma2: str | None, epsilon: str | None) -> Law:
    if name is LawName.discrete_gaussian:
        if sigma2 is None or epsilon is not None:
            raise typer.BadParameter("the discrete Gaussian takes --sigma2")
        return DiscreteGaussian(sigma2)
    if epsilon is None or sigma2 is not None:
        raise typer.BadParameter("the two-sided geometric takes --epsilon")
    return TwoSidedGeometric(epsilon)


@app.command()
def pmf(
    law: LawOption,
    at: Annotated[str, typer.Option(help="Whole numbers, separated by commas.")],
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    as_json: Json = False,
) -> None:
    """The probability of values of the noise, and of values up to them."""
    chosen = _law(law, sigma2, epsilon)
    try:
        points = [int(point) for point in at.split(",")]
    except ValueError:
        raise typer.BadParameter("--at takes whole numbers, separated by commas") from None
    rows = [{"x": x, "pmf": chosen.pmf(x), "cdf": chosen.cdf(x)} for x in points]
    if as_json:
        print_json({"law": chosen.as_dict(), "at": rows, "pmf": [row["pmf"] for row in rows]})
        return
    table(["x ", "P(noise = x) ", "P(noise ≤ x) "], [(r["x"], f"{r['pmf']:.10g}", f"{r['cdf']:.10g}") for r in rows])


@app.command()
def quantile(
    law: LawOption, probability: Probability, sigma2: Sigma2 = None, epsilon: Epsilon = None, as_json: Json = False
) -> None:
    """The smallest value that the noise stays at or below with a probability."""
    chosen = _law(law, sigma2, epsilon)
    value = chosen.quantile(probability)
    if as_json:
        print_json({"law": chosen.as_dict(), "probability": probability, "quantile": value})
    else:
        out.print(f"The noise is at most {value} with probability {probability}.")


@app.command()
def margin(
    law: LawOption,
    probability: Probability = "0.95",
    sigma2: Sigma2 = None,
    epsilon: Epsilon = None,
    as_json: Json = False,
) -> None:
    """The noise margin: the smallest distance from zero that the noise keeps within with a probability."""
    chosen = _law(law, sigma2, epsilon)
    value = chosen.noise_margin(probability)
    if as_json:
        variance = chosen.variance()
        print_json({"law": chosen.as_dict(), "probability": probability, "noise_margin": value, "variance": variance})
    else:
        out.print(
            f"The noise is within ±{value} with probability {probability}; its variance is {chosen.variance():.6g}."
        )
