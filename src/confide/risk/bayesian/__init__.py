"""What an adversary who updates beliefs learns from noisy counts (Kazan & Reiter 2024).

Z. Kazan and J. P. Reiter, *Assessing statistical disclosure risk for differentially private, hierarchical count data,
with application to the 2020 U.S. decennial census* (2024). Nothing here reads records.

* :mod:`~confide.risk.bayesian.evidence`: what a released count says, for any noise with probabilities;
* :mod:`~confide.risk.bayesian.one_level`: posteriors, risks and decisions from one count, and other questions with
  the same answer;
* :mod:`~confide.risk.bayesian.sequential`: several counts of the same cell, at several levels or times;
* :mod:`~confide.risk.bayesian.sibling_detail`: an adversary who looks at all cells;
* :mod:`~confide.risk.bayesian.two_level`: an adversary who also sees the count one level up;
* :mod:`~confide.risk.bayesian.decision_map`: how often that one decides rightly;
* :mod:`~confide.risk.bayesian.tree`: an adversary who sees all counts of a hierarchy;
* :mod:`~confide.risk.bayesian.sibling_detail`: one who looks at every sibling, with a sparse prior;
* :mod:`~confide.risk.bayesian.post_processing`: one who sees post-processed counts.

The questions of a user are :func:`confide.risk.bayes` and :func:`confide.risk.hierarchy`.

>>> count = evidence_of(gaussian_for("0.0992"))
>>> round(assess(count, ["1/2"])[0].risk, 4)
1.0473
"""

from __future__ import annotations

from confide.risk.bayesian.counts import (
    CountLaw,
    CountPrior,
    Flat,
    FlatParent,
    Geometric,
    ListedParent,
    ListedPrior,
    ParentPrior,
    Point,
    PointParent,
    Poisson,
    RestPrior,
    SiblingNoise,
    UniformParent,
)
from confide.risk.bayesian.decision_map import (
    DecisionAccuracy,
    DecisionChanges,
    DecisionMap,
    ReleaseRegion,
    Ties,
    decision_accuracy,
    switches,
)
from confide.risk.bayesian.evidence import (
    CountEvidence,
    DecisionRegion,
    LawEvidence,
    ListedEvidence,
    evidence_of,
    evidence_of_rows,
    gaussian_for,
    geometric_for,
)
from confide.risk.bayesian.one_level import (
    AdversaryQuestion,
    Decision,
    MarginalRisk,
    OneLevelRisk,
    ReducedQuestion,
    assess,
    decide,
    marginal_risk,
    posterior,
    reduce_question,
    risk_at,
    two_cells,
)
from confide.risk.bayesian.post_processing import HalfRounding, PostProcessedRisk, PostProcessing
from confide.risk.bayesian.sequential import (
    CombinedRisk,
    JointDecision,
    SequenceStep,
    combined_risk,
    combined_risk_at,
    gaussian_marginal,
    in_sequence,
)
from confide.risk.bayesian.sibling_detail import (
    SimulatedAccuracy,
    equal_priors,
    histogram_posterior,
    histogram_risk,
    sibling_detail_accuracy,
)
from confide.risk.bayesian.tree import Tree, TreeNode, TreePosterior, target_leaf
from confide.risk.bayesian.tree_file import TreeQuestion, load_tree, parse_tree
from confide.risk.bayesian.two_level import TwoLevel, Variant

__all__ = [
    "AdversaryQuestion",
    "CombinedRisk",
    "CountEvidence",
    "CountLaw",
    "CountPrior",
    "Decision",
    "DecisionAccuracy",
    "DecisionChanges",
    "DecisionMap",
    "DecisionRegion",
    "Flat",
    "FlatParent",
    "Geometric",
    "HalfRounding",
    "JointDecision",
    "LawEvidence",
    "ListedEvidence",
    "ListedParent",
    "ListedPrior",
    "MarginalRisk",
    "OneLevelRisk",
    "ParentPrior",
    "Point",
    "PointParent",
    "Poisson",
    "PostProcessedRisk",
    "PostProcessing",
    "ReducedQuestion",
    "ReleaseRegion",
    "RestPrior",
    "SequenceStep",
    "SiblingNoise",
    "SimulatedAccuracy",
    "Ties",
    "Tree",
    "TreeNode",
    "TreePosterior",
    "TreeQuestion",
    "TwoLevel",
    "UniformParent",
    "Variant",
    "assess",
    "combined_risk",
    "combined_risk_at",
    "decide",
    "decision_accuracy",
    "equal_priors",
    "evidence_of",
    "evidence_of_rows",
    "gaussian_for",
    "gaussian_marginal",
    "geometric_for",
    "histogram_posterior",
    "histogram_risk",
    "in_sequence",
    "load_tree",
    "marginal_risk",
    "parse_tree",
    "posterior",
    "reduce_question",
    "risk_at",
    "sibling_detail_accuracy",
    "switches",
    "target_leaf",
    "two_cells",
]
