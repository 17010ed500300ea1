"""Released groups against the truth: which table each got, how far it is off, and what theory says of both."""

from confide.mechanisms.safetab.evaluation.compare import evaluate
from confide.mechanisms.safetab.evaluation.tallies import Evaluation, pool

__all__ = ["Evaluation", "evaluate", "pool"]
