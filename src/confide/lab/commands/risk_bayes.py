"""``confide risk bayes``: what one noisy count, or several of the same cell, tells about one person; and ``confide risk
profile``: the largest budget under which beliefs rise no further than a profile allows."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated

import typer

from confide.cli.commands import setting
from confide.cli.show import Json, Plots, out, show_answer, table, write
from confide.errors import ParameterError, Place
from confide.exact import probability, up
from confide.lab.risk import RiskTuning
from confide.lab.risk import bayes as answer_bayes
from confide.lab.risk import tune_risk as answer_profile
from confide.lab.risk.bayesian.bayes_answer import BayesAdversary, BayesAnswer, BudgetedLaw
from confide.lab.risk.bayesian.one_level import checked_value
from confide.privacy import Neighbours


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
        Neighbours, setting("--neighbours", help="What the budget compares; change-one has more noise.")
    ] = Neighbours.ADD_REMOVE,
    known_count: Annotated[
        int, setting("--known-count", min=0, help="How many others are known to be in the cell.")
    ] = 0,
    also_rho: Annotated[
        list[str] | None,
        setting("--also-rho", help="A further noisy count of the cell: a level, or a release; repeatable."),
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
    drawn = [] if plots is None else write(plots, answer.pictures(prior or ()))
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


def profile(
    profiles: Annotated[
        list[str],
        typer.Option("--profile", metavar="PROFILE", help='Such as "posterior<=3*prior"; repeatable, all must hold.'),
    ],
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is stated.")] = "1e-10",
    as_json: Json = False,
) -> None:
    """The largest rho for which posterior-to-prior ratios keep a profile, for all priors; and which side binds."""
    answer = answer_profile(profiles, delta=delta)
    show_answer(answer, lambda: _show_profile(answer), as_json=as_json)


def _show_profile(answer: RiskTuning) -> None:
    rows = [
        (side.limit.text, side.name, "→ 0" if not side.prior else f"{side.prior:.3g}", f"{side.rho:.4f}")
        for side in answer.sides
    ]
    table(["profile", "side", "binding prior ", "largest rho "], rows)
    epsilon = up(answer.as_dict()["epsilon"]["canonne_kamath_steinke"], 2)
    out.print(
        f"\nrho = {float(answer.rho):g} (epsilon {epsilon} at delta {float(answer.delta):g}): "
        f"{answer.binding.name} side binds. It holds for {answer.as_dict()['holds_for']}."
    )
