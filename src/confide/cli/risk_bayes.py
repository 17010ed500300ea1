"""``confide risk bayes``: what one noisy count, or several of the same cell, tells about one person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from confide.cli.show import Json, Plots, out, show_answer, table, write
from confide.errors import ParameterError, Place
from confide.exact import probability
from confide.privacy import Neighbours
from confide.report.charts import Chart, chart
from confide.risk import bayes as answer_bayes
from confide.risk.bayesian import sequential as curves
from confide.risk.bayesian.bayes_answer import BayesAdversary, BayesAnswer, BudgetedLaw
from confide.risk.bayesian.evidence import LawEvidence
from confide.risk.bayesian.one_level import checked_value


def bayes(
    rho: Annotated[str | None, typer.Option("--rho", help="The ρ of the count; for discrete Gaussian noise.")] = None,
    prior: Annotated[
        list[str] | None, typer.Option("--prior", help="The belief before the release, such as 1/2; repeatable.")
    ] = None,
    released: Annotated[
        list[str] | None,
        typer.Option("--released", metavar="COUNT", help="A released count, or several: 3, or -1,0,2; repeatable."),
    ] = None,
    law: Annotated[BudgetedLaw, typer.Option("--law", help="The noise.")] = BudgetedLaw.DISCRETE_GAUSSIAN,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="The ε of the count; for geometric noise.")] = None,
    neighbours: Annotated[
        Neighbours, typer.Option("--neighbours", help="What the budget compares; change-one has more noise.")
    ] = Neighbours.ADD_REMOVE,
    known_count: Annotated[
        int, typer.Option("--known-count", min=0, help="How many others are known to be in the cell.")
    ] = 0,
    also_rho: Annotated[
        list[str] | None,
        typer.Option("--also-rho", help="A further noisy count of the cell: a level, or a release; repeatable."),
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """What an adversary who knows everyone else learns about one person from a noisy count."""
    priors = [probability(text, "--prior") for text in prior or ["1/2"]]
    answer = answer_bayes(
        rho,
        priors,
        [count for text in released or () for count in _counts(text)],
        epsilon=epsilon,
        law=law,
        neighbours=neighbours,
        known_count=known_count,
        also_rho=also_rho or (),
    )
    gaussian = law is BudgetedLaw.DISCRETE_GAUSSIAN
    drawn = [] if plots is None else draw(plots, answer, prior or [], gaussian=gaussian)
    show_answer(answer, lambda: show_beliefs(answer), as_json=as_json, drawn=drawn)


def show_beliefs(answer: BayesAnswer) -> None:
    """What each adversary can expect, and what they believe after what was released."""
    _show_expected(answer)
    if all(adversary.belief is not None for adversary in answer.adversaries):
        out.print()
        if len(answer.laws) > 1:
            _show_sequence(answer.adversaries)
        else:
            _show_released(answer.adversaries)


def _show_expected(answer: BayesAnswer) -> None:
    neighbours, known, laws = answer.neighbours, answer.known_count, answer.laws
    for law in laws:
        out.print(f"[bold]{law.title} noise, {law.parameter_name} {float(law.parameter):.6g}[/] ({neighbours.value}).")
    others = "nobody else is" if not known else f"{known:,} other is" if known == 1 else f"{known:,} others are"
    counts = "The noisy count is seen" if len(laws) == 1 else f"{len(laws)} noisy counts of the cell are seen"
    out.print(f"{counts}; {others} known to be in the cell. Is the target in it?\n")
    rows = [
        (
            adversary.prior,
            _probability(adversary.marginal_posterior),
            f"{adversary.risk:.4f}",
            adversary.decides if adversary.decides != "from" else f"from {adversary.threshold:,} on",
            _probability(adversary.correct_given_1),
            _probability(adversary.correct_given_0),
            _probability(adversary.average_accuracy),
        )
        for adversary in answer.adversaries
    ]
    columns = ["prior ", "posterior if in ", "risk R ", "decides “in” ", "right if in ", "right if not "]
    table([*columns, "right on average "], rows)
    out.print()
    out.print("Posterior: what is expected if the target is in the cell; R is that over the prior.")
    most = f"{answer.risk_limit:.6g}" if answer.risk_limit < inf else "one over it"
    out.print(f"No prior makes R more than {most}. An even posterior decides “not in”.")
    gains = [adversary.gain for adversary in answer.adversaries if adversary.gain is not None]
    if gains and max(gains) < 5e-4:
        out.print("Decisions are hardly better than without the release.")
    if neighbours is Neighbours.CHANGE_ONE:
        out.print("Who knows the target to be in one of two cells sees both counts, which is as good as two releases.")


def _show_sequence(adversaries: Sequence[BayesAdversary]) -> None:
    for adversary in adversaries:
        assert adversary.belief is not None
        rows = [
            (step.released, _probability(step.prior), _probability(step.posterior), f"{step.risk_at:.4f}")
            for step in adversary.belief.steps
        ]
        table(["released ", "belief before ", "after ", "R′ "], rows, title=f"Prior {adversary.prior}")
        out.print(f"All together: R′ = {adversary.belief.risk_at[0]:.4f}, the product.\n")


def _show_released(adversaries: Sequence[BayesAdversary]) -> None:
    rows = []
    for adversary in adversaries:
        belief = adversary.belief
        assert belief is not None
        rows += [
            (count, adversary.prior, _probability(posterior), f"{ratio:.4f}")
            for count, posterior, ratio in zip(belief.released, belief.posterior, belief.risk_at, strict=True)
        ]
    table(["released ", "prior ", "posterior ", "R′ "], rows)


def draw(folder: Path, answer: BayesAnswer, priors: Sequence[str], *, gaussian: bool) -> list[Path]:
    """Figures 1, 2, 3 of the paper, and 7 where there are several counts."""
    drawn_priors = list(priors) if len(priors) > 1 else list(dict.fromkeys([*priors, *curves.PRIORS]))
    first = answer.evidence[0]
    released = curves.by_released(first, drawn_priors)
    pictures: dict[str, Callable[[], Chart]] = {
        f"{name}.svg": partial(chart, f"bayes-{name}", released)
        for name in ("posterior-by-released", "risk-by-released")
    }
    if gaussian:
        assert isinstance(first, LawEvidence)
        chosen = float((first.rho or Fraction(0)) * (2 if answer.neighbours is Neighbours.CHANGE_ONE else 1))
        over = curves.by_rho(drawn_priors, answer.neighbours)
        rhos = [row["rho"] for row in over]
        inside = min(rhos) <= chosen <= max(rhos)
        mark = [{"rho": chosen, "name": f"ρ {chosen:.3g}"}] if inside else []
        pictures |= {
            f"{name}.svg": partial(chart, f"bayes-{name}", over, chosen=mark)
            for name in ("posterior-by-rho", "risk-by-rho", "right-by-rho", "average-by-rho")
        }
    if len(answer.evidence) > 1:
        levels = curves.by_levels(answer.evidence, drawn_priors)
        pictures |= {
            f"{name}.svg": partial(chart, f"bayes-{name}", levels) for name in ("posterior-by-levels", "risk-by-levels")
        }
    return write(folder, pictures)


def _probability(value: float | None) -> str:
    if value is None:
        return "not computed"
    return f"{value:.6f}" if value >= 1e-4 or value == 0 else f"{value:.3g}"


def _counts(text: str) -> list[int]:
    try:
        return [checked_value(int(part)) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            "not-a-count",
            "this is not a list of released counts",
            where=Place(path="--released"),
            found=text[:40],
            expected="whole numbers, such as 3 or -1,0,2",
            remedy="correct --released",
        ) from None
