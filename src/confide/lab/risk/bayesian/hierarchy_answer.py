"""What an adversary learns who also sees the counts of larger areas: the answers of ``confide risk hierarchy``.

The mathematics is that of :mod:`.two_level` and :mod:`.decision_map` for two levels, and of
:mod:`.tree` for a whole tree of counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.errors import ParameterError, Place
from confide.exact import Exact, positive_within, probability
from confide.lab.risk.bayesian import counts, decision_map
from confide.lab.risk.bayesian.tree import TreePosterior, load_tree
from confide.lab.risk.bayesian.two_level import HalfRounding, PostProcessing, TwoLevel, Variant
from confide.report.charts import Chart, Pictures, chart

POSTERIOR_KEYS = {
    Variant.STATED: "posterior",
    Variant.UNRESTRICTED: "posterior_unrestricted",
    Variant.WITHOUT: "posterior_without_hierarchy",
}


@dataclass(frozen=True)
class HierarchyBelief:
    """Beliefs after one release: block, parent and sum of siblings."""

    x1: int
    x2: int
    y: int
    posterior: Mapping[Variant, float]
    """The posterior that the target is in, as each variant computes it."""
    risk: float
    """That of the joint law, over the prior."""
    law_of_x2: counts.CountLaw
    """The posterior law of the parent's count."""
    law_of_x2_unrestricted: counts.CountLaw

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "released": {"x1": self.x1, "x2": self.x2, "y": self.y},
            **{name: self.posterior[variant] for variant, name in POSTERIOR_KEYS.items()},
            "risk": self.risk,
            "law_of_x2": self.law_of_x2.as_dict(),
            "law_of_x2_unrestricted": self.law_of_x2_unrestricted.as_dict(),
        }


@dataclass(frozen=True)
class VariantAccuracy:
    """How often one way to compute posteriors decides rightly, for a true count of the parent."""

    x2: int
    variant: Variant
    accuracy: decision_map.DecisionAccuracy


@dataclass(frozen=True)
class VariantChanges:
    """How often the hierarchy changes the decision if the target is in, for a true count of the parent."""

    x2: int
    variant: Variant
    changes: decision_map.DecisionChanges
    ties: float
    """The probability of a tie."""
    in_region_of_figure_4: decision_map.DecisionChanges | None = None


@dataclass(frozen=True)
class HierarchyDecisions:
    """How often decisions are right, and how often the hierarchy changes them, over all releases."""

    ties: decision_map.Ties
    accuracy: tuple[VariantAccuracy, ...]
    changes: tuple[VariantChanges, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        changes = []
        for row in self.changes:
            plain: dict[str, Any] = {"x2": row.x2, "variant": row.variant.value, **row.changes.as_dict()}
            plain["ties"] = row.ties
            if row.in_region_of_figure_4 is not None:
                plain["in_region_of_figure_4"] = row.in_region_of_figure_4.as_dict()
            changes.append(plain)
        return {
            "ties": self.ties.value,
            "accuracy": [
                {"x2": row.x2, "variant": row.variant.value, "ties": self.ties.value} | row.accuracy.as_dict()
                for row in self.accuracy
            ],
            "changes": changes,
        }


@dataclass(frozen=True)
class PostProcessingRisk:
    """What least squares, clamping and rounding leave of the risk, by the parent's published count."""

    processing: PostProcessing
    risk: Mapping[int, float]
    without_post_processing: float
    bound: float
    """The risk of all that post-processing is computed from."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "true_x2": self.processing.x2,
            "rounding": self.processing.rounding.value,
            "risk": {str(count): risk for count, risk in self.risk.items()},
            "without_post_processing": self.without_post_processing,
            "bound": self.bound,
            "effective_rho": float(self.processing.effective_rho),
        }


@dataclass(frozen=True)
class HierarchyAnswer(TypedAnswer):
    """What the count of a block, of its siblings and one level up say about one person."""

    model: TwoLevel
    prior_x2: str
    belief: HierarchyBelief | None = None
    decisions: HierarchyDecisions | None = None
    post_processed: PostProcessingRisk | None = None
    ties: decision_map.Ties = decision_map.Ties.ZERO
    """How its pictures decide where both answers are as likely."""
    rounding: HalfRounding = HalfRounding.HALF_EVEN
    """How they round halves."""

    @property
    def effective_rho_limit(self) -> Fraction:
        """What the effective rho of the block's count is at most, however large that of the parent is."""
        return self.model.rho1 * (self.model.siblings + 1) / self.model.siblings

    def pictures(self) -> Pictures:
        """Decisions, accuracy by the parent's count and noise, post-processing, and the noise of the siblings' sum:
        Figures 4 (10 and 11 with other beliefs about X2), 5, 6, 12, 8 and 9 of Kazan and Reiter, by name."""
        model, even = self.model, self.ties
        return {
            "hierarchy-decisions": lambda: _decisions_chart(model),
            "hierarchy-accuracy-by-parent": lambda: _by_parent_chart(model, even),
            "hierarchy-accuracy-by-rho2": lambda: _by_rho2_chart(model, even),
            "hierarchy-post-processing": lambda: _post_processing_chart(model, self.rounding),
            "hierarchy-noise-variance": lambda: _variance_chart(model),
            "hierarchy-sum-of-noises": lambda: _sum_chart(model),
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain values; parts that were not asked for are absent."""
        model = self.model
        values: dict[str, Any] = {
            "rho1": float(model.rho1),
            "rho2": float(model.rho2),
            "siblings": model.siblings,
            "prior": float(model.prior),
            "known_count": model.known,
            "prior_x2": self.prior_x2,
            "sibling_noise": model.noise.value,
            "weight_of_hierarchy": float(model.weight),
            "effective_rho": float(model.effective_rho),
            "effective_rho_limit": float(self.effective_rho_limit),
        }
        if self.belief is not None:
            values |= self.belief.as_dict()
        if self.decisions is not None:
            values |= self.decisions.as_dict()
        if self.post_processed is not None:
            values["post_processed"] = self.post_processed.as_dict()
        return values

    def described(self) -> Iterator[AnswerPart]:
        """Who the adversary is and how strong far from the boundary; then each part that was asked for."""
        model = self.model
        known = f", {model.known} others known" if model.known else ""
        yield (
            f"ρ1 {float(model.rho1):.6g}, ρ2 {float(model.rho2):.6g}, {model.siblings} siblings, "
            f"prior {float(model.prior):.4g}{known}, belief about X2: {self.prior_x2}."
        )
        yield (
            f"Where counts are large and their prior flat, the hierarchy is worth as much as "
            f"ρ1 = {float(model.effective_rho):.6f} without it; "
            f"whatever ρ2 is, at most {float(self.effective_rho_limit):.6f}.\n"
        )
        if self.belief is not None:
            yield from _belief_described(self.belief)
        if self.decisions is not None:
            yield from _decisions_described(self.decisions)
        if self.post_processed is not None:
            yield from _post_processed_described(self.post_processed)


@dataclass(frozen=True)
class TreeAnswer(TypedAnswer):
    """What all counts of a tree say about one person."""

    target: str
    nodes: int
    prior: Fraction
    posterior: TreePosterior
    laws: Mapping[str, counts.CountLaw]
    """The posterior laws of the counts of further nodes."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        values: dict[str, Any] = {
            "target": self.target,
            "nodes": self.nodes,
            "prior": float(self.prior),
            "posterior": float(self.posterior.law.probabilities[1]),
            "log_odds": self.posterior.log_odds,
            "cut_off_at_most": self.posterior.bound,
        }
        return values | ({"laws": {name: law.as_dict() for name, law in self.laws.items()}} if self.laws else {})

    def described(self) -> Iterator[AnswerPart]:
        """The posterior of a target in a tree."""
        yield Said(f"{self.nodes:,} counts.", f" Target: {self.target}")
        rows = [
            ("prior probability that the target is in", f"{float(self.prior):.6g}"),
            ("posterior probability", f"{float(self.posterior.law.probabilities[1]):.6f}"),
            ("log odds", f"{self.posterior.log_odds:.6f}"),
        ]
        yield ShownTable(["", " "], rows)
        for name, law in self.laws.items():
            yield ""
            yield ShownTable(
                ["count ", "probability "], [(count, f"{p:.6f}") for count, p in law.as_dict().items()], title=name
            )


def hierarchy(
    rho1: Exact,
    rho2: Exact,
    siblings: int,
    *,
    prior: Exact = "1/2",
    released: tuple[int, int, int] | None = None,
    known_count: int = 0,
    prior_x2: str = "flat",
    sibling_noise: counts.SiblingNoise | str = counts.SiblingNoise.APPROXIMATE,
    accuracy_at: Sequence[int] = (),
    ties: decision_map.Ties | str = decision_map.Ties.ZERO,
    post_processed: Sequence[int] = (),
    rounding: HalfRounding | str = HalfRounding.HALF_EVEN,
) -> HierarchyAnswer:
    """What an adversary learns about one person from counts at two levels.

    Args:
        rho1: The budget of the block's count, and of each of its siblings' (zCDP).
        rho2: The budget of the count one level up.
        siblings: How many other blocks there are.
        prior: The belief that the target is in, before the release.
        released: The released counts of the block and of its parent, and the sum of those of its siblings.
        known_count: How many others are known to be in the cell.
        prior_x2: The law of the parent's count: ``flat``, ``uniform:MOST`` or ``point:N``; or of the siblings' sum:
            ``geometric:MEAN``, ``poisson:MEAN``.
        sibling_noise: The law of the noise of the siblings' sum: ``approximate`` or ``exact``.
        accuracy_at: True counts of the parent, the target included, at which decisions are looked at.
        ties: What is decided if both answers are equally probable: ``zero``, ``one`` or ``split``.
        post_processed: Published counts of the parent at which post-processed counts are looked at.
        rounding: Where halves go in post-processing: ``half-even`` or ``half-up``.

    Returns:
        The adversary's effective rho, and each part that was asked for.

    >>> answer = hierarchy("0.099226354", "0.24648451", 27, released=(2, 1, -1))
    >>> round(answer.belief.posterior[Variant.STATED], 6), round(float(answer.model.effective_rho), 6)
    (0.503288, 0.102847)
    """
    model = TwoLevel(
        positive_within(rho1, "rho1", counts.SMALLEST_RHO, counts.LARGEST_RHO),
        positive_within(rho2, "rho2", counts.SMALLEST_RHO, counts.LARGEST_RHO),
        siblings,
        prior,
        known=known_count,
        parent=counts.parse_parent_prior(prior_x2),
        noise=counts.SiblingNoise(sibling_noise),
    )
    for x2 in accuracy_at:
        if x2 <= model.known:
            raise ParameterError("not-counts/parent", where=Place(path="--x2"), found=str(x2), known=model.known + 1)
    return HierarchyAnswer(
        model,
        prior_x2,
        None if released is None else _belief(model, *released),
        _decisions(model, accuracy_at, decision_map.Ties(ties)) if accuracy_at else None,
        post_processing_risk(model, post_processed, HalfRounding(rounding)) if post_processed else None,
        decision_map.Ties(ties),
        HalfRounding(rounding),
    )


def hierarchy_of_tree(path: str | Path, nodes: Sequence[str] = ()) -> TreeAnswer:
    """What all counts of a tree, described in a TOML or JSON file, say about one person.

    Args:
        path: A whole tree of counts, in the form of :mod:`confide.lab.risk.bayesian.tree`.
        nodes: Names of further nodes whose posterior laws are wanted.

    Returns:
        The posterior of the target, and the laws of the nodes.

    >>> from confide.lab import risk
    >>> file = tmp_path / "tree.toml"
    >>> tract = ["[[nodes]]", 'name = "tract"', 'rho = "0.25"', "released = 1"]
    >>> block = ["[[nodes]]", 'name = "block"', 'parent = "tract"', 'rho = "0.1"', "released = 2", 'prior = "1/2"']
    >>> with file.open("w") as written:
    ...     print('target = "block"', *tract, *block, sep=chr(10), file=written)
    >>> risk.hierarchy_of_tree(file).nodes
    2
    """
    question = load_tree(Path(path))
    return TreeAnswer(
        question.target,
        sum(1 for _ in question.tree.root.nodes()),
        probability(question.prior, "the prior probability"),
        question.tree.posterior(question.target),
        {name: question.tree.posterior(name).law for name in nodes},
    )


def post_processing_of(model: TwoLevel, rounding: HalfRounding) -> PostProcessing:
    """Post-processed counts as an adversary sees them who knows the parent's true count: the target, and others."""
    return PostProcessing(
        model.rho1,
        model.siblings,
        model.prior,
        x2=model.known + 1,
        known=model.known,
        rounding=rounding,
        noise=model.noise,
    )


def post_processing_risk(model: TwoLevel, published: Sequence[int], rounding: HalfRounding) -> PostProcessingRisk:
    """The risk of post-processed counts, by the parent's published count."""
    processing = post_processing_of(model, rounding)
    risks = {count: processing.risk(count).risk for count in published}
    return PostProcessingRisk(processing, risks, processing.without(), processing.bound())


def _belief(model: TwoLevel, x1: int, x2: int, y: int) -> HierarchyBelief:
    posterior = {variant: float(model.posterior(x1, x2, y, variant)) for variant in POSTERIOR_KEYS}
    return HierarchyBelief(
        x1,
        x2,
        y,
        posterior,
        posterior[Variant.STATED] / float(model.prior),
        model.law_of_parent(x1, x2, y),
        model.law_of_parent(x1, x2, y, Variant.UNRESTRICTED),
    )


def _decisions(model: TwoLevel, parents: Sequence[int], ties: decision_map.Ties) -> HierarchyDecisions:
    accuracy = tuple(
        VariantAccuracy(x2, variant, decision_map.decision_accuracy(model, x2 - model.known - 1, variant, ties))
        for variant in Variant
        for x2 in parents
    )
    changes = []
    for x2 in parents:
        for variant in decision_map.HIERARCHICAL:
            decisions = decision_map.DecisionMap(model, model.known + 1, x2, variant)
            figure_4 = None
            if model.known == 0 and x2 == 1:
                figure_4 = decision_map.DecisionMap(model, 1, x2, variant, decision_map.ReleaseRegion()).changes(ties)
            changes.append(VariantChanges(x2, variant, decisions.changes(ties), decisions.ties(), figure_4))
    return HierarchyDecisions(ties, accuracy, tuple(changes))


# The pictures.

_DECISIONS = ("not in", "changed to “not in”", "tie", "changed to “in”", "in")
_PUBLISHED = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 75, 90, 100, 125, 150, 175, 200)
_SCALES = tuple(Fraction(step, 20) for step in range(1, 41))
_SHOWN = 1e-6
"""The share of the most probable value below which a value of a law is not drawn."""


def _decisions_chart(model: TwoLevel) -> Chart:
    """What is decided, and where the hierarchy changes it; only decisions that occur have a colour."""
    rows, tiles = decision_map.decision_tiles(model), []
    for row in rows:
        changed = row["decision"] not in (row["without"], "tie")
        decision = f"changed to “{row['decision']}”" if changed else row["decision"]
        tiles.append(row | {"panel": f"x1* = {row['x1']}", "decision": decision})
    ticks = sorted({row["y"] for row in rows if row["y"] % 10 == 0}, reverse=True)
    occurring = {tile["decision"] for tile in tiles}
    decisions = [decision for decision in _DECISIONS if decision in occurring]
    return chart("hierarchy-decisions", tiles, ticks=ticks, decisions=decisions)


def _by_parent_chart(model: TwoLevel, ties: decision_map.Ties) -> Chart:
    """How often decisions are right, beside those of somebody without the hierarchy."""
    rows = decision_map.accuracy_by_parent(model, range(model.known + 1, model.known + 21), ties)
    without = [row for row in rows if row["variant"] == Variant.WITHOUT][:1]
    return chart("hierarchy-accuracy-by-parent", rows, without=without)


def _by_rho2_chart(model: TwoLevel, ties: decision_map.Ties) -> Chart:
    """How often a target who is in is found, over the budget of the parent's count."""
    known = model.known
    rows = decision_map.accuracy_by_rho2(model, [known + 1, known + 10, known + 100], ties=ties)
    without = decision_map.accuracy_by_parent(model, [known + 1], ties, [Variant.WITHOUT])[0]["correct_given_1"]
    return chart("hierarchy-accuracy-by-rho2", rows, without=without, chosen=float(model.rho2))


def _post_processing_chart(model: TwoLevel, rounding: HalfRounding) -> Chart:
    """What least squares, clamping and rounding leave of the risk."""
    processing = post_processing_of(model, rounding)
    return chart(
        "hierarchy-post-processing",
        decision_map.post_processed_by_parent(processing, _PUBLISHED),
        by_rho1=decision_map.post_processed_by_rho1(processing, [1, 10, 100]),
        without=processing.without(),
        bound=processing.bound(),
        chosen=float(model.rho1),
    )


def _variance_chart(model: TwoLevel) -> Chart:
    """The variance of discrete Gaussian noise over its parameter s = 1/(2 rho), beside the line on which they agree
    (Figure 8)."""
    own = 1 / (2 * model.rho1)
    rows = []
    for scale in sorted({*_SCALES, min(own, _SCALES[-1])}):
        values, law = counts.gaussian_window(float(1 / (2 * scale)))
        rows.append({"scale": float(scale), "variance": float(law @ values.astype(float) ** 2)})
    return chart("hierarchy-noise-variance", rows, chosen=float(min(own, _SCALES[-1])))


def _sum_chart(model: TwoLevel) -> Chart:
    """The law of the sum of the siblings' noise, beside the one discrete Gaussian that stands for it (Figure 9)."""
    rows = []
    for noise, title in (
        (counts.SiblingNoise.EXACT, "their sum"),
        (counts.SiblingNoise.APPROXIMATE, "one discrete Gaussian"),
    ):
        values, law = counts.sibling_window(float(model.rho1), model.siblings, noise)
        shown = law >= _SHOWN * law.max()
        pairs = zip(values[shown].tolist(), law[shown].tolist(), strict=True)
        rows += [{"noise": value, "probability": mass, "law": title} for value, mass in pairs]
    error = counts.approximation_error(float(model.rho1), model.siblings)
    return chart("hierarchy-sum-of-noises", rows, siblings=model.siblings, error=f"{error:.1g}")


# The answer in sentences and tables.


VARIANT_NAMES = {
    Variant.STATED: "joint law as stated",
    Variant.UNRESTRICTED: "X1 step unrestricted",
    Variant.WITHOUT: "x1* alone",
}
_NOTE = (
    "The joint law as stated is the answer. The unrestricted one is what a sampler gives whose step for X1 forgets "
    "that X1 ≤ X2; it reproduces published figures and is not a posterior."
)


def _belief_described(belief: HierarchyBelief) -> Iterator[AnswerPart]:
    """The posteriors for one release."""
    rows = [
        (name, f"{belief.posterior[variant]:.6f}", f"{belief.risk:.4f}" if variant is Variant.STATED else "")
        for variant, name in VARIANT_NAMES.items()
    ]
    title = f"Released x1* = {belief.x1}, x2* = {belief.x2}, y* = {belief.y}"
    yield ShownTable(["", "P(target is in) ", "over prior "], rows, title=title)
    laws = (belief.law_of_x2, belief.law_of_x2_unrestricted)
    first = min(law.first for law in laws)
    last = max(law.first + len(law.probabilities) for law in laws)
    likely = [
        (count, *(f"{law.p(count):.6f}" for law in laws))
        for count in range(first, last)
        if max(law.p(count) for law in laws) >= 5e-5
    ]
    yield ""
    columns = ["X2 ", f"{VARIANT_NAMES[Variant.STATED]} ", f"{VARIANT_NAMES[Variant.UNRESTRICTED]} "]
    yield ShownTable(columns, likely, title="The parent's count")
    yield f"\n{_NOTE}\n"


def _decisions_described(decisions: HierarchyDecisions) -> Iterator[AnswerPart]:
    """How often decisions are right."""
    rows = [
        (
            row.x2,
            VARIANT_NAMES[row.variant],
            f"{row.accuracy.present:.4%}",
            f"{row.accuracy.absent:.4%}",
            f"{row.accuracy.average:.4%}",
        )
        for row in sorted(decisions.accuracy, key=lambda row: (row.x2, list(VARIANT_NAMES).index(row.variant)))
    ]
    title = f"Correct decisions by the parent's true count, target included; ties: {decisions.ties}"
    yield ShownTable(["x2 ", "computed from", "if in ", "if not in ", "average "], rows, title=title)
    yield ""
    changes = [
        (
            row.x2,
            VARIANT_NAMES[row.variant],
            f"{row.changes.gain:.4%}",
            f"{row.changes.loss:.4%}",
            f"{row.ties:.4%}" if row.ties else "none",
        )
        for row in decisions.changes
    ]
    title = "Releases in which the hierarchy changes the decision, if the target is in"
    yield ShownTable(["x2 ", "computed from", "wrong to right ", "right to wrong ", "ties "], changes, title=title)
    yield f"\n{_NOTE}\n"


def _post_processed_described(risk: PostProcessingRisk) -> Iterator[AnswerPart]:
    """Risks after least squares, clamping and rounding."""
    rows = [(str(count), f"{value:.6f}") for count, value in risk.risk.items()]
    rows += [
        ("x1* alone, not post-processed", f"{risk.without_post_processing:.6f}"),
        ("x1* and y*, the bound", f"{risk.bound:.6f}"),
    ]
    processing = risk.processing
    title = f"R of the post-processed count, true x2 = {processing.x2} known, rounding {processing.rounding}"
    yield ShownTable(["published parent's count", "R "], rows, title=title)
    yield ""
