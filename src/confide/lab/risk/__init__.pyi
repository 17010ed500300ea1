from confide.lab.risk.bayesian.bayes_answer import BayesAdversary as BayesAdversary
from confide.lab.risk.bayesian.bayes_answer import BayesAnswer as BayesAnswer
from confide.lab.risk.bayesian.bayes_answer import BudgetedLaw as BudgetedLaw
from confide.lab.risk.bayesian.bayes_answer import ReleasedBelief as ReleasedBelief
from confide.lab.risk.bayesian.bayes_answer import bayes as bayes
from confide.lab.risk.bayesian.decision_map import RiskTuning as RiskTuning
from confide.lab.risk.bayesian.decision_map import tune_risk as tune_risk
from confide.lab.risk.bayesian.hierarchy_answer import HierarchyAnswer as HierarchyAnswer
from confide.lab.risk.bayesian.hierarchy_answer import TreeAnswer as TreeAnswer
from confide.lab.risk.bayesian.hierarchy_answer import hierarchy as hierarchy
from confide.lab.risk.bayesian.hierarchy_answer import hierarchy_of_tree as hierarchy_of_tree
from confide.lab.risk.bounded_noise.programme_risks import AreasAnswer as AreasAnswer
from confide.lab.risk.bounded_noise.programme_risks import AveragingAnswer as AveragingAnswer
from confide.lab.risk.bounded_noise.programme_risks import BoundAnswer as BoundAnswer
from confide.lab.risk.bounded_noise.programme_risks import CellKeyTuning as CellKeyTuning
from confide.lab.risk.bounded_noise.programme_risks import areas as areas
from confide.lab.risk.bounded_noise.programme_risks import averaging as averaging
from confide.lab.risk.bounded_noise.programme_risks import bound as bound
from confide.lab.risk.bounded_noise.programme_risks import tune_cellkey as tune_cellkey
from confide.lab.risk.invariant_sets import InvariantsAnswer as InvariantsAnswer
from confide.lab.risk.invariant_sets import ShippedInvariants as ShippedInvariants
from confide.lab.risk.invariant_sets import invariants as invariants
from confide.lab.risk.invariant_sets import shipped_invariants as shipped_invariants
from confide.lab.risk.noise_comparison import NoiseComparison as NoiseComparison
from confide.lab.risk.noise_comparison import NoiseSetting as NoiseSetting
from confide.lab.risk.noise_comparison import compare_noise as compare_noise
from confide.lab.risk.privacy_audit import CanaryAudit as CanaryAudit
from confide.lab.risk.privacy_audit import MeasurementBound as MeasurementBound
from confide.lab.risk.privacy_audit import PrivacyAudit as PrivacyAudit
from confide.lab.risk.privacy_audit import audit_canaries as audit_canaries
from confide.lab.risk.privacy_audit import audit_privacy as audit_privacy
from confide.lab.risk.release_risk import ReleaseRisk as ReleaseRisk
from confide.lab.risk.release_risk import release_risk as release
from confide.lab.risk.testing.curve_answer import CurveAnswer as CurveAnswer
from confide.lab.risk.testing.curve_answer import EpsilonCurveAnswer as EpsilonCurveAnswer
from confide.lab.risk.testing.curve_answer import StatedProtection as StatedProtection
from confide.lab.risk.testing.curve_answer import curve as curve
from confide.lab.risk.testing.curve_answer import curve_of_epsilon as curve_of_epsilon
from confide.lab.risk.testing.curve_answer import expected_posterior as expected_posterior
from confide.lab.risk.testing.curve_answer import protection as protection

__all__ = [
    "AreasAnswer",
    "AveragingAnswer",
    "BayesAdversary",
    "BayesAnswer",
    "BoundAnswer",
    "BudgetedLaw",
    "CanaryAudit",
    "CellKeyTuning",
    "CurveAnswer",
    "EpsilonCurveAnswer",
    "HierarchyAnswer",
    "InvariantsAnswer",
    "MeasurementBound",
    "NoiseComparison",
    "NoiseSetting",
    "PrivacyAudit",
    "ReleaseRisk",
    "ReleasedBelief",
    "RiskTuning",
    "ShippedInvariants",
    "StatedProtection",
    "TreeAnswer",
    "areas",
    "audit_canaries",
    "audit_privacy",
    "averaging",
    "bayes",
    "bound",
    "compare_noise",
    "curve",
    "curve_of_epsilon",
    "expected_posterior",
    "hierarchy",
    "hierarchy_of_tree",
    "invariants",
    "protection",
    "release",
    "shipped_invariants",
    "tune_cellkey",
    "tune_risk",
]
