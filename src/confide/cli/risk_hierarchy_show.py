"""The answers of ``confide risk hierarchy`` on a terminal, and their pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confide.cli.pictures import write
from confide.cli.show import out, table
from confide.report import hierarchy_plots
from confide.risk.bayesian import hierarchy_curves as curves
from confide.risk.bayesian.decision_map import Ties
from confide.risk.bayesian.post_processing import PostProcessing, Rounding
from confide.risk.bayesian.two_level import TwoLevel, Variant

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


def draw(folder: Path, model: TwoLevel, ties: Ties, rounding: Rounding) -> list[Path]:
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
