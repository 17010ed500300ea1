"""``confide risk bayes``, ``hierarchy`` and ``profile``: what noisy counts tell about one person.

One noisy count, or several of the same cell; those of larger areas too; and the largest budget under which beliefs rise
no further than a profile allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated, Any

from confide.cli.commands import setting
from confide.cli.requests import PICTURES, Given, Way, command
from confide.cli.show import out, table
from confide.errors import ParameterError, Place
from confide.exact import probability, up
from confide.lab.risk import RiskTuning, hierarchy_of_tree
from confide.lab.risk import bayes as answer_bayes
from confide.lab.risk import hierarchy as answer_hierarchy
from confide.lab.risk import tune_risk as answer_profile
from confide.lab.risk.bayesian import hierarchy_answer
from confide.lab.risk.bayesian.bayes_answer import BayesAdversary, BayesAnswer
from confide.lab.risk.bayesian.one_level import checked_value
from confide.lab.risk.bayesian.two_level import Variant
from confide.privacy import Neighbours


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


def _counts(texts: Sequence[str]) -> list[int]:
    try:
        return [checked_value(int(part)) for text in texts for part in text.split(",")]
    except ValueError:
        raise ParameterError("not-a-count/list", where=Place(path="--released"), found=",".join(texts)[:40]) from None


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


bayes = command(
    "What an adversary who knows everyone else learns about one person from a noisy count.",
    answer_bayes,
    show_beliefs,
    settings="neighbours known_count also_rho",
    options={
        "priors": Given("--prior", lambda texts: [probability(text, "--prior") for text in texts]),
        "released": Given("--released COUNT", _counts, list[str]),
        "known_count": Given(least=0),
    },
    pictures=PICTURES,
)
profile = command(
    "The largest rho for which posterior-to-prior ratios keep a profile, for all priors; and which side binds.",
    answer_profile,
    _show_profile,
    options={"profile": "--profile PROFILE"},
)


_NAMES = {
    Variant.STATED: "joint law as stated",
    Variant.UNRESTRICTED: "X1 step unrestricted",
    Variant.WITHOUT: "x1* alone",
}
_NOTE = (
    "The joint law as stated is the answer. The unrestricted one is what a sampler gives whose step for X1 forgets "
    "that X1 ≤ X2; it reproduces published figures and is not a posterior."
)


def show_hierarchy(answer: hierarchy_answer.HierarchyAnswer) -> None:
    """Who the adversary is and how strong far from the boundary; then each part that was asked for."""
    model = answer.model
    known = f", {model.known} others known" if model.known else ""
    out.print(
        f"[bold]ρ1 {float(model.rho1):.6g}, ρ2 {float(model.rho2):.6g}, {model.siblings} siblings, "
        f"prior {float(model.prior):.4g}{known}, belief about X2: {answer.prior_x2}.[/]"
    )
    out.print(
        f"Where counts are large and their prior flat, the hierarchy is worth as much as "
        f"ρ1 = {float(model.effective_rho):.6f} without it; "
        f"whatever ρ2 is, at most {float(answer.effective_rho_limit):.6f}.\n"
    )
    if answer.belief is not None:
        _show_belief(answer.belief)
    if answer.decisions is not None:
        _show_decisions(answer.decisions)
    if answer.post_processed is not None:
        _show_post_processed(answer.post_processed)


def _show_belief(belief: hierarchy_answer.HierarchyBelief) -> None:
    """The posteriors for one release."""
    rows = [
        (name, f"{belief.posterior[variant]:.6f}", f"{belief.risk:.4f}" if variant is Variant.STATED else "")
        for variant, name in _NAMES.items()
    ]
    title = f"Released x1* = {belief.x1}, x2* = {belief.x2}, y* = {belief.y}"
    table(["", "P(target is in) ", "over prior "], rows, title=title)
    laws = (belief.law_of_x2, belief.law_of_x2_unrestricted)
    first = min(law.first for law in laws)
    last = max(law.first + len(law.probabilities) for law in laws)
    likely = [
        (count, *(f"{law.p(count):.6f}" for law in laws))
        for count in range(first, last)
        if max(law.p(count) for law in laws) >= 5e-5
    ]
    out.print()
    columns = ["X2 ", f"{_NAMES[Variant.STATED]} ", f"{_NAMES[Variant.UNRESTRICTED]} "]
    table(columns, likely, title="The parent's count")
    out.print(f"\n{_NOTE}\n")


def _show_decisions(decisions: hierarchy_answer.HierarchyDecisions) -> None:
    """How often decisions are right."""
    rows = [
        (
            row.x2,
            _NAMES[row.variant],
            f"{row.accuracy.present:.4%}",
            f"{row.accuracy.absent:.4%}",
            f"{row.accuracy.average:.4%}",
        )
        for row in sorted(decisions.accuracy, key=lambda row: (row.x2, list(_NAMES).index(row.variant)))
    ]
    title = f"Correct decisions by the parent's true count, target included; ties: {decisions.ties}"
    table(["x2 ", "computed from", "if in ", "if not in ", "average "], rows, title=title)
    out.print()
    changes = [
        (
            row.x2,
            _NAMES[row.variant],
            f"{row.changes.gain:.4%}",
            f"{row.changes.loss:.4%}",
            f"{row.ties:.4%}" if row.ties else "none",
        )
        for row in decisions.changes
    ]
    title = "Releases in which the hierarchy changes the decision, if the target is in"
    table(["x2 ", "computed from", "wrong to right ", "right to wrong ", "ties "], changes, title=title)
    out.print(f"\n{_NOTE}\n")


def _show_post_processed(risk: hierarchy_answer.PostProcessingRisk) -> None:
    """Risks after least squares, clamping and rounding."""
    rows = [(str(count), f"{value:.6f}") for count, value in risk.risk.items()]
    rows += [
        ("x1* alone, not post-processed", f"{risk.without_post_processing:.6f}"),
        ("x1* and y*, the bound", f"{risk.bound:.6f}"),
    ]
    processing = risk.processing
    title = f"R of the post-processed count, true x2 = {processing.x2} known, rounding {processing.rounding}"
    table(["published parent's count", "R "], rows, title=title)
    out.print()


def show_tree(answer: hierarchy_answer.TreeAnswer) -> None:
    """The posterior of a target in a tree."""
    out.print(f"[bold]{answer.nodes:,} counts.[/] Target: {answer.target}")
    rows = [
        ("prior probability that the target is in", f"{float(answer.prior):.6g}"),
        ("posterior probability", f"{float(answer.posterior.law.probabilities[1]):.6f}"),
        ("log odds", f"{answer.posterior.log_odds:.6f}"),
    ]
    table(["", " "], rows)
    for name, law in answer.laws.items():
        out.print()
        table(["count ", "probability "], [(count, f"{p:.6f}") for count, p in law.as_dict().items()], title=name)


def _released(text: str) -> tuple[int, int, int]:
    counts = _numbers(text, "--released", lowest=-(10**9))
    if len(counts) != 3:
        raise ParameterError("not-counts/list", where=Place(path="--released"), found=text[:60])
    return counts[0], counts[1], counts[2]


def _numbers(text: str, option: str, lowest: int = 0) -> list[int]:
    numbers = []
    for part in text.split(","):
        digits = part.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9) or int(part) < lowest:
            raise ParameterError(
                "not-counts/commas", where=Place(path=option), found=text[:60], lowest=lowest, option=option
            )
        numbers.append(int(part))
    return numbers


def _prepare(values: dict[str, Any]) -> None:
    parents = values.pop("x2")
    if values.pop("accuracy"):
        values["accuracy_at"] = _numbers(parents, "--x2", lowest=values["known_count"] + 1)


hierarchy = command(
    "What an adversary learns about one person from counts at several levels.",
    answer_hierarchy,
    show_hierarchy,
    settings="known_count prior_x2 sibling_noise ties post_processed rounding nodes",
    options={
        "siblings": Given(least=1, most=100_000),
        "released": Given("--released X1,X2,Y", _released, str),
        "known_count": Given(least=0),
        "prior_x2": "--prior-x2 LAW",
        "post_processed": Given("--post-processed LIST", lambda text: _numbers(text, "--post-processed"), str),
        "path": "--tree FILE",
        "nodes": "--node",
    },
    extra={
        "accuracy": (Annotated[bool, setting(help="How often decisions are right, over all releases.")], False),
        "x2": (
            Annotated[str, setting(metavar="LIST", help="True parent's counts, target included, for accuracy.")],
            "1,2,4,8,20",
        ),
    },
    prepare=_prepare,
    pictures=lambda answer, given: answer.pictures(given["ties"], given["rounding"]),
    without="accuracy_at",
    others={"path": Way(hierarchy_of_tree, show_tree)},
)
