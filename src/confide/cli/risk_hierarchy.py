"""``confide risk hierarchy``: what an adversary learns who also sees the counts of larger areas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from confide.cli.show import Json, Plots, number, out, print_json, table, write
from confide.errors import ParameterError, Place
from confide.exact import probability
from confide.report import hierarchy_plots
from confide.risk.bayesian import decision_map as curves
from confide.risk.bayesian.counts import LARGEST_RHO, SMALLEST_RHO, SiblingNoise
from confide.risk.bayesian.decision_map import HIERARCHICAL, DecisionMap, ReleaseRegion, Ties, accuracy_by_parent
from confide.risk.bayesian.post_processing import HalfRounding, PostProcessing
from confide.risk.bayesian.priors import parse_parent_prior
from confide.risk.bayesian.tree_file import load_tree
from confide.risk.bayesian.two_level import TwoLevel, Variant

# The answers of ``confide risk hierarchy`` on a terminal, and their pictures.


Result = dict[str, Any]
_NAMES = {
    "stated": "joint law as stated",
    "unrestricted": "X1 step unrestricted",
    "without-hierarchy": "x1* alone",
}
_NOTE = (
    "The joint law as stated is the answer. The unrestricted one is what a sampler gives whose step for X1 forgets "
    "that X1 ≤ X2; it reproduces published figures and is not a posterior."
)


def show_model(result: Result) -> None:
    """Who the adversary is, and how strong far from the boundary."""
    known = f", {result['known_count']} others known" if result["known_count"] else ""
    out.print(
        f"[bold]ρ1 {result['rho1']:.6g}, ρ2 {result['rho2']:.6g}, {result['siblings']} siblings, "
        f"prior {result['prior']:.4g}{known}, belief about X2: {result['prior_x2']}.[/]"
    )
    out.print(
        f"Where counts are large and their prior flat, the hierarchy is worth as much as "
        f"ρ1 = {result['effective_rho']:.6f} without it; "
        f"whatever ρ2 is, at most {result['effective_rho_limit']:.6f}.\n"
    )


def show_released(result: Result) -> None:
    """The posteriors for one release."""
    seen = result["released"]
    rows = [
        (_NAMES["stated"], f"{result['posterior']:.6f}", f"{result['risk']:.4f}"),
        (_NAMES["unrestricted"], f"{result['posterior_unrestricted']:.6f}", ""),
        (_NAMES["without-hierarchy"], f"{result['posterior_without_hierarchy']:.6f}", ""),
    ]
    title = f"Released x1* = {seen['x1']}, x2* = {seen['x2']}, y* = {seen['y']}"
    table(["", "P(target is in) ", "over prior "], rows, title=title)
    laws = (result["law_of_x2"], result["law_of_x2_unrestricted"])
    counts = sorted({int(count) for law in laws for count in law})
    shown = [
        (count, *(f"{law.get(str(count), 0.0):.6f}" for law in laws))
        for count in counts
        if max(law.get(str(count), 0.0) for law in laws) >= 5e-5
    ]
    out.print()
    table(["X2 ", f"{_NAMES['stated']} ", f"{_NAMES['unrestricted']} "], shown, title="The parent's count")
    out.print(f"\n{_NOTE}\n")


def show_accuracy(result: Result) -> None:
    """How often decisions are right."""
    rows = [
        (
            row["x2"],
            _NAMES[row["variant"]],
            f"{row['correct_given_1']:.4%}",
            f"{row['correct_given_0']:.4%}",
            f"{row['average_accuracy']:.4%}",
        )
        for row in sorted(result["accuracy"], key=lambda row: (row["x2"], list(_NAMES).index(row["variant"])))
    ]
    title = f"Correct decisions by the parent's true count, target included; ties: {result['ties']}"
    table(["x2 ", "computed from", "if in ", "if not in ", "average "], rows, title=title)
    out.print()
    shown = [
        (
            row["x2"],
            _NAMES[row["variant"]],
            f"{row['gain']:.4%}",
            f"{row['loss']:.4%}",
            f"{row['ties']:.4%}" if row["ties"] else "none",
        )
        for row in result["changes"]
    ]
    title = "Releases in which the hierarchy changes the decision, if the target is in"
    table(["x2 ", "computed from", "wrong to right ", "right to wrong ", "ties "], shown, title=title)
    out.print(f"\n{_NOTE}\n")


def show_post_processed(found: Result) -> None:
    """Risks after least squares, clamping and rounding."""
    rows = [(count, f"{risk:.6f}") for count, risk in found["risk"].items()]
    rows += [
        ("x1* alone, not post-processed", f"{found['without_post_processing']:.6f}"),
        ("x1* and y*, the bound", f"{found['bound']:.6f}"),
    ]
    title = f"R of the post-processed count, true x2 = {found['true_x2']} known, rounding {found['rounding']}"
    table(["published parent's count", "R "], rows, title=title)
    out.print()


def show_tree(result: Result) -> None:
    """The posterior of a target in a tree."""
    out.print(f"[bold]{result['nodes']:,} counts.[/] Target: {result['target']}")
    rows = [
        ("prior probability that the target is in", f"{result['prior']:.6g}"),
        ("posterior probability", f"{result['posterior']:.6f}"),
        ("log odds", f"{result['log_odds']:.6f}"),
    ]
    table(["", " "], rows)
    for name, law in result.get("laws", {}).items():
        out.print()
        table(["count ", "probability "], [(count, f"{p:.6f}") for count, p in law.items()], title=name)


def draw(folder: Path, model: TwoLevel, ties: Ties, rounding: HalfRounding) -> list[Path]:
    """Decisions, accuracy by the parent's count and noise, and post-processing (Figures 4, 5, 6 and 12)."""
    known = model.known
    processing = PostProcessing(
        model.rho1, model.siblings, model.prior, x2=known + 1, known=known, rounding=rounding, noise=model.noise
    )
    published = [0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 75, 90, 100, 125, 150, 175, 200]

    def by_rho2() -> str:
        rows = curves.accuracy_by_rho2(model, [known + 1, known + 10, known + 100], ties=ties)
        without = curves.accuracy_by_parent(model, [known + 1], ties, [Variant.WITHOUT])[0]["correct_given_1"]
        return hierarchy_plots.accuracy_by_rho2(rows, without=without, chosen=float(model.rho2))

    return write(
        folder,
        {
            "hierarchy-decisions.svg": lambda: hierarchy_plots.decisions(curves.decision_tiles(model)),
            "hierarchy-accuracy-by-parent.svg": lambda: hierarchy_plots.accuracy_by_parent(
                curves.accuracy_by_parent(model, range(known + 1, known + 21), ties)
            ),
            "hierarchy-accuracy-by-rho2.svg": by_rho2,
            "hierarchy-post-processing.svg": lambda: hierarchy_plots.post_processing(
                curves.post_processed_by_parent(processing, published),
                curves.post_processed_by_rho1(processing, [1, 10, 100]),
                without=processing.without(),
                bound=processing.bound(),
                chosen=float(model.rho1),
            ),
        },
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
        HalfRounding, typer.Option("--rounding", help="Where halves go in post-processing.")
    ] = HalfRounding.HALF_EVEN,
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
                row["in_region_of_figure_4"] = (
                    DecisionMap(model, 1, x2, variant, ReleaseRegion()).changes(ties).as_dict()
                )
            changes.append(row)
    return {"ties": ties.value, "accuracy": accuracy_by_parent(model, parents, ties), "changes": changes}


def _post_processed(model: TwoLevel, published: list[int], rounding: HalfRounding) -> dict[str, Any]:
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
        "missing-option",
        f"--{name} is missing",
        where=Place(path=f"--{name}"),
        expected="--rho1, --rho2 and --siblings together, or --tree",
        remedy=f"give --{name}, or describe the counts in a file for --tree",
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
        "not-counts",
        "this is not a list of counts",
        where=Place(path=option),
        found=text[:60],
        expected=expected,
        remedy=f"correct {option}",
    )
