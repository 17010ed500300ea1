"""What one noisy count, or several of the same cell, tells about one person: the answer of ``confide risk bayes``.

The mathematics is that of :mod:`.one_level` for one count, and of :mod:`.sequential` for several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from math import inf, prod
from typing import Any

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.errors import ParameterError, Place
from confide.exact import Exact, positive_within
from confide.lab.risk.bayesian import sequential
from confide.lab.risk.bayesian.evidence import CountEvidence, LawEvidence, evidence_of, gaussian_for, geometric_for
from confide.lab.risk.bayesian.one_level import assess, checked_priors, checked_value, risk_at
from confide.noise import NoiseDistribution
from confide.privacy import Neighbours
from confide.report.charts import Chart, Pictures, chart

SMALLEST_BUDGET, LARGEST_BUDGET = Fraction(1, 10**11), Fraction(10**4)


class BudgetedLaw(StrEnum):
    """The laws of noise that a budget decides."""

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "geometric"


@dataclass(frozen=True)
class ReleasedBelief:
    """Beliefs after what was released: one for each value of one count, or one after all of several counts."""

    released: tuple[int, ...]
    posterior: tuple[float, ...]
    risk_at: tuple[float, ...]
    """``R'``: posterior over prior."""
    steps: tuple[sequential.SequenceStep, ...] = ()
    """Where several counts were released: one after the other."""

    def as_dict(self) -> dict[str, Any]:
        """Numbers for one value, lists for several."""
        if self.steps:
            return {
                "released": list(self.released),
                "posterior": self.posterior[0],
                "risk_at": self.risk_at[0],
                "steps": [asdict(step) for step in self.steps],
            }
        lists = {"released": self.released, "posterior": self.posterior, "risk_at": self.risk_at}
        return {key: values[0] if len(values) == 1 else list(values) for key, values in lists.items()}


@dataclass(frozen=True)
class BayesAdversary:
    """What one adversary can expect, and what they believe after what was released."""

    prior: Fraction
    marginal_posterior: float
    """The posterior that is expected if the target is in the cell."""
    risk: float
    """``R``: that over the prior."""
    threshold: int | None
    """The smallest released count that decides for the target, where there is one."""
    decides: str
    """``from`` the threshold on, ``always``, ``never``, a ``set``; ``together`` for several counts."""
    correct_given_1: float | None
    """The probability of a right decision if the target is in; none where there are too many combinations."""
    correct_given_0: float | None
    average_accuracy: float | None
    belief: ReleasedBelief | None = None

    @property
    def gain(self) -> float | None:
        """By how much decisions are better than the prior alone would make them, on average."""
        if self.average_accuracy is None:
            return None
        return self.average_accuracy - max(float(self.prior), 1 - float(self.prior))

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        expected = {
            "prior": str(self.prior),
            "marginal_posterior": self.marginal_posterior,
            "risk": self.risk,
            "threshold": self.threshold,
            "decides": self.decides,
            "correct_given_1": self.correct_given_1,
            "correct_given_0": self.correct_given_0,
            "average_accuracy": self.average_accuracy,
        }
        return expected if self.belief is None else expected | self.belief.as_dict()


@dataclass(frozen=True)
class BayesAnswer(TypedAnswer):
    """What adversaries learn about one person from noisy counts of a cell, one adversary for each prior."""

    laws: tuple[NoiseDistribution, ...]
    neighbours: Neighbours
    known_count: int
    adversaries: tuple[BayesAdversary, ...]

    @cached_property
    def evidence(self) -> tuple[CountEvidence, ...]:
        """What each count says about the target."""
        return tuple(evidence_of(law) for law in self.laws)

    @cached_property
    def risk_limit(self) -> float:
        """No prior makes ``R`` larger; infinite where a count can give the target away."""
        return prod(evidence.limit for evidence in self.evidence)

    def pictures(self, priors: Sequence[Exact] = ()) -> Pictures:
        """Figures 1, 2 and 3 of Kazan and Reiter, and 7 where there are several counts, by name.

        Args:
            priors: The beliefs that have a curve; without any, that of the answer and the five of the paper.
        """
        given = [str(prior) for prior in priors or [adversary.prior for adversary in self.adversaries]]
        drawn = given if len(given) > 1 else list(dict.fromkeys([*given, *sequential.PRIORS]))
        first = self.evidence[0]
        pictures: Pictures = {
            name: partial(_released_chart, f"bayes-{name}", first, drawn)
            for name in ("posterior-by-released", "risk-by-released")
        }
        if isinstance(first, LawEvidence) and first.rho is not None:
            chosen = float(first.rho * (2 if self.neighbours is Neighbours.CHANGE_ONE else 1))
            pictures |= {
                name: partial(_rho_chart, f"bayes-{name}", drawn, self.neighbours, chosen)
                for name in ("posterior-by-rho", "risk-by-rho", "right-by-rho", "average-by-rho")
            }
        if len(self.evidence) > 1:
            pictures |= {
                name: partial(_levels_chart, f"bayes-{name}", self.evidence, drawn)
                for name in ("posterior-by-levels", "risk-by-levels")
            }
        return pictures

    def as_dict(self) -> dict[str, Any]:
        """Plain values; the numbers of a single adversary stand on their own."""
        head: dict[str, Any] = {
            "laws": [law.as_dict() for law in self.laws],
            "neighbours": self.neighbours.value,
            "known_count": self.known_count,
            "risk_limit": self.risk_limit if self.risk_limit < inf else None,
        }
        rows = [adversary.as_dict() for adversary in self.adversaries]
        return head | (rows[0] if len(rows) == 1 else {"adversaries": rows})

    def described(self) -> Iterator[AnswerPart]:
        """What each adversary can expect, and what they believe after what was released."""
        yield from _expected_described(self)
        if all(adversary.belief is not None for adversary in self.adversaries):
            yield ""
            if len(self.laws) > 1:
                yield from _sequence_described(self.adversaries)
            else:
                yield from _released_described(self.adversaries)


def bayes(
    rho: Exact | None = None,
    priors: Sequence[Exact] = ("1/2",),
    released: Sequence[int] = (),
    *,
    epsilon: Exact | None = None,
    law: BudgetedLaw | str = BudgetedLaw.DISCRETE_GAUSSIAN,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    known_count: int = 0,
    also_rho: Sequence[Exact] = (),
) -> BayesAnswer:
    """What an adversary who knows everyone else learns about one person from a noisy count.

    Args:
        rho: The budget of the count in zCDP, for discrete Gaussian noise.
        priors: The beliefs that the target is in the cell, before the release; an adversary for each.
        released: Released counts. For one noisy count, beliefs are given at each of them; for several, one belongs to
            each count.
        epsilon: The budget of the count in pure differential privacy, for geometric noise, instead of ``rho``.
        law: The noise: ``discrete-gaussian`` or ``geometric``.
        neighbours: What the budget compares; with ``change-one`` the same budget has more noise.
        known_count: How many others are known to be in the cell.
        also_rho: The budgets of further noisy counts of the same cell, with discrete Gaussian noise.

    Returns:
        The expected posteriors, risks and decisions for each prior, and beliefs at what was released.

    >>> answer = bayes(rho="0.0992", priors=["1/2"], released=[3])
    >>> adversary = answer.adversaries[0]
    >>> round(adversary.risk, 4), adversary.threshold
    (1.0473, 1)
    >>> round(adversary.belief.posterior[0], 4)
    0.6215
    """
    laws = [_law(BudgetedLaw(law), rho, epsilon, neighbours)]
    laws += [gaussian_for(_budget(budget, "also-rho"), neighbours) for budget in also_rho]
    beliefs = checked_priors(priors)
    counts = [checked_value(value) for value in released]
    evidence = [evidence_of(noise) for noise in laws]
    if len(evidence) == 1:
        adversaries = _from_one_count(evidence[0], beliefs, counts, known_count)
    else:
        adversaries = _from_several_counts(evidence, beliefs, counts, known_count)
    return BayesAnswer(tuple(laws), neighbours, known_count, adversaries)


def _from_one_count(
    evidence: CountEvidence, priors: Sequence[Fraction], released: Sequence[int], known: int
) -> tuple[BayesAdversary, ...]:
    ratios = risk_at(evidence, priors, released, known).tolist() if released else [None] * len(priors)
    adversaries = []
    for expected, line in zip(assess(evidence, priors), ratios, strict=True):
        region, decision, prior = expected.decision.region, expected.decision, expected.prior
        belief = None
        if line is not None:
            belief = ReleasedBelief(tuple(released), tuple(float(prior) * ratio for ratio in line), tuple(line))
        adversaries.append(
            BayesAdversary(
                prior,
                expected.marginal_posterior,
                expected.risk,
                None if region.smallest is None else region.smallest + known,
                region.kind,
                decision.given_1,
                decision.given_0,
                decision.average,
                belief,
            )
        )
    return tuple(adversaries)


def _from_several_counts(
    evidence: Sequence[CountEvidence], priors: Sequence[Fraction], released: Sequence[int], known: int
) -> tuple[BayesAdversary, ...]:
    joint, counts = sequential.JointDecision(evidence), [known] * len(evidence)
    ratios = (
        sequential.combined_risk_at(evidence, priors, released, counts).tolist() if released else [None] * len(priors)
    )
    adversaries = []
    for expected, ratio in zip(sequential.combined_risk(evidence, priors), ratios, strict=True):
        prior, decision = expected.prior, joint.decide(expected.prior)
        given_1, given_0 = (None, None) if decision is None else decision[:2]
        average = None if decision is None else float(prior) * decision[0] + float(1 - prior) * decision[1]
        belief = None
        if ratio is not None:
            steps = sequential.in_sequence(evidence, prior, released, counts)
            belief = ReleasedBelief(tuple(released), (float(prior) * ratio,), (ratio,), steps)
        adversaries.append(
            BayesAdversary(
                prior,
                expected.marginal_posterior,
                expected.risk,
                None,
                "together",
                given_1,
                given_0,
                average,
                belief,
            )
        )
    return tuple(adversaries)


def _law(law: BudgetedLaw, rho: Exact | None, epsilon: Exact | None, neighbours: Neighbours) -> NoiseDistribution:
    gaussian = law is BudgetedLaw.DISCRETE_GAUSSIAN
    budget, other = (rho, epsilon) if gaussian else (epsilon, rho)
    name = "rho" if gaussian else "epsilon"
    if budget is None or other is not None:
        raise ParameterError(
            "no-budget",
            where=Place(path=f"--{name}"),
            law=law.value,
            gaussian=gaussian,
            with_budget=budget is not None,
            gaussian_remedy=gaussian or rho is None,
        )
    value = _budget(budget, name)
    return gaussian_for(value, neighbours) if gaussian else geometric_for(value, neighbours)


def _released_chart(name: str, evidence: CountEvidence, priors: Sequence[str]) -> Chart:
    return chart(name, sequential.by_released(evidence, priors))


def _rho_chart(name: str, priors: Sequence[str], neighbours: Neighbours, chosen: float) -> Chart:
    rows = [row for prior in priors for row in _over_rho(prior, neighbours)]
    rhos = [row["rho"] for row in rows]
    inside = min(rhos) <= chosen <= max(rhos)
    return chart(name, rows, chosen=[{"rho": chosen, "name": f"ρ {chosen:.3g}"}] if inside else [])


@lru_cache(maxsize=64)
def _over_rho(prior: str, neighbours: Neighbours) -> tuple[dict[str, Any], ...]:
    """The curves of one prior, which no budget changes."""
    return tuple(sequential.by_rho([prior], neighbours))


def _levels_chart(name: str, evidence: Sequence[CountEvidence], priors: Sequence[str]) -> Chart:
    return chart(name, sequential.by_levels(evidence, priors))


def _budget(value: Exact, name: str) -> Fraction:
    return positive_within(value, name, SMALLEST_BUDGET, LARGEST_BUDGET)


# The answer in sentences and tables.


def _expected_described(answer: BayesAnswer) -> Iterator[AnswerPart]:
    neighbours, known, laws = answer.neighbours, answer.known_count, answer.laws
    for law in laws:
        yield Said(f"{law.title} noise, {law.parameter_name} {float(law.parameter):.6g}", f" ({neighbours.value}).")
    others = "nobody else is" if not known else f"{known:,} other is" if known == 1 else f"{known:,} others are"
    counts = "The noisy count is seen" if len(laws) == 1 else f"{len(laws)} noisy counts of the cell are seen"
    yield f"{counts}; {others} known to be in the cell. Is the target in it?\n"
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
    yield ShownTable([*columns, "right on average "], rows)
    yield ""
    yield "Posterior: what is expected if the target is in the cell; R is that over the prior."
    most = f"{answer.risk_limit:.6g}" if answer.risk_limit < inf else "one over it"
    yield f"No prior makes R more than {most}. An even posterior decides “not in”."
    gains = [adversary.gain for adversary in answer.adversaries if adversary.gain is not None]
    if gains and max(gains) < 5e-4:
        yield "Decisions are hardly better than without the release."
    if neighbours is Neighbours.CHANGE_ONE:
        yield "Who knows the target to be in one of two cells sees both counts, which is as good as two releases."


def _sequence_described(adversaries: Sequence[BayesAdversary]) -> Iterator[AnswerPart]:
    for adversary in adversaries:
        assert adversary.belief is not None
        rows = [
            (step.released, _probability(step.prior), _probability(step.posterior), f"{step.risk_at:.4f}")
            for step in adversary.belief.steps
        ]
        yield ShownTable(["released ", "belief before ", "after ", "R′ "], rows, title=f"Prior {adversary.prior}")
        yield f"All together: R′ = {adversary.belief.risk_at[0]:.4f}, the product.\n"


def _released_described(adversaries: Sequence[BayesAdversary]) -> Iterator[AnswerPart]:
    rows = []
    for adversary in adversaries:
        belief = adversary.belief
        assert belief is not None
        rows += [
            (count, adversary.prior, _probability(posterior), f"{ratio:.4f}")
            for count, posterior, ratio in zip(belief.released, belief.posterior, belief.risk_at, strict=True)
        ]
    yield ShownTable(["released ", "prior ", "posterior ", "R′ "], rows)


def _probability(value: float | None) -> str:
    if value is None:
        return "not computed"
    return f"{value:.6f}" if value >= 1e-4 or value == 0 else f"{value:.3g}"
