"""``confide risk hierarchy``: what an adversary learns who also sees the counts of larger areas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from confide.cli.commands import setting
from confide.cli.show import Json, Plots, out, show_answer, table, write
from confide.errors import ParameterError, Place
from confide.exact import probability
from confide.lab.risk import hierarchy as answer_hierarchy
from confide.lab.risk import hierarchy_of_tree
from confide.lab.risk.bayesian.counts import SiblingNoise
from confide.lab.risk.bayesian.decision_map import Ties
from confide.lab.risk.bayesian.hierarchy_answer import (
    HierarchyAnswer,
    HierarchyBelief,
    HierarchyDecisions,
    PostProcessingRisk,
    TreeAnswer,
)
from confide.lab.risk.bayesian.post_processing import HalfRounding
from confide.lab.risk.bayesian.two_level import Variant

_NAMES = {
    Variant.STATED: "joint law as stated",
    Variant.UNRESTRICTED: "X1 step unrestricted",
    Variant.WITHOUT: "x1* alone",
}
_NOTE = (
    "The joint law as stated is the answer. The unrestricted one is what a sampler gives whose step for X1 forgets "
    "that X1 ≤ X2; it reproduces published figures and is not a posterior."
)


_DEFAULT_PARENTS = "1,2,4,8,20"


def hierarchy(
    rho1: Annotated[str | None, typer.Option("--rho1", help="The ρ of the block's count and of its siblings'.")] = None,
    rho2: Annotated[str | None, typer.Option("--rho2", help="The ρ of the count one level up.")] = None,
    siblings: Annotated[
        int | None, typer.Option("--siblings", min=1, max=100_000, help="How many other blocks there are.")
    ] = None,
    released: Annotated[
        str | None,
        typer.Option("--released", metavar="X1,X2,Y", help="Released: block, parent, sum of siblings; such as 2,1,-1."),
    ] = None,
    prior: Annotated[str, typer.Option("--prior", help="The belief that the target is in, before.")] = "1/2",
    known_count: Annotated[
        int, setting("--known-count", min=0, help="How many others are known to be in the cell.")
    ] = 0,
    prior_x2: Annotated[
        str,
        setting(
            "--prior-x2",
            metavar="LAW",
            help="flat, uniform:MOST or point:N for X2; geometric:MEAN, poisson:MEAN for Y.",
        ),
    ] = "flat",
    sibling_noise: Annotated[
        SiblingNoise, setting("--sibling-noise", help="The law of the noise of the siblings' sum.")
    ] = SiblingNoise.APPROXIMATE,
    accuracy: Annotated[bool, setting("--accuracy", help="How often decisions are right, over all releases.")] = False,
    parents: Annotated[
        str, setting("--x2", metavar="LIST", help="True parent's counts, target included, for --accuracy.")
    ] = _DEFAULT_PARENTS,
    ties: Annotated[Ties, setting("--ties", help="What is decided if both are equally probable.")] = Ties.ZERO,
    post_processed: Annotated[
        str | None,
        setting("--post-processed", metavar="LIST", help="Risks of post-processed counts, by published parent's."),
    ] = None,
    rounding: Annotated[
        HalfRounding, setting("--rounding", help="Where halves go in post-processing.")
    ] = HalfRounding.HALF_EVEN,
    tree: Annotated[
        Path | None, typer.Option("--tree", metavar="FILE", help="A whole tree of counts instead, TOML or JSON.")
    ] = None,
    node: Annotated[
        list[str] | None, setting("--node", help="With --tree: another node's posterior; repeatable.")
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """What an adversary learns about one person from counts at several levels."""
    if tree is not None:
        tree_answer = hierarchy_of_tree(tree, node or ())
        show_answer(tree_answer, lambda: show_tree(tree_answer), as_json=as_json)
        return
    rho1, rho2, siblings = _needed(rho1, "rho1"), _needed(rho2, "rho2"), _needed(siblings, "siblings")
    answer = answer_hierarchy(
        rho1,
        rho2,
        siblings,
        prior=probability(prior, "--prior"),
        released=None if released is None else _released(released),
        known_count=known_count,
        prior_x2=prior_x2,
        sibling_noise=sibling_noise,
        accuracy_at=_numbers(parents, "--x2", lowest=known_count + 1) if accuracy else (),
        ties=ties,
        post_processed=() if post_processed is None else _numbers(post_processed, "--post-processed"),
        rounding=rounding,
    )
    drawn = [] if plots is None else write(plots, answer.pictures(ties, rounding))
    show_answer(answer, lambda: show_hierarchy(answer), as_json=as_json, drawn=drawn)


def show_hierarchy(answer: HierarchyAnswer) -> None:
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


def _show_belief(belief: HierarchyBelief) -> None:
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


def _show_decisions(decisions: HierarchyDecisions) -> None:
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


def _show_post_processed(risk: PostProcessingRisk) -> None:
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


def show_tree(answer: TreeAnswer) -> None:
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
        raise _wrong("--released", text, "three whole numbers X1,X2,Y, such as 2,1,-1")
    return counts[0], counts[1], counts[2]


def _needed(value: Any, name: str) -> Any:
    if value is not None:
        return value
    raise ParameterError(
        "missing-option",
        f"--{name} is missing",
        where=Place(path=f"--{name}"),
        expected="--rho1, --rho2 and --siblings together, or --tree",
        remedy=f"give --{name}, or describe the counts in a file for --tree",
    )


def _numbers(text: str, option: str, lowest: int = 0) -> list[int]:
    numbers = []
    for part in text.split(","):
        digits = part.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9) or int(part) < lowest:
            raise _wrong(option, text, f"whole numbers from {lowest}, with commas between")
        numbers.append(int(part))
    return numbers


def _wrong(option: str, text: str, expected: str) -> ParameterError:
    return ParameterError(
        "not-counts",
        "this is not a list of counts",
        where=Place(path=option),
        found=text[:60],
        expected=expected,
        remedy=f"correct {option}",
    )
