"""``confide risk hierarchy``: what an adversary learns who also sees the counts of larger areas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.numbers import number
from confide.cli.pictures import Plots
from confide.cli.risk_hierarchy_show import (
    draw,
    show_accuracy,
    show_model,
    show_post_processed,
    show_released,
    show_tree,
)
from confide.cli.show import Json, out, print_json
from confide.errors import Finding, ParameterError, Place
from confide.exact import probability
from confide.risk.bayesian.counts import LARGEST_RHO, SMALLEST_RHO
from confide.risk.bayesian.decision_map import DecisionMap, Region, Ties
from confide.risk.bayesian.hierarchy_curves import HIERARCHICAL, accuracy_by_parent
from confide.risk.bayesian.post_processing import PostProcessing, Rounding
from confide.risk.bayesian.priors import parse_parent_prior
from confide.risk.bayesian.sibling_sum import SiblingNoise
from confide.risk.bayesian.tree_file import load_tree
from confide.risk.bayesian.two_level import TwoLevel, Variant

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
        int, typer.Option("--known-count", min=0, help="How many others are known to be in the cell.")
    ] = 0,
    prior_x2: Annotated[
        str,
        typer.Option(
            "--prior-x2",
            metavar="LAW",
            help="flat, uniform:MOST or point:N for X2; geometric:MEAN, poisson:MEAN for Y.",
        ),
    ] = "flat",
    sibling_noise: Annotated[
        SiblingNoise, typer.Option("--sibling-noise", help="The law of the noise of the siblings' sum.")
    ] = SiblingNoise.APPROXIMATE,
    accuracy: Annotated[
        bool, typer.Option("--accuracy", help="How often decisions are right, over all releases.")
    ] = False,
    parents: Annotated[
        str, typer.Option("--x2", metavar="LIST", help="True parent's counts, target included, for --accuracy.")
    ] = _DEFAULT_PARENTS,
    ties: Annotated[Ties, typer.Option("--ties", help="What is decided if both are equally probable.")] = Ties.ZERO,
    post_processed: Annotated[
        str | None,
        typer.Option("--post-processed", metavar="LIST", help="Risks of post-processed counts, by published parent's."),
    ] = None,
    rounding: Annotated[
        Rounding, typer.Option("--rounding", help="Where halves go in post-processing.")
    ] = Rounding.HALF_EVEN,
    tree: Annotated[
        Path | None, typer.Option("--tree", metavar="FILE", help="A whole tree of counts instead, TOML or JSON.")
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", help="With --tree: another node's posterior; repeatable.")
    ] = None,
    plots: Plots = None,
    as_json: Json = False,
) -> None:
    """What an adversary learns about one person from counts at several levels."""
    if tree is not None:
        _tree(tree, node or [], as_json)
        return
    model = TwoLevel(
        number(_needed(rho1, "rho1"), "rho1", SMALLEST_RHO, LARGEST_RHO),
        number(_needed(rho2, "rho2"), "rho2", SMALLEST_RHO, LARGEST_RHO),
        int(_needed(siblings, "siblings")),
        probability(prior, "--prior"),
        known=known_count,
        parent=parse_parent_prior(prior_x2),
        noise=sibling_noise,
    )
    result: dict[str, Any] = {
        "rho1": float(model.rho1),
        "rho2": float(model.rho2),
        "siblings": model.siblings,
        "prior": float(model.prior),
        "known_count": model.known,
        "prior_x2": prior_x2,
        "sibling_noise": model.noise.value,
        "weight_of_hierarchy": float(model.weight),
        "effective_rho": float(model.effective_rho),
        "effective_rho_limit": float(model.rho1 * (model.siblings + 1) / model.siblings),
    }
    if released is not None:
        result |= _released(model, released)
    if accuracy:
        result |= _accuracy(model, _numbers(parents, "--x2", lowest=model.known + 1), ties)
    if post_processed is not None:
        result["post_processed"] = _post_processed(model, _numbers(post_processed, "--post-processed"), rounding)
    drawn = [] if plots is None else draw(plots, model, ties, rounding)
    if as_json:
        print_json(result | ({"plots": [str(path) for path in drawn]} if drawn else {}))
        return
    show_model(result)
    if released is not None:
        show_released(result)
    if accuracy:
        show_accuracy(result)
    if post_processed is not None:
        show_post_processed(result["post_processed"])
    for path in drawn:
        out.print(f"Drawn: {escape(str(path))}")


def _released(model: TwoLevel, text: str) -> dict[str, Any]:
    counts = _numbers(text, "--released", lowest=-(10**9))
    if len(counts) != 3:
        raise _wrong("--released", text, "three whole numbers X1,X2,Y, such as 2,1,-1")
    x1, x2, y = counts
    names = {
        Variant.STATED: "posterior",
        Variant.UNRESTRICTED: "posterior_unrestricted",
        Variant.WITHOUT: "posterior_without_hierarchy",
    }
    found: dict[str, Any] = {"released": {"x1": x1, "x2": x2, "y": y}}
    found |= {name: float(model.posterior(x1, x2, y, variant)) for variant, name in names.items()}
    found["risk"] = found["posterior"] / float(model.prior)
    found["law_of_x2"] = model.law_of_parent(x1, x2, y).as_dict()
    found["law_of_x2_unrestricted"] = model.law_of_parent(x1, x2, y, Variant.UNRESTRICTED).as_dict()
    return found


def _accuracy(model: TwoLevel, parents: list[int], ties: Ties) -> dict[str, Any]:
    changes = []
    for x2 in parents:
        for variant in HIERARCHICAL:
            seen = DecisionMap(model, model.known + 1, x2, variant)
            row: dict[str, Any] = {
                "x2": x2,
                "variant": variant.value,
                **seen.changes(ties).as_dict(),
                "ties": seen.ties(),
            }
            if model.known == 0 and x2 == 1:
                row["in_region_of_figure_4"] = DecisionMap(model, 1, x2, variant, Region()).changes(ties).as_dict()
            changes.append(row)
    return {"ties": ties.value, "accuracy": accuracy_by_parent(model, parents, ties), "changes": changes}


def _post_processed(model: TwoLevel, published: list[int], rounding: Rounding) -> dict[str, Any]:
    processing = PostProcessing(
        model.rho1,
        model.siblings,
        model.prior,
        x2=model.known + 1,
        known=model.known,
        rounding=rounding,
        noise=model.noise,
    )
    return {
        "true_x2": processing.x2,
        "rounding": rounding.value,
        "risk": {str(count): processing.risk(count).risk for count in published},
        "without_post_processing": processing.without(),
        "bound": processing.bound(),
        "effective_rho": float(processing.effective_rho),
    }


def _tree(path: Path, nodes: list[str], as_json: bool) -> None:
    question = load_tree(path)
    found = question.tree.posterior(question.target)
    result: dict[str, Any] = {
        "target": question.target,
        "nodes": sum(1 for _ in question.tree.root.nodes()),
        "prior": float(probability(question.prior, "the prior probability")),
        "posterior": float(found.law.probabilities[1]),
        "log_odds": found.log_odds,
        "cut_off_at_most": found.bound,
    }
    if nodes:
        result["laws"] = {name: question.tree.posterior(name).law.as_dict() for name in nodes}
    if as_json:
        print_json(result)
    else:
        show_tree(result)


def _needed(value: Any, name: str) -> Any:
    if value is not None:
        return value
    raise ParameterError(
        Finding(
            code="missing-option",
            what=f"--{name} is missing",
            where=Place(path=f"--{name}"),
            expected="--rho1, --rho2 and --siblings together, or --tree",
            remedy=f"give --{name}, or describe the counts in a file for --tree",
        )
    )


def _numbers(text: str, option: str, lowest: int = 0) -> list[int]:
    found = []
    for part in text.split(","):
        digits = part.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9) or int(part) < lowest:
            raise _wrong(option, text, f"whole numbers from {lowest}, with commas between")
        found.append(int(part))
    return found


def _wrong(option: str, text: str, expected: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="not-counts",
            what="this is not a list of counts",
            where=Place(path=option),
            found=text[:60],
            expected=expected,
            remedy=f"correct {option}",
        )
    )
