"""``confide risk``: what someone who sees a release can learn from it. No records are read."""

from __future__ import annotations

import typer

from confide.cli.main import Later, LazyGroup


class Risks(LazyGroup):
    """Every measure of risk, with its line and its place."""

    later = (
        Later(
            "bayes",
            "confide.cli.risk_bayes:bayes",
            "What an adversary who knows everyone else learns about one person from a noisy count.",
        ),
        Later(
            "hierarchy",
            "confide.cli.risk_hierarchy:hierarchy",
            "What an adversary learns about one person from counts at several levels.",
        ),
        Later(
            "invariants",
            "confide.cli.risk_invariants:invariants",
            "What invariants do to the promise: for one record, and for the smallest group that hides what they fix.",
        ),
        Later(
            "curve",
            "confide.cli.risk_curve:curve",
            "The largest power of a test about one record at a level, and epsilon over delta, "
            "in every way that is known.",
        ),
        Later(
            "release",
            "confide.cli.risk_release:release",
            "What every noisy measurement of a TopDown release, taken together, says about one person.",
        ),
        Later(
            "bound",
            "confide.cli.risk_bounded:bound",
            "How many triples F + M = T reveal the largest noise, and what knowing it would give away.",
        ),
        Later(
            "averaging",
            "confide.cli.risk_bounded:averaging",
            "Count the ways to have each statistic of a programme, and what averaging them would find.",
        ),
        Later(
            "areas",
            "confide.cli.risk_bounded:areas",
            "What unbounded noise does to small areas: bounds that hold with some probability, "
            "and counts that are far off.",
        ),
    )


app = typer.Typer(
    cls=Risks, help="Compute what others could learn from a release. Reads no records.", no_args_is_help=True
)
